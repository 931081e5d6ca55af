"""What people see: numbers with units, plain progress lines, the summary table."""

from __future__ import annotations

import errno
import math
import sys
import threading
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cluster.scheduler.jobs import Progress
from distprove.cli import progress
from distprove.cli.app import app
from distprove.cli.console import facts_table, format_rate, format_seconds, out
from distprove.cli.progress import PLAIN_LINES, ProgressDisplay, shown
from distprove.cli.prove import way_on
from distprove.cli.summary import MAX_ROWS, show_summary
from distprove.cli.sweep import show_sweep
from kernels.host.units import format_bytes
from tests.support.made_sweeps import made_sweep
from tests.support.own_time import give_time


def plain(width: int = 100) -> Console:
    return Console(file=StringIO(), width=width, force_terminal=False, highlight=False)


def text(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_usage_of_a_job_file_names_it() -> None:
    done = CliRunner().invoke(app, ["prove", "job.toml", "--help"], prog_name="distprove")
    assert done.stdout.startswith("Usage: distprove prove JOB.toml [OPTIONS]\n")


def test_no_value_is_broken_where_no_terminal_reads_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest's name was, in a pipe, at 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
    table = facts_table()
    table.add_row("guest", "ab" * 100)
    out().print(table)
    assert "ab" * 100 in capsys.readouterr().out


class Watched(ProgressDisplay):
    """Says when it was opened, and notes its end and what it was told."""

    def __init__(self, began: float) -> None:
        super().__init__(plain(), began)
        self.told: list[str] = []
        self.open = False
        WATCHED.append(self)

    def __enter__(self) -> ProgressDisplay:
        self.open = True
        OPENED.set()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.open = False

    def __call__(self, event: Progress) -> None:
        self.told.append(event.event)


WATCHED: list[Watched] = []
OPENED = threading.Event()


@pytest.mark.parametrize(("soon", "waits"), [(1000.0, False), (0.01, True)])
def test_something_is_shown_when_there_is_news_or_none_for_a_while(
    soon: float, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    WATCHED.clear()
    OPENED.clear()
    others = set(threading.enumerate())
    monkeypatch.setattr(progress, "SOON", soon)
    monkeypatch.setattr(progress, "ProgressDisplay", Watched)
    with shown("run") as show:
        assert not waits or OPENED.wait(60)
        assert len(WATCHED) == waits
        show(Progress("proved", "p0", None, None, 1, 0, 2))
        show(Progress("proved", "p1", None, None, 2, 0, 2))
        (display,) = WATCHED
        assert display.open
        assert display.told == ["proved", "proved"]
    assert not display.open
    assert not any(isinstance(thread, threading.Timer) for thread in set(threading.enumerate()) - others)


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 40, "5.0 TiB")]
)
def test_bytes(value: int, shown: str) -> None:
    assert format_bytes(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2e-6, "2 us"), (0.0042, "4.2 ms"), (0.25, "250 ms"), (2.5, "2.50 s"), (75, "1 min 15 s"), (119.9, "2 min 0 s")],
)
def test_seconds(value: float, shown: str) -> None:
    assert format_seconds(value) == shown


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(0, "0"), (0.0712, "0.0712"), (41.72, "41.7"), (334.4, "334"), (1253, "1,253"), (2e6, "2,000,000")],
)
def test_rates(rate: float, shown: str) -> None:
    assert format_rate(rate) == shown


@pytest.mark.parametrize("varied", [True, False])
def test_a_sweep_fits_a_terminal_and_shows_what_was_varied(varied: bool, tmp_path: Path) -> None:
    console, sweep = plain(80), made_sweep()
    if not varied:
        sweep = replace(sweep, measured=[replace(m, cell=replace(m.cell, gpu_workers=None)) for m in sweep.measured])
    show_sweep(console, sweep, tmp_path)
    head = text(console).splitlines()[0]
    provers = "provers " if varied else ""
    assert " ".join(head.split()) == f"jobs parallel {provers}a proof a minute differ prove device busy"
    assert "…" not in text(console)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e100, -1e100, 1e308])
def test_what_is_no_time_is_shown_as_not_known(value: float) -> None:
    assert format_seconds(value) == "?"


@pytest.mark.parametrize("value", [0.0, -0.0, 5e-324, -5e-324, 2.2e-308])
def test_the_smallest_numbers_are_no_time_at_all(value: float) -> None:
    assert format_seconds(value) == "0 us"


