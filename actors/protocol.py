"""The protocol between the scheduler and its workers: orders, outcomes and news, and how a verb is called.

A verb is a method of the class that serves it: `actors.worker.Worker` in a key slot, `actors.rooms.Rooms` for a whole
device, a synthesiser, a verifier. A caller names it as a function, and type checkers see both sides:

    loaded = transport.call(Worker.load, epoch, permitted)

Threads, processes and Ray actors are transports. They carry a verb and its arguments, and know nothing of either. A
verb travels as the qualified name of its function, and `invoke` calls it where it arrives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from distprove.system import Partition, PartitionId, StepTimes

Served = TypeVar("Served")
P = ParamSpec("P")
R = TypeVar("R")

Verb = Callable[..., Any]
"""A function of a class that is served, on its way through a transport."""


def invoke(target: object, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Call a verb of what is served, and return what it returns. Raises TypeError for a function that is no method of
    its class."""
    if not any(vars(kind).get(verb.__name__) is verb for kind in type(target).__mro__):
        raise TypeError(f"{verb.__qualname__} is no verb of {type(target).__name__}")
    return verb(target, *arguments, **named)


class WorkKind(str, Enum):
    """Kinds of work on a partition. PROVE takes the witness that COMMIT left at the worker, if there is one."""

    COMMIT = "commit"
    PROVE = "prove"
    DIAGNOSE = "diagnose"


class Place(NamedTuple):
    """Position of an order among all orders of a worker: the lowest goes first. The scheduler alone decides it."""

    rank: int = 0
    """Rank of the job's priority; 0 is the most urgent."""
    turn: int = 0
    """Number in the fair queue of the rank's jobs."""


FIRST = Place()


class Order(NamedTuple):
    """A partition, and the work to do on it."""

    partition: Partition
    """The partition, which names its job."""
    kind: WorkKind
    challenge: bytes | None = None
    place: Place = FIRST
    began: float = 0.0
    """Start of the job's session in seconds since the epoch; spans count from it."""

    @property
    def id(self) -> PartitionId:
        return self.partition.id


class Interval(NamedTuple):
    """Time that a worker spent on a partition, in seconds since the epoch by the clock of its machine."""

    worker: str
    stage: str
    started: float
    ended: float
    span: str
    """The span's text in the timeline, as `actors.spans` writes it."""


class Timed(NamedTuple):
    """A value with the times at which its computation started and ended, in seconds since the epoch."""

    value: Any
    started: float
    ended: float


@dataclass
class Outcome:
    """Result of an order. Errors are those of the proof system and backend, or `WorkerDied` and `WitnessGone`."""

    id: PartitionId
    kind: WorkKind
    worker: str
    """The prover or synthesiser that had it last."""
    value: Any = None
    """The commitment, or the `PartitionProof`."""
    times: StepTimes | None = None
    """Times of the partition's proof, without the steps that only the timeline holds."""
    error: BaseException | None = None
    witness_bytes: int = 0
    intervals: list[Interval] = field(default_factory=list)


class UnderWay(NamedTuple):
    """An order that a worker has begun."""

    id: PartitionId
    stage: str
    worker: str
    """The prover or synthesiser at work on it."""


@dataclass
class Batch:
    """News of a worker in one key slot, of all jobs there."""

    outcomes: list[Outcome] = field(default_factory=list)
    under_way: list[UnderWay] = field(default_factory=list)
    """Orders that have begun, the oldest of a stage first."""
    returned: list[PartitionId] = field(default_factory=list)
    """Partitions whose orders the scheduler asked back, and that had not begun."""
    loaded: list[tuple[str, Timed]] = field(default_factory=list)
    """Synthesisers that came back after they died."""
    lost: list[tuple[str, BaseException]] = field(default_factory=list)
    """Synthesisers that did not."""
    forgotten: int = 0
    """Number of the last `forget` before it. What it tells of a job that was forgotten later is of the former one."""
    number: int = 0
    """Its place among the news of this slot, from 1 on. The scheduler takes each number once, and every batch of 0."""


@dataclass(frozen=True)
class Loaded:
    """Result of loading a key."""

    prover: Timed
    synthesisers: dict[str, Timed]


class WorkerDied(Exception):
    """The process ended before it answered. It can be started again."""

    def __init__(self, message: str = "", at: PartitionId | None = None) -> None:
        """`at`: partition that the process computed at its end, if that is known."""
        super().__init__(message, at)
        self.at = at

    def __str__(self) -> str:
        return str(self.args[0])


class WorkerStuck(WorkerDied):
    """The process was killed and does not end. What it holds, perhaps a device, is lost for as long as that lasts."""


class WitnessGone(Exception):
    """The process that made the witness has ended, and the witness with it."""


class Transport(Protocol):
    """A way for verbs to reach what serves them, in a key slot or in a whole process."""

    def start(self) -> None:
        """Start what answers, also after its death. Raises WorkerDied, ClusterError."""

    def call(self, verb: Callable[Concatenate[Served, P], R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call a verb and return what it returns. Raises what it raises, or WorkerDied."""

    def tell(self, verb: Callable[Concatenate[Served, P], object], *arguments: P.args, **named: P.kwargs) -> None:
        """Call a verb without waiting for it. Does nothing where the process is gone."""

    def kill(self) -> None:
        """End this life of what answers, where it is a process: calls under way raise WorkerDied."""

    def end(self) -> None:
        """End what answers, for good."""


class Host(ABC):
    """A transport to a whole process, which may have key slots."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def carry(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call a verb of the worker in that slot, or of what the process serves, as `Transport.call` does."""

    @abstractmethod
    def post(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Call a verb as `Transport.tell` does."""

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def end(self) -> None: ...

    def call(self, verb: Callable[Concatenate[Served, P], R], *arguments: P.args, **named: P.kwargs) -> R:
        value: R = self.carry(None, verb, arguments, named)
        return value

    def tell(self, verb: Callable[Concatenate[Served, P], object], *arguments: P.args, **named: P.kwargs) -> None:
        self.post(None, verb, arguments, named)


class Slot:
    """A transport to the worker in a key slot of a host."""

    def __init__(self, host: Host, number: int, opens: Callable[[], object], shuts: Callable[[], object]) -> None:
        """`opens` opens the slot, unless it is open, and `shuts` shuts it."""
        self.host = host
        self.number = number
        self._opens = opens
        self._shuts = shuts

    def start(self) -> None:
        self.host.start()
        self._opens()

    def call(self, verb: Callable[Concatenate[Served, P], R], *arguments: P.args, **named: P.kwargs) -> R:
        value: R = self.host.carry(self.number, verb, arguments, named)
        return value

    def tell(self, verb: Callable[Concatenate[Served, P], object], *arguments: P.args, **named: P.kwargs) -> None:
        self.host.post(self.number, verb, arguments, named)

    def kill(self) -> None:
        """End the process of the host, with all its slots."""
        self.host.kill()

    def end(self) -> None:
        """Shut the slot. The host stays; it may be gone already."""
        with suppress(Exception):
            self._shuts()
