"""Events that the machine takes, and effects that it returns. Plain values: tests make and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.protocol import Batch, Loaded, Order, Timed, WorkerDied
from cluster.record.report import PartitionReport
from cluster.scheduler.jobs import Job, Progress
from cluster.scheduler.workers import WorkerHandle
from distprove.system import PartitionId, PartitionProof, ProofSystem


class Verdict(NamedTuple):
    """Result of a verification: `reason` is None for a proof that holds. Times are seconds since the epoch."""

    id: PartitionId
    proof: PartitionProof
    """The proof that it is about, and no other one of that id: an id may be given to another job meanwhile."""
    reason: str | None
    started: float
    ended: float


# -- events: what happened --------------------------------------------------------------------------------------------


class JobAdded(NamedTuple):
    """A job is planned, and has a driver that waits for its end."""

    job: Job


class JobStopped(NamedTuple):
    """A job must not go on, for this reason: it was cancelled, or its driver failed."""

    job: str
    error: BaseException


class JobLeft(NamedTuple):
    """The driver of a job that is over does not need its key any more."""

    job: str


class BarrierStored(NamedTuple):
    """The commitments and the challenge of a job are on disk."""

    job: str


class Joined(NamedTuple):
    """Workers are there to be used."""

    workers: Sequence[WorkerHandle]


class Left(NamedTuple):
    """The node of a worker left the cluster for good."""

    worker: str


class FleetLost(NamedTuple):
    """What the workers run on is gone, and all of them with it."""

    error: BaseException


class KeyOpened(NamedTuple):
    """Memory for a key is leased on all nodes, and its files are there."""

    key: str


class KeyRefused(NamedTuple):
    """A key cannot be opened: its memory does not fit beside the others, or it is at fault."""

    key: str
    error: BaseException


class KeyClosed(NamedTuple):
    """The memory of a key is given back everywhere."""

    key: str


class KeyPutAway(NamedTuple):
    """Somebody wants a key's memory back, unless a job uses the key."""

    key: str


class KeyLoaded(NamedTuple):
    worker: str
    key: str
    epoch: int
    loaded: Loaded


class LoadFailed(NamedTuple):
    """A worker could not load a key, or died while it did."""

    worker: str
    key: str
    epoch: int
    error: BaseException


class KeyChecked(NamedTuple):
    """The check of a key ended: with its times, or with an error."""

    worker: str
    key: str
    epoch: int
    result: Timed | BaseException


class News(NamedTuple):
    worker: str
    key: str
    epoch: int
    batch: Batch


class Died(NamedTuple):
    """The process of a worker ended. Each key slot reports it."""

    worker: str
    key: str
    epoch: int
    error: WorkerDied


class Verified(NamedTuple):
    verdicts: Sequence[Verdict]


class Kept(NamedTuple):
    """Verified proofs are on disk."""

    proofs: Sequence[tuple[PartitionId, PartitionProof]]


class KeepFailed(NamedTuple):
    """Verified proofs could not be written."""

    proofs: Sequence[tuple[PartitionId, PartitionProof]]
    error: BaseException


class Looked(NamedTuple):
    """A look at the fleet, some times a second."""

    queued: frozenset[str] = frozenset()
    """Workers that wait for resources of a cluster that others have."""
    remarks: Sequence[str] = ()
    """All remarks so far on devices that are not used, oldest first."""
    grows: bool = False
    """Whether nodes may join."""


Event = (
    JobAdded
    | JobStopped
    | JobLeft
    | BarrierStored
    | Joined
    | Left
    | FleetLost
    | KeyOpened
    | KeyRefused
    | KeyClosed
    | KeyPutAway
    | KeyLoaded
    | LoadFailed
    | KeyChecked
    | News
    | Died
    | Verified
    | Kept
    | KeepFailed
    | Looked
)


# -- effects: what is to be done --------------------------------------------------------------------------------------


class OpenKey(NamedTuple):
    key: str
    system: ProofSystem


class CloseKey(NamedTuple):
    key: str


class Load(NamedTuple):
    """Load a key in the worker's slot for it, and report its news from then on."""

    worker: str
    key: str
    epoch: int
    permitted: bool
    """Whether the worker may prove before the key's check."""


class Check(NamedTuple):
    worker: str
    key: str
    epoch: int


class Permit(NamedTuple):
    """The key is good: the worker may prove."""

    worker: str
    key: str


class Hand(NamedTuple):
    worker: str
    key: str
    epoch: int
    orders: list[Order]
    parallel: int | None
    """Most witnesses of one job that may be in the making or ready there."""


class AskBack(NamedTuple):
    """Have a worker return up to `most` orders that it has not begun."""

    worker: str
    key: str
    most: int
    committed: bool
    """Whether also orders whose commitment the prover holds."""


class Forget(NamedTuple):
    """A job is over on this worker."""

    worker: str
    key: str
    job: str
    number: int
    """Number of this word. `Batch.forgotten` tells the last one that a worker heard."""


class Dismiss(NamedTuple):
    """Give up a synthesiser."""

    worker: str
    key: str
    synthesiser: str


class Interrupt(NamedTuple):
    """End the process of a worker or of its synthesiser, which hangs."""

    worker: str
    key: str
    who: str


class Retire(NamedTuple):
    """Stop a worker for good."""

    worker: str


class Remember(NamedTuple):
    """Quarantine a device, by its UUID, for later jobs."""

    worker: str
    device: str
    reason: str


class Verify(NamedTuple):
    key: str
    worker: str
    """The worker that made the proofs."""
    proofs: list[tuple[PartitionId, PartitionProof]]
    last: bool
    """Whether no more proofs are to come, so that these need not wait for others."""


class Keep(NamedTuple):
    """Put verified proofs on disk."""

    proofs: list[tuple[PartitionId, PartitionProof]]
    last: bool
    """Whether no more proofs of one of their jobs are to come, so that these need not wait for others."""


class StoreBarrier(NamedTuple):
    job: str
    commitments: dict[str, bytes]
    challenge: bytes


class Note(NamedTuple):
    """An event for a job's journal."""

    job: str
    event: str
    facts: dict[str, Any]
    sync: bool = True


class Proved(NamedTuple):
    """Partitions of a job are done: events for its journal. Their reports do not change any more."""

    job: str
    reports: list[PartitionReport]


class Tell(NamedTuple):
    """An event for a job's live display."""

    job: str
    progress: Progress


class Ended(NamedTuple):
    """A job is over; `error` is the reason if it could not go on."""

    job: str
    error: BaseException | None = None


Effect = (
    OpenKey
    | CloseKey
    | Load
    | Check
    | Permit
    | Hand
    | AskBack
    | Forget
    | Dismiss
    | Interrupt
    | Retire
    | Remember
    | Verify
    | Keep
    | StoreBarrier
    | Note
    | Proved
    | Tell
    | Ended
)
