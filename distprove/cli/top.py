"""`distprove top`: what a run is at, live, from any terminal that sees its folder."""

from __future__ import annotations

import os
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distprove.cli.console import escape, format_rate, format_seconds, message, out, plain_table, reports_errors
from distprove.errors import UsageError
from distprove.formats.visible import bounded
from kernels.host.units import count_of, format_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY = 1.0
"""Seconds between two looks."""
SILENT = 15.0
"""Seconds without word from the driver after which that is said."""
ROWS = 24
"""Workers and nodes listed, at most; the others are counted."""
EVENTS = 5
TAIL = 1 << 16
"""Bytes of the journal's end in which the last events are looked for."""
MAX_EVENT = 400
"""Characters of an event that are shown: what marks numbers and names in a text takes time quadratic in it."""
STAGES = (
    *("blocked", "waiting", "synthesising", "ready"),
    *("committing", "committed", "proving", "verifying", "diagnosing"),
)


@reports_errors
def top(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="The run folder; by default the latest one here, or one folder below."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show it once, and end.")] = False,
) -> None:
    """Show partitions, GPUs, leases, queues and throughput of a run, live. Ends when the run does."""
    from rich.live import Live

    folder = run if run is not None else latest_run(Path())
    console = out()
    view = look(folder)
    if once or not console.is_terminal or over(view):
        console.print(screen(folder, view))
        return
    with Live(screen(folder, view), console=console, auto_refresh=False) as live:
        while not over(view):
            time.sleep(EVERY)
            view = look(folder)
            live.update(screen(folder, view), refresh=True)


def latest_run(folder: Path) -> Path:
    """The run in `folder`, or in one of its folders, whose status was written last. Raises UsageError."""
    from cluster.record.status import FILE

    found = [path for path in (folder / FILE, *folder.glob(f"*/{FILE}")) if path.is_file()]
    if not found:
        raise UsageError("no run here, nor one folder below; name one: distprove top RUN")
    return max(found, key=lambda path: path.stat().st_mtime).parent


def look(folder: Path) -> dict[str, Any]:
    """The run's status; one that has none yet is said to be starting, and one whose driver is gone without having said
    how it ended, to be dead. Raises UsageError, InputError."""
    from cluster.record.run import abandoned_by, require_run
    from distprove.formats.folder import Folder

    require_run(folder)
    with Folder.open(folder) as opened:
        driver = abandoned_by(opened)
    view = _written(folder)  # after that: what a driver says last it says before it gives up the lock
    if driver is None or over(view):
        return view
    return {
        **view,
        "status": "dead",
        "error": f"{driver} is gone; distprove resume {quote(str(folder))} does what is missing",
    }


def _written(folder: Path) -> dict[str, Any]:
    from cluster.record.status import FILE, read_status

    if os.path.lexists(folder / FILE):
        return read_status(folder)
    counts = dict.fromkeys(("total", "done", "failed", "proved", "retries"), 0)
    now = time.time()
    return {"status": "starting", "time": now, "began": now, "rate": 0.0, "stages": {}, **counts} | {
        "workers": [],
        "nodes": [],
        "error": None,
    }


def over(view: dict[str, Any]) -> bool:
    return view["status"] not in ("running", "starting")


def screen(folder: Path, view: dict[str, Any]) -> RenderableType:
    """All that is shown, top to bottom."""
    from rich.console import Group

    parts: list[RenderableType] = [_head(folder, view), ""]
    if view["workers"]:
        parts += [_provers(view), ""]
    if view["nodes"]:
        parts += [_nodes(view), ""]
    parts += _events(folder)
    return Group(*parts)


def _head(folder: Path, view: dict[str, Any]) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    status, total, done, failed = view["status"], view["total"], view["done"], view["failed"]
    colour = {"proved": "green", "failed": "red", "dead": "red", "running": "cyan"}.get(status, "yellow")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("run", f"{escape(str(folder))}  [bold {colour}]{escape(status)}[/]")
    counts = f"{done} of {count_of(total, 'partition')}" + (f", [red]{failed} failed[/]" if failed else "")
    table.add_row("done", counts + (f", {count_of(view['retries'], 'retry', 'retries')}" if view["retries"] else ""))
    if total:
        table.add_row("", ProgressBar(total=total, completed=done, width=50))
    moving = [f"{escape(str(view['stages'][stage]))} {stage}" for stage in STAGES if view["stages"].get(stage)]
    if moving and not over(view):
        table.add_row("at work", ", ".join(moving))
    table.add_row("rate", _rate(view))
    age = time.time() - view["time"]
    if not over(view) and age > SILENT:
        table.add_row("", f"[yellow]no word from the driver for {format_seconds(age)}[/]")
    if view.get("error"):
        table.add_row("error", f"[red]{message(str(view['error']))}[/]")
    return table


