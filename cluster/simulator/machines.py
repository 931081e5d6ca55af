"""The machines and loads of the simulator: a published one, and any number of random ones."""

from __future__ import annotations

import random
from dataclasses import replace

from cluster.simulator.engine import Load
from cluster.simulator.hardware import Demand, Machine, Work

GB = 10**9

PUBLISHED = Machine(
    "published",
    cores=48,
    bandwidth=367.0 * GB,
    cache=97.8e6,
    gpus=1,
    memory=400 * GB,
    rows=0.437,
    shootdown=0.0272,
    unmap=7.16 * GB,
)
"""Stands for the machine of the published figures (one RTX 5070 Ti, 10 partitions of 130 M constraints). They do not
say what its host is: these numbers, and those of `PUBLISHED_LOAD`, are fitted so that the model gives the figures."""

PUBLISHED_DEMANDS = {
    Work.SYNTHESIS: Demand(0.282 * GB, stalls=0.768, cache=0.007),
    Work.SPMV: Demand(2.69 * GB, stalls=0.746, cache=0.007),
    Work.CPU_MSM: Demand(2.52 * GB, stalls=0.514, cache=1.69),
    Work.VERIFICATION: Demand(0.1 * GB, stalls=0.05),
    Work.GPU: Demand(11.5 * GB, stalls=0.419, host=0.436),
    Work.FREE: Demand(0.5 * GB, stalls=0.2),
}

PUBLISHED_JOBS = 20
"""Proofs under way at once on the crowded machine."""

PUBLISHED_LOAD = Load(
    jobs=1,
    partitions=10,
    parallel=1,
    proofs=3,
    synthesis=1.1,
    spmv=18.4,
    gpu=2.46,
    cpu_msm=26.8,
    verification=0.01,
    scratch=int(23.2 * GB),
    witness=4 * GB,
    pool=48,
    buckets=7.24e6,
    demands=PUBLISHED_DEMANDS,
    in_flight=1,
)


def random_case(seed: int, partitions: int = 600) -> tuple[Machine, Load]:
    """A machine of 8 to 64 cores and 1 to 4 GPUs, and a load of about so many partitions that may or may not suit it.

    The host's work ranges from a fifth of what its cores can do while the GPUs compute to a third more than that, and
    from what the memory bus moves easily to several times too much.
    """
    draw = random.Random(seed)

    def between(low: float, high: float) -> float:
        """Evenly on a logarithmic scale."""
        return float(low * (high / low) ** draw.random())

    cores, gpus = draw.choice([8, 12, 16, 24, 32, 48, 64]), draw.choice([1, 1, 1, 2, 4])
    machine = Machine(
        f"random-{seed}",
        cores=cores,
        bandwidth=cores * between(1.5e9, 8e9),
        cache=cores * between(1e6, 4e6),
        gpus=gpus,
        memory=0,
        switching=draw.uniform(0.0, 0.1),
        rows=draw.uniform(0.0, 0.6),
        shootdown=between(0.005, 0.1),
        unmap=between(4e9, 40e9),
    )
    gpu = between(0.3, 4.0)
    work = gpu * cores / gpus * between(0.2, 1.33)
    shares = [draw.random(), draw.random() * 0.6, draw.choice([0.0, 1.0, 1.0, 1.0]) * draw.random()]
    synthesis, spmv, cpu_msm = (work * share / sum(shares) for share in shares)
    witness = int(between(0.1e9, 4e9))
    scratch = int(witness * between(0.5, 4.0))
    jobs, per_proof = draw.choice([1, 2, 3, 5, 8, 12, 16, 20]), draw.randint(4, 16)
    load = Load(
        jobs=jobs,
        partitions=per_proof,
        parallel=draw.choice([1, 2, 4, 8]),
        proofs=max(1, round(partitions / per_proof)),
        synthesis=synthesis,
        spmv=spmv,
        gpu=gpu,
        cpu_msm=cpu_msm,
        verification=between(0.003, 0.05),
        scratch=scratch,
        witness=witness,
        pool=cores,
        serial=draw.uniform(0.0, 0.1),
        buckets=between(1e6, 20e6),
        demands={
            Work.SYNTHESIS: Demand(between(0.3e9, 6e9), draw.uniform(0.1, 0.7), draw.uniform(0.0, 0.6)),
            Work.SPMV: Demand(between(0.5e9, 6e9), draw.uniform(0.2, 0.8), draw.uniform(0.0, 0.4)),
            Work.CPU_MSM: Demand(between(0.2e9, 4e9), draw.uniform(0.05, 0.5), draw.uniform(0.3, 3.0)),
            Work.VERIFICATION: Demand(0.1e9, 0.05),
            Work.GPU: Demand(between(1e9, 15e9), draw.uniform(0.05, 0.5), host=draw.uniform(0.02, 0.4)),
            Work.FREE: Demand(0.5e9, 0.2),
        },
        noise=draw.uniform(0.0, 0.15),
        seed=seed,
    )
    return replace(machine, memory=int((witness + scratch) * between(3.0, 60.0))), load
