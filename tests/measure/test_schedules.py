"""The command that plays random schedules by the million, with a world in which two seeds fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support import ROOT

BAD = (7, 611)


def Choices(seed: int) -> int:
    return seed


def failure_of(seed: int, steps: int) -> tuple[Exception | None, list[Any]]:
    return (ValueError("wrong\nindeed") if seed in BAD else None), [seed] * steps


def played(*given: str, out: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    command = [sys.executable, "-m", "distprove.measure.campaign.schedules", *given, "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done, json.loads(out.read_text())


def test_each_failure_is_a_line_with_its_seed(tmp_path: Path) -> None:
    of = ("--world", __name__, "--processes", "2", "--steps", "3", "--count")
    done, result = played(*of, "1001", out=tmp_path / "all.json")
    assert done.returncode == 1, done.stderr
    told = sorted(line for line in done.stdout.splitlines() if line.startswith("seed"))
    assert told == [f"seed {seed}: ValueError: wrong indeed" for seed in sorted(BAD, key=str)]
    assert (result["schedules"], result["events"], result["failures"]) == (1001, 3003, 2)
    done, result = played(*of, "300", "--first", "8", out=tmp_path / "some.json")
    assert (done.returncode, result["schedules"], result["failures"]) == (0, 300, 0), done.stderr


def test_it_ends_when_its_time_is_over(tmp_path: Path) -> None:
    of = (
        "--world",
        __name__,
        "--processes",
        "1",
        "--steps",
        "3",
        "--count",
        "1000",
        "--first",
        "1000",
        "--seconds",
        "0",
    )
    done, result = played(*of, out=tmp_path / "some.json")
    assert (done.returncode, result["schedules"]) == (0, 250), done.stderr


def test_it_plays_the_world_of_the_scheduler(tmp_path: Path) -> None:
    done, result = played("--processes", "1", "--count", "20", out=tmp_path / "out.json")
    assert (done.returncode, result["schedules"]) == (0, 20), done.stdout + done.stderr
    assert result["events"] > 200
