"""Prometheus metrics of sessions of runs, counted as they end: for a service's /metrics, and for a textfile."""

from __future__ import annotations

import collections
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from cluster.record.report import Counters
from distprove.formats.visible import visible
from distprove.registry import SYSTEMS

SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
"""Bounds of the histograms: a proof takes milliseconds on a GPU and minutes on a CPU."""
LARGEST = 1 << 62
STAGES = ("synthesise", "prove", "verify")
STATUSES = ("running", "waiting", "proved", "resumed", "failed", "interrupted")
"""What a report says of a run or a partition. Others, as those that somebody else may have written, are one series."""


class Metric(NamedTuple):
    """A metric that is told. docs/operations.md lists them."""

    name: str
    kind: str
    """"counter", "gauge" or "histogram"."""
    about: str
    labels: tuple[str, ...] = ()


RUNS = (
    Metric("distprove_stage_seconds", "histogram", "Seconds of a stage of a partition", ("system", "stage")),
    Metric("distprove_run_seconds", "histogram", "Seconds of a session of a run", ("system", "status")),
    Metric("distprove_run_partitions_total", "counter", "Partitions of sessions that ended", ("system", "status")),
    Metric(
        "distprove_trouble_total",
        "counter",
        "What went wrong in sessions that ended and was dealt with: " + ", ".join(vars(Counters())),
        ("kind",),
    ),
    Metric("distprove_device_bytes_total", "counter", "Bytes moved to devices and back", ("direction",)),
    Metric("distprove_witness_bytes_total", "counter", "Bytes of witnesses that were proven"),
)
"""Metrics of sessions of runs, as they end."""
ENDED = Metric("distprove_run_ended_timestamp_seconds", "gauge", "Time of a run's end, in textfiles", ("run", "status"))


def register(metrics: Iterable[Metric], registry: CollectorRegistry) -> dict[str, Any]:
    """Make metrics in a registry; they by their names."""
    kinds: dict[str, Any] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
    made = {}
    for metric in metrics:
        extra: dict[str, Any] = {"buckets": SECONDS} if metric.kind == "histogram" else {}
        made[metric.name] = kinds[metric.kind](metric.name, metric.about, metric.labels, registry=registry, **extra)
    return made


class RunMetrics:
    """The sums over sessions of runs. Thread-safe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        of = register(RUNS, registry)
        # Cached: to look a series up takes as long as to count.
        self._seconds, self._partitions, self._stage_seconds = (
            cache(of[name].labels)
            for name in ("distprove_run_seconds", "distprove_run_partitions_total", "distprove_stage_seconds")
        )
        self._moved = {way: of["distprove_device_bytes_total"].labels(way).inc for way in ("to_device", "to_host")}
        self._witnesses = of["distprove_witness_bytes_total"].inc
        self._trouble = {kind: of["distprove_trouble_total"].labels(kind).inc for kind in vars(Counters())}

    def add(self, report: Mapping[str, Any]) -> None:
        """Add a session by the content of its report.json. What an earlier session proved does not count again."""
        self.add_proven(report, report["partitions"])
        self.add_trouble(report["counters"])

    def add_proven(
        self, report: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]], *, sessions: int = 1
    ) -> None:
        """Add a session with these partitions, without its trouble, or several `sessions` of this report."""
        system, status = _known(report.get("system"), SYSTEMS), _known(report["status"], STATUSES)
        for _ in range(sessions):
            self._seconds(system, status).observe(_amount(report["wall_seconds"]))
        ends = collections.Counter(_known(partition["status"], STATUSES) for partition in partitions)
        for end, number in ends.items():
            self._partitions(system, end).inc(number)
        proved = [partition for partition in partitions if partition["status"] == "proved"]
        for stage in STAGES:
            observe = self._stage_seconds(system, stage).observe
            for partition in proved:
                observe(_amount(partition[f"{stage}_seconds"]))
        for direction, count in self._moved.items():
            count(sum(_amount(partition.get(direction)) for partition in proved))
        self._witnesses(sum(_amount(partition["witness_bytes"]) for partition in proved))

    def add_trouble(self, counters: Mapping[str, Any]) -> None:
        """Add what went wrong in a session."""
        for kind, count in self._trouble.items():
            if counters.get(kind):
                count(_amount(counters[kind]))


def textfile(name: str, report: Mapping[str, Any]) -> bytes:
    """One run's metrics, as Prometheus' node exporter reads them from a file."""
    registry = CollectorRegistry()
    RunMetrics(registry).add(report)
    ended = _amount(report.get("started")) + _amount(report["wall_seconds"])
    register([ENDED], registry)[ENDED.name].labels(visible(name), _known(report["status"], STATUSES)).set(ended)
    return generate_latest(registry)


def _known(value: Any, known: Container[str]) -> str:
    """A label: what a report says, if it is one of those that are known."""
    return value if isinstance(value, str) and value in known else "other"


def _amount(value: Any) -> float:
    """A number of a report that somebody else may have written, as one that a counter takes."""
    return float(min(max(0, value), LARGEST)) if isinstance(value, (int, float)) else 0.0
