"""Small STARK jobs that end in one proof, made on a backend of this process without a scheduler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distprove.proof import SALT, Proof
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.params import LOG_FINAL_IN_CIRCUITS
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.program import Program
from distprove.stark.recursion.node import Proven
from distprove.stark.recursion.plan import INNER, ROOT, WRAP, Kind, TreeNode, kinds_of, plan_tree
from distprove.stark.recursion.tree import TreeKeys
from distprove.stark.recursion.tree_keys import keys_of_tree
from distprove.stark.recursion.whole import listed, whole_of
from distprove.steps import Steps
from distprove.system import PartitionProof
from kernels.interface.backend import Backend
from tests.support.multilinear_jobs import prove_program

FEW = {"security": 1, "grinding": 0, "hash": "poseidon2", "log_final": LOG_FINAL_IN_CIRCUITS, "blowup": 2}
"""Not for use: options of parameters of little work."""


def salted(proof: Proof, salt: bytes) -> Proof:
    """The proof of a job with the salt of a wrap."""
    assert proof.whole is not None
    return replace(proof, whole={**proof.whole, SALT: salt})


class OneProofs:
    """Makes such jobs; their trees' keys are kept."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._trees: dict[tuple[bytes, object], TreeKeys] = {}
        self._last: tuple[TreeKeys, TreeNode, list[Proven], bytes] | None = None
        """What the last job's root was made of."""

    def prove(self, program: Program, partitions: int = 1, **options: Any) -> Proof:
        """The proof file of a job. `options` are those of `choose_parameters`, in place of those of `FEW`."""
        job = prove_program(program, partitions=partitions, backend=self._backend, **{**FEW, **options})
        parsed = [MultilinearProof.from_record(own.data, job.key, own.name)[0] for own in job.proofs]
        made = {p.name: Proven(p.name, tuple(p.public), own) for p, own in zip(job.proofs, parsed, strict=True)}
        heights = {p.name: own.log_heights for p, own in zip(job.proofs, parsed, strict=True)}
        nodes = plan_tree(heights)
        kinds = kinds_of(nodes, heights)
        keys = self._keys(job.key, kinds[ROOT].of_role(INNER))
        for node in nodes:
            children = [made[name] for name in node.children]
            made[node.name] = keys.prove(node, children, parsed[0].challenge, Steps())
        self._last = keys, nodes[-1], children, parsed[0].challenge
        root = PartitionProof(ROOT, bytes(32), made[ROOT].public, {"proof": made[ROOT].proof.to_record()})
        bound = [listed(p) for p in job.proofs]
        proof = Proof.bind("stark", job.key.digest, job.key.named(), bound, whole_of(root))
        return replace(proof, output=job.output)

    def second_root(self) -> Proven:
        """A second root of the last job that was proven, for a Groth16 circuit."""
        assert self._last is not None, "after a job"
        keys, root, children, challenge = self._last
        return keys.prove(TreeNode(WRAP, root.children), children, challenge, Steps())

    def key(self, proof: Proof) -> MultilinearKey:
        """The verifying key of a job that was proven here."""
        return next(keys.key for keys in self._trees.values() if keys.key.digest == proof.key_digest)

    def _keys(self, key: MultilinearKey, kind: Kind) -> TreeKeys:
        place = key.digest, kind.leaves
        if place not in self._trees:
            self._trees[place] = keys_of_tree(key, kind, self._backend)
        return self._trees[place]