def events(total: int) -> list[Progress]:
    proved = [Progress("proved", f"p{i}", "prover-0", "done", i + 1, 0, total) for i in range(total)]
    return [Progress("worker-ready", None, "prover-0", None, 0, 0, total), *proved]


def test_a_log_gets_a_line_per_partition() -> None:
    console = plain()
    with ProgressDisplay(console) as display:
        for event in events(3):
            display(event)
    lines = text(console).splitlines()
    assert lines[0].startswith("prover-0 ready after")
    assert lines[1:] == [f"[{i + 1}/3] p{i} proved by prover-0" for i in range(3)]


@pytest.mark.parametrize("proving", [False, True])
def test_a_quiet_job_shows_in_a_log_that_it_still_runs(proving: bool) -> None:
    printed, lines = threading.Event(), list[str]()

    class Log(StringIO):
        def write(self, text: str) -> int:
            lines.append(text)
            if "still" in text or "1 of 4 done" in text:
                printed.set()
            return len(text)

    console = Console(file=Log(), width=100, force_terminal=False, highlight=False)
    with ProgressDisplay(console, quiet=0.01) as display:
        stages = {"proving": 2, "synthesising": 1, "done": 1} if proving else {}
        told = "stage" if proving else "waiting"
        display(Progress(told, None, None, None, 1, 0, 4, None if proving else "the key, still", stages=stages))
        printed.clear()  # the line of the event itself
        assert printed.wait(60)
    expected = "proving, 1 of 4 done: 1 synthesising, 2 proving (" if proving else "waiting for the key, still"
    assert expected in "".join(lines)


def test_a_log_on_a_full_disk_does_not_end_the_job() -> None:
    failed = threading.Event()

    class Closed(StringIO):
        def write(self, text: str) -> int:
            failed.set()
            raise OSError(errno.ENOSPC, "no room")

    with ProgressDisplay(Console(file=Closed(), force_terminal=False), quiet=0.01):
        assert failed.wait(60)


def test_commitments_are_told_once_each_before_any_proof() -> None:
    """The first half of a job's time, in which nothing is proven yet."""
    console = plain()
    with ProgressDisplay(console) as display:
        for committed in (1, 1, 2, 3, 2, 1):  # then they are proven
            display(Progress("stage", None, None, None, 0, 0, 3, stages={"committed": committed}))
    assert text(console).splitlines() == [f"[{k}/3] committed" for k in (1, 2, 3)]


def test_the_summary_tells_the_time_of_commitments() -> None:
    shown = summary(report([partition("a", commit_seconds=0.5), partition("b", commit_seconds=0.25)])).splitlines()
    assert shown[0].split() == ["partition", "status", "witness", "commit", "prove", "verify", "tries", "by"]
    assert "500 ms" in shown[1]
    assert "commit" not in summary(report([partition("a")]))


def test_too_little_memory_is_answered_with_more_of_it_or_more_partitions() -> None:
    lacking = partition("a", status="failed", error="needs 32 GiB", error_kind="OutOfMemory")
    assert "--partitions" in way_on(Path("run"), report([lacking], system="stark"))
    assert "--partitions" not in way_on(Path("run"), report([lacking], system="groth16"))
    assert way_on(Path("run"), report([partition("a")])) == "distprove resume run tries the rest again"
    own = way_on(Path("my run"), report([partition("a")]), "mine:Mine")
    assert own == "distprove resume 'my run' --program mine:Mine tries the rest again"


def test_a_long_log_stays_short_and_ends_with_the_last() -> None:
    console = plain()
    with ProgressDisplay(console) as display:
        for event in events(10_050):
            display(event)
    lines = text(console).splitlines()
    assert len(lines) <= PLAIN_LINES + 3
    assert lines[-1].startswith("[10050/10050]")


def test_a_remark_on_devices_names_nothing_but_them() -> None:
    console = plain()
    with ProgressDisplay(console) as display:
        display(Progress("set-aside", None, None, None, 0, 0, 2, "GPU-1 on here is not used since noon"))
    assert text(console) == "devices: GPU-1 on here is not used since noon\n"


def test_trouble_has_a_line_of_its_own() -> None:
    console = plain()
    with ProgressDisplay(console) as display:
        display(Progress("bad-proof", "p0", "prover-1", "ready", 0, 0, 2))
        display(Progress("failed", "p1", None, "failed", 0, 1, 2, "bad [bracketed] input"))
    assert "p0 on prover-1: a proof did not verify" in text(console)
    assert "p1: failed: bad [bracketed] input" in text(console)


