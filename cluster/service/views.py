"""The words in which the service is asked and answers: plain values that become JSON as they are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cluster.record.partitions import PartitionState, PartitionView
from cluster.scheduler.told import KeyView, WorkerView
from distprove.errors import UsageError
from distprove.formats.notebook import facts_html

ID_FORM = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
ID = re.compile(rf"{ID_FORM}\Z")
"""Form of a job's id, which is also the name of its run's folder."""


class JobState(str, Enum):
    """States of a job. The last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    PROVED = "proved"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (JobState.PROVED, JobState.FAILED, JobState.CANCELLED)


class Priority(str, Enum):
    """Priorities of jobs, the most urgent first. Within one, jobs share the workers fairly."""

    URGENT = "urgent"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    @property
    def rank(self) -> int:
        """Place of the priority: 0 is served first."""
        return _RANKS[self]


_RANKS = {priority: rank for rank, priority in enumerate(Priority)}


@dataclass(frozen=True)
class JobRequest:
    """A job that somebody asks for."""

    id: str = field(metadata={"schema": {"pattern": f"^{ID_FORM}$"}})
    """Identifier, chosen by the client: asked for twice, the same job is one job."""
    job: dict[str, Any] = field(repr=False, metadata={"schema": {"required": ["system"]}})
    """The keys of a job file (docs/jobs.md), without `executor`: the service has workers of its own."""
    base: str = ""
    """Folder on the service's machine to which paths of the job are relative."""
    out: str | None = None
    """Folder of the run on the service's machine; by default one in the service's own folder."""
    priority: Priority | None = None
    """None stands for the priority of the job's deadline (`Entry.deadlines`), or normal if it has none."""

    def __post_init__(self) -> None:
        if not ID.match(self.id):
            raise UsageError("the id of a job has up to 100 letters, digits, dots, dashes and underscores")


@dataclass(frozen=True)
class JobView:
    """What is known of a job. Times are seconds since the epoch."""

    id: str
    state: JobState
    priority: Priority
    system: str
    title: str
    run: str
    """The run's folder."""
    partitions: int = 0
    """Number of partitions, as soon as the job was planned."""
    done: int = 0
    """Number of partitions that are proven, verified and on disk."""
    submitted: float = 0.0
    started: float | None = None
    first_proof: float | None = None
    """Time at which the first of its partition proofs was on disk."""
    ended: float | None = None
    cold: bool | None = None
    """Whether its key had to be loaded; None before that is known."""
    attempts: int = 0
    """How often a service began with it."""
    place: int | None = None
    """Number of jobs that are before it, while it is queued."""
    exit_code: int | None = None
    """As of the command line (docs/cluster.md), once it is over."""
    error: str | None = None
    error_kind: str | None = None
    cancelling: bool = False

    def has(self, text: str) -> bool:
        """Whether its id or title has `text` in it, in capitals or not."""
        return not text or text.casefold() in f"{self.id}\n{self.title}".casefold()

    def _repr_html_(self) -> str:
        facts = {
            "state": self.state.value,
            "partitions": f"{self.done} of {self.partitions}",
            "title": self.title,
            "error": self.error,
            "run": self.run,
        }
        return facts_html(f"job {self.id}", {name: value for name, value in facts.items() if value})

    def changed(self, **facts: Any) -> JobView:
        """What is known once these fields have changed. As `replace`, which takes ten times as long: a short job
        changes five times."""
        new = object.__new__(JobView)
        new.__dict__.update(self.__dict__, **facts)
        return new


@dataclass(frozen=True)
class JobList:
    """Jobs, the newest first."""

    jobs: list[JobView]


@dataclass(frozen=True)
class PartitionList:
    """Partitions of a job as they stand, in the order of its plan."""

    total: int
    """Partitions of the job; 0 before it is planned."""
    found: int
    """Those of the state and name that were asked for."""
    partitions: list[PartitionView]
    """The partitions found, from the requested number on."""

    @classmethod
    def of(
        cls, views: list[PartitionView], state: PartitionState | None, search: str, first: int, limit: int
    ) -> PartitionList:
        """Up to `limit` partitions from number `first` on, of those in `state` that have `search` in their names."""
        found = [view for view in views if state in (None, view.state) and search.casefold() in view.name.casefold()]
        return cls(len(views), len(found), found[first : first + limit])


