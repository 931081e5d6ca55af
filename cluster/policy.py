"""What a node's governor allows at once, by policy: `off`, `static`, or `auto`, which changes it as it measures.

A policy is a state machine without clocks, threads or processes. It is fed observations and answers with decisions, so
that the simulator (`cluster.simulator`) and a real node run the same code. No policy has a say about memory: what was
predicted never exceeds the budget under any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import hypot
from statistics import fmean, stdev

from distprove.job import ExecutorSettings
from distprove.phases import CRITICAL, Phase

YIELD = "yield"
"""In decisions: whether synthesis yields to the critical phase."""


@dataclass(frozen=True)
class Limits:
    """What may run at once on a node."""

    phases: Mapping[Phase, int] = field(default_factory=dict)
    """Threads that the leases of a phase may hold together; a phase that is not named has no limit of its own."""
    threads: int | None = None
    """Threads of the phases that share them (`distprove.phases.SHARING`) together; None: no limit."""
    lane: int | None = 1
    """How many may give back large memory at once; None: no limit."""
    yields: bool = False
    """Whether loops elsewhere yield while a critical phase (`distprove.phases.CRITICAL`) runs."""

    def with_phase(self, phase: Phase, limit: int | None) -> Limits:
        """These limits with another one for `phase`; None: none."""
        phases = {name: count for name, count in self.phases.items() if name is not phase}
        return replace(self, phases=phases if limit is None else {**phases, phase: limit})


@dataclass(frozen=True)
class Decision:
    """One change of a limit, and why. `t` in seconds on the clock of the observations."""

    t: float
    phase: str
    """A phase's name, or `YIELD`."""
    before: int | None
    """Threads, None: no limit. For `YIELD` 1 or 0."""
    after: int | None
    reason: str


@dataclass(frozen=True)
class Observation:
    """A node at one moment, and what ended since the observation before."""

    t: float
    """Seconds, on any clock that does not go back."""
    proofs: tuple[float, ...] = ()
    """When partitions were proven since the last observation, on the same clock."""
    starved: bool = False
    """Whether a prover could take another partition and none is ready."""
    durations: Mapping[Phase, tuple[float, ...]] = field(default_factory=dict)
    """Seconds that the leases which ended since then were held."""
    leases: Mapping[Phase, int] = field(default_factory=dict)
    """Threads leased now."""
    queue: Mapping[Phase, int] = field(default_factory=dict)
    """Requests that wait now."""
    memory_pressure: bool = False
    """Whether the system is short of memory: little is available, or it swaps."""
    bandwidth_share: float | None = None
    """Memory bandwidth that a probe found, as a share of what it found on the idle node; None: not measured."""


class Policy(ABC):
    """Decides about limits. `limits` is what holds now."""

    name: str
    limits: Limits

    @abstractmethod
    def observe(self, seen: Observation) -> list[Decision]:
        """Take in an observation; the changes it leads to, which `limits` has already."""

    @property
    def wants_bandwidth(self) -> bool:
        """Whether the next observation's bandwidth could change a decision: a probe costs some of what it measures."""
        return False


class Fixed(Policy):
    """Limits that never change."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self.limits = limits

    def observe(self, seen: Observation) -> list[Decision]:
        return []


def off() -> Fixed:
    """Everything is admitted that memory allows."""
    return Fixed("off", Limits(lane=None, yields=False))


def static(threads: int, phases: Mapping[Phase, int]) -> Fixed:
    """The limits of the configuration, and `threads` for the phases that share them; frees one at a time."""
    return Fixed("static", Limits(dict(phases), threads))


WINDOW = 24
"""Proofs from which a throughput is told."""
LONG = 3
"""Windows that the throughput which trials are compared with is told from, and a trial's that is promising."""
GLANCE = 6
"""Proofs after which a trial that is clearly worse is ended."""
CLEARLY = 0.9
"""Share of the throughput before it below which a trial is clearly worse."""
HUNGER = 2
"""Looks in a row at which provers are starved from which they count as such: one may fall between two partitions."""
SETTLE = 6
"""Proofs after a change that are not counted: they were on their way."""
SPARE = 0.95
"""Share of the idle node's memory bandwidth that a probe finds on a bus with room to spare."""
LEAST_GAIN = 0.007
"""Gain for which a change is kept, at least: more where throughput is noisier."""
REST = 4
"""Windows between the first two rounds of trials; each round that changes nothing doubles it."""
LONGEST_REST = 64


