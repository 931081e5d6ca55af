"""The policy `auto`: looks for the limits with the most throughput, and spends little on looking."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import fmean

from cluster.policy.flow import Flow, Rate
from cluster.policy.limits import YIELD, Decision, Limits, Observation, Policy, static
from cluster.policy.moves import BEGINNING, HALVED, Move, Usage, moves
from distprove.host.phases import Phase

BEGIN = 12
"""Proofs at the beginning of a session that are not counted: nothing has its usual pace yet."""
SETTLE = 6
"""Proofs after a change that are not counted: they were on their way."""
WINDOW = 36
"""Proofs from which a throughput is told that trials are compared with, at least."""
NOISY = 0.08
"""Its standard error, as a share, above which it is told from more proofs, up to `LONGEST`."""
SHORT, LONG, LONGEST = 24, 72, 144
"""Proofs after which a trial may be kept or undone: clear cases, usual ones, and all."""
LEAST_GAIN = 0.007
"""Gain for which a change is kept, at least."""
PROBES = 24
"""Probes that are averaged."""
ALLOWANCE = 0.15
"""Proofs that trials may have cost after n proofs: so many times the square root of n."""
MOST = 4.0
"""Proofs that all trials of the near future may cost, at most."""
LEAST = 1.0
"""Proofs that a trial must be allowed to cost, to begin."""
DRAINING = 0.75
"""Of as many partitions prepared as proven in a trial: with fewer it lives on what was prepared before it."""
PATIENCE = 150
"""Proofs before a failed move is tried again; thrice as many after each further failure, and after a clear one."""
CHECK = 400
"""Proofs before limits are first compared with those of the beginning; twice as many each further time."""


@dataclass
class _Trial:
    """A move that is being tried."""

    move: Move
    before: Limits
    base: Rate
    """Throughput before it."""
    began: float
    proofs: int = 0
    """That came since it began."""

    def lost(self, now: float) -> float:
        """Proofs that it cost up to now, compared with the throughput before it; negative if it gained."""
        return self.base.value * (now - self.began) - self.proofs


@dataclass(frozen=True)
class _Failed:
    """When a move may be tried again (proofs of the session), and how long it had to wait for that."""

    until: int = 0
    wait: int = PATIENCE // 3


@dataclass(frozen=True)
class _Undone:
    """A trial that was undone, for as long as it is not known whether throughput is what it was before it."""

    trial: _Trial
    seconds: float
    lost: float
    failed: _Failed | None
    """What was known of the move before; None: what the trial told stands, whatever throughput is now."""


@dataclass(frozen=True)
class _Kept:
    move: Move
    before: Limits
    base: Rate


class Auto(Policy):
    """Tries other limits, one move at a time, and keeps those under which more proofs came per second.

    It begins with the limits of `static`. Where the memory bus has room to spare nothing is limited further. A trial is
    compared with the throughput just before it; it ends as soon as it is clearly worse, and lasts longer the less clear
    it is. It is kept if it gained more than noise explains, and did not live on partitions prepared before it.

    Trials have an allowance, in proofs that they may cost: it grows with the square root of the proofs made, as the
    regret of a search can, and by half of what kept moves have gained. So a session in which there is nothing to gain
    loses next to nothing, and one in which there is much to gain may look further.

    What was kept is watched: a gain that does not last is given back. So is a verdict: if throughput is lower after a
    trial than before it, the trial was compared with a good moment and may be tried again. Now and then limits are
    compared with those of the beginning. When the system is short of memory, synthesis is halved at once, whatever else
    goes on.
    """

    name = "auto"

    def __init__(self, threads: int, limits: Limits | None = None) -> None:
        """`threads`: of the node; `limits` to begin with, None: those of `static`."""
        self._threads = threads
        self.limits = self._start = limits or static(threads, {}).limits
        self._proofs = 0
        self._skip = BEGIN
        self._flow = Flow(0.0)
        self._usage = Usage()
        self._probes: deque[float] = deque(maxlen=PROBES)
        self._trial: _Trial | None = None
        self._undone: _Undone | None = None
        self._kept: list[_Kept] = []
        self._failed: dict[str, _Failed] = {}
        self._cost = 0.0
        """Proofs that failed trials have cost, less what kept moves have added to the allowance."""
        self._gain = 0.0
        """Of all kept moves together, as a share of the throughput without them."""
        self._check, self._check_after = CHECK, CHECK
        """Proofs after which limits are next compared with those of the beginning, and proofs until the time after."""

    @property
    def wants_bandwidth(self) -> bool:
        return self._trial is None and self._allowance >= LEAST / 2

    @property
    def _allowance(self) -> float:
        """Proofs that trials may cost now."""
        return min(MOST, ALLOWANCE * sqrt(self._proofs) - self._cost)

    def observe(self, seen: Observation) -> list[Decision]:
        self._proofs += len(seen.proofs)
        if seen.bandwidth_share is not None:
            self._probes.append(seen.bandwidth_share)
        if self._trial is not None:
            self._trial.proofs += len(seen.proofs)
        if seen.memory_pressure:
            return self._relieve(seen)
        settled = min(self._skip, len(seen.proofs))
        if settled and settled == self._skip:
            self._flow, self._usage = Flow(seen.proofs[settled - 1]), Usage()
        self._skip -= settled
        if self._skip:
            return self._give_up(seen.t)
        self._flow.add(seen.proofs[settled:])
        self._usage.add(seen)
        return self._watch(seen.t) if self._trial is None else self._judge(seen.t, self._trial)

    # -- between trials ---------------------------------------------------------------------------------------------

    def _watch(self, t: float) -> list[Decision]:
        if len(self._flow) < WINDOW:
            return []
        rate = self._flow.rate()
        self._review(rate)
        if lapsed := self._lapsed(t, rate):
            return lapsed
        move = None
        if rate.error <= NOISY or len(self._flow) >= LONGEST:
            move = self._next()
        if move is not None:
            self._trial = _Trial(move, self.limits, rate, t)
            return self._change(t, move.limits, f"to see whether throughput grows: {move.name}")
        if len(self._flow) >= LONGEST:
            self._cost -= 0.5 * self._gain * len(self._flow)
            self._flow, self._usage = Flow(t), Usage()
        return []

    def _review(self, rate: Rate) -> None:
        """Whether the last trial that was undone was compared with a good moment."""
        if self._undone is None:
            return
        undone, trial, self._undone = self._undone, self._undone.trial, None
        really = (trial.base.value + rate.value) / 2 * undone.seconds - trial.proofs
        self._cost -= max(0.0, undone.lost - max(0.0, really))
        hasty = trial.proofs >= SHORT // 2 and trial.proofs / undone.seconds > 1.01 * rate.value
        if undone.failed is not None and hasty:
            self._failed[trial.move.name] = undone.failed

    def _lapsed(self, t: float, rate: Rate) -> list[Decision]:
        """What was kept last is given back if throughput is again what it was before."""
        if not self._kept:
            return []
        kept = self._kept[-1]
        settled = len(self._flow) >= LONG and rate.value < (1.0 + LEAST_GAIN) * kept.base.value
        if not settled and rate.value >= kept.base.value * (1.0 - 2.0 * hypot(rate.error, kept.base.error)):
            return []
        self._kept.pop()
        self._fail(kept.move.name)
        self._gain = 0.0
        return self._change(t, kept.before, f"back: the gain did not last: {kept.move.name}")

    def _next(self) -> Move | None:
        """What to try now, if anything."""
        if self._allowance < LEAST:
            return None
        if self.limits != self._start and self._proofs >= self._check:
            self._check_after *= 2
            self._check = self._proofs + self._check_after
            return Move(BEGINNING, self._start)
        bandwidth = fmean(self._probes) if self._probes else 0.0
        ready = [
            move
            for move in moves(self._threads, self.limits, self._usage, bandwidth, HALVED in self._failed)
            if move.limits != self.limits and self._failed_before(move).until <= self._proofs
        ]
        return min(ready, key=lambda move: self._failed_before(move).wait, default=None)

    def _failed_before(self, move: Move) -> _Failed:
        return self._failed.get(move.name, _Failed())

    # -- trials -----------------------------------------------------------------------------------------------------

    def _judge(self, t: float, trial: _Trial) -> list[Decision]:
        """Keep the trial, undo it, or wait for more."""
        got, expected = self._flow.against(trial.base.value, t)
        if expected < SETTLE:
            return []
        gain, noise = got / expected - 1.0, trial.base.noise(expected)
        worse = gain < -(1.5 / expected + 1.5 * noise)
        dear = trial.lost(t) > self._allowance and gain < -(1.5 / expected + 0.5 * noise)
        if worse or dear:
            return self._undo(t, trial, gain, clearly=worse)
        if expected < SHORT or got < SHORT // 2:
            return []
        if gain < -1.5 / expected:
            return self._undo(t, trial, gain)
        if self._drains:
            return self._undo(t, trial, gain) if expected >= LONGEST else []
        error = hypot(self._flow.rate().error, trial.base.error)
        if gain > max(0.03, 3.0 * max(error, 1.0 / expected)):
            return self._keep(t, trial, gain)
        if expected < LONG:
            return []
        if gain <= LEAST_GAIN / 2:
            return self._undo(t, trial, gain)
        if gain > max(LEAST_GAIN, error):
            return self._keep(t, trial, gain)
        if expected < LONGEST:
            return []
        return self._keep(t, trial, gain) if gain > max(LEAST_GAIN, error / 2) else self._undo(t, trial, gain)

    @property
    def _drains(self) -> bool:
        """Whether the trial lives on partitions that were prepared before it."""
        prepared = self._usage.prepared
        return prepared is not None and prepared < DRAINING * len(self._flow)

    def _give_up(self, t: float) -> list[Decision]:
        """End a trial under which so few proofs come that it is not even settled."""
        if self._trial is None:
            return []
        expected = self._trial.base.value * (t - self._trial.began)
        if expected < SETTLE + 2 or self._trial.proofs >= expected / 2:
            return []
        return self._undo(t, self._trial, self._trial.proofs / expected - 1.0, clearly=True)

    def _keep(self, t: float, trial: _Trial, gain: float) -> list[Decision]:
        self._trial = None
        self._cost += min(0.0, trial.lost(t))
        if trial.move.name == BEGINNING:
            self._kept, self._gain = [], 0.0
        else:
            self._kept.append(_Kept(trial.move, trial.before, trial.base))
            self._gain = (1.0 + self._gain) * (1.0 + gain) - 1.0
        reason = f"kept: throughput grew by {gain:.1%}: {trial.move.name}"
        return [
            Decision(t, what, after, after, reason) for what, _, after in _differences(trial.before, trial.move.limits)
        ]

    def _undo(self, t: float, trial: _Trial, gain: float, *, clearly: bool = False) -> list[Decision]:
        self._trial = None
        lost = max(0.0, trial.lost(t))
        self._cost += lost
        self._undone = _Undone(trial, t - trial.began, lost, None if self._drains else self._failed_before(trial.move))
        self._fail(trial.move.name, clearly=clearly and gain < -0.1)
        return self._change(t, trial.before, f"back: throughput changed by {gain:+.1%}: {trial.move.name}")

    def _fail(self, name: str, *, clearly: bool = False) -> None:
        wait = self._failed.get(name, _Failed()).wait * (9 if clearly else 3)
        self._failed[name] = _Failed(self._proofs + wait, wait)

    # -- limits -----------------------------------------------------------------------------------------------------

    def _relieve(self, seen: Observation) -> list[Decision]:
        """Halve synthesis, at most once in a while: what it takes is given back only as witnesses are proven."""
        self._trial = self._undone = None
        if self._skip:
            self._skip = max(0, self._skip - len(seen.proofs))
            return []
        self._usage.add(seen)
        held = max(self._usage.most(Phase.SYNTHESIS), 1)
        limit = min(held, self.limits.phases.get(Phase.SYNTHESIS) or held)
        if limit == 1:
            return []
        self._kept = []
        return self._change(seen.t, self.limits.with_phase(Phase.SYNTHESIS, limit // 2), "the node is short of memory")

    def _change(self, t: float, limits: Limits, reason: str) -> list[Decision]:
        changed = [Decision(t, what, old, new, reason) for what, old, new in _differences(self.limits, limits)]
        self.limits, self._skip = limits, SETTLE
        return changed


def _differences(before: Limits, after: Limits) -> list[tuple[str, int | None, int | None]]:
    """What two limits differ in: phase or `YIELD`, and its value in either."""
    found: list[tuple[str, int | None, int | None]] = [
        (phase.value, before.phases.get(phase), after.phases.get(phase))
        for phase in Phase
        if before.phases.get(phase) != after.phases.get(phase)
    ]
    if before.yields != after.yields:
        found.append((YIELD, int(before.yields), int(after.yields)))
    return found
