"""Puts a governor's state, the policy and what is seen of the node together, and keeps the record of it.

Not thread-safe and without a clock: `LocalGovernor` and `NodeGovernor` call it under their locks and tell the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from cluster.governor.state import Governor
from cluster.governor.watch import Sight
from cluster.policy import Decision, Observation, Policy, fitted
from distprove.host.phases import Phase
from distprove.host.topology import Topology

PERIOD = 0.5
"""Seconds between looks at the node."""
SAMPLES = 400
"""Samples kept, at most: with more, every second one is dropped and they are taken half as often."""
DECISIONS = 1000
"""Decisions kept, at most: the first and the last ones."""


class Word(Protocol):
    """Where others read how many critical phases run (`kernels.host.throttle.Throttle`)."""

    def write(self, count: int) -> None: ...


class Lookout(Protocol):
    """Sees the node: a real one (`cluster.governor.watch.Watch`) or a simulated one."""

    def look(self) -> Sight: ...

    def bandwidth(self) -> float | None: ...

    def share(self, bandwidth: float | None) -> float | None: ...


@dataclass
class Sample:
    """The node at one moment, for the report."""

    t: float
    cpu: float
    memory_used: int
    memory_leased: int
    bandwidth: float | None
    leases: dict[str, int]
    queue: dict[str, int]


@dataclass
class Steward:
    """See the module's text."""

    state: Governor
    policy: Policy
    watch: Lookout | None = None
    topology: Topology | None = None
    """The node's, once it is known."""
    word: Word | None = None
    slots: int = 0
    """Partitions that the node's provers take at once; 0: not known."""
    proving: int = 0
    """Partitions that they have now."""
    decisions: list[Decision] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    _began: dict[int, float] = field(default_factory=dict)
    _durations: dict[Phase, list[float]] = field(default_factory=dict)
    _proofs: list[float] = field(default_factory=list)
    _next_sample: float = float("-inf")
    _every: float = PERIOD

    def __post_init__(self) -> None:
        self.state.set_limits(self.policy.limits)

    def settle(self, topology: Topology) -> None:
        """Take note of the node's processors, and fit the policy to them."""
        self.topology, self.policy = topology, fitted(self.policy, topology)
        self.state.set_limits(self.policy.limits)

    def changed(self, now: float) -> None:
        """Leases were granted or given back: note what began and ended, and set the word."""
        for ticket, phase, begins in self.state.events:
            if begins:
                self._began[ticket] = now
            else:
                self._durations.setdefault(phase, []).append(now - self._began.pop(ticket))
        self.state.events.clear()
        if self.word is not None:
            self.word.write(self.state.critical)

    def proven(self, now: float) -> None:
        """A partition was proven on this node."""
        self._proofs.append(now)

    def moved(self, now: float, taken: int, returned: int, proven: int) -> None:
        """The node's provers took so many partitions, and are done with so many, of which some are proven."""
        self.proving = max(0, self.proving + taken - returned)
        self._proofs += [now] * proven

    def tick(self, now: float) -> None:
        """Look at the node, hear the policy, and do as it says. Due every `PERIOD`; more often does no harm."""
        sight = self.watch.look() if self.watch is not None else Sight(0.0, 0, False)
        bandwidth = self.watch.bandwidth() if self.watch is not None and self.policy.wants_bandwidth else None
        seen = Observation(
            t=now,
            proofs=tuple(self._proofs),
            starved=self.proving < self.slots,
            durations={phase: tuple(seconds) for phase, seconds in self._durations.items()},
            leases=self.state.by_phase,
            queue=self.state.queue,
            memory_pressure=sight.memory_pressure,
            bandwidth_share=self.watch.share(bandwidth) if self.watch is not None else None,
        )
        self._proofs, self._durations = [], {}
        decisions = self.policy.observe(seen)
        if decisions:
            self.decisions = _bounded([*self.decisions, *decisions])
            self.state.set_limits(self.policy.limits)
        self.changed(now)  # also renews the word
        if now >= self._next_sample:
            self._next_sample = now + self._every
            self._sample(now, sight, bandwidth, seen)

    def report(self, clock: Callable[[float], float] = lambda t: t) -> dict[str, Any]:
        """Plain data for report.json; `clock` turns times here into seconds since the session began."""
        return {
            **self.state.report(),
            "policy": self.policy.name,
            "topology": asdict(self.topology) if self.topology is not None else {},
            "decisions": [
                {"t": round(clock(d.t), 3), "phase": d.phase, "from": d.before, "to": d.after, "reason": d.reason}
                for d in self.decisions
            ],
            "samples": [{**vars(sample), "t": round(clock(sample.t), 3)} for sample in self.samples],
        }

    def _sample(self, now: float, sight: Sight, bandwidth: float | None, seen: Observation) -> None:
        self.samples.append(
            Sample(
                t=now,
                cpu=round(sight.cpu, 4),
                memory_used=sight.memory_used,
                memory_leased=self.state.memory,
                bandwidth=None if bandwidth is None else round(bandwidth),
                leases={phase.value: held for phase, held in seen.leases.items()},
                queue={phase.value: count for phase, count in seen.queue.items()},
            )
        )
        if len(self.samples) > SAMPLES:
            self.samples = self.samples[::2]
            self._every *= 2


def _bounded(decisions: list[Decision]) -> list[Decision]:
    half = DECISIONS // 2
    return decisions if len(decisions) <= DECISIONS else decisions[:half] + decisions[-half:]
