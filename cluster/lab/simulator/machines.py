"""The simulator's random machines and loads. The published one is in `published`."""

from __future__ import annotations

import random
from dataclasses import replace

from cluster.lab.simulator.engine import Load
from cluster.lab.simulator.hardware import Demand, Machine, Work


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
