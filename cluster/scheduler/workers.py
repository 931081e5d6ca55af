"""A worker: its key slots, its orders, and the one record of its health."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from actors import patience
from actors.protocol import Loaded, Place, UnderWay
from cluster.recent import Recent
from cluster.scheduler.rules import Stage
from distprove.system import PartitionId

_AT_PROVER = (Stage.COMMITTING.value, Stage.PROVING.value)
_STEPS = {"synthesise": "synthesising", "commit": "committing", "prove": "proving"}
"""The stage of a partition whose worker is at each step."""


@dataclass(frozen=True)
class WorkerHandle:
    """Public facts of a worker. Ids are unique within a fleet."""

    id: str
    """Identifier of the worker, which is that of its prover."""
    node: str
    synthesisers: tuple[str, ...]
    node_id: str | None = None
    """Identifier of its node, where there are several: two may have one address."""


class SlotStage(str, Enum):
    ABSENT = "absent"
    """The worker does not have the key."""
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    """The key could not be loaded there."""


@dataclass(eq=False)
class Slot:
    """A worker's slot for one key."""

    stage: SlotStage = SlotStage.ABSENT
    epoch: int = 0
    """Number of its last load; news of earlier ones are out of date."""
    deadline: float = 0.0
    """Time by which the key must be loaded, on the monotonic clock."""
    late: bool = False
    """Whether it was ended because it did not load the key in time."""
    loaded: Loaded | None = None
    lost: dict[str, str] = field(default_factory=dict)
    """Synthesisers that died and did not come back, with the reason."""
    handed: dict[PartitionId, Place] = field(default_factory=dict)
    """Orders that it has, oldest first."""
    under_way: list[UnderWay] = field(default_factory=list)
    """Orders among these that it has begun."""
    forgotten: dict[str, int] = field(default_factory=dict)
    """Jobs that it was told to be over, as long as news that it sent before may come: numbers of these words, by job.
    A job that was added under the same id since must not be taken for them."""
    asked_back: bool = False
    """Whether it was asked to return orders, and has not answered."""
    heard: tuple[int, int] = (0, 0)
    """Its last news: the epoch, and the number in it."""

    shares_death: bool = False
    """Whether the process ended while it loaded, as another slot reported: its own report is of the same death."""
    excused: bool = False
    """Whether the scheduler ended that process."""

    @property
    def ready(self) -> bool:
        return self.stage is SlotStage.READY

    @property
    def life(self) -> tuple[Any, Any] | None:
        """The process that has the key."""
        facts = self.loaded.prover.value if self.loaded is not None else {}
        return (facts.get("host"), facts.get("pid")) if facts else None

    def at_work_on(self, job: str | None = None) -> PartitionId | None:
        """The partition that the process computed, as far as is known; `job`: among those of one job."""
        mine = [id for id in self.handed if job in (None, id.job)]
        begun = [each.id for each in self.under_way if each.id in self.handed and each.stage in _AT_PROVER]
        begun = [id for id in begun if job in (None, id.job)]
        return begun[0] if begun else next(iter(mine), None)


@dataclass
class Standing:
    """What one job holds against a worker or synthesiser."""

    strikes: int = 0
    """Failures in a row; it is not known whether the worker is to blame."""
    blame: float = 0.0
    """Failures at partitions that another worker then proved, less what good proofs make up for."""
    hangs: int = 0
    """Times that its process was ended because it hung."""
    failed_at: set[PartitionId] = field(default_factory=set)
    """Partitions at which it hung, failed or gave a bad proof. A death alone says nothing of its device."""
    given_up: bool = False


@dataclass
class Health:
    """A worker's health: what each job holds against it or its synthesisers, and what all do."""

    standings: defaultdict[str, dict[str, Standing]] = field(default_factory=lambda: defaultdict(dict))
    """By job, then by the id of the prover or synthesiser."""
    deaths: int = 0
    """Deaths in a row, of any job."""
    given_up: int = 0
    """Jobs in a row that gave it up."""
    restarted: bool = False
    """Whether the scheduler ended its process, for which no partition is to blame."""
    lost: str | None = None
    """Why no job may use it any more."""

    def of(self, job: str, name: str) -> Standing:
        """The standing of a prover or synthesiser with a job."""
        return self.standings[job].setdefault(name, Standing())

    def known(self, job: str, name: str) -> Standing | None:
        """The standing of a prover or synthesiser with a job that holds something against it."""
        known = self.standings.get(job)
        return None if known is None else known.get(name)

    def good(self) -> None:
        """Count a proof that holds."""
        self.deaths = self.given_up = 0


