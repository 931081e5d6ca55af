"""Prometheus metrics of a standing service, as /metrics tells them.

Gauges are what the service says of itself at the moment of a scrape (`Service.overview`). Counters and histograms grow
when a job or a session ends, so a scrape misses none, however rare it is. No metric names a job or what it proves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from cluster.record.metrics import RUNS, Metric, RunMetrics, register
from cluster.record.report import PartitionReport, Report
from cluster.service.views import JobState, JobView, Overview
from distprove.formats.visible import visible
from distprove.host.memory import most_resident
from distprove.host.telemetry import GpuTelemetry

WORKER = ("worker", "node", "device")
GPU = ("gpu", "uuid")
JOBS = (
    Metric("distprove_job_wait_seconds", "histogram", "Seconds of a job in the queue", ("priority",)),
    Metric("distprove_job_seconds", "histogram", "Seconds of a job from its submission to its end", ("state",)),
    Metric(
        "distprove_first_proof_seconds",
        "histogram",
        "Seconds from the start of a job to its first partition proof",
        ("key",),
    ),
    Metric(
        "distprove_key_uses_total", "counter", "Jobs whose key was there (warm) or had to be loaded (cold)", ("key",)
    ),
    Metric("distprove_reports_skipped_total", "counter", "Jobs that ended before they began: no session tells of them"),
)
"""What is counted of jobs as they end."""
STATE = (
    Metric("distprove_info", "gauge", "1, with the version of distprove", ("version",)),
    Metric("distprove_accepting", "gauge", "1 while the service takes jobs"),
    Metric("distprove_jobs", "gauge", "Jobs by state; those that are over, ever", ("state",)),
    Metric("distprove_queue_capacity", "gauge", "Jobs that may be queued at a time"),
    Metric("distprove_queue_oldest_seconds", "gauge", "Age of the oldest queued job; 0 without one"),
    Metric("distprove_partitions_proved_total", "counter", "Partitions proven since the service started"),
    Metric("distprove_keys", "gauge", "Resident keys"),
    Metric("distprove_key_bytes", "gauge", "Bytes of the resident keys, each once"),
    Metric("distprove_key_evictions_total", "counter", "Idle keys that made room for others"),
    Metric("distprove_worker_busy_ratio", "gauge", "Share of the last minute for which a device computed", WORKER),
    Metric("distprove_worker_lost", "gauge", "1 for a worker that is not used any more", WORKER),
    Metric("distprove_worker_proven_total", "counter", "Partitions that a worker has proven", WORKER),
    Metric("distprove_worker_memory_used_bytes", "gauge", "Device memory in use, where the device tells", WORKER),
    Metric("distprove_worker_memory_total_bytes", "gauge", "Device memory, where the device tells", WORKER),
    Metric("distprove_memory_resident_bytes", "gauge", "The most memory that the service was resident in"),
    Metric("distprove_gpu_utilisation_ratio", "gauge", "Share of time with a kernel at work, of a GPU here", GPU),
    Metric("distprove_gpu_power_watts", "gauge", "Power of a GPU here", GPU),
    Metric("distprove_gpu_temperature_celsius", "gauge", "Temperature of a GPU here", GPU),
    Metric("distprove_gpu_memory_used_bytes", "gauge", "Memory of a GPU here in use, by whatever", GPU),
    Metric("distprove_gpu_ecc_errors_total", "counter", "Uncorrected memory errors since the driver was loaded", GPU),
    Metric(
        "distprove_gpu_xid_errors_total", "counter", "Critical errors reported since the first scrape", (*GPU, "xid")
    ),
)
"""What is so at the moment of a scrape. GPUs are those of the service's own machine."""
METRICS = (*STATE, *JOBS, *RUNS)

Sample = tuple[tuple[str, ...], float]