def partition(name: str, **changes: Any) -> dict[str, Any]:
    entry = {
        "name": name,
        "status": "proved",
        "error": None,
        "error_kind": None,
        "worker": "prover-0",
        "attempts": 1,
        "synthesise_seconds": 0.01,
        "prove_seconds": 0.2,
        "verify_seconds": 0.004,
        "to_device": 0,
        "to_host": 0,
    }
    return {**entry, **changes}


def report(partitions: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {
        "status": "proved",
        "executor": "local",
        "facts": {},
        "key_digest": "ab" * 32,
        "job_digest": "cd" * 32,
        "wall_seconds": 2.0,
        "partitions": partitions,
        "workers": [],
        "counters": {"retries": 0, "bad_proofs": 0},
        **changes,
    }


def summary(data: dict[str, Any], width: int = 100) -> str:
    console = plain(width)
    show_summary(console, Path("run"), data)
    return text(console)


def test_the_summary_lists_partitions_and_totals() -> None:
    shown = summary(report([partition("a"), partition("b", status="resumed", attempts=0)]))
    assert "proved: 2 of 2 partitions" in shown
    assert "0.50 a second" in shown
    assert "kept" in shown
    assert "to GPU" not in shown
    assert "ab" * 32 in shown


def test_the_summary_shows_pcie_bytes_retries_errors_and_insecure_keys() -> None:
    bad = partition("b", status="failed", attempts=4, worker=None, error="wire 3 is not 1", error_kind="FormatError")
    data = report(
        [partition("a", to_device=1 << 20, to_host=512), bad],
        status="failed",
        counters={"retries": 3, "bad_proofs": 0},
        facts={"insecure_setup": True},
    )
    shown = summary(data)
    assert "1.0 MiB" in shown
    assert "512 B" in shown
    assert "wire 3 is not 1" in shown
    assert "3 retries" in shown
    assert "bad proofs" not in shown
    assert "insecure development set-up" in shown


def test_a_long_job_shows_what_failed_first() -> None:
    parts = [partition(f"p{i}") for i in range(MAX_ROWS + 5)] + [partition("z", status="failed", error="broken")]
    shown = summary(report(parts, status="failed"))
    assert shown.splitlines()[1].startswith("z")
    assert "and 6 more" in shown


@pytest.mark.parametrize("terminal", [False, True])
def test_what_a_job_waits_for_before_it_works_is_shown(terminal: bool) -> None:
    console = Console(file=StringIO(), width=100, force_terminal=terminal)
    seen = []
    with ProgressDisplay(console) as display:
        for what in (
            "Ray",
            "places for 2 provers and 1 synthesiser",
            *(f"the key, loaded on {k} of 2" for k in (0, 1)),
        ):
            display(Progress("waiting", None, None, None, 0, 0, 3, what))
            seen.append(display.doing)
        display(Progress("stage", None, None, None, 0, 0, 3, stages={"proving": 1}))
        display(Progress("waiting", None, None, None, 0, 0, 3, "the key, loaded on 1 of 2"))  # again, after a death
    assert seen[0] == "waiting for Ray"
    assert seen[-1] == "waiting for the key, loaded on 1 of 2"
    assert display.doing == "proving"
    if not terminal:
        lines = [line.partition(" (")[0] for line in text(console).splitlines()]
        assert lines == [
            "waiting for Ray",
            "waiting for places for 2 provers and 1 synthesiser",
            "waiting for the key",
        ]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Console:
    """The console of standard error, which is a terminal."""
    console = Console(file=StringIO(), width=100, force_terminal=True, get_time=lambda: time.monotonic())
    monkeypatch.setattr(progress, "err", lambda: console)
    monkeypatch.setattr(progress, "SOON", 1000.0)
    return console


def test_a_terminal_counts_the_time_before_the_first_event(terminal: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    for module in (progress, sys.modules[__name__]):  # the console asks this one
        give_time(monkeypatch, module, monotonic=lambda: now[0])
    with shown("job") as display:
        now[0] += 3600.0
        display(Progress("chosen", None, None, None, 0, 0, 2, "without Ray"))
    assert "1:00:00" in text(terminal)


def test_nothing_is_opened_that_nobody_closes(terminal: Console) -> None:
    with shown("job") as display:
        pass
    display(Progress("waiting", None, None, None, 0, 0, 2, "Ray"))
    assert not text(terminal)
