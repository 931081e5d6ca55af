"""Metrics of a service and of runs: what they count, and that documents and tools agree with them."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import distprove.registry as registry
from cluster.record.metrics import ENDED, RUNS, STAGES, textfile
from cluster.record.report import Counters, PartitionReport, Report
from cluster.record.story import read_report
from cluster.service.metrics import METRICS, STATE
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.views import MOST_SUBMITTED, JobRequest, JobState
from distprove.host.telemetry import GpuTelemetry
from distprove.settings import ExecutorSettings
from tests.support import ROOT
from tests.support.await_end import await_end
from tests.support.fake_nvml import FakeGpu, FakeNvml
from tests.support.fake_service import FakeService, served
from tests.support.instant_fleet import instant_scheduler
from tests.support.made_runs import BEGAN, MadeRun
from tests.support.scraped import samples
from tests.support.toy_system import TOY_BACKEND

CROWD = 1_200
"""Jobs that end between two scrapes: more than a service keeps of any list of jobs that ended."""


def job(service: FakeService, id: str, **facts: object) -> None:
    service.submit(JobRequest(id, {"system": "toy"}))
    service.change(id, **facts)


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GpuTelemetry, "open", lambda: None)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Service]]:
    """Opens services of the toy system in one folder, whose workers answer at once, after `before`."""
    monkeypatch.setitem(registry.SYSTEMS, "toy", "tests.support.toy_entry")
    settings = ExecutorSettings(local=True, isolate=False, threads=2, backend=TOY_BACKEND)
    with ExitStack() as stack:

        def opened(before: Callable[[str, str], None] | None = None, most: int = 4) -> Service:
            instant: Any = lambda settings: instant_scheduler(settings, before, most)  # noqa: E731
            service = Service(tmp_path / "service", settings, Limits(queued=2 * CROWD, kept=CROWD), instant)
            stack.callback(lambda: service.close(drain=False) if service._accepting else None)
            service.start()
            return service

        yield opened


def ask(folder: Path, id: str, **options: object) -> JobRequest:
    return JobRequest(id, {"system": "toy", "folder": str(folder), **options})


def test_no_job_that_ends_between_two_scrapes_is_left_out(tmp_path: Path, toy: Callable[..., Service]) -> None:
    service = toy()
    assert service.metrics.text()
    ids = [f"job-{number}" for number in range(CROWD)]
    for first in range(0, CROWD, MOST_SUBMITTED):
        service.submit_all([ask(tmp_path, id) for id in ids[first : first + MOST_SUBMITTED]])
    for id in ids:
        assert await_end(service, id, 600.0).state is JobState.PROVED
    told = samples(service.metrics.text())
    assert told["distprove_job_seconds_count", ("proved",)] == CROWD
    assert told["distprove_job_wait_seconds_count", ("normal",)] == CROWD
    assert told["distprove_run_seconds_count", ("proved", "toy")] == CROWD
    assert told["distprove_run_partitions_total", ("proved", "toy")] == CROWD
    assert [told["distprove_stage_seconds_count", (stage, "toy")] for stage in STAGES] == [CROWD] * len(STAGES)


def test_what_is_proven_counts_once_over_a_restart(tmp_path: Path, toy: Callable[..., Service]) -> None:
    reached, let = threading.Event(), threading.Event()

    def before(job: str, name: str) -> None:
        if (job, name) == ("long", "p5"):
            reached.set()
            assert let.wait(180.0)

    service = toy(before, most=1)
    service.submit(ask(tmp_path, "short"))
    assert await_end(service, "short", 180.0).state is JobState.PROVED
    service.submit(ask(tmp_path, "long", count=9))
    assert reached.wait(180.0)
    while service.job("long").done < 5:
        time.sleep(0.001)
    ending = threading.Thread(target=service.close, kwargs={"drain": False})
    ending.start()
    while not service._stopping:
        time.sleep(0.001)
    with service._lock:
        let.set()
    ending.join(180.0)
    first = samples(service.metrics.text())
    again = toy()
    assert await_end(again, "long", 180.0).state is JobState.PROVED
    second = samples(again.metrics.text())
    before_it, proved, resumed = (
        told["distprove_run_partitions_total", (status, "toy")]
        for told, status in ((first, "proved"), (second, "proved"), (second, "resumed"))
    )
    assert first["distprove_run_seconds_count", ("interrupted", "toy")] == 1
    assert proved + resumed == 9
    assert resumed - 1 <= before_it - 1 <= resumed, "one may have been stored and its driver not have heard of it"
    assert second["distprove_job_seconds_count", ("proved",)] == 1, "the other one ended before"


def test_a_job_counts_when_it_is_over(tmp_path: Path) -> None:
    service = FakeService(tmp_path)
    job(service, "a", state=JobState.RUNNING, started=3.0)
    job(service, "waiting")
    before = samples(service.metrics.text())
    assert before["distprove_jobs", ("running",)] == 1
    assert before["distprove_queue_oldest_seconds", ()] > 1e6
    assert before["distprove_trouble_total", ("faults",)] == 0
    service.metrics.session(Report("groth16", {}, "local", "", [], counters=Counters(faults=2), status="failed"))
    over = {"state": JobState.PROVED, "first_proof": 3.5, "ended": 9.0, "cold": True}
    service.change("a", **over)
    job(service, "lost", **{**over, "state": JobState.CANCELLED, "started": None, "cold": None, "first_proof": None})
    after = samples(service.metrics.text())
    assert after["distprove_trouble_total", ("faults",)] == 2
    assert after["distprove_run_seconds_count", ("failed", "groth16")] == 1
    assert after["distprove_job_wait_seconds_sum", ("normal",)] == 2.0
    assert after["distprove_first_proof_seconds_sum", ("cold",)] == 0.5
    assert after["distprove_key_uses_total", ("cold",)] == 1
    assert after["distprove_job_seconds_count", ("proved",)] == 1
    assert after["distprove_reports_skipped_total", ()] == 1, "the one that never began"


def test_gpus_and_workers_are_told_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml([FakeGpu()], errors=[(0, 79)])
    monkeypatch.setattr(GpuTelemetry, "open", lambda: GpuTelemetry(nvml))
    metrics = FakeService(tmp_path).metrics
    told = samples(metrics.text())
    assert told["distprove_gpu_power_watts", ("0", "GPU-0")] == 500.0
    assert told["distprove_gpu_xid_errors_total", ("0", "GPU-0", "79")] == 1
    assert told["distprove_worker_lost", ("H200", "node-1", "prover-1")] == 1
    assert told["distprove_worker_busy_ratio", ("H200", "node-1", "prover-0")] == 0.83
    assert ("distprove_worker_memory_used_bytes", ("H200", "node-1", "prover-1")) not in told
    assert told["distprove_key_bytes", ()] == 1 << 30
    assert told["distprove_key_evictions_total", ()] == 7
    metrics.close()
    assert nvml.closed.is_set()


def test_metrics_take_the_token_and_tell_no_job(tmp_path: Path) -> None:
    report = Report("groth16", {}, "local", "", [PartitionReport("secret-part", "proved")], status="proved")
    with served(tmp_path) as found:
        job(found.service, "secret-job", state=JobState.PROVED, started=2.0, ended=3.0, title="secret title")
        found.service.metrics.session(report)
        url = f"{found.server.url}/metrics"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, timeout=120)
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {found.token}"})
        with urllib.request.urlopen(asked, timeout=120) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = answer.read()
    assert samples(text)["distprove_run_partitions_total", ("proved", "groth16")] == 1
    assert b"secret" not in text


def test_the_metrics_of_one_run_are_a_textfile(tmp_path: Path) -> None:
    run = MadeRun(4, failing=(2,)).make(tmp_path / 'a "run"\n')
    told = samples(textfile(run.name, read_report(run)))
    assert told["distprove_run_partitions_total", ("failed", "groth16")] == 1
    assert told["distprove_stage_seconds_count", ("synthesise", "groth16")] == 3
    (ended,) = (value for (name, _), value in told.items() if name == ENDED.name)
    assert ended > BEGAN


@pytest.mark.parametrize("hostile", [-5, 1e308, 10**400, "x" * 99, True])
def test_a_report_of_somebody_else_breaks_no_metrics(tmp_path: Path, hostile: object) -> None:
    report = read_report(MadeRun(2, faults=(1,)).make(tmp_path / "run"))
    report["partitions"][0] |= {"to_device": hostile, "prove_seconds": -1.0}
    report |= {"system": "s\ud800\x1b[2J", "started": hostile}
    assert textfile("n\udc80", report)


def test_a_report_of_somebody_else_adds_no_series(tmp_path: Path) -> None:
    """Whoever had a run of theirs at `--out` could put a million statuses there, each a series for ever."""
    report = read_report(MadeRun(40).make(tmp_path / "run"))
    for number, partition in enumerate(report["partitions"]):
        partition["status"] = f"s{number}"
    told = samples(textfile("n", {**report, "status": "x" * 9999, "system": "y" * 9999}))
    assert told["distprove_run_partitions_total", ("other", "other")] == 40
    assert told["distprove_run_seconds_count", ("other", "other")] == 1
    assert not any("s1" in labels or "x" * 9999 in labels for _, labels in told)


def test_promtool_finds_nothing_to_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    nvml = FakeNvml([FakeGpu()], errors=[(0, 79)])
    monkeypatch.setattr(GpuTelemetry, "open", lambda: GpuTelemetry(nvml))
    metrics = FakeService(tmp_path).metrics
    done = subprocess.run([promtool, "check", "metrics"], input=metrics.text(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_document_lists_every_metric() -> None:
    """Put what is expected into docs/operations.md when a metric changes."""
    head = "| metric | kind | labels | |\n|---|---|---|---|\n"
    rows = [f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.about} |\n" for m in (*METRICS, ENDED)]
    assert head + "".join(rows) in (ROOT / "docs" / "operations.md").read_text(), "\n" + head + "".join(rows)


def test_every_metric_is_declared_once_and_told(tmp_path: Path) -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS) == len(STATE) + len(RUNS) + 5
    text = FakeService(tmp_path).metrics.text().decode()
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {metric.name.removesuffix("_total") for metric in METRICS} <= names
