"""Which other limits could serve a node better, by how it used those it has: the likeliest gain first.

The rules only order and leave out; whether a move gains anything is measured (`cluster.policy.auto`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from cluster.policy.limits import YIELD, Limits, Observation
from distprove.host.phases import CRITICAL, Phase

POOLS = (Phase.SPMV, Phase.CPU_MSM)
"""Phases whose leases are whole pools: limited together."""
UPSTREAM = (Phase.SYNTHESIS, Phase.SPMV)
"""Phases that a partition goes through before a prover takes it."""
BEGINNING = "the limits of the beginning"
HALVED = "pools of half the threads"

# Where a move is worth a trial, found on simulated machines (other ones than docs/results/simulate.json has): trials
# beyond these bounds seldom gained and were dear.
FITS = 1.1
"""Threads that pools held on average, as a share of the node's, up to which their work may fit half of them."""
MOST_HELD = 3.0
"""The same for one pool at a time: where more of them run at once, one after the other is slower."""
OFTEN_HELD, SELDOM_HELD = 0.5, 0.3
"""The same below which one pool at a time would change little; after halving failed, less is enough to try it, and
below that pools are quartered: half may have gained too little to show."""
SPARE, CROWDED = 0.95, 0.75
"""Share of the idle node's memory bandwidth that a probe finds, above which the bus has room to spare, so that limits
are only raised, and pools that run at once often are not put in turn."""
FULL = 0.8
"""Threads that limited pools hold on average, as a share of their limit, above which they need it."""
BURSTS = 0.8
"""Share of the most synthesis seen at once, up to which less of it evens out bursts; above it, it is needed."""
HUNGRY = 0.3
"""Share of the time that provers starve, above which neither less synthesis at once nor slowing it down helps."""


@dataclass(frozen=True)
class Move:
    """Other limits, under a name by which it is remembered whether they failed."""

    name: str
    limits: Limits


class Usage:
    """Averages over looks at a node."""

    def __init__(self) -> None:
        self._looks = 0
        self._starved = 0
        self._held: dict[Phase, int] = {}
        self._most: dict[Phase, int] = {}
        self._waiting: dict[Phase, int] = {}
        self._ended: dict[Phase, int] = {}

    def add(self, seen: Observation) -> None:
        self._looks += 1
        self._starved += seen.starved
        for phase, held in seen.leases.items():
            self._held[phase] = self._held.get(phase, 0) + held
            self._most[phase] = max(self._most.get(phase, 0), held)
        for phase, count in seen.queue.items():
            self._waiting[phase] = self._waiting.get(phase, 0) + count
        for phase, seconds in seen.durations.items():
            self._ended[phase] = self._ended.get(phase, 0) + len(seconds)

    def mean(self, phase: Phase) -> float:
        """Threads leased."""
        return self._held.get(phase, 0) / max(1, self._looks)

    def most(self, phase: Phase) -> int:
        """Threads leased at once."""
        return self._most.get(phase, 0)

    @property
    def starved(self) -> float:
        """Share of the looks at which a prover had nothing to do."""
        return self._starved / max(1, self._looks)

    @property
    def prepared(self) -> int | None:
        """Partitions that went through the slowest phase before the provers; None: none leases anything."""
        return min((self._ended[phase] for phase in UPSTREAM if self._ended.get(phase)), default=None)


def moves(threads: int, limits: Limits, usage: Usage, bandwidth: float, pools_failed: bool) -> Iterator[Move]:
    """For a node of so many threads with these limits. `bandwidth`: what a probe found, as a share of the idle node's;
    `pools_failed`: whether halving the pools was tried in vain."""
    pools = [phase for phase in POOLS if usage.most(phase) > 1]
    used = max((usage.mean(phase) for phase in pools), default=0.0)
    now = min((limits.phases[phase] for phase in pools if phase in limits.phases), default=None)

    def pooled(count: int) -> Limits:
        found = limits
        for phase in pools:
            found = found.with_phase(phase, count)
        return found

    crowded = bandwidth <= SPARE
    if crowded and pools and now is None:
        # Half the threads for each, where their work fits that; all of them, one pool at a time, where it does not.
        if used <= FITS * threads:
            yield Move(HALVED, pooled(max(1, threads // 2)))
        if pools_failed and used <= SELDOM_HELD * threads:
            yield Move("pools of a quarter of the threads", pooled(max(1, threads // 4)))
        often = OFTEN_HELD * threads < used <= MOST_HELD * threads and bandwidth <= CROWDED
        instead = pools_failed and SELDOM_HELD * threads < used <= FITS * threads
        if often or instead:
            yield Move("one pool at a time", pooled(threads))
    elif crowded and now is not None and now > 1 and used <= FULL * now:
        yield Move(f"pools of {now // 2}", pooled(now // 2))

    held, most = limits.phases.get(Phase.SYNTHESIS), usage.most(Phase.SYNTHESIS)
    if crowded and most > 1 and usage.starved <= HUNGRY:
        if held is None:
            # What it used on average, with some room. Where that is about all that it ever used, it needs that, unless
            # it has all there is: then two thirds.
            first = max(1, ceil(1.25 * usage.mean(Phase.SYNTHESIS)))
            if first > BURSTS * most and most >= threads:
                first = int(0.7 * most)
            if first <= BURSTS * most:
                yield Move("less synthesis at once", limits.with_phase(Phase.SYNTHESIS, first))
        elif held > 1:
            yield Move(f"synthesis of {held * 2 // 3}", limits.with_phase(Phase.SYNTHESIS, held * 2 // 3))
    if held is not None and most >= held:
        yield Move("more synthesis at once", limits.with_phase(Phase.SYNTHESIS, held * 3 // 2 + 1))
    if now is not None and now * 2 <= threads:
        yield Move(f"pools of {now * 2}", pooled(now * 2))
    critical = any(usage.most(phase) for phase in CRITICAL)
    if crowded and critical and not limits.yields and usage.starved <= HUNGRY:
        yield Move(YIELD, replace(limits, yields=True))
