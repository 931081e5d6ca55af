"""`distprove submit`, `status`, `await`, `cancel`, `list`, `logs` and `down`: what is asked of a standing service."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.console import (
    err,
    escape,
    facts_table,
    fail,
    format_rate,
    format_seconds,
    message,
    out,
    plain_table,
    print_json,
    reports_errors,
)
from distprove.cli.option_groups import AsJson, OptionGroup, takes_groups
from distprove.errors import EnvironmentFailed, JobFailed, NoSuchJob, ServiceGone, UsageError
from kernels.host.units import count_of, format_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from cluster.scheduler.told import KeyView
    from cluster.service.client import Client
    from cluster.service.views import JobView, Overview

WHERE = "Which service"
LOOK = 0.2
"""Seconds between two looks at whether a service has ended."""
COLOURS = {"proved": "green", "failed": "red", "cancelled": "yellow", "running": "cyan"}

Id = Annotated[str, typer.Argument(metavar="ID", help="The job's id, as `submit` printed it.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of jobs.")]


@dataclass(frozen=True)
class Where(OptionGroup):
    """Options on which service is asked."""

    service: Annotated[
        str | None,
        typer.Option(metavar="URL|FOLDER", help="By default DISTPROVE_SERVICE, or your own.", rich_help_panel=WHERE),
    ] = None
    token_file: Annotated[Path | None, typer.Option(help="File of the token, for a URL.", rich_help_panel=WHERE)] = None
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificates to check TLS with, for a URL.", rich_help_panel=WHERE)
    ] = None
    patience: Annotated[
        float, typer.Option(min=0.0, help="Seconds to wait for a service that is full.", rich_help_panel=WHERE)
    ] = 60.0

    def client(self) -> Client:
        """A client of the service. Raises as `connect` does."""
        from cluster.service.client import connect

        return connect(self.service, token_file=self.token_file, ca_file=self.ca_file, patience=self.patience)


@reports_errors
@takes_groups
def submit(
    path: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file.")],
    *,
    id: Annotated[str | None, typer.Option(help="The job's id. Submitted twice, it is one job.")] = None,
    title: Annotated[str | None, typer.Option(help="A name for the job, in place of the job file's.")] = None,
    priority: Annotated[
        str | None,
        typer.Option(help="urgent, high, normal or low; by default normal, but for jobs with a deadline."),
    ] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="The run folder, on the service's machine; by default its own.")
    ] = None,
    wait: Annotated[
        bool | None, typer.Option("--wait/--no-wait", help="Wait for the job's end, and exit as it does.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Submit to the Ray with this dashboard instead; waits, unless told not to."),
    ] = None,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Submit a job to the service, and print its id. It is on the service's disk when this returns.

    Paths in the job file are those of the service's machine.
    """
    if address is not None:
        if title is not None:
            raise UsageError("--title is for a job of a service: with --address the job file has the title")
        _submit_to_ray(path, address, out_folder, id, wait is not False)
        return
    with where.client() as client:
        view = client.submit(path, id=id, priority=priority, out=out_folder, title=title)
        if not wait:
            if as_json:
                print_json(asdict(view))
            else:
                out().print(escape(view.id))
            return
        err().print(f"[dim]job {escape(view.id)}[/]")
        _end([_followed(client, view.id)], as_json)


def _submit_to_ray(path: Path, address: str, run: Path | None, id: str | None, wait: bool) -> None:
    from cluster.submission import follow
    from cluster.submission import submit as submit_to_ray

    if run is None:
        raise UsageError("--address takes --out: the run folder, which every node of the cluster sees")
    client, id = submit_to_ray(path, address, str(run), id=id, tell=lambda text: err().print(escape(text)))
    if not wait:
        out().print(escape(id))
        return
    err().print(f"[dim]job {escape(id)}[/]")
    code = follow(client, id, lambda text: out().print("\n".join(map(escape, text.split("\n"))), end=""))
    if code:
        raise typer.Exit(code)


