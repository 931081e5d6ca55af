"""What the notes of the published machine measured, beside what the model gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from cluster.lab.simulator.engine import Outcome, simulate
from cluster.lab.simulator.hardware import Running, Work, pool_speedup, rates
from cluster.lab.simulator.published import ASSUMED, FITTED, GIVEN, Setting, Version, load, machine
from cluster.policy import Auto, off

ALONE = Setting(proofs=3, jobs=1, workers=1)
ALONE_ON_TWO = Setting(proofs=3, jobs=1)
CROWD = Setting(proofs=20, jobs=15)
ONE_FREE = replace(CROWD, lane=2)
SMALL_POOL = replace(ONE_FREE, pool=32)
YIELDING = replace(SMALL_POOL, yields=True)


@dataclass(frozen=True)
class Figure:
    """What was measured under a setting. Seconds."""

    name: str
    setting: Setting
    a_proof: float | None
    """Of the run for each proof."""
    proving: float | None = None
    """Summed over a proof's partitions, the time that a worker had each ("prove time")."""
    fitted: bool = False


def _earlier(jobs: int, synthesis: int, a_proof: float) -> Figure:
    setting = Setting(5, jobs, synthesis=synthesis, version=Version.PHASE_8)
    return Figure(f"earlier: {jobs} jobs, {synthesis} in synthesis", setting, a_proof)


def _later(jobs: int, synthesis: int, workers: int, a_proof: float, proving: float | None = None) -> Figure:
    setting = Setting(jobs, jobs, workers, synthesis, pool=32, lane=2, version=Version.PHASE_12)
    return Figure(f"later: {jobs} jobs, {synthesis} in synthesis, {workers} worker(s)", setting, a_proof, proving)


FIGURES = (
    # The notes give 32.1 s as throughput and as prove time: the latter, as a lone proof's synthesis takes longer. How
    # many workers had 4.9 s a partition "in isolation" they do not say: two, as one has 3.2 s.
    Figure("alone, 1 worker", ALONE, None, 32.1, fitted=True),
    Figure("alone, 2 workers", ALONE_ON_TWO, None, 49.0, fitted=True),
    Figure("20 proofs, 15 jobs", CROWD, 38.0, 60.0, fitted=True),
    Figure("frees one at a time", ONE_FREE, 37.9, 60.4),
    Figure("and 32 threads for G2", SMALL_POOL, 36.7, 57.4, fitted=True),
    Figure("and yielding", YIELDING, 36.8, 60.3),
    Figure("and 3 workers", replace(YIELDING, workers=3), 37.2, 83.0),
    Figure("and 4 workers", replace(YIELDING, workers=4), 37.4, 104.9),
    Figure("5 proofs, 5 jobs", Setting(5, 5), 41.4, 50.3),
    Figure("10 proofs, 10 jobs", Setting(10, 10), 38.7, 56.3),
    Figure("15 proofs, 15 jobs", Setting(15, 15), 38.2, 54.3),
    Figure("1 worker: 15 proofs, 10 jobs", Setting(15, 10, workers=1), 42.9, 36.7),
    Figure("1 worker: 15 proofs, 15 jobs", Setting(15, 15, workers=1), 41.3, 36.1),
    Figure("1 worker: 20 proofs, 15 jobs", Setting(20, 15, workers=1), 41.6, 36.9),
    Figure("earlier: a lone proof", Setting(1, 1, synthesis=20, version=Version.PHASE_8), 69.3, 65.7),
    _earlier(2, 20, 49.5),
    _earlier(3, 10, 43.5),
    _earlier(3, 12, 43.5),
    _earlier(3, 15, 44.8),
    _earlier(3, 18, 43.8),
    _earlier(3, 20, 44.9),
    _earlier(3, 30, 60.4),
    _later(5, 1, 1, 290.0, 33.2),
    _later(5, 2, 1, 152.0, 33.7),
    _later(5, 5, 1, 68.4, 34.0),
    _later(5, 5, 2, 68.6, 58.2),
    _later(5, 7, 1, 53.3, 34.0),
    _later(5, 7, 2, 51.2, 59.2),
    _later(5, 10, 1, 45.4, 39.5),
    _later(5, 10, 2, 42.5, 68.1),
    _later(5, 12, 2, 42.5, 69.8),
    _later(20, 10, 2, 38.5),
    _later(20, 12, 2, 37.7),
    _later(20, 14, 2, 37.8),
    _later(20, 16, 2, 38.4),
)

A_PROOF = {figure.setting: figure.a_proof for figure in FIGURES if figure.a_proof is not None}

