"""The commitments of a proof, which are made before its other parts: the circuit depends on their hashes.

The witness has the hashes already, because gnark's solver needs them. The prover makes the commitments again. It
compares their hashes with the witness before it begins with anything long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.errors import UnsatisfiedWitness
from distprove.groth16.committed.hashes import HASHES, folding_powers, hashed
from distprove.groth16.committed.key import CommittedKey, CommittedProof
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.prover import StagedWitness
from distprove.groth16.resident import ResidentKey
from kernels.cpu.pairing import combine_members_g1
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.maths.encoding import scalars_from_ints, unpack


@dataclass(frozen=True, repr=False)  # their sums are of a witness
class MadeCommitments:
    """The commitments of a witness, (n, point_limbs), and what their proof of knowledge is folded from."""

    points: Words
    knowledge: Sequence[Pending]
    powers: Sequence[int]

    def beside(self, key: CommittedKey, proof: Groth16Proof) -> CommittedProof:
        """The whole proof. Waits for the sums of the proof of knowledge."""
        own = np.stack([each.result() for each in self.knowledge])
        folded = combine_members_g1(key.curve, own, scalars_from_ints(key.curve.fr, self.powers))
        return CommittedProof(proof, self.points, folded)


def commit(resident: ResidentKey, key: CommittedKey, witness: HostArray, staged: StagedWitness) -> MadeCommitments:
    """Make the commitments of a witness, (n_vars, 4) canonical integers, on the backend where it is `staged`, and begin
    the sums of their proof of knowledge. Waits for the commitments alone.

    Raises UnsatisfiedWitness where the wire of a hash has another value.
    """
    sums, knowledge = staged.ahead("commitments", lambda w: _sums(resident, w))
    points, hashes = np.stack(sums), list[int]()
    for k, (each, point) in enumerate(zip(resident.commitment_bases, points, strict=True)):
        beside = unpack(witness[list(each.wires.hashed)]) if each.wires.hashed else []
        (there,) = unpack(witness[each.wires.hash : each.wires.hash + 1])
        if hashed(key.commitment_hash, key.curve, point, beside) != there:
            others = [name for name in HASHES if hashed(name, key.curve, point, beside) == there]
            raise UnsatisfiedWitness(_fault(k, each.wires.hash, key.commitment_hash, others))
        hashes.append(there)
    return MadeCommitments(points, knowledge, folding_powers(key.curve, hashes))


def _fault(k: int, wire: int, name: str, others: Sequence[str]) -> str:
    found = f"wire {wire} of the witness does not hold the {name} hash of commitment {k}"
    if others:
        return f"{found}, but its {others[0]} hash: the job says so with --commitment-hash {others[0]}"
    return f"{found}: it was solved under another proving key, or changed since"


def _sums(resident: ResidentKey, w: Array) -> tuple[list[HostArray], list[Pending]]:
    groups, begun = resident.backend.groups, list[tuple[Pending, Pending]]()
    for each in resident.commitment_bases:
        scalars = each.scalars(resident.backend, w)
        begun.append((groups.msm(each.basis, scalars), groups.msm(each.sigma, scalars)))
    return [commitment.result() for commitment, _ in begun], [knowledge for _, knowledge in begun]