@reports_errors
@takes_groups
def status(
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The job; by default the service itself.")] = None,
    *,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Show what a job is at, or the service: its queue, keys, workers and throughput."""
    with where.client() as client:
        if id is not None:
            view = client.status(id)
            if as_json:
                print_json(asdict(view))
            else:
                out().print(_facts(view))
            return
        overview = client.overview()
        if as_json:
            print_json({"url": client.contact.url, **asdict(overview)})
        else:
            _show_service(client.contact.url, overview)


@reports_errors
@takes_groups
def wait(
    ids: Ids,
    *,
    timeout: Annotated[float | None, typer.Option(min=0.0, help="Seconds to wait, at most.")] = None,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Wait until jobs are over. The exit code is the job's; of several that differ, 1 where one failed.

    A service that is restarted meanwhile is waited for. When the time is up the exit code is 3.
    """
    end = None if timeout is None else time.monotonic() + timeout
    with where.client() as client:
        _, unknown = _each(ids, client.status)
        _require_known(unknown)  # now, and not once the jobs before it are over
        _end([_followed(client, id, end) for id in ids], as_json)


@reports_errors
@takes_groups
def cancel(ids: Ids, *, where: Where, as_json: AsJson = False) -> None:
    """Cancel jobs. What they have proven stays in their runs; one that is over stays as it is.

    An id that the service does not have ends in exit code 2, after the other jobs were cancelled.
    """
    with where.client() as client:
        views, unknown = _each(ids, client.cancel)
    if not unknown or (views and not as_json):  # in JSON the error is the one document
        _show_jobs(views, as_json)
    _require_known(unknown, "; the others are cancelled, or were over" if views else "")


@reports_errors
@takes_groups
def list_jobs(
    *,
    state: Annotated[str | None, typer.Option(help="queued, running, proved, failed or cancelled.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Jobs to list, at most.")] = 30,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    from cluster.service.views import JobState
    from distprove.formats.plain_data import read

    with where.client() as client:
        _show_jobs(client.list(read(JobState, state, "--state") if state else None, limit=limit), as_json)


@reports_errors
@takes_groups
def logs(
    id: Id,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is over.")] = False,
    where: Where,
) -> None:
    """Print the journal of a job, a JSON object on each line (docs/formats.md)."""
    console = out()
    with where.client() as client:
        for line in client.logs(id, follow=follow):
            console.print(escape(line))


@reports_errors
@takes_groups
def down(
    *,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for jobs; they go on at the next start.")] = False,
    where: Where,
) -> None:
    """End the service, after the jobs that run. Jobs that are queued wait for its next start."""
    with where.client() as client:
        before = client.overview()
        client.shut_down(drain=not now)
        if before.running and not now:
            err().print(
                f"[dim]{count_of(before.running, 'job runs', 'jobs run')}; the service ends after them (Ctrl-C "
                f"does not stop it)[/]"
            )
        left = before.queued + (before.running if now else 0)
        _await_end(client)
    out().print(f"the service has ended; {count_of(left, 'job waits', 'jobs wait')} for its next start")


def _await_end(client: Client) -> None:
    """Wait until nothing answers any more, which is so once the service is closed."""
    from cluster.service.client import Client

    asking = Client(client.contact, patience=0.0)
    try:
        while True:
            asking.overview()
            time.sleep(LOOK)
    except ServiceGone:
        return
    finally:
        asking.close()


def _each(ids: Sequence[str], ask: Callable[[str], JobView]) -> tuple[list[JobView], list[NoSuchJob]]:
    """The answers for jobs, and the errors for ids that the service does not have."""
    views: list[JobView] = []
    unknown: list[NoSuchJob] = []
    for id in ids:
        try:
            views.append(ask(id))
        except NoSuchJob as error:
            unknown.append(error)
    return views, unknown


def _require_known(unknown: Sequence[NoSuchJob], rest: str = "") -> None:
    """Raise NoSuchJob with the text of all errors, and `rest` behind it, if there are any."""
    if unknown:
        raise NoSuchJob("; ".join(map(str, unknown)) + rest)


def _followed(client: Client, id: str, end: float | None = None) -> JobView:
    """The job at its end, with its progress on standard error. Raises EnvironmentFailed when the time is up."""
    console = err()
    told = -1

    def progress(view: JobView) -> None:
        nonlocal told
        step = max(1, view.partitions // 20)
        if view.done >= told + step or (view.state.final and view.done != told):
            told = view.done
            if view.partitions:
                console.print(f"[dim]{escape(view.id)}: {view.done} of {count_of(view.partitions, 'partition')}[/]")

    view = client.wait(id, None if end is None else max(0.0, end - time.monotonic()), progress)
    if not view.state.final:
        raise EnvironmentFailed(f"{id} is not over: it is {view.state.value}")
    return view


def _end(views: list[JobView], as_json: bool) -> None:
    """Show jobs that are over, and exit as they did."""
    _show_jobs(views, as_json)
    for view in views:
        if view.error and not as_json:
            fail(f"{view.id}: {view.error}")
    codes = {_code(view) for view in views}
    code = codes.pop() if len(codes) == 1 else JobFailed.exit_code
    if code:
        raise typer.Exit(code)


def _code(view: JobView) -> int:
    """The exit code for a job: 0 if it is proved, and for no other one, whatever the service says. A shell has the last
    eight bits of it."""
    from cluster.service.views import JobState

    if view.state is JobState.PROVED:
        return 0
    told = view.exit_code or JobFailed.exit_code
    return told if 0 < told < 256 else JobFailed.exit_code


def _show_jobs(views: list[JobView], as_json: bool) -> None:
    if as_json:
        print_json([asdict(view) for view in views])
        return
    table = plain_table("job", "state", numbers=("partitions", "submitted", "took"))
    table.add_column("title", overflow="fold")
    now = time.time()
    for view in views:
        table.add_row(
            escape(view.id),
            _state(view),
            f"{view.done}/{view.partitions}" if view.partitions else "-",
            f"{format_seconds(max(0.0, now - view.submitted))} ago",
            _took(view),
            escape(view.title),
        )
    out().print(table)


def _state(view: JobView) -> str:
    text = "cancelling" if view.cancelling and not view.state.final else view.state.value
    return f"[{COLOURS.get(view.state.value, 'dim')}]{text}[/]"


def _took(view: JobView) -> str:
    end = view.ended or (time.time() if view.started else None)
    return "-" if view.started is None or end is None else format_seconds(max(0.0, end - view.started))


def _facts(view: JobView) -> Table:
    table = facts_table()
    table.add_row("job", f"[bold]{escape(view.id)}[/]  {_state(view)}")
    if view.title:
        table.add_row("title", escape(view.title))
    table.add_row("system", f"{escape(view.system)}, {view.priority.value} priority")
    if view.place is not None:
        table.add_row("queue", f"{count_of(view.place, 'job')} before it")
    if view.partitions:
        table.add_row("done", f"{view.done} of {count_of(view.partitions, 'partition')}")
    if view.started is not None:
        again = f", begun {count_of(view.attempts, 'time')}" if view.attempts > 1 else ""
        key = "" if view.cold is None else ", its key had to be loaded" if view.cold else ", its key was there"
        table.add_row("took", f"{_took(view)}{again}{key}")
        table.add_row("waited", format_seconds(max(0.0, view.started - view.submitted)))
    if view.error:
        table.add_row("error", f"[red]{message(view.error)}[/]")
    if view.exit_code is not None:
        table.add_row("exit code", str(view.exit_code))
    table.add_row("run", escape(view.run))
    return table


def _show_service(url: str, overview: Overview) -> None:
    console = out()
    table = facts_table()
    takes = "[green]takes jobs[/]" if overview.accepting else "[yellow]takes no more jobs[/]"
    table.add_row("service", f"{escape(url)}, distprove {escape(overview.version)}, {takes}")
    table.add_row("up", format_seconds(max(0.0, time.time() - overview.started)))
    table.add_row("jobs", f"{overview.running} running, {overview.queued} of {overview.capacity} queued")
    ever = ", ".join(f"{count} {escape(state)}" for state, count in overview.counts.items() if count)
    table.add_row("ever", ever or "no jobs yet")
    table.add_row(
        "rate", f"{format_rate(overview.rate * 60)} partitions a minute, {overview.partitions} since it started"
    )
    console.print(table)
    if overview.workers:
        workers = plain_table("worker", "node", "device", numbers=("busy", "proven", "memory"))
        for worker in overview.workers:
            used, total = worker.memory_used, worker.memory_total
            workers.add_row(
                escape(worker.id) + (f" [red]{escape(worker.lost)}[/]" if worker.lost else ""),
                escape(worker.node),
                escape(worker.device),
                f"{worker.busy:.0%}",
                str(worker.proven),
                f"{format_bytes(used)} of {format_bytes(total)}" if used is not None and total is not None else "-",
            )
        console.print(workers)
    if overview.keys:
        console.print(keys_table(overview.keys))


def keys_table(keys: Sequence[KeyView]) -> Table:
    """Keys of a service, a row each."""
    table = plain_table("key", "system", numbers=("workers", "loading", "jobs", "size", "last used"))
    for key in keys:
        table.add_row(
            escape(key.title or key.digest[:16]),
            escape(key.system),
            str(key.workers),
            str(key.loading),
            str(key.jobs),
            format_bytes(key.bytes),
            f"{format_seconds(max(0.0, time.time() - key.last_used))} ago",
        )
    return table
