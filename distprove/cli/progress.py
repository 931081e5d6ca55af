"""The display while a job runs: a live line in a terminal, plain lines in a log. Both go to standard error.

Rich, which draws it, takes a tenth of a second to import. That is when there is something to show, or half a second
later: the processes of the workers begin before, and import meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from cluster.eventlog import harmless, log_progress
from cluster.scheduler.jobs import Progress
from distprove.cli.console import err, escape, format_seconds, message
from distprove.host.log import set_up_logging, wants_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

NOTABLE = {
    "bad-proof": "[yellow]a proof did not verify[/], will be tried again",
    "fault": "[yellow]fault[/]",
    "joined": "[green]worker added[/]",
    "death": "[yellow]a worker's process ended[/], it is started again",
    "retired": "[red]worker given up[/]",
    "failed": "[red]failed[/]",
    "set-aside": "[yellow]devices[/]",
}
"""Events worth a line of their own, whatever the display."""

PLAIN_LINES = 100
"""A log gets at most about this many lines of progress, however many partitions there are."""

QUIET = 30.0
"""Seconds without a line after which a log gets one that says what the job does. Each one doubles the time, up to
`MOST_QUIET`."""
MOST_QUIET = 600.0
SOON = 0.5
"""Seconds after which there is something to see, if nothing was told until then: a large key takes longer to open."""
EVERY = 0.1
"""Seconds between two updates of the bar: events come by the thousand."""
PROVING = "proving"
STAGES = ("blocked", "synthesising", "committing", "committed", "proving", "verifying")
"""Stages of partitions whose numbers are shown, in this order."""


@contextmanager
def shown(job: str) -> Iterator[Callable[[Progress], None]]:
    """Show a job, or log its events where logs are JSON. Yields the driver's `progress` callback."""
    if wants_json():
        set_up_logging()
        yield harmless(partial(log_progress, job))
        return
    began, lock, over = time.monotonic(), threading.Lock(), threading.Event()
    display: ProgressDisplay | None = None

    def show(event: Progress | None = None) -> None:
        nonlocal display
        with lock:
            if display is None and not over.is_set():  # nobody would close it
                display = opened.enter_context(ProgressDisplay(began=began))
        if display is not None and event is not None:
            display(event)

    late = threading.Timer(SOON, show)
    late.daemon = True
    with ExitStack() as opened:
        late.start()
        try:
            yield harmless(show)
        finally:
            over.set()
            late.cancel()
            late.join()  # a command that leaves a daemon thread ends without what is done at its exit


class ProgressDisplay:
    """Shows what the driver tells. Use as a context manager; the object is the driver's `progress` callback."""

    def __init__(self, console: Console | None = None, began: float | None = None, quiet: float = QUIET) -> None:
        """`began`: the beginning of what is shown, on the monotonic clock; by default now. `quiet`: seconds without a
        line after which a log gets one."""
        self._console = console or err()
        self._quiet = quiet
        self._event: Progress | None = None
        self._over = threading.Event()
        self._beats: threading.Thread | None = None
        self._stages: Mapping[str, int] = {}
        self._shown = 0
        self._committed = 0
        """Most partitions that were committed and not yet proven, as far as a line said so."""
        self.doing = "starting"
        """The thing that the job waits for before there is work, then `PROVING`."""
        self._said = ""
        self._due = 0.0
        self._bar: Bar | None = None
        self._began = self._told = time.monotonic() if began is None else began
        if self._console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TextColumn("[dim]{task.fields[activity]}"),
                TimeElapsedColumn(),
                TextColumn("[dim]left"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("starting", total=None, activity="")
            self._bar.tasks[0].start_time = self._began

    def __enter__(self) -> ProgressDisplay:
        if self._bar is not None:
            self._bar.start()
        else:
            self._told = time.monotonic()
            self._beats = threading.Thread(target=self._beat, name="progress", daemon=True)
            self._beats.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._over.set()
        if self._beats is not None:
            self._beats.join()  # a command that leaves a daemon thread ends without what is done at its exit

    def _beat(self) -> None:
        """Print what the job does whenever there was no other line for long: a log shows that it still runs."""
        quiet = self._quiet
        while not self._over.wait(max(0.0, self._told + quiet - time.monotonic())):
            if time.monotonic() < self._told + quiet:
                continue  # there was another line meanwhile
            done = f", {self._event.done} of {self._event.total} done" if self._event and self._event.total else ""
            activity = f": {activity}" if (activity := self._activity()) else ""
            try:
                self._print(f"{self.doing}{done}{activity} [dim]({format_seconds(time.monotonic() - self._began)})[/]")
            except Exception:  # a log without a reader does not end a job
                return
            quiet = min(2 * quiet, MOST_QUIET)

    def _print(self, text: str) -> None:
        self._told = time.monotonic()
        self._console.print(text)

    def __call__(self, event: Progress) -> None:
        self._stages, self._event = event.stages or self._stages, event
        if event.event == "waiting" and self.doing != PROVING:  # one that is loaded again has others wait for nothing
            self.doing = f"waiting for {escape(event.detail or '')}"
        elif event.done or event.failed or {"committing", "proving"} & self._stages.keys():
            self.doing = PROVING
        if event.event == "chosen":
            self._print(f"[dim]{escape(event.detail or '')}[/]")
        if event.event in NOTABLE:
            subject = " on ".join(escape(part) for part in (event.partition, event.worker) if part)
            told = (subject, NOTABLE[event.event], message(event.detail) if event.detail else "")
            self._print(": ".join(filter(None, told)))
        if self._bar is not None:
            self._update(self._bar, event)
        else:
            self._line(event)

    def _activity(self) -> str:
        """Number of partitions at each stage, as far as anything happens to them."""
        counts, failed = self._stages, self._event.failed if self._event else 0
        parts = [f"{counts[stage]} {stage}" for stage in STAGES if stage in counts]
        return ", ".join([*parts, *([f"[red]{failed} failed[/]"] if failed else [])])

    def _update(self, bar: Bar, event: Progress) -> None:
        now = time.monotonic()
        if now < self._due and event.done + event.failed < event.total:
            return
        self._due = now + EVERY
        activity = self._activity()
        bar.update(self._task, description=self.doing, total=event.total, completed=event.done, activity=activity)

    def _line(self, event: Progress) -> None:
        if event.event == "worker-ready" and event.worker is not None and event.worker.startswith("prover"):
            self._print(f"{escape(event.worker)} ready after {time.monotonic() - self._began:.1f} s")
        wait = self.doing.partition(",")[0]  # the count after it has the lines of the workers
        if event.event == "waiting" and self.doing != PROVING and wait != self._said:
            self._said = wait
            self._print(f"{wait} [dim]({time.monotonic() - self._began:.1f} s)[/]")
        step, committed = max(1, event.total // PLAIN_LINES), self._stages.get("committed", 0)
        if event.event == "stage" and event.total > 1 and committed >= self._committed + step:
            self._committed = committed
            self._print(f"\\[{committed}/{event.total}] committed")
        if event.event != "proved":
            return
        if event.done - self._shown < step and event.done + event.failed < event.total:
            return
        self._shown = event.done
        name = escape(event.partition or "")
        self._print(f"\\[{event.done}/{event.total}] {name} proved by {escape(event.worker or 'a prover')}")
