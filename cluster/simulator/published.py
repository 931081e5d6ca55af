"""The published machine: a prover that was measured and taken apart in public notes, and what the model makes of it.

Source: the notes of the prover cuzk, which makes Filecoin's 32 GiB PoRep proofs (Groth16, ten partitions of 130 million
constraints each), in the repository filecoin-project/curio: extern/cuzk/cuzk-project.md, phases 5 to 12 and section 14;
and in its history c2-optimization-proposal-9.md, -10.md and -11.md.

A partition's way there: at most so many are in synthesis at once, over all proofs (a witness on one thread, then sparse
products on a pool of all threads). One of the workers that share the GPU behind a lock takes it, prepares it on a
thread and sums in G2 on a pool; what it took is unmapped in the background.

Every coefficient is `Given` by the notes, `Assumed`, or `Fitted`, to the figures that say so and to `PARTS`. All other
figures are predicted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from cluster.policy import Auto, Fixed, Limits, off
from cluster.simulator.engine import Load, Outcome, Sharing, simulate
from cluster.simulator.hardware import Demand, Machine, Running, Work, pool_speedup, rates
from distprove.phases import Phase

GIB = 2**30
GB = 1e9


@dataclass(frozen=True)
class Given:
    """What the notes say. Seconds are of what runs alone; bytes."""

    cores: int = 96
    """AMD Threadripper PRO 7995WX: one socket, one NUMA node, two threads a core."""
    threads: int = 192
    cache: float = 12 * 32.0 * 2**20
    """Twelve domains of 32 MiB."""
    bandwidth: float = 333 * GB
    """Of the DDR5, in theory."""
    memory: int = (755 - 70) * GIB
    """Without what is always there: the proving key, the matrices, the process."""
    partitions: int = 10
    witness: float = 26.5
    """Each on one thread, ten at once."""
    preparation: float = 1.7
    """Splitting the scalars, on one thread."""
    kernels: float = 1.824
    """The GPU's, under the lock."""
    late: float = 0.733
    """Of those, what waits for the preparation: the additions (0.650) and the tails of the MSMs (0.083)."""
    buckets: float = 6e6
    """Bytes for each thread of the sum in G2."""
    synthesised: int = 16 * GIB
    """Of a partition: 12 GiB of products and 4 GiB of witness."""
    scratch: int = 37 * GIB
    """That proving a partition takes beside."""
    uploaded: float = 23.6 * GIB
    """To the GPU for a partition."""
    prepared: float = 27.0 * GIB
    """Moved to prepare a partition: 10 GiB of key read, 17 GiB of vectors written."""
    yielding: float = 0.994
    """Share of its time that a sparse product keeps while it yields: it loses 50 ms of some 8 s."""


@dataclass(frozen=True)
class Assumed:
    """What neither the notes nor the figures tell."""

    hyperthreads: float = 0.3
    rows: float = 1.2
    unmap: float = 20 * GB
    """So that two or three unmap at once if nothing bounds it, which the notes say."""
    noise: float = 0.03
    host: float = 0.1
    """Share of the GPU's time under the lock for which it needs a core."""
    spmv_bandwidth: float = 1.5 * GB
    """Of a thread of a sparse product."""
    spmv_stalls: float = 0.7
    preparation_stalls: float = 0.2
    sum_stalls: float = 0.3
    sum_cache: float = 1.0


@dataclass(frozen=True)
class Fitted:
    """What was fitted. Not constants of that machine: one form of contention stands for several that it has."""

    spmv: float = 70.7
    """Core-seconds of a partition's sparse products."""
    spmv_serial: float = 0.0417
    sum: float = 41.0
    """Core-seconds of a partition's sum in G2."""
    sum_serial: float = 0.0045
    sum_bandwidth: float = 1.03 * GB
    """Of a thread."""
    staging: float = 0.636
    """Seconds under the lock beside `Given.kernels`: memory for what is uploaded."""
    epilogue: float = 0.545
    """Seconds of a worker after the lock."""
    gpu_stalls: float = 0.962
    witness_bandwidth: float = 15.7 * GB
    """Of a thread; page faults and misses of translations count as traffic."""
    witness_stalls: float = 0.417


GIVEN, ASSUMED, FITTED = Given(), Assumed(), Fitted()


def machine(assumed: Assumed = ASSUMED) -> Machine:
    """The node, as the simulator takes it."""
    return Machine(
        "published",
        cores=GIVEN.cores,
        bandwidth=GIVEN.bandwidth,
        cache=GIVEN.cache,
        gpus=1,
        memory=GIVEN.memory,
        rows=assumed.rows,
        unmap=assumed.unmap,
        hyperthreads=assumed.hyperthreads,
    )


