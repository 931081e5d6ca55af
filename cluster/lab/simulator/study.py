"""How the policies do on many machines: each beside the best static setting that a sweep of that machine finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from cluster.lab.simulator.engine import Load, simulate
from cluster.lab.simulator.hardware import Machine
from cluster.lab.simulator.machines import random_case
from cluster.policy import Auto, Fixed, Limits, off
from distprove.host.phases import Phase

LEVELS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Threads of synthesis that the sweep tries, as far as the machine and the load have so many."""


@dataclass(frozen=True)
class Setting:
    """A static setting."""

    synthesis: int
    pools: int | None
    """Threads that group sums may have together, and sparse products; None: as many as they ask for."""
    yields: bool

    @property
    def policy(self) -> Fixed:
        pools = {} if self.pools is None else {Phase.CPU_MSM: self.pools, Phase.SPMV: self.pools}
        phases = {Phase.SYNTHESIS: self.synthesis, **pools}
        return Fixed("static", Limits(phases, None, 1, self.yields))


@dataclass(frozen=True)
class Best:
    """What a sweep over static settings found."""

    setting: Setting
    seconds: float
    tried: int


def best_static(machine: Machine, load: Load) -> Best:
    """The fastest static setting: all levels of synthesis with free pools and with half the cores for each; then what
    the best of these gains from other shares of the cores for them, and from yielding."""
    times: dict[Setting, float] = {}

    def best_of(settings: Iterator[Setting]) -> Setting:
        for setting in settings:
            if setting not in times:
                times[setting] = simulate(machine, load, setting.policy).seconds
        return min(times, key=times.__getitem__)

    most = min(machine.cores, load.jobs * load.parallel)
    levels = sorted({level for level in LEVELS if level < most} | {most})
    half = machine.cores // 2
    best = best_of(Setting(level, pools, False) for level in levels for pools in (None, half))
    best = best_of(Setting(best.synthesis, pools, False) for pools in (machine.cores, machine.cores // 4))
    if load.cpu_msm:
        best = best_of(iter([Setting(best.synthesis, best.pools, True)]))
    return Best(best, times[best], len(times))


NEAR = 1.03
"""How much longer than under the best static setting a session may take."""
SAME = 1.005
"""Ratio of times up to which they count as the same: by so much they differ when work is only ordered differently."""
SHORT, LONG = 2, 10
"""How many times longer than a sweep's run (some 600 partitions) the sessions are that are compared."""


@dataclass(frozen=True)
class Session:
    """Seconds that one session takes under each policy. What `auto` spends on finding out is included."""

    best: float
    """Under the best static setting that the sweep found."""
    off: float
    auto: float
    decisions: int
    """Of `auto`."""

    @property
    def auto_to_best(self) -> float:
        return self.auto / self.best

    @property
    def auto_to_off(self) -> float:
        return self.auto / self.off


@dataclass(frozen=True)
class Case:
    """One machine with its load, and its sessions."""

    seed: int
    cores: int
    gpus: int
    jobs: int
    parallel: int
    setting: Setting
    """The best static one."""
    short: Session
    long: Session | None
    """None: not run."""
    over_budget: bool
    """Whether more memory was ever leased than the budget, under any policy."""


def study(seed: int, *, long: bool = False) -> Case:
    """The random machine of `seed`: a sweep for its best static setting, then the policies on a session; `long`: and on
    one five times as long."""
    machine, load = random_case(seed)
    best = best_static(machine, load)
    peaks: list[int] = []

    def session(length: int) -> Session:
        policies = (best.setting.policy, off(), Auto(machine.cores))
        runs = [simulate(machine, replace(load, proofs=length * load.proofs), policy) for policy in policies]
        peaks.extend(run.peak_memory for run in runs)
        seconds = [run.seconds for run in runs]
        return Session(seconds[0], seconds[1], seconds[2], len(runs[2].decisions))

    found = session(SHORT), session(LONG) if long else None
    over = any(peak > machine.memory for peak in peaks)
    return Case(seed, machine.cores, machine.gpus, load.jobs, load.parallel, best.setting, *found, over)


def summary(cases: Sequence[Case]) -> dict[str, Any]:
    """The cases in a few figures, as plain data: ratios of a session's seconds."""
    return {
        "what": "a model of a node, not a measurement",
        "cases": len(cases),
        "short": _summary([case.short for case in cases]),
        "long": _summary([case.long for case in cases if case.long is not None]),
        "over_budget": sum(case.over_budget for case in cases),
    }


def _summary(sessions: Sequence[Session]) -> dict[str, Any] | None:
    if not sessions:
        return None
    return {
        "auto_to_best": _spread([session.auto_to_best for session in sessions]),
        "auto_to_off": _spread([session.auto_to_off for session in sessions]),
        "off_to_best": _spread([session.off / session.best for session in sessions]),
        "within_3_percent_of_best": sum(session.auto_to_best <= NEAR for session in sessions),
        "not_worse_than_off": sum(session.auto_to_off <= SAME for session in sessions),
    }


def _spread(ratios: list[float]) -> dict[str, float]:
    ordered = sorted(ratios)
    return {
        "median": median(ordered),
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "worst": ordered[-1],
        "least": ordered[0],
    }
