"""Logs as JSON: one object a line, with job, partition and GPU, and nothing that may be secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.eventlog import job_logger, log_progress
from cluster.scheduler.jobs import Progress
from cluster.service.views import JobState, JobView, Priority

SECRET = "4242424242"
UNCAUGHT = f"""
import threading
from distprove.host.log import set_up_logging
set_up_logging()
def fail(): raise ValueError("witness {SECRET}")
thread = threading.Thread(target=fail); thread.start(); thread.join()
fail()
"""


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DISTPROVE_LOG_FORMAT": "json"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment, cwd=cwd)


def test_a_job_of_worker_processes_is_told_in_json_lines(tmp_path: Path) -> None:
    job = ("stark", "fibonacci", "--rows", "16", "--partitions", "2", "--isolate", "--backend", "cpu", "--threads", "1")
    done = run("-m", "distprove", "prove", *job, "--out", "run-7", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = lines(done.stderr)
    assert {line["job"] for line in told} == {"run-7"}
    assert {line["partition"] for line in told if line["event"] == "proved"} == {"part-0000", "part-0001"}
    assert any(line["event"] == "worker-ready" and line["worker"] == "prover-0" for line in told)
    assert told[0]["event"] == "chosen"
    assert (told[-1]["event"], told[-1]["status"]) == ("ended", "proved")
    assert all(line["time"].endswith("Z") and line["level"] == "info" for line in told)


def test_an_error_of_a_command_is_a_line_too(tmp_path: Path) -> None:
    done = run("-m", "distprove", "prove", "missing.toml", "--out", "run", cwd=tmp_path)
    (told,) = lines(done.stderr)
    assert (done.returncode, told["event"], told["level"]) == (2, "error", "error")
    assert "missing.toml" in told["detail"]


def test_an_uncaught_exception_is_told_without_its_text() -> None:
    done = run("-c", UNCAUGHT)
    assert done.returncode == 1
    assert SECRET not in done.stderr
    assert [(line["event"], line["error"]) for line in lines(done.stderr)] == [("uncaught", "ValueError")] * 2
    assert "<string>:5" in lines(done.stderr)[0]["at"]


def test_a_service_tells_each_state_of_a_job_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "distprove.job")
    heard = job_logger()
    view = JobView("j", JobState.RUNNING, Priority.NORMAL, "toy", "a title", "/run")
    for changed in (view, replace(view, done=1), replace(view, state=JobState.FAILED, error="no device")):
        heard(changed)
    told: list[Any] = list(caplog.records)
    assert [(record.message, record.levelname) for record in told] == [
        ("job-running", "INFO"),
        ("job-failed", "WARNING"),
    ]
    assert told[1].fields["error"] == "no device"
    assert "title" not in told[0].fields


def test_lines_of_text_act_on_no_terminal() -> None:
    script = "from distprove.host.log import logger, set_up_logging; set_up_logging(); "
    script += "logger('a').error('\\x1b[2J\\u202ewas here')"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "ERROR a: \\x1b[2J\\u202ewas here" in done.stderr


def test_lines_of_text_name_the_job_and_what_happened_to_it() -> None:
    """In plain logs every job was "job-running", whichever it was."""
    script = "from distprove.host.log import log_event, logger, set_up_logging; set_up_logging(); "
    script += "log_event(logger('a'), 'job-failed', job='j-1', error='no\x1bdevice', attempt=None)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert "INFO a: job-failed job=j-1 error=no\\x1bdevice\n" in done.stderr


def test_an_event_has_the_gpu_of_its_worker(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "distprove.job")
    event = Progress("fault", "p0", "prover-1", "ready", 0, 0, 2, "it\nfailed", gpus=("1",))
    log_progress("job", event)
    assert not caplog.records, "people read the display"
    monkeypatch.setenv("DISTPROVE_LOG_FORMAT", "json")
    log_progress("job", event)
    log_progress("job", event._replace(event="stage"))
    (record,) = caplog.records
    fields: Any = record
    assert (record.levelname, fields.fields["gpu"], fields.fields["worker"]) == ("WARNING", "1", "prover-1")