def load(assumed: Assumed = ASSUMED, fitted: Fitted = FITTED) -> Load:
    """Its load, as the simulator takes it: a proof alone, on one worker."""
    held = GIVEN.kernels + fitted.staging
    demands = {
        Work.SYNTHESIS: Demand(fitted.witness_bandwidth, fitted.witness_stalls),
        Work.SPMV: Demand(assumed.spmv_bandwidth, assumed.spmv_stalls, serial=fitted.spmv_serial),
        Work.CPU_MSM: Demand(fitted.sum_bandwidth, assumed.sum_stalls, assumed.sum_cache, serial=fitted.sum_serial),
        Work.VERIFICATION: Demand(0.1 * GB, stalls=0.05),
        Work.GPU: Demand(GIVEN.uploaded / held, fitted.gpu_stalls, host=assumed.host),
        Work.FREE: Demand(0.5 * GB, stalls=0.2),
        Work.PREPARATION: Demand(GIVEN.prepared / GIVEN.preparation, assumed.preparation_stalls),
    }
    return Load(
        jobs=1,
        partitions=GIVEN.partitions,
        parallel=GIVEN.partitions,
        proofs=3,
        synthesis=GIVEN.witness,
        spmv=fitted.spmv,
        gpu=held,
        cpu_msm=fitted.sum,
        verification=0.005,
        scratch=0,
        witness=GIVEN.synthesised,
        pool=GIVEN.threads,
        buckets=GIVEN.buckets,
        demands=demands,
        noise=assumed.noise,
        in_flight=1,
        sharing=Sharing(GIVEN.preparation, GIVEN.late, fitted.epilogue, GIVEN.scratch),
        whole_synthesis=True,
        closes=True,
        yielding={Work.SPMV: GIVEN.yielding},
    )


@dataclass(frozen=True)
class Setting:
    """How the notes ran it. The lane's width counts two kinds of frees, one of each when they are bounded."""

    proofs: int
    jobs: int
    workers: int = 2
    """That share the GPU."""
    synthesis: int = 10
    """Partitions in synthesis at once, over all proofs."""
    pool: int | None = None
    """Threads of the sum in G2; None: all."""
    lane: int | None = None
    yields: bool = False
    keeps: bool = True
    """Until phase 12 a worker kept its partition until the sum in G2 was done."""

    @property
    def policy(self) -> Fixed:
        pool = {} if self.pool is None else {Phase.CPU_MSM: self.pool}
        return Fixed("published", Limits({Phase.SYNTHESIS: self.synthesis, **pool}, None, self.lane, self.yields))

    def run(self, load: Load, machine: Machine) -> Outcome:
        """The model's."""
        assert load.sharing is not None, "the published load shares its GPU"
        sharing = replace(load.sharing, keeps=self.keeps)
        load = replace(load, proofs=self.proofs, jobs=self.jobs, in_flight=self.workers, sharing=sharing)
        return simulate(machine, load, self.policy)


ALONE = Setting(proofs=3, jobs=1, workers=1)
ALONE_ON_TWO = Setting(proofs=3, jobs=1)
CROWD = Setting(proofs=20, jobs=15)
ONE_FREE = replace(CROWD, lane=2)
SMALL_POOL = replace(ONE_FREE, pool=32)
YIELDING = replace(SMALL_POOL, yields=True)


@dataclass(frozen=True)
class Figure:
    """What the notes measured. Seconds."""

    name: str
    setting: Setting
    a_proof: float | None
    """Of the run for each proof."""
    proving: float | None
    """Summed over a proof's partitions, the time that a worker had each ("prove time")."""
    fitted: bool = False


def _later(jobs: int, synthesis: int, workers: int, a_proof: float, proving: float | None = None) -> Figure:
    """Of phase 12, as many proofs as jobs: a worker is free before its sum in G2."""
    setting = Setting(jobs, jobs, workers, synthesis, pool=32, lane=2, keeps=False)
    return Figure(f"later: {jobs} jobs, {synthesis} in synthesis, {workers} worker(s)", setting, a_proof, proving)


FIGURES = (
    # The notes give 32.1 s as throughput and as prove time; as synthesis takes a lone proof longer, it is the latter.
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
    *(_later(5, *row) for row in ((1, 1, 290.0, 33.2), (2, 1, 152.0, 33.7), (5, 1, 68.4, 34.0), (5, 2, 68.6, 58.2))),
    *(_later(5, *row) for row in ((7, 1, 53.3, 34.0), (7, 2, 51.2, 59.2), (10, 1, 45.4, 39.5), (10, 2, 42.5, 68.1))),
    _later(5, 12, 2, 42.5, 69.8),
    *(_later(20, synthesis, 2, seconds) for synthesis, seconds in ((10, 38.5), (12, 37.7), (14, 37.8), (16, 38.4))),
)

