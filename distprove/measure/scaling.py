"""Measures how a job's rate grows with its workers: the same partitions through the whole pipeline, with one worker and
more."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import Run
from cluster.record.timeline import read_timeline
from cluster.scheduler.jobs import Progress
from distprove.errors import UsageError
from distprove.measure.timing import steady_rate
from distprove.settings import ExecutorSettings
from distprove.system import Partition, ProofSystem, VerifiesJob

TIMED = (
    "from making the run's folder, workers not yet started, to the bound proof, timeline and report in it; steady is "
    "the rate between the first and the last tenth of the proofs; driver is the CPU time of the driver's process from "
    "the first proof to the end"
)
CHECKED = "every proof, as in any job"


@dataclass(frozen=True)
class Scale:
    """One way through the job. Seconds."""

    over: str
    """"local" or "ray"."""
    workers: int
    partitions: int
    steady: float
    """Partitions a second."""
    first_proof: float
    """Seconds from the beginning to the first proof."""
    tail: float
    """Seconds from the last proof to the end."""
    driver_cpu: float
    """CPU seconds of the driver's process for each partition."""
    wall: float
    device: str

    def efficiency(self, base: Scale) -> float:
        """The rate of a worker as a share of that of a worker of `base`."""
        return (self.steady / self.workers) / (base.steady / base.workers)


@dataclass(frozen=True)
class Scaling:
    """All ways through one job."""

    what: str
    scales: tuple[Scale, ...]

    def base(self, scale: Scale) -> Scale:
        """The scale that others are compared with: the fewest workers, reached the same way."""
        return min((each for each in self.scales if each.over == scale.over), key=lambda each: each.workers)

    def to_dict(self) -> dict[str, Any]:
        rows = [{**asdict(each), "efficiency": each.efficiency(self.base(each))} for each in self.scales]
        return {"what": self.what, "scales": rows}


def measure_scaling(
    system: ProofSystem,
    settings: ExecutorSettings,
    what: str,
    scratch: Path,
    *,
    over: Sequence[str],
    workers: Sequence[int],
    gpus: bool,
    partitions: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Scaling:
    """The job with each number of workers, GPUs or else CPU provers of one node. `over`: "local" for worker processes
    without Ray, "ray". `partitions`: how many are proven, the job's own ones again and again; None: the job's.

    Raises UsageError where they cannot be repeated or are too few, and what `driver.drive` raises.
    """
    plan = repeated(system, partitions)
    if len(plan) < 2:
        raise UsageError("a rate takes at least two partitions")
    scales = []
    for way in over:
        for count in workers:
            tell(f"{way}, {count} worker{'s' if count > 1 else ''}")
            local = way == "local"
            chosen = replace(settings, local=local, isolate=True if local else None, address=None)
            # The job's own `gpu_workers` are for one number of GPUs: of another they would use a part, or be refused.
            chosen = replace(chosen, gpus=count if gpus else 0, gpu_workers=None if gpus else count)
            scales.append(_scale(system, chosen, way, count, plan, scratch / "run"))
    return Scaling(what, tuple(scales))


def repeated(system: ProofSystem, count: int | None) -> list[Partition]:
    """So many partitions: the job's own ones again and again, under other names; None: the job's as they are. Raises
    UsageError for partitions that fit each other."""
    own = system.plan()
    joined = system.needs_barrier or isinstance(system, VerifiesJob)
    if count is None or (joined and count == len(own)):
        return own
    if joined:
        raise UsageError(f"the partitions of a {system.name} job fit each other: they cannot be repeated")
    return [replace(own[i % len(own)], index=i, name=f"partition-{i}") for i in range(count)]


def _scale(
    system: ProofSystem, settings: ExecutorSettings, over: str, workers: int, plan: list[Partition], path: Path
) -> Scale:
    used: list[float] = []

    def proven(progress: Progress) -> None:
        if not used and progress.event == "proved":
            used.append(time.process_time())

    began = time.time()
    try:
        with Run.create(path, system, plan) as run, open_client(settings) as client:
            drive(system, client, run, settings, proven, plan)
            ended, cpu = time.time(), time.process_time() - used[0]
        session = read_timeline(path)[-1]
    finally:
        shutil.rmtree(path, ignore_errors=True)
    ends = sorted(span.end for span in session.spans if span.stage == "prove" and span.outcome == "ok")
    return Scale(
        over,
        workers,
        len(plan),
        steady_rate(ends),
        ends[0] - began,
        ended - ends[-1],
        cpu / len(plan),
        ended - began,
        next((worker.device for worker in session.workers if worker.role == "prover"), ""),
    )
