"""`distprove sweep`: one job under a grid of settings, measured; the best written as a job file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from distprove.cli.console import (
    err,
    escape,
    format_rate,
    format_seconds,
    out,
    plain_table,
    print_json,
    reports_errors,
)
from distprove.cli.option_groups import AsJson, Writes, takes_groups
from distprove.cli.programs import import_from_here
from distprove.cli.prove import Execution
from distprove.errors import UsageError
from kernels.host.units import count_of

if TYPE_CHECKING:
    from rich.console import Console

    from distprove.measure.sweep.results import Measured, SweepResult
    from distprove.measure.sweep.sweep import Step

AXES = "The grid"
T = TypeVar("T")


class Fixed(Execution):
    """The settings of a job that all of its measurements have."""

    but = ("gpu_workers",)


@reports_errors
@takes_groups
def sweep(
    path: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job to measure.")],
    destination: Annotated[
        Path,
        typer.Option("--out", help="A folder for what is measured; continued if it is one."),
        Writes(None, owns=True),
    ],
    execution: Fixed,
    jobs: Annotated[
        str, typer.Option(help="Copies of the job in progress at once, such as 1,2,5.", rich_help_panel=AXES)
    ] = "1",
    parallel: Annotated[
        str, typer.Option(help="Partitions of a copy in preparation or ready at a time.", rich_help_panel=AXES)
    ] = "",
    gpu_workers: Annotated[
        str, typer.Option(help="Provers per node; several may share a GPU.", rich_help_panel=AXES)
    ] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Measurements of each setting; medians count.")] = 3,
    warmup: Annotated[int, typer.Option(min=0, help="Rounds before those, of each setting.")] = 1,
    in_turn: Annotated[
        bool,
        typer.Option(
            "--in-turn",
            help="A repeat of each setting in turn, with the workers of all at hand: for a machine whose speed drifts.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a job under a grid of settings, and name the best. What is measured is kept: run it again to go on.

    Writes sweep.json, sweep.csv, sweep.html with the plots, and best.toml, a job file with the best setting.
    """
    from distprove.cli.pages.sweep import sweep_page
    from distprove.formats.files import require_apart
    from distprove.formats.folder import Folder
    from distprove.host.memory import give_back_large_blocks
    from distprove.job import Job
    from distprove.jobfile import job_text
    from distprove.measure.sweep.grid import Grid
    from distprove.measure.sweep.sweep import sweep as run_sweep

    import_from_here()
    grid = Grid(numbers("jobs", jobs), numbers("parallel", parallel), numbers("gpu-workers", gpu_workers))
    job = Job.from_toml(path)
    require_apart([], job.files, [destination])
    job_text(job)  # a path that no job file can hold is told now
    job = replace(job, executor=job.executor.changed(execution.given()))
    give_back_large_blocks()
    system = job.load()
    result = run_sweep(
        system,
        job.executor,
        grid,
        destination,
        repeats=repeats,
        warmup=warmup,
        in_turn=in_turn,
        watch=_watcher(err()),
    )
    document = result.to_record()
    best = replace(job, executor=result.best.cell.settings(job.executor))
    folder = Folder.open_ours(destination)
    for name, text in (
        ("sweep.json", json.dumps(document, indent=2) + "\n"),
        ("sweep.csv", result.to_csv()),
        ("sweep.html", sweep_page(job.title or path.stem, result)),
        ("best.toml", job_text(best, _praise(result.best))),
    ):
        folder.write(name, text.encode())
    if as_json:
        print_json(document)
    else:
        show_sweep(out(), result, destination)


def _watcher(console: Console) -> Callable[[Step], None]:
    """Plain lines: a sweep takes long, and is read afterwards."""

    def watch(step: Step) -> None:
        where = f"\\[{step.number}/{step.total}] {step.cell.id}"
        if step.measured is None:
            console.print(f"[dim]{where}: {step.doing}[/]")
        else:
            console.print(f"{where}: {step.doing}, {format_seconds(step.measured.seconds_per_proof)} a proof")

    return watch


def show_sweep(console: Console, result: SweepResult, folder: Path) -> None:
    """Print a row for each setting, in 80 columns, then the best, and where all figures are."""
    from distprove.cli.pages.sweep import SETTINGS, setting_cells
    from distprove.measure.sweep.results import CLOSE

    rows = [setting_cells(measured) for measured in result.measured]
    figures = ("a proof", "a minute", "differ", "prove", "device", "busy")
    asked = [i for i in range(len(SETTINGS)) if any(row[i] != "-" for row in rows)]  # the others were left as they are
    table = plain_table(numbers=(*(SETTINGS[i] for i in asked), *figures))
    for row, measured in zip(rows, result.measured, strict=True):
        times = [format_seconds(measured.seconds_per_proof), format_rate(measured.proofs_per_minute)]
        mark = "! " if measured in result.noisy else ""
        times += [f"{mark}{measured.spread * 100:.0f} %", format_seconds(measured.prove_latency.mean)]
        times += [format_seconds(measured.device_seconds), f"{measured.busy_share * 100:.1f} %"]
        style = "bold green" if measured is result.best else None
        table.add_row(*(row[i] for i in asked), *times, style=style)
    console.print(table)
    rate = f"{format_rate(result.best.proofs_per_minute)} proofs a minute"
    console.print(f"\n[bold]best[/]: {escape(result.best.cell.id)}, {rate}")
    if result.close:
        names = ", ".join(measured.cell.id for measured in result.close)
        console.print(f"[dim]within {CLOSE * 100:.0f} % of it: {escape(names)}[/]")
    if result.disturbed:
        console.print(f"[yellow]the baseline was disturbed[/]: {escape(result.disturbed)}")
    for name in ("best.toml", "sweep.html", "sweep.json", "sweep.csv"):
        console.print(f"[dim]{escape(str(folder / name))}[/]")


def _praise(best: Measured) -> str:
    rate = f"{format_rate(best.proofs_per_minute)} proofs a minute"
    return (
        f"The best setting of a sweep: {rate} with {count_of(best.cell.jobs, 'job')} at once.\n"
        "Its figures are in sweep.json beside this file."
    )


def numbers(axis: str, text: str) -> list[int]:
    """[1, 2, 5] from "1,2,5". Raises UsageError."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    try:
        values = [int(part) for part in parts]
    except ValueError:
        values = [0]
    if not all(value >= 1 for value in values):
        raise UsageError(f"--{axis} {text!r}: expected a list of whole numbers of at least 1, such as 1,2,5")
    return values