@dataclass(eq=False)
class Worker:
    """A device with its synthesisers."""

    handle: WorkerHandle
    slots: dict[str, Slot] = field(default_factory=dict)
    """Key slots, by key."""
    loading: str | None = None
    """The key that it loads: one at a time, so that it is known which one it dies of."""
    facts: dict[str, Any] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    last: Place = field(default_factory=Place)
    """The last place of all orders that it was given."""
    handed: int = 0
    """Number of the last time that it was given orders, among those of all workers."""
    rate: float = 0.0
    """Orders a second that it finished lately."""
    counted: float = 0.0
    """Time of its last news, on the monotonic clock."""
    served: set[str] = field(default_factory=set)
    """Jobs that it was given orders of."""
    proven: int = 0
    busy: Recent = field(default_factory=lambda: Recent(patience.RATE))
    """Microseconds that its device computed in the last minute."""

    def __post_init__(self) -> None:
        self.id = self.handle.id

    @property
    def node(self) -> str:
        """The name of its node that no other has."""
        return self.handle.node_id or self.handle.node

    @property
    def device(self) -> tuple[str, ...]:
        """The device that it proves on; workers that share one name the same."""
        return (self.node, *self.facts.get("gpus", ()))

    def slot(self, key: str) -> Slot:
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = Slot()
        return found

    def usable(self, job: str, key: str) -> bool:
        """Whether it may prove for a job now."""
        slot = self.slots.get(key)
        return slot is not None and slot.ready and self.serves(job)

    def serves(self, job: str) -> bool:
        """Whether neither all nor this job gave it up."""
        if self.health.lost is not None:
            return False
        standing = self.health.known(job, self.id)
        return standing is None or not standing.given_up

    def doubtful(self, job: str) -> bool:
        """Whether it failed lately. It has one order at a time then, and one behind: others go with the next."""
        standing = self.health.known(job, self.id)
        return standing is not None and bool(standing.strikes or standing.blame > 1)

    def load(self) -> int:
        """Number of orders that it has, of all keys."""
        return sum([len(slot.handed) for slot in self.slots.values()])  # a list: a generator takes twice as long

    def before(self, place: Place) -> int:
        """Number of orders that go before one at `place`."""
        if place >= self.last:
            return self.load()
        return sum(each <= place for slot in self.slots.values() for each in slot.handed.values())

    def synthesisers_of(self, job: str) -> list[str]:
        """Synthesisers that the job did not give up."""
        known = {name: self.health.known(job, name) for name in self.handle.synthesisers}
        return [name for name, standing in known.items() if standing is None or not standing.given_up]

    def finished(self, count: int, now: float) -> None:
        """Count orders whose outcomes arrived."""
        if count:
            rate = count / max(1e-3, now - self.counted)
            self.rate = (self.rate + rate) / 2 if self.rate else rate
        self.counted = now

    def computes(self, started: float, ended: float) -> None:
        """Count the time that its device computed, in seconds since the epoch."""
        for second in range(int(started), int(ended) + 1):
            self.busy.add(second, int(1e6 * (min(ended, second + 1.0) - max(started, float(second)))))


class Hung(NamedTuple):
    """A worker, or one of its synthesisers, that is silent or does not finish."""

    who: str
    reason: str


@dataclass
class _Seen:
    heard: float
    """Time of its last sign of life."""
    since: dict[UnderWay, float] = field(default_factory=dict)
    """Start of each thing that it does."""


class Watch:
    """Finds workers that hang, for one key. How long they may be silent is a setting; how long their work may take
    follows from the times that such work has taken.

    Time is counted by looks, so that a driver that was stopped, or was busy, takes nobody for hung.
    """

    def __init__(self, floor: float, in_flight: int) -> None:
        """`floor` is the least number of seconds after which a worker counts as hung."""
        self._floor = floor
        self._factor = float(patience.HANG_FACTOR * in_flight)
        self._longest: dict[str, float] = {}
        """Longest time seen at each stage, in seconds."""
        self._first = patience.HANG_FIRST * floor
        self._seen: dict[str, _Seen] = {}
        self._clock = 0.0
        self._looked: float | None = None

    def look(self, now: float) -> None:
        """Let time pass until `now`."""
        if self._looked is not None:
            self._clock += min(patience.HANG_LOOK, now - self._looked)
        self._looked = now

    def took(self, step: str, seconds: float) -> None:
        """Count a step that ended."""
        stage = _STEPS.get(step)
        if stage is not None and seconds > self._longest.get(stage, -1.0):
            self._longest[stage] = seconds

    def heard(self, worker: str, under_way: Iterable[UnderWay] = ()) -> None:
        """Count a sign of life, with what the worker does."""
        before = self._seen[worker].since if worker in self._seen else {}
        self._seen[worker] = _Seen(self._clock, {step: before.get(step, self._clock) for step in under_way})

    def forget(self, worker: str) -> None:
        """Forget a worker that is not loaded."""
        self._seen.pop(worker, None)

    def hung(self, worker: str) -> Hung | None:
        """Whether a worker hangs. A step that took too long gets more time from then on."""
        seen = self._seen.get(worker)
        if seen is None:
            return None
        silent = self._clock - seen.heard
        if silent > self._floor:
            return Hung(worker, f"it said nothing for {silent:.0f} s")
        for (_, stage, who), since in seen.since.items():
            longest, took = self._longest.get(stage), self._clock - since
            if longest is not None and took > max(self._floor, self._factor * longest):
                self._factor *= patience.HANG_GRACE
                return Hung(who, f"{stage} for {took:.0f} s, which took {longest:.3g} s before")
            if longest is None and stage in _STEPS.values() and took > self._first:
                self._first *= patience.HANG_GRACE
                return Hung(who, f"{stage} for {took:.0f} s, which nothing has come to the end of before")
        return None