PARTS = {
    "a partition's sparse products alone": 3.2,
    "ten partitions' sparse products at once": 8.8,
    "sum in G2 on 192 threads": 0.4,
    "sum in G2 on 32 threads, crowded": 1.7,
}
"""Seconds of parts that the notes measured, which the model is fitted to as well."""

STAGES = {"proving": (4.9, 6.0, 7.5), "preparation": (1.7, None, 2.7), "synthesis": (35.0, None, 54.0)}
"""Seconds of a partition's stages: alone (on two workers), in the crowd on the mean, and at most, as far as noted."""
IDLE = {"gaps": 12, "seconds": 66.5, "longest": 11.0}
"""Between the proofs of the crowd, when no worker has anything."""
GAP = 1.0
"""Seconds from which a gap in the model counts as one."""
EXPECTED = {"frees one at a time": "2 to 5 %", "and 32 threads for G2": "3 to 5 %", "and yielding": "2 to 4 %"}
"""Of each remedy's gain, before it was measured (proposal 11)."""
SESSION = 60
"""Proofs of the session in which policies are compared."""


def spmv_seconds(partitions: int) -> float:
    """The model's, for so many partitions' sparse products at once and nothing else."""
    work, demands = load(), load().demands
    speedup = pool_speedup(work.pool, demands[Work.SPMV].serial or 0.0)
    running = Running({Work.SPMV: partitions * speedup}, {})
    return work.spmv / speedup / rates(machine(), demands, work.buckets, running)[Work.SPMV]


def policies() -> dict[str, float]:
    """Seconds a proof of a longer session of 15 jobs: without the notes' limits, under the best of them, and `auto`."""
    session = replace(load(), proofs=SESSION, jobs=CROWD.jobs, in_flight=CROWD.workers)
    limits = {"off": off(), "the notes' best": SMALL_POOL.policy, "auto": Auto(GIVEN.threads)}
    return {name: simulate(machine(), session, policy).seconds_a_proof for name, policy in limits.items()}


def published() -> dict[str, Any]:
    """All that the notes measured beside what the model gives, as plain data. Seconds; gains and growth as shares."""
    node, work = machine(), load()
    runs = {figure.name: figure.setting.run(work, node) for figure in FIGURES}
    by_setting = {figure.setting: runs[figure.name] for figure in FIGURES}
    alone, lone, crowd = (by_setting[setting] for setting in (ALONE, ALONE_ON_TWO, CROWD))
    small = by_setting[SMALL_POOL]
    gaps = [gap for gap in crowd.gaps if gap > GAP]
    parts = (
        spmv_seconds(1),
        spmv_seconds(GIVEN.partitions),
        alone.durations[Work.CPU_MSM],
        small.durations[Work.CPU_MSM],
    )
    return {
        "what": "a model of a node, not a measurement",
        "figures": [
            {
                "name": figure.name,
                "fitted": figure.fitted,
                "published": {"a_proof": figure.a_proof, "proving": figure.proving},
                "model": {
                    "a_proof": runs[figure.name].seconds_a_proof,
                    "proving": GIVEN.partitions * runs[figure.name].proving.mean,
                },
            }
            for figure in FIGURES
        ],
        "parts": {
            name: {"published": seconds, "model": found}
            for (name, seconds), found in zip(PARTS.items(), parts, strict=True)
        },
        "growth": {
            "published": 38.0 / 32.1 - 1.0,
            "model": crowd.seconds_a_proof / (GIVEN.partitions * alone.proving.mean) - 1.0,
        },
        "stages": {
            name: {
                "published": {"alone": before, "crowd": mean, "crowd_most": most},
                "model": {
                    "alone": getattr(lone, name).mean,
                    "crowd": getattr(crowd, name).mean,
                    "crowd_most": getattr(crowd, name).most,
                },
            }
            for name, (before, mean, most) in STAGES.items()
        },
        "idle": {"published": IDLE, "model": {"gaps": len(gaps), "seconds": sum(gaps), "longest": max(gaps)}},
        "remedies": _remedies(runs),
        "policies": policies(),
        "coefficients": {"given": asdict(GIVEN), "assumed": asdict(ASSUMED), "fitted": asdict(FITTED)},
    }


def _remedies(runs: dict[str, Outcome]) -> list[dict[str, Any]]:
    """What each remedy saves, each on top of those before it."""
    found = []
    steps = [figure for figure in FIGURES if figure.name in EXPECTED]
    before = next(figure for figure in FIGURES if figure.setting == CROWD)
    for step in steps:
        assert before.a_proof is not None
        assert step.a_proof is not None
        model = runs[step.name].seconds_a_proof / runs[before.name].seconds_a_proof
        found.append(
            {
                "name": step.name,
                "expected": EXPECTED[step.name],
                "published": 1.0 - step.a_proof / before.a_proof,
                "model": 1.0 - model,
            }
        )
        before = step
    return found