class ServiceMetrics(Collector):
    """The metrics of one service. Thread-safe."""

    def __init__(
        self, overview: Callable[[], Overview], jobs: Callable[..., list[JobView]], evicted: Callable[[], int]
    ) -> None:
        """`overview` and `jobs` are those of the service; `evicted` returns its scheduler's count of evictions. Whoever
        makes this calls `changed` for each job that changes, and `close` at the end."""
        self._overview, self._jobs, self._evicted = overview, jobs, evicted
        self._telemetry: GpuTelemetry | None = None
        self._looked = False
        self._lock = threading.Lock()
        self._seen: dict[str, list[Sample]] = {}
        """Samples of the state at this scrape, by metric."""
        self._registry = CollectorRegistry()
        self._runs, self._of = RunMetrics(self._registry), register(JOBS, self._registry)
        self._labelled = cache(lambda name, label: self._of[name].labels(label))
        self._registry.register(self)

    def changed(self, view: JobView) -> None:
        """Count a job that ended. The service calls this under its lock."""
        if not view.state.final:
            return
        if view.started is None:
            self._of["distprove_reports_skipped_total"].inc()
        else:
            wait = max(0.0, view.started - view.submitted)
            self._labelled("distprove_job_wait_seconds", view.priority.value).observe(wait)
        if view.ended is not None:
            whole = max(0.0, view.ended - view.submitted)
            self._labelled("distprove_job_seconds", view.state.value).observe(whole)
        if view.cold is not None:
            key = "cold" if view.cold else "warm"
            self._labelled("distprove_key_uses_total", key).inc()
            if view.first_proof is not None and view.started is not None:
                first = max(0.0, view.first_proof - view.started)
                self._labelled("distprove_first_proof_seconds", key).observe(first)

    def session(self, report: Report) -> None:
        """Count a session of a job that has a driver to itself, at its end."""
        self._runs.add(report.to_record())

    def trouble(self, counts: Mapping[str, int]) -> None:
        """Count what went wrong with short jobs, by the names of a report's counters."""
        self._runs.add_trouble(counts)

    def short(self, shared: Report, partitions: Sequence[PartitionReport]) -> None:
        """Count short jobs of one partition each, proven in a session with this report."""
        self._runs.add_proven(vars(shared), [*map(vars, partitions)], sessions=len(partitions))

    def text(self) -> bytes:
        """All metrics, in Prometheus' text format. May block."""
        with self._lock:
            self._look()
            return generate_latest(self._registry)

    def close(self) -> None:
        """Give back the library that reads the GPUs."""
        with self._lock:
            if self._telemetry is not None:
                self._telemetry.close()
            self._telemetry, self._looked = None, True

    def describe(self) -> list[Any]:
        """Nothing: `collect` asks the service, which may not have started when this is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The state of the service, as prometheus_client asks for it."""
        for metric in STATE:
            family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            made = family(metric.name, metric.about, labels=metric.labels)
            for labels, value in self._seen.get(metric.name, ()):
                made.add_metric([visible(label) for label in labels], value)
            yield made

    def _look(self) -> None:
        """Ask the service, and the GPUs."""
        overview = self._overview()
        queued = self._jobs(JobState.QUEUED, limit=overview.capacity) if overview.queued else []
        oldest = min((view.submitted for view in queued), default=time.time())
        found = self._seen = {
            "distprove_info": [((overview.version,), 1.0)],
            "distprove_accepting": [((), float(overview.accepting))],
            "distprove_jobs": [((state,), float(count)) for state, count in overview.counts.items()],
            "distprove_queue_capacity": [((), float(overview.capacity))],
            "distprove_queue_oldest_seconds": [((), max(0.0, time.time() - oldest))],
            "distprove_partitions_proved_total": [((), float(overview.partitions))],
            "distprove_keys": [((), float(sum(key.workers > 0 for key in overview.keys)))],
            "distprove_key_bytes": [((), float(sum(key.bytes for key in overview.keys if key.workers)))],
            "distprove_key_evictions_total": [((), float(self._evicted()))],
            "distprove_memory_resident_bytes": [((), float(most_resident()))],
        }
        for worker in overview.workers:
            labels = (worker.id, worker.node, worker.device)
            told = {
                "busy_ratio": worker.busy,
                "lost": float(worker.lost is not None),
                "proven_total": worker.proven,
                "memory_used_bytes": worker.memory_used,
                "memory_total_bytes": worker.memory_total,
            }
            _add(found, "distprove_worker_", labels, told)
        if not self._looked:
            self._telemetry, self._looked = GpuTelemetry.open(), True
        for gpu in self._telemetry.read() if self._telemetry is not None else ():
            place = (str(gpu.index), gpu.uuid)
            told = {
                "utilisation_ratio": gpu.utilisation,
                "power_watts": gpu.watts,
                "temperature_celsius": gpu.celsius,
                "memory_used_bytes": gpu.memory_used,
                "ecc_errors_total": gpu.ecc_errors,
            }
            _add(found, "distprove_gpu_", place, told)
            for xid, count in gpu.xids.items():
                _add(found, "distprove_gpu_", (*place, str(xid)), {"xid_errors_total": count})


def _add(found: dict[str, list[Sample]], prefix: str, labels: tuple[str, ...], told: dict[str, float | None]) -> None:
    for name, value in told.items():
        if value is not None:
            found.setdefault(f"{prefix}{name}", []).append((labels, float(value)))