class Auto(Policy):
    """Climbs to the limits with the most throughput, one trial at a time.

    It begins with no limits but the lane's. While provers always have a partition waiting, what feeds them may run
    slower without harm, and perhaps leaves them more of the memory bus: then it tries lower limits, one at a time.
    A trial lets what was on its way pass and measures the throughput of a window of proofs. It is kept if that gained
    more than the noise of both windows could explain, and undone otherwise: at once if provers starve, early if it is
    clearly worse. A kept change is followed by the next one in its direction. When nothing is left to try it rests,
    longer after every round that found nothing. Limits under which a long window is slower than one without any are let
    go together.

    While provers starve nothing is lowered. A limit that holds requests back meanwhile is raised, without a trial, and
    yielding ends. When the system is short of memory, synthesis is halved at once, whatever else goes on.
    """

    name = "auto"

    def __init__(self, threads: int) -> None:
        """`threads`: of the node."""
        self._threads = threads
        self.limits = Limits()
        self._times: deque[float] = deque()
        self._wanted = LONG * WINDOW
        """Proofs from which the next throughput is told."""
        self._skip = SETTLE
        self._base: _Rate | None = None
        self._free: _Rate | None = None
        """Throughput without limits, when it was last measured."""
        self._trial: _Trial | None = None
        self._plan: list[_Trial] = []
        self._peak: dict[Phase, int] = {}
        """The most threads that each phase had since the last trial ended."""
        self._rest = REST
        self._resting = 0
        self._kept = False
        """Whether this round changed anything for good."""
        self._bandwidth: float | None = None
        """Of the idle node's, at the last probe."""
        self._missed = False
        """Whether provers starved in this window."""
        self._hungry = 0
        """Looks in a row at which provers were starved."""

    @property
    def wants_bandwidth(self) -> bool:
        """Before a round of trials: a bus with room to spare leaves nothing to gain."""
        return self._trial is None and not self._resting and len(self._times) + 2 >= self._wanted

    def observe(self, seen: Observation) -> list[Decision]:
        if seen.bandwidth_share is not None:
            self._bandwidth = seen.bandwidth_share
        for phase, held in seen.leases.items():
            self._peak[phase] = max(self._peak.get(phase, 0), held)
        if seen.memory_pressure:
            return self._relieve(seen)
        for time in seen.proofs:
            if self._skip:
                self._skip -= 1
            else:
                self._times.append(time)
        self._hungry = self._hungry + 1 if seen.starved else 0
        self._missed |= self._hungry >= HUNGER
        if self._hungry >= HUNGER:
            fed = self._feed(seen)
            if fed:
                return fed
        if self._trial is not None and self._base is not None and len(self._times) == GLANCE + 1:
            rate = _Rate.of(self._times)
            if rate.value < CLEARLY * self._base.value:
                return self._undo(seen.t, rate)
        if len(self._times) <= self._wanted:
            return []
        rate, times = _Rate.of(self._times), self._times
        self._times = deque()
        if self._trial is None:
            return self._measured(seen.t, rate)
        assert self._base is not None, "a trial is compared with what was before it"
        gain = rate.value / self._base.value - 1.0
        if gain > LEAST_GAIN and self._wanted < LONG * WINDOW:
            self._times, self._wanted = times, LONG * WINDOW  # promising: look longer, it may be a burst
            return []
        if gain > max(LEAST_GAIN, hypot(rate.error, self._base.error)):
            return self._keep(seen.t, rate)
        return self._undo(seen.t, rate)

    # -- trials -----------------------------------------------------------------------------------------------------

    def _measured(self, t: float, rate: _Rate) -> list[Decision]:
        """A window without a trial is over."""
        self._base = rate
        if self.limits == Limits():
            self._free = rate
        elif self._free is not None and rate.value < (1.0 - LEAST_GAIN) * self._free.value:
            return self._let_go(t)
        hungry, self._missed = self._missed, False
        if hungry:
            return []
        if self._resting:
            self._resting -= 1
            return []
        if self._bandwidth is not None and self._bandwidth > SPARE:
            self._resting = self._rest
            return []
        self._plan, self._kept = list(self._round()), False
        return self._next(t)

    def _let_go(self, t: float) -> list[Decision]:
        """What was kept did not last: throughput is below that without limits. Begin anew from there."""
        reason = "slower than without limits"
        undone = [self._set(t, phase.value, None, reason) for phase in self.limits.phases]
        if self.limits.yields:
            undone.append(self._set(t, YIELD, 0, reason))
        self._rest = min(2 * self._rest, LONGEST_REST)
        self._resting, self._wanted = self._rest, LONG * WINDOW
        return undone

    def _round(self) -> Iterator[_Trial]:
        """What to try, the likeliest gain first."""
        for phase in (Phase.SPMV, Phase.CPU_MSM, Phase.SYNTHESIS):
            if (peak := self._peak.get(phase, 0)) > 1:
                lower = self._threads if peak > self._threads else peak // 2
                yield _Trial(phase.value, self.limits.phases.get(phase), lower)
        if any(self._peak.get(phase) for phase in CRITICAL) and not self.limits.yields:
            yield _Trial(YIELD, 0, 1)

    def _feed(self, seen: Observation) -> list[Decision]:
        """Provers starve: end the trial, or raise what holds requests back."""
        if self._trial is not None:
            undone = self._set(seen.t, self._trial.what, self._trial.before, "back: provers had nothing to do")
            return [undone, *self._next(seen.t)]
        self._hungry = 0
        raised = [
            self._set(seen.t, phase.value, _more(limit, self._threads), "provers have nothing to do")
            for phase, limit in self.limits.phases.items()
            if seen.queue.get(phase)
        ]
        if self.limits.yields:
            raised.append(self._set(seen.t, YIELD, 0, "provers have nothing to do"))
        if raised:  # what was kept was kept wrongly: be slower to try again
            self._rest = min(4 * self._rest, LONGEST_REST)
            self._resting = self._rest
        return raised

    def _next(self, t: float) -> list[Decision]:
        """Begin the next trial of this round, or rest."""
        self._peak = {}
        if not self._plan:
            self._trial = None
            self._rest = self._rest if self._kept else min(2 * self._rest, LONGEST_REST)
            self._resting = self._rest
            self._wanted = LONG * WINDOW
            return []
        self._trial = self._plan.pop(0)
        return [self._set(t, self._trial.what, self._trial.after, "to see whether throughput grows")]

    def _keep(self, t: float, rate: _Rate) -> list[Decision]:
        assert self._trial is not None
        assert self._base is not None
        trial, gain = self._trial, rate.value / self._base.value - 1.0
        self._base, self._kept = rate, True
        further = trial.further
        if further is not None:
            self._plan.insert(0, further)
        kept = Decision(t, trial.what, trial.after, trial.after, f"kept: throughput grew by {gain:.1%}")
        return [kept, *self._next(t)]

    def _undo(self, t: float, rate: _Rate) -> list[Decision]:
        assert self._trial is not None
        assert self._base is not None
        gain = rate.value / self._base.value - 1.0
        undone = self._set(t, self._trial.what, self._trial.before, f"back: throughput changed by {gain:+.1%}")
        return [undone, *self._next(t)]

    def _relieve(self, seen: Observation) -> list[Decision]:
        """Halve synthesis, at most once in a while: what it takes is given back only as witnesses are proven."""
        if self._skip:
            self._skip = max(0, self._skip - len(seen.proofs))
            return []
        held = max(self._peak.get(Phase.SYNTHESIS, 0), 1)
        limit = min(held, self.limits.phases.get(Phase.SYNTHESIS) or held)
        self._trial, self._plan, self._base, self._resting = None, [], None, self._rest
        if limit == 1:
            return []
        return [self._set(seen.t, Phase.SYNTHESIS.value, limit // 2, "the node is short of memory")]

    def _set(self, t: float, what: str, value: int | None, reason: str) -> Decision:
        if what == YIELD:
            before: int | None = int(self.limits.yields)
            self.limits = replace(self.limits, yields=bool(value))
        else:
            before = self.limits.phases.get(Phase(what))
            self.limits = self.limits.with_phase(Phase(what), value)
        self._times, self._wanted = deque(), WINDOW
        self._skip = SETTLE
        return Decision(t, what, before, value, reason)


@dataclass(frozen=True)
class _Trial:
    """A change on trial."""

    what: str
    before: int | None
    after: int | None

    @property
    def further(self) -> _Trial | None:
        """The next one in the same direction, if there is one."""
        if self.what == YIELD or self.after is None or self.after < 2:
            return None
        return _Trial(self.what, self.after, self.after // 2)


def _more(limit: int, threads: int) -> int | None:
    """The next limit above `limit`; None, no limit, above the node's threads."""
    raised = max(limit + 1, limit * 3 // 2)
    return raised if raised < threads else None


@dataclass(frozen=True)
class _Rate:
    """A throughput in proofs per second, and its standard error as a share of it."""

    value: float
    error: float

    @classmethod
    def of(cls, times: deque[float]) -> _Rate:
        """From the times of at least two proofs. The error comes from quarters of them: proofs come in bunches."""
        listed = list(times)
        span = max(listed[-1] - listed[0], 1e-9)
        quarter = max(1, (len(listed) - 1) // 4)
        pieces = [later - earlier for earlier, later in pairwise(listed[::quarter])]
        error = stdev(pieces) / fmean(pieces) / len(pieces) ** 0.5 if len(pieces) > 1 and fmean(pieces) > 0 else 0.0
        return cls((len(listed) - 1) / span, error)


def policy_for(settings: ExecutorSettings, threads: int) -> Policy:
    """The policy that the settings ask for, for a node of `threads` threads."""
    if settings.policy == "off":
        return off()
    if settings.policy == "auto":
        return Auto(threads)
    return static(threads, {Phase(name): limit for name, limit in settings.limits.items()})
