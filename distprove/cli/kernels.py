"""`distprove kernels`: registers and spills of every CUDA kernel, without a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.console import err, escape, format_seconds, out, plain_table, print_json, reports_errors
from distprove.cli.option_groups import AsJson
from distprove.cli.plain_help import App
from distprove.cli.variadic import VariadicCommand
from kernels.host.units import count_of

if TYPE_CHECKING:
    from kernels.cuda.compiler import KernelRow
    from kernels.source import KernelSource


app = App()


@app.command("kernels", cls=VariadicCommand)
@reports_errors
def kernels(
    arch: Annotated[
        list[str] | None, typer.Option(metavar="SM", help="90, sm_100, ...; repeatable. Default: the GPU's, or 90.")
    ] = None,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Sources whose name contains this.")] = "",
    as_json: AsJson = False,
) -> None:
    """Compile every CUDA kernel with NVRTC and list its registers, spills and shared memory."""
    from kernels.cuda.sources import all_sources

    rows = compile_for(arch or [], [source for source in all_sources() if only in source.title])
    if as_json:
        print_json([{**asdict(row.resources), "source": row.source, "arch": row.arch} for row in rows])
        return
    _show(rows)


def compile_for(archs: Sequence[str], sources: Sequence[KernelSource]) -> list[KernelRow]:
    """Compile what the cache lacks, on all processors, showing progress. Without `archs`: for this machine's GPU."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from distprove.host.machine import inspect_machine
    from kernels.cuda.compiler import list_kernels

    rows: list[KernelRow] = []
    for name in archs or [_default_arch()]:
        target = name if name.startswith("sm_") else f"sm_{name}"
        title = f"[dim]compiling {count_of(len(sources), 'source')} for {target}[/]"
        if not err().is_terminal:
            err().print(title)
        with Progress(TextColumn(title), BarColumn(), MofNCompleteColumn(), console=err(), transient=True) as bar:
            task = bar.add_task("", total=len(sources))
            threads = inspect_machine().processor.threads
            rows += list_kernels(target, sources, threads=threads, done=partial(bar.advance, task))
    return rows


def _show(rows: list[KernelRow]) -> None:
    console = out()
    for (arch, source), group in itertools.groupby(rows, key=lambda row: (row.arch, row.source)):
        table = plain_table()
        table.add_column(f"{arch}", min_width=24)
        for title in ("registers", "spill st/ld", "stack", "shared"):
            table.add_column(title, justify="right", min_width=9)
        for row in group:
            r = row.resources
            spills = f"{r.spill_stores} / {r.spill_loads}" if r.spill_stores or r.spill_loads else "-"
            table.add_row(r.name, str(r.registers), spills, str(r.stack or "-"), str(r.shared or "-"))
        console.print(f"[bold]{escape(source)}[/]")
        console.print(table)
    spilling = sum(bool(row.resources.spill_stores or row.resources.spill_loads) for row in rows)
    console.print(
        f"[dim]{count_of(len(rows), 'kernel')}, {spilling} with spills; spills, stack and shared memory in bytes; "
        f"{compilation(rows)}[/]"
    )


def compilation(rows: Sequence[KernelRow]) -> str:
    """Compilation times as text."""
    seconds = {(row.source, row.arch): row.seconds for row in rows if not row.cached}
    taken = format_seconds(sum(seconds.values())) if seconds else "no time"
    return f"{taken} of compilation, the rest from the cache"


def _default_arch() -> str:
    from distprove.host.machine import find_gpus

    devices = find_gpus().devices
    return devices[0].compute_capability.replace(".", "") if devices else "90"
