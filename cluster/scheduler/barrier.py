"""The challenge that binds the partitions of a job, and the proofs that were made under it.

The barrier is a case of waiting for others: each partition that needs no other waits until all of these are committed.
Partitions that need others take no part in the barrier. They wait for the proofs that they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from cluster.scheduler.events import StoreBarrier
from cluster.scheduler.jobs import Barrier, Job
from cluster.scheduler.rules import Stage
from cluster.scheduler.state import State
from distprove.errors import FormatError, InvalidProof, JobFailed
from distprove.formats import canonical
from distprove.system import (
    ChecksChildren,
    ChecksCommitments,
    DrawsChallenge,
    Partition,
    PartitionProof,
    ProofSystem,
    implements,
)


def raise_barrier(state: State, job: Job) -> None:
    """Draw the challenge of a job once all that take part are committed. One that failed fails all partitions."""
    if job.at[Stage.FAILED]:
        for partition in job.partitions.values():
            if partition.stage is not Stage.FAILED:
                state.fail(job, partition, "another partition failed before the barrier, and the challenge binds all")
        return
    if job.count(Stage.COMMITTED) < job.committing:
        return
    commitments = {name: each.commitment or b"" for name, each in job.partitions.items() if each.planned.commits}
    if isinstance(job.system, ChecksCommitments):
        try:
            job.system.check_commitments(list(commitments.values()))
        except InvalidProof as error:
            state.end(job, JobFailed(f"the partitions cannot be proven as one job: {error}"))
            return
    challenge = draw_challenge(job.system, commitments)
    job.storing_barrier, job.drawn = True, (commitments, challenge)
    state.emit(StoreBarrier(job.id, commitments, challenge))
    state.note(job, "barrier", challenge=challenge.hex())


def draw_challenge(system: ProofSystem, commitments: dict[str, bytes]) -> bytes:
    """The challenge that binds all partitions: the system's own, or a digest of the commitments by name, in order."""
    if implements(type(system), DrawsChallenge):
        return cast(DrawsChallenge, system).draw_challenge(list(commitments.values()))
    listed = [list(c) for c in commitments.items()]
    return canonical.digest("distprove/challenge/1", system.name, system.key_digest(), listed)


def made_under(system: ProofSystem, partition: Partition, proof: PartitionProof, barrier: Barrier) -> bool:
    """Whether a proof names the commitment and challenge of this barrier; True where the partition takes no part in it,
    or the system cannot tell."""
    if not partition.commits or not implements(type(system), DrawsChallenge):
        return True
    try:
        return cast(DrawsChallenge, system).made_under(proof) == (barrier[0].get(proof.name), barrier[1])
    except FormatError:
        return False


def made_of(
    system: ProofSystem, partition: Partition, proof: PartitionProof, children: Sequence[PartitionProof]
) -> bool:
    """Whether a proof states what follows from the proofs that its partition needs; True where the system cannot
    tell."""
    if not implements(type(system), ChecksChildren):
        return True
    try:
        return cast(ChecksChildren, system).made_of(partition, proof, children)
    except Exception:
        return False
