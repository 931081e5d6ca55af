"""status.json, and what `distprove top` makes of it."""

from __future__ import annotations

import json
import os
import threading
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cluster.record.journal import journal_tail
from cluster.record.report import PartitionReport, Report, WorkerReport
from cluster.record.run import Run
from cluster.record.status import FILE, StatusFile, node_view, read_status, status_view
from cluster.record.story import Story
from distprove.cli import top as command
from distprove.cli.app import app
from distprove.cli.top import latest_run, look, over, screen
from distprove.errors import FormatError, UsageError
from distprove.formats.folder import Folder
from tests.support.made_runs import MadeRun, governor
from tests.support.own_time import give_time


def report(status: str = "running") -> Report:
    partitions = [PartitionReport(f"p{i}") for i in range(5)]
    workers = [
        WorkerReport("prover-0", "prover", "n", "ready", {"device": "H200", "gpus": ["3"], "node": "id"}, 2),
        WorkerReport("synthesiser-0", "synthesiser", "n", "ready", partitions=3),
    ]
    return Report("toy", {}, "local", "00", partitions, workers, status=status, started=time.time() - 30.0)


def view(status: str = "running") -> dict[str, Any]:
    tasks = {"prover-0": [["p2", "proving"], ["p3[red]", "proving"]]}
    return status_view(report(status), {"done": 2, "proving": 2, "waiting": 1}, rate=0.5, tasks=tasks)


def shown(folder: Path, width: int = 110) -> str:
    console = Console(file=StringIO(), width=width, force_terminal=False)
    console.print(screen(folder, look(folder)))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def write(folder: Path, content: dict[str, Any], nodes: list[dict[str, Any]]) -> Path:
    made = MadeRun(5, faults=(1,)).make(folder)
    with StatusFile(Folder.open_ours(made), lambda: nodes) as status:
        deadline = time.monotonic() + 120
        while not (made / FILE).exists() and time.monotonic() < deadline:
            status.post(lambda: content)
            time.sleep(0.01)
    return made


def test_a_running_job_is_shown_with_all_that_moves(tmp_path: Path) -> None:
    run = write(tmp_path / "run", view(), [governor("id", 5.0)])
    text = shown(run)
    assert "2 of 5 partitions" in text
    assert "30 partitions a minute" in text
    assert "about 6.00 s left" in text
    assert "p2 (proving), p3[red] (proving)" in text
    assert "0 of 1 at work" in text
    assert "threads 1, deallocations 2" in " ".join(text.split())
    assert "fault part-1 on prover" in " ".join(text.split())
    assert not over(look(run))


def test_a_driver_that_is_silent_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path / "run", view(), [])
    said: float = json.loads((run / FILE).read_text())["time"]
    give_time(monkeypatch, command, time=lambda: said + 100)
    assert "no word from the driver for 1 min 40 s" in shown(run)


def test_a_rate_of_next_to_nothing_leaves_no_time_to_tell(tmp_path: Path) -> None:
    run = write(tmp_path / "run", view(), [])
    content = json.loads((run / FILE).read_text())
    (run / FILE).write_text(json.dumps({**content, "rate": 1e-99}))
    assert "about ? left" in shown(run)
    (run / FILE).write_text(json.dumps({**content, "rate": 5e-324}))
    assert "left" not in shown(run)


def test_the_last_state_of_a_run_stays(tmp_path: Path) -> None:
    run = MadeRun(5).make(tmp_path / "run")
    others = set(threading.enumerate())
    status = StatusFile(Folder.open_ours(run), lambda: [])
    with status:
        status.post(view)
    ended = report("proved")
    ended.wall_seconds = 10.0
    status.finish(status_view(ended, {"proved": 4, "resumed": 1}))
    last = read_status(run)
    assert (last["status"], last["done"], last["total"], last["rate"]) == ("proved", 5, 5, 0.2)
    assert over(last)
    assert not [t for t in threading.enumerate() if t.name == "distprove-status" and t not in others]
    done = CliRunner().invoke(app, ["top", str(run)])
    assert done.exit_code == 0
    assert "proved" in done.stdout
    assert "left" not in done.stdout