PARTS = {"products of 1": 3.2, "products of 10": 8.8, "G2 on 192 threads": 0.4, "G2 on 32 threads, crowded": 1.7}
"""Seconds of parts of a partition, all of them fitted: sparse products of so many at once, and the sum in G2."""
STAGES = {"proving": (4.9, 6.0, 7.5), "preparation": (1.7, None, 2.7), "synthesis": (35.0, None, 54.0)}
"""Seconds of a partition's stages: alone (on two workers), in the crowd on the mean, and at most, as far as noted. The
preparation's most was fitted, and proving."""
IDLE = {"gaps": 12.0, "seconds": 66.5, "longest": 11.0}
"""When no worker had anything, between the proofs of the crowd. The sum was fitted."""
GAP = 1.0
"""Seconds from which a gap in the model counts as one."""
REMEDIES = (
    ("frees one at a time", CROWD, ONE_FREE, "2 to 5 %"),
    ("32 threads for G2", ONE_FREE, SMALL_POOL, "3 to 5 %"),
    ("yielding", SMALL_POOL, YIELDING, "2 to 4 %"),
)
"""Each on top of those before it, and what it was expected to save before that was measured (proposal 11)."""
SESSION = 60
"""Proofs of the session in which policies are compared."""


def compare() -> dict[str, Any]:
    """All that the notes measured beside what the model gives, as plain data. Seconds; gains and growth as shares."""
    runs = {figure.setting: figure.setting.run() for figure in FIGURES}
    return {
        "what": "a model of a node, not a measurement",
        "figures": [_figure(figure, runs[figure.setting]) for figure in FIGURES],
        "predicted": _predicted(runs),
        "growth": _growth(runs),
        "remedies": _remedies(runs),
        "parts": _parts(runs),
        "stages": _stages(runs),
        "idle": _idle(runs[CROWD]),
        "policies": policies(),
        "coefficients": {"given": asdict(GIVEN), "assumed": asdict(ASSUMED), "fitted": asdict(FITTED)},
    }


def policies() -> dict[str, float]:
    """Seconds a proof of a longer session of 15 jobs: without the notes' limits, under the best of them, and `auto`."""
    session = replace(load(), proofs=SESSION, jobs=CROWD.jobs, in_flight=CROWD.workers)
    limits = {"off": off(), "the notes' best": SMALL_POOL.policy, "auto": Auto(GIVEN.threads)}
    return {name: simulate(machine(), session, policy).seconds_a_proof for name, policy in limits.items()}


def _figure(figure: Figure, run: Outcome) -> dict[str, Any]:
    return {
        "name": figure.name,
        "fitted": figure.fitted,
        "published": {"a_proof": figure.a_proof, "proving": figure.proving},
        "model": {"a_proof": run.seconds_a_proof, "proving": _prove_time(run)},
    }


def _predicted(runs: Mapping[Setting, Outcome]) -> dict[str, float]:
    """By how much the throughputs that were not fitted are missed, as shares."""
    fitted = {figure.setting for figure in FIGURES if figure.fitted}
    misses = [
        abs(runs[setting].seconds_a_proof / seconds - 1.0)
        for setting, seconds in A_PROOF.items()
        if setting not in fitted
    ]
    return {"throughputs": len(misses), "median_miss": median(misses), "worst_miss": max(misses)}


def _prove_time(run: Outcome) -> float:
    return GIVEN.partitions * run.proving.mean


def _growth(runs: Mapping[Setting, Outcome]) -> dict[str, float]:
    """From the prove time alone to what a proof takes in the crowd."""
    return {
        "published": A_PROOF[CROWD] / 32.1 - 1.0,
        "model": runs[CROWD].seconds_a_proof / _prove_time(runs[ALONE]) - 1.0,
    }


def _remedies(runs: Mapping[Setting, Outcome]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "expected": expected,
            "published": 1.0 - A_PROOF[after] / A_PROOF[before],
            "model": 1.0 - runs[after].seconds_a_proof / runs[before].seconds_a_proof,
        }
        for name, before, after, expected in REMEDIES
    ]


def _parts(runs: Mapping[Setting, Outcome]) -> dict[str, dict[str, float]]:
    found = (
        _products(1),
        _products(GIVEN.partitions),
        runs[ALONE].durations[Work.CPU_MSM],
        runs[SMALL_POOL].durations[Work.CPU_MSM],
    )
    return {
        name: {"published": seconds, "model": model}
        for (name, seconds), model in zip(PARTS.items(), found, strict=True)
    }


def _products(partitions: int) -> float:
    """Seconds of so many partitions' sparse products at once, and nothing else."""
    work = load()
    speedup = pool_speedup(work.pool, FITTED.spmv_serial)
    running = Running({Work.SPMV: partitions * speedup}, {})
    return work.spmv / speedup / rates(machine(), work.demands, work.buckets, running)[Work.SPMV]


def _stages(runs: Mapping[Setting, Outcome]) -> dict[str, Any]:
    alone, crowd = runs[ALONE_ON_TWO], runs[CROWD]
    found = {
        "proving": (alone.proving, crowd.proving),
        "preparation": (alone.preparation, crowd.preparation),
        "synthesis": (alone.synthesis, crowd.synthesis),
    }
    return {
        name: {
            "published": dict(zip(("alone", "crowd", "crowd_most"), STAGES[name], strict=True)),
            "model": {"alone": before.mean, "crowd": now.mean, "crowd_most": now.most},
        }
        for name, (before, now) in found.items()
    }


def _idle(crowd: Outcome) -> dict[str, dict[str, float]]:
    gaps = [gap for gap in crowd.gaps if gap > GAP]
    return {"published": IDLE, "model": {"gaps": len(gaps), "seconds": sum(gaps), "longest": max(gaps, default=0.0)}}
