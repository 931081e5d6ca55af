"""`distprove bench service`: jobs of one partition through a standing service, beside a bare loop."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.console import err, escape, out, plain_table, print_json, reports_errors
from distprove.cli.option_groups import AsJson, takes_groups
from distprove.cli.prove import Execution
from distprove.errors import UsageError

if TYPE_CHECKING:
    from cluster.lab.service_rate import ServiceRate


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
    from cluster.lab import service_rate as bench
    from cluster.service.client import request_of
    from distprove.bench.results import report
    from distprove.host.machine import inspect_machine
    from distprove.host.memory import give_back_large_blocks
    from distprove.job import Job
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
            tell=lambda doing: err().print(f"[dim]{doing}[/]"),
        )
    info = DeviceInfo(facts["device"], facts["kind"], facts["memory_total"], facts["memory_budget"], facts)
    document = report("service", bench.TIMED, bench.CHECKED, info, inspect_machine(), [found])
    if as_json:
        print_json(document)
        return
    _show(found)
    for name in ("timed", "checked"):
        out().print(f"[dim]{name:<9}[/] {escape(document[name])}")


def _show(found: ServiceRate) -> None:
    table = plain_table()
    for title in ("jobs a second", "steady", "bare loop", "share", "CPU a job"):
        table.add_column(title, justify="right", no_wrap=True)
    row = found.to_dict()
    table.add_row(
        *(f"{row[name]:.1f}" for name in ("rate_a_second", "steady_a_second", "bare_a_second")),
        f"{row['rate_of_bare_loop'] * 100:.1f} %",
        f"{row['cpu_ms_a_job']:.2f} ms",
    )
    out().print(table)