def test_without_a_terminal_it_is_shown_once(tmp_path: Path) -> None:
    run = write(tmp_path / "run", view(), [])
    done = CliRunner().invoke(app, ["top", str(run)])
    assert done.exit_code == 0
    assert "2 of 5 partitions" in done.stdout


def test_the_latest_run_is_found(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run here"):
        latest_run(tmp_path)
    for number, name in enumerate(("old", "new")):
        run = write(tmp_path / name, view(), [])
        (run / FILE).touch()

        os.utime(run / FILE, (number, number))
    assert latest_run(tmp_path) == tmp_path / "new"
    assert latest_run(tmp_path / "old") == tmp_path / "old"


@pytest.mark.parametrize("status", ["running", None, "proved"])
def test_a_driver_that_is_dead_is_known_by_its_lock(status: str | None, tmp_path: Path) -> None:
    """Its last word says that it runs, or that it starts. One that has said how it ended is not dead."""
    run = write(tmp_path / "run", view(status), []) if status is not None else MadeRun(1).make(tmp_path / "run")
    if status is not None:
        (run / "report.json").unlink()
    with Run.open(run):
        assert look(run)["status"] == (status or "starting")
        assert Story.read(run).status in ("running", "proved")
    assert look(run)["status"] == (status if status == "proved" else "dead")
    text = " ".join(shown(run).split())
    assert (f"process {os.getpid()} on" in text and "is gone; distprove resume" in text) == (status != "proved")
    if status == "running":
        assert Story.read(run).status == "dead"
        done = CliRunner().invoke(app, ["top", str(run)])
        assert "dead" in done.stdout


def test_a_run_that_starts_and_what_is_no_run(tmp_path: Path) -> None:
    run = MadeRun(1).make(tmp_path / "run")
    assert "starting" in shown(run)
    assert CliRunner().invoke(app, ["top", str(tmp_path)]).exit_code == 2


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"total": "5"},
        {"workers": [1]},
        {"workers": [{"tasks": [1]}]},
        {"workers": [{"tasks": [], "gpus": [], "partitions": 1}]},
        {"stages": []},
        {"rate": None},
    ],
)
def test_what_is_no_status_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    run = write(tmp_path / "run", view(), [])
    (run / FILE).write_text(json.dumps({**json.loads((run / FILE).read_text()), **damage}))
    with pytest.raises(FormatError):
        read_status(run)


def test_a_governor_that_says_little_is_no_trouble() -> None:
    assert node_view({"node": "n"})["cpu"] is None
    assert node_view(governor("n", 1.0))["leases"].keys() == {"threads", "deallocations"}


def test_the_end_of_a_journal_begins_with_a_whole_line(tmp_path: Path) -> None:
    lines = [json.dumps({"event": f"e{i}"}) + "\n" for i in range(100)]
    (tmp_path / "journal.jsonl").write_text("".join(lines) + '{"event": "torn')
    events = [event["event"] for event in journal_tail(tmp_path, 100)]
    assert events == [f"e{i}" for i in range(100 - len(events), 100)]
    assert 2 <= len(events) <= 6
    assert len(journal_tail(tmp_path, 1 << 20)) == 100
    assert journal_tail(tmp_path / "none", 10) == []


def test_it_is_redrawn_until_the_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path / "run", view(), [])
    console = Console(file=StringIO(), width=100, force_terminal=True)
    looks: list[int] = []

    def later(_: float) -> None:
        looks.append(1)
        if len(looks) == 3:
            content = json.loads((run / FILE).read_text())
            (run / FILE).write_text(json.dumps({**content, "status": "failed", "done": 4, "failed": 1}))

    monkeypatch.setattr(command, "out", lambda: console)
    give_time(monkeypatch, command, sleep=later)
    command.top(run)
    assert len(looks) == 3
    assert isinstance(console.file, StringIO)
    assert "1 failed" in console.file.getvalue()


def test_of_a_long_event_a_part_is_shown(tmp_path: Path) -> None:
    """Whoever sends a run would else choose how long each second's screen takes to draw."""
    event = {"event": "fault", "time": 1.0, "partition": "p0", "reason": "1/" * 20_000}
    (tmp_path / "journal.jsonl").write_text(json.dumps(event) + "\n")
    (shown,) = command._events(tmp_path)
    assert "characters left out" in str(shown)
    assert len(str(shown)) < 600
