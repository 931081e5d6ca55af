"""The challenge that binds the partitions of a job, and the proofs that were made under it."""

from __future__ import annotations

from cluster.dispatch.state import Stage, State
from cluster.record.run import Barrier
from distprove.errors import FormatError, InvalidProof, JobFailed
from distprove.formats import canonical
from distprove.system import ChecksCommitments, DrawsChallenge, PartitionProof, ProofSystem


def raise_barrier(state: State) -> None:
    """Once all are committed, draw the challenge that binds every partition. One that failed fails the others."""
    partitions = state.partitions
    if partitions.at[Stage.FAILED]:
        for partition in partitions.values():
            if partition.stage is not Stage.FAILED:
                state.fail(partition, "another partition failed before the barrier, and the challenge binds all")
        return
    if partitions.count(Stage.COMMITTED) < len(partitions):
        return
    commitments = {name: partition.commitment or b"" for name, partition in partitions.items()}
    if isinstance(state.system, ChecksCommitments):
        try:
            state.system.check_commitments(list(commitments.values()))
        except InvalidProof as error:
            raise JobFailed(f"the partitions cannot be proven as one job: {error}") from None
    challenge = draw_challenge(state.system, commitments)
    state.run.store_barrier(commitments, challenge)
    state.run.note("barrier", challenge=challenge.hex())
    state.barrier = (commitments, challenge)


def draw_challenge(system: ProofSystem, commitments: dict[str, bytes]) -> bytes:
    """The challenge that binds all partitions: the system's own, or a digest of the commitments by name, in order."""
    if isinstance(system, DrawsChallenge):
        return system.draw_challenge(list(commitments.values()))
    listed = [list(c) for c in commitments.items()]
    return canonical.digest("distprove/challenge/1", system.name, system.key_digest(), listed)


def made_under(system: ProofSystem, proof: PartitionProof, barrier: Barrier) -> bool:
    """Whether a proof names the commitment and challenge of this barrier; True where the system cannot tell."""
    if not isinstance(system, DrawsChallenge):
        return True
    try:
        return system.made_under(proof) == (barrier[0].get(proof.name), barrier[1])
    except FormatError:
        return False
