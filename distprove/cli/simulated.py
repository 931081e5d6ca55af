"""`distprove bench cluster`: what the driver does on a cluster that is not at hand."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.console import reports_errors
from distprove.cli.measured import document, show, tell
from distprove.cli.option_groups import AsJson
from distprove.errors import UsageError


@reports_errors
def cluster(
    workers: Annotated[int, typer.Option(min=1, max=100_000, help="Simulated workers, of one GPU each.")] = 1000,
    partitions: Annotated[int, typer.Option(min=1, max=1 << 20, help="Partitions of the job.")] = 100_000,
    seconds: Annotated[float, typer.Option(min=0.001, help="What a worker takes for a partition.")] = 1.0,
    lost: Annotated[int, typer.Option(min=0, help="Workers that die on the way and come back.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure how the driver keeps up with many workers, on this machine: they only sleep.

    Nothing is proven, and messages do not travel; all else that a driver does is done.
    """
    from cluster.lab import simulated as bench
    from kernels.interface.backend import DeviceInfo

    if lost > workers:
        raise UsageError(f"of {workers} workers {lost} cannot be lost")
    tell(f"{partitions} partitions of {seconds:g} s on {workers} workers")
    with tempfile.TemporaryDirectory(prefix="distprove-simulated-") as folder:
        found = bench.simulate(workers, partitions, seconds, Path(folder), lost=lost)
    show(document("cluster", bench, DeviceInfo("none", "cpu", 0, 0), [found]), as_json)
