"""Metrics of a service and of runs: what they count, and that documents and tools agree with them."""

from __future__ import annotations

import shutil
import subprocess
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cluster.record.metrics import ENDED, RUNS, textfile
from cluster.record.story import read_report
from cluster.service.metrics import METRICS, STATE, ServiceMetrics
from cluster.service.views import JobRequest, JobState
from distprove.host.telemetry import GpuTelemetry
from tests.support import ROOT
from tests.support.fake_nvml import FakeGpu, FakeNvml
from tests.support.fake_service import FakeService, served
from tests.support.made_runs import BEGAN, MadeRun

Samples = dict[tuple[str, tuple[str, ...]], float]


def samples(text: bytes) -> Samples:
    """Values by name and label values, in the order of the labels' names."""
    families = text_string_to_metric_families(text.decode())
    return {(s.name, tuple(v for _, v in sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def job(service: FakeService, id: str, **facts: object) -> None:
    service.submit(JobRequest(id, {"system": "toy"}))
    service.change(id, **facts)


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GpuTelemetry, "open", lambda: None)


def test_a_job_counts_when_it_is_over(tmp_path: Path) -> None:
    service = FakeService(tmp_path)
    metrics = ServiceMetrics(service)
    MadeRun(3, faults=(1,)).make(tmp_path / "a")
    job(service, "a", state=JobState.RUNNING, started=3.0)
    job(service, "waiting")
    before = samples(metrics.text())
    assert before["distprove_jobs", ("running",)] == 1
    assert before["distprove_queue_oldest_seconds", ()] > 1e6
    assert ("distprove_trouble_total", ("faults",)) not in before
    over = {"state": JobState.PROVED, "first_proof": 3.5, "ended": 9.0, "cold": True}
    service.change("a", **over)
    job(service, "lost", **{**over, "state": JobState.CANCELLED, "started": None, "cold": None, "first_proof": None})
    after = samples(metrics.text())
    assert after["distprove_trouble_total", ("faults",)] == after["distprove_trouble_total", ("retries",)] == 1
    assert after["distprove_stage_seconds_count", ("prove", "groth16")] == 3
    assert after["distprove_job_wait_seconds_sum", ("normal",)] == 2.0
    assert after["distprove_first_proof_seconds_sum", ("cold",)] == 0.5
    assert after["distprove_key_uses_total", ("cold",)] == 1
    assert after["distprove_job_seconds_count", ("proved",)] == 1
    assert after["distprove_reports_skipped_total", ()] == 1, "the one that never had a run"
    again = samples(metrics.text())
    assert again["distprove_stage_seconds_count", ("prove", "groth16")] == 3, "a job counts once"
    metrics.close()
    assert not service.listeners


def test_jobs_that_nobody_scrapes_are_counted_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.service.metrics.AT_ONCE", 3)
    service = FakeService(tmp_path)
    metrics = ServiceMetrics(service)
    for number in range(9):
        job(service, f"job-{number}", state=JobState.PROVED, started=3.0, ended=9.0)
        assert len(metrics._ended) <= 3
    assert samples(metrics.text())["distprove_job_seconds_count", ("proved",)] == 9
    metrics.close()


def test_gpus_and_workers_are_told_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml([FakeGpu()], errors=[(0, 79)])
    monkeypatch.setattr(GpuTelemetry, "open", lambda: GpuTelemetry(nvml))
    metrics = ServiceMetrics(FakeService(tmp_path))
    told = samples(metrics.text())
    assert told["distprove_gpu_power_watts", ("0", "GPU-0")] == 500.0
    assert told["distprove_gpu_xid_errors_total", ("0", "GPU-0", "79")] == 1
    assert told["distprove_worker_lost", ("H200", "node-1", "prover-1")] == 1
    assert told["distprove_worker_busy_ratio", ("H200", "node-1", "prover-0")] == 0.83
    assert ("distprove_worker_memory_used_bytes", ("H200", "node-1", "prover-1")) not in told
    assert told["distprove_key_bytes", ()] == 1 << 30
    metrics.close()
    assert nvml.closed


def test_keys_that_are_gone_were_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = FakeService(tmp_path)
    metrics = ServiceMetrics(service)
    assert samples(metrics.text())["distprove_key_evictions_total", ()] == 0
    without = replace(service.overview(), keys=())
    monkeypatch.setattr(service, "overview", lambda: without)
    assert samples(metrics.text())["distprove_key_evictions_total", ()] == 1


def test_metrics_take_the_token_and_tell_no_job(tmp_path: Path) -> None:
    MadeRun(2, title="secret title").make(tmp_path / "secret-job")
    with served(tmp_path) as found:
        job(found.service, "secret-job", state=JobState.PROVED, started=2.0, ended=3.0, title="secret title")
        url = f"{found.server.url}/metrics"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, timeout=120)
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {found.token}"})
        with urllib.request.urlopen(asked, timeout=120) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = answer.read()
    assert samples(text)["distprove_run_partitions_total", ("proved", "groth16")] == 2
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
    metrics = ServiceMetrics(FakeService(tmp_path))
    done = subprocess.run([promtool, "check", "metrics"], input=metrics.text(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_document_lists_every_metric() -> None:
    """Put what is expected into docs/operations.md when a metric changes."""
    head = "| metric | kind | labels | |\n|---|---|---|---|\n"
    rows = [f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.about} |\n" for m in (*METRICS, ENDED)]
    assert head + "".join(rows) in (ROOT / "docs" / "operations.md").read_text(), "\n" + head + "".join(rows)


def test_every_metric_is_declared_once_and_told(tmp_path: Path) -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS) == len(STATE) + len(RUNS) + 6
    text = ServiceMetrics(FakeService(tmp_path)).text().decode()
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {metric.name.removesuffix("_total") for metric in METRICS} <= names
