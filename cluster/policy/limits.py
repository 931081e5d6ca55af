"""What policies see, decide and limit; and the two policies whose limits never change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from distprove.host.phases import Phase

YIELD = "yield"
"""In decisions: whether synthesis yields to the critical phase."""


@dataclass(frozen=True)
class Limits:
    """What may run at once on a node."""

    phases: Mapping[Phase, int] = field(default_factory=dict)
    """Threads that the leases of a phase may hold together; a phase that is not named has no limit of its own."""
    threads: int | None = None
    """Threads of the phases that share them (`distprove.host.phases.SHARING`) together; None: no limit."""
    lane: int | None = 1
    """How many may give back large memory at once; None: no limit."""
    yields: bool = False
    """Whether loops elsewhere yield while a critical phase (`distprove.host.phases.CRITICAL`) runs."""

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
