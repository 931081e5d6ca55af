"""`distprove bench service`: jobs of one partition through a standing service, beside a bare loop."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.console import reports_errors, tell
from distprove.cli.measured import document, show
from distprove.cli.option_groups import AsJson, takes_groups
from distprove.cli.prove import Execution
from distprove.errors import UsageError


@reports_errors
@takes_groups
def service(
    path: Annotated[Path, typer.Argument(metavar="JOB.toml", help="A job of one partition.")],
    jobs: Annotated[int, typer.Option(min=10, help="Number of jobs in each turn.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Turns of the service and of the bare loop.")] = 3,
    *,
    execution: Execution,
    as_json: AsJson = False,
) -> None:
    """Measure the rate of a service at jobs of one partition, and its CPU time for each, beside a bare loop over the
    same witness, in turn. Always on this machine, without Ray.
    """
    from cluster.service.client import request_of
    from distprove.host.memory import give_back_large_blocks
    from distprove.job import Job
    from distprove.measure import service_rate as bench
    from kernels.interface.backend import DeviceInfo

    job = Job.from_toml(path)
    if job.code:
        raise UsageError("a service runs no code of your own")
    settings = job.executor.changed({**execution.given(), "local": True})
    request = request_of(path)
    request.job.pop("executor", None)
    give_back_large_blocks()
    with tempfile.TemporaryDirectory(prefix="distprove-service-") as folder:
        found, facts = bench.measure_service(
            request,
            job.load(),
            settings,
            job.title or path.stem,
            Path(folder),
            jobs=jobs,
            repeats=repeats,
            tell=tell,
        )
    device = DeviceInfo(facts["device"], facts["kind"], facts["memory_total"], facts["memory_budget"], dict(facts))
    show(document("service", bench, device, [found]), as_json)
