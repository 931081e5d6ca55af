"""`distprove bench scaling`: how a job's rate grows with its workers."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.console import reports_errors, tell
from distprove.cli.measured import document, show
from distprove.cli.option_groups import AsJson
from distprove.cli.programs import import_from_here
from distprove.cli.sweep import numbers
from distprove.errors import UsageError

WAYS = ("local", "ray")


@reports_errors
def scaling(
    path: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job to measure.")],
    gpus: Annotated[str | None, typer.Option(metavar="NUMBERS", help="Numbers of GPUs: 1,2,4.")] = None,
    workers: Annotated[str | None, typer.Option(metavar="NUMBERS", help="Numbers of CPU provers instead.")] = None,
    over: Annotated[
        str, typer.Option(metavar="WAYS", help="local (worker processes), ray, or local,ray.")
    ] = "local,ray",
    partitions: Annotated[
        int | None, typer.Option(min=2, help="Partitions: the job's, again and again. Not of a job with a barrier.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how rates and the driver's cost grow from one GPU to two and four, on this machine, with the job file's
    settings.
    """
    from cluster.opening import forking_workers
    from distprove.job import Job
    from distprove.measure import scaling as bench
    from kernels.interface.backend import DeviceInfo

    if (gpus is None) == (workers is None):
        raise UsageError("give --gpus or --workers")
    counts = numbers("gpus", gpus) if gpus is not None else numbers("workers", workers or "")
    ways = [way.strip() for way in over.split(",")]
    if not counts or not set(ways) <= set(WAYS):
        raise UsageError(f"expected numbers such as 1,2,4, and --over {','.join(WAYS)} or one of these")
    import_from_here()
    job = Job.from_toml(path)
    local = replace(job.executor, local=True, isolate=True)
    with forking_workers(job, local), tempfile.TemporaryDirectory(prefix="distprove-scaling-") as folder:
        found = bench.measure_scaling(
            job.load(),
            job.executor,
            job.title or path.stem,
            Path(folder),
            over=ways,
            workers=counts,
            gpus=gpus is not None,
            partitions=partitions,
            tell=tell,
        )
    info = DeviceInfo(found.scales[0].device, "cuda" if gpus is not None else "cpu", 0, 0)
    made = document("scaling", bench, info, [found])
    show(made, as_json)