@dataclass(frozen=True)
class RunFile:
    """A file of a job's run."""

    name: str
    bytes: int


@dataclass(frozen=True)
class FileList:
    """Files of a job's run that can be downloaded."""

    files: list[RunFile]


@dataclass(frozen=True)
class KeyRequest:
    """A key, by what a job of it names: its files and its circuit."""

    system: str
    files: dict[str, str] = field(metadata={"schema": {"maxProperties": 4}})
    """Paths on the service's machine by the settings of a job that name them: `zkey`, `params` or `gnark_pk` with
    `gnark_vk`, `r1cs`, `wasm`."""
    circuit: str | None = None
    """The circuit that it is of, if that is in Python: one that ships with distprove."""
    base: str = ""
    """Folder on the service's machine to which paths are relative."""

    def __post_init__(self) -> None:
        texts = [self.system, self.base, self.circuit or "", *self.files, *self.files.values()]
        if len(self.files) > 4 or max(map(len, texts)) > 4096:
            raise UsageError("a key has at most 4 files, and texts of at most 4096 characters")
        if any("\0" in text for text in texts):
            raise UsageError("a name with a zero byte is that of no file")


@dataclass(frozen=True)
class KeyReady:
    """What is known of a key that is loaded ahead."""

    id: str
    """What it is known by, as in `KeyView`."""
    loaded: bool
    """Whether workers have it, and it is checked; otherwise it is being loaded."""
    already: bool
    """Whether that was so before it was asked for."""
    seconds: float
    """Time since its loading began; 0 for a key that was loaded already."""
    bytes: int = 0
    """As in `KeyView`, once it is loaded."""


@dataclass(frozen=True)
class KeyAway:
    """A key that was put away."""

    id: str
    was_loaded: bool
    bytes: int
    """Bytes that it took, as in `KeyView`. They are free a moment later."""


@dataclass(frozen=True)
class KeyList:
    """Keys that workers have or load."""

    keys: list[KeyView]


@dataclass(frozen=True)
class LogLines:
    """Lines of a job's log."""

    lines: list[str]
    next: int
    """What to give as `after` to read on from here."""


@dataclass(frozen=True)
class Problem:
    """What went wrong."""

    error: str
    """One or more sentences."""
    kind: str
    """Name of the error in distprove.errors."""
    exit_code: int
    """Exit code that a command ends with for it (docs/cluster.md)."""


@dataclass(frozen=True)
class Overview:
    """The service at a glance."""

    version: str
    started: float
    accepting: bool
    queued: int
    running: int
    capacity: int
    """Jobs that may be queued at a time."""
    counts: dict[str, int] = field(default_factory=dict)
    """Jobs by state, ever."""
    partitions: int = 0
    """Partitions proven since the service started."""
    rate: float = 0.0
    """Partitions a second over the last minute."""
    keys: tuple[KeyView, ...] = ()
    workers: tuple[WorkerView, ...] = ()


MOST_SUBMITTED = 256
"""Jobs in one submission of several."""


@dataclass(frozen=True)
class Submissions:
    """Jobs that somebody asks for together."""

    jobs: list[JobRequest] = field(metadata={"schema": {"maxItems": MOST_SUBMITTED}})

    def __post_init__(self) -> None:
        if len(self.jobs) > MOST_SUBMITTED:
            raise UsageError(f"at most {MOST_SUBMITTED} jobs are submitted together, not {len(self.jobs)}")


@dataclass(frozen=True)
class Submission:
    """What became of one of several jobs that were submitted together."""

    job: JobView | None = None
    """The job, if it was accepted, now or before."""
    error: Problem | None = None
    """Why it was refused, if it was."""
    retry_after: float | None = None
    """Seconds after which to ask again, where there was no room for it."""


@dataclass(frozen=True)
class Submitted:
    """What became of jobs that were submitted together, in their order."""

    jobs: list[Submission]