def _rate(view: dict[str, Any]) -> str:
    elapsed = format_seconds(max(0.0, view["time"] - view["began"]))
    rate = float(view["rate"])
    left = view["total"] - view["done"] - view["failed"]
    text = f"{format_rate(rate * 60)} partitions a minute after {elapsed}"
    return f"{text}, about {format_seconds(left / rate)} left" if rate and left > 0 and not over(view) else text


def _provers(view: dict[str, Any]) -> RenderableType:
    provers = [w for w in view["workers"] if w["role"] == "prover"]
    synthesisers = [w for w in view["workers"] if w["role"] != "prover"]
    table = plain_table()
    table.add_column("prover", no_wrap=True)
    table.add_column("GPU", justify="right")
    table.add_column("device", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("status")
    table.add_column("done", justify="right")
    table.add_column("at work on", overflow="ellipsis", no_wrap=True)
    for worker in provers[:ROWS]:
        tasks = ", ".join(f"{name} ({stage})" for name, stage in worker["tasks"])
        colour = {"ready": "green", "retired": "red"}.get(str(worker.get("status")), "yellow")
        table.add_row(
            escape(str(worker.get("id"))),
            escape(",".join(map(str, worker["gpus"])) or "-"),
            escape(str(worker.get("device") or "-")),
            f"[{colour}]{escape(str(worker.get('status')))}[/]",
            str(worker["partitions"]),
            escape(tasks) or "[dim]idle[/]",
        )
    if len(provers) > ROWS:
        table.add_row(f"[dim]and {len(provers) - ROWS} more[/]")
    busy = sum(bool(worker["tasks"]) for worker in synthesisers)
    if synthesisers:
        table.add_row("[dim]synthesisers[/]", "", "", "", "", f"[dim]{busy} of {len(synthesisers)} at work[/]")
    return table


def _nodes(view: dict[str, Any]) -> RenderableType:
    table = plain_table()
    table.add_column("node", no_wrap=True, max_width=16)
    for title in ("CPU", "memory", "leased"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("leases")
    table.add_column("waiting")
    for node in view["nodes"][:ROWS]:
        leased = _bytes(node.get("memory_leased"))
        table.add_row(
            escape(str(node.get("node"))),
            f"{node['cpu'] * 100:.0f} %" if isinstance(node.get("cpu"), (int, float)) else "-",
            _bytes(node.get("memory_used")),
            f"{leased} of {_bytes(node.get('memory'))}" if leased != "-" else "-",
            _counts(node.get("leases"), node.get("limits")),
            _counts(node.get("queue")),
        )
    if len(view["nodes"]) > ROWS:
        table.add_row(f"[dim]and {len(view['nodes']) - ROWS} more[/]")
    return table


def _counts(held: Any, limits: Any = None) -> str:
    """ "threads 4/6, memory 1": how many leases of each resource, of how many where that is limited."""
    if not isinstance(held, dict):
        return "-"
    most = limits if isinstance(limits, dict) else {}
    told = [
        f"{resource} {count}" + (f"/{most[resource]}" if resource in most else "")
        for resource, count in held.items()
        if count
    ]
    return escape(", ".join(told)) or "-"


def _bytes(value: Any) -> str:
    return format_bytes(value) if isinstance(value, (int, float)) else "-"


def _events(folder: Path) -> list[RenderableType]:
    """The last things that went wrong."""
    from cluster.record.journal import journal_tail
    from cluster.record.story import TROUBLE

    events = [event for event in journal_tail(folder, TAIL) if event.get("event") in TROUBLE]
    lines: list[RenderableType] = []
    for event in events[-EVENTS:]:
        subject = " on ".join(str(event[key]) for key in ("partition", "worker") if event.get(key))
        reason = f": {event['reason']}" if event.get("reason") else ""
        lines.append(f"[yellow]{escape(str(event['event']))}[/] {message(bounded(subject + reason, MAX_EVENT))}")
    return lines
