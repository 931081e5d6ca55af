"""A job whose one proof is wrapped in a Groth16 proof: its tree has a second root, which a circuit over BN254
verifies, and its last partition is the proof of that circuit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from distprove.errors import FormatError, InputError, InvalidKey, InvalidProof, UsageError
from distprove.formats.sampled import sample
from distprove.groth16.binfile import map_file
from distprove.groth16.resident import matrix_bytes
from distprove.host.machine import usable_threads
from distprove.proof import SALT
from distprove.stark.heights import LogHeights
from distprove.stark.options import StarkOptions
from distprove.stark.recursion.plan import WRAP, TreeNode, plan_tree
from distprove.stark.recursion.system import OneProofSystem
from distprove.stark.recursion.tree_keys import node_key
from distprove.stark.system import SharedFiles
from distprove.stark.wrap.kept import KEY_PATIENCE, development_key, require_key_folder, resident_tape
from distprove.stark.wrap.partition import (
    GROTH16,
    holds,
    is_wrap,
    key_facts,
    planned,
    read_wrap_key,
    salt_of,
    states,
    wrap_in,
)
from distprove.stark.wrap.prover import WrappedProver
from distprove.system import Partition, PartitionProof
from kernels.host.units import count_of
from kernels.interface.backend import Backend

KEY_FILE = "wrap_key"
"""The name of the Groth16 key among the system's files."""


class WrappedSystem(OneProofSystem):
    """A job that ends in one proof, and has a wrap of it. Implements `Publishes` of `distprove.proof`, too,
    and `ChecksLong` of `distprove.system`."""

    wrap_key: Path | None = None
    """The Groth16 key's file; None for a development key of each machine."""
    check_seconds = KEY_PATIENCE
    read = False
    """Whether a contract reads what the wrap states."""

    @classmethod
    def from_options(cls, options: StarkOptions) -> WrappedSystem:
        """Make the system of a job. Raises as `OneProofSystem` does, InputError or InvalidKey for a bad key, and
        InputError where a development key cannot be kept."""
        system = super().from_options(options)
        assert isinstance(system, WrappedSystem)
        system.wrap_key = options.wrap_key
        _ = system._key_facts  # an unusable key is told before anything starts
        return system

    @staticmethod
    def _tree_over(partitions: Mapping[str, LogHeights]) -> tuple[TreeNode, ...]:
        *nodes, root = plan_tree(partitions)
        return (*nodes, TreeNode(WRAP, root.children), root)

    def plan(self) -> list[Partition]:
        """The program's slices, the nodes of the tree over them, and the wrap."""
        return [*super().plan(), self._last]

    @cached_property
    def _last(self) -> Partition:
        if any(part.name == GROTH16 for part in self._made.slices):
            raise UsageError(f"{GROTH16} is the name of the job's wrap, and cannot be that of a partition")
        return planned(self.key_digest(), self.partitions + len(self._nodes), self._kinds[WRAP])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_last"}

    # -- the Groth16 key --------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **self._key_facts}

    @cached_property
    def _key_facts(self) -> dict[str, Any]:
        """What a report has of the Groth16 key."""
        if self.wrap_key is None:
            require_key_folder()  # which the job needs
            return {"insecure_wrap": True}
        content = map_file(self.wrap_key)
        opened = read_wrap_key(content, str(self.wrap_key), read=self.read)
        self._sample, self._matrix_bytes = sample(content.data), matrix_bytes(opened)
        return key_facts(opened)

    def shared(self) -> SharedFiles:
        """A map of the Groth16 key, if it is in a file. Raises InputError for another file than when the job began."""
        if self.wrap_key is None:
            return super().shared()
        content = map_file(self.wrap_key)
        if sample(content.data) != self._sample:
            raise InputError(f"{self.wrap_key}: another file than when the job began")
        return {**super().shared(), KEY_FILE: content}

    def key_bytes(self) -> int:
        return super().key_bytes() + (0 if self.wrap_key is None else self._matrix_bytes)

    def check(self, shared: SharedFiles, backend: Backend) -> None:
        """Make what the wrap takes and this machine has not kept: the circuit's tape, and a development key. Raises
        InvalidKey for a key of another circuit, InputError, ResourceError."""
        kinds = self.planned_kinds()
        if not kinds:
            return
        key = node_key(self.key, kinds[0].of_role(WRAP), usable_threads())
        if self.wrap_key is None:
            development_key(key, backend)
        wires = resident_tape(key).wires
        if self.wrap_key is not None:
            opened = read_wrap_key(shared[KEY_FILE], str(self.wrap_key), read=self.read)
            if opened.n_vars != wires:
                raise InvalidKey(
                    f"{opened.name}: a key of another circuit, of {count_of(opened.n_vars, 'wire')}; this wrap's "
                    f"has {wires}"
                )

    # -- proofs -----------------------------------------------------------------------------------------------------

    def prover(self, shared: SharedFiles, backend: Backend) -> WrappedProver:
        return WrappedProver(self, backend, shared.get(KEY_FILE))

    def verify(self, proof: PartitionProof) -> bool:
        """Whether the proof of a partition, a node or the wrap holds."""
        if not is_wrap(proof):
            return super().verify(proof)
        try:
            return holds(wrap_in(proof, read=self.read), self._key_facts)
        except (InvalidProof, InvalidKey, FormatError):
            return False

    def made_of(self, partition: Partition, proof: PartitionProof, children: Sequence[PartitionProof]) -> bool:
        if partition.name != GROTH16:
            return not is_wrap(proof) and super().made_of(partition, proof, children)
        try:
            return is_wrap(proof) and states(proof, children, read=self.read)
        except FormatError:
            return False

    def bind_whole(self, proofs: Sequence[PartitionProof]) -> tuple[list[PartitionProof], dict[str, Any]]:
        """As that of `OneProofSystem`, with the salt of the wrap that is published."""
        partitions, whole = super().bind_whole(proofs)
        return partitions, {**whole, SALT: salt_of(_wrap_of(proofs))}

    def published(self, proofs: Sequence[PartitionProof]) -> Mapping[str, bytes]:
        """The files of the wrap, from the proofs of the whole plan."""
        return wrap_in(_wrap_of(proofs), read=self.read).contents()


def _wrap_of(proofs: Sequence[PartitionProof]) -> PartitionProof:
    """The proof of the wrap's partition among those of the whole plan."""
    (proof,) = (proof for proof in proofs if proof.name == GROTH16)
    return proof
