"""Reads what a node's governor wrote into report.json, as far as it is there: its limits, and samples of the node.

    {"node", "limits": {resource: n}, "samples": [sample...], "processes": {name: bytes}, "gpus": [gpu...]}
    sample = {"t", "cpu", "memory_used", "memory_leased", "leases": {resource: n}, "queue": {resource: n}}

Times are seconds since the session began. Reports of other versions have other fields; what is missing stays empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """The node at one moment. None where it was not measured."""

    time: float
    cpu: float | None
    """Busy share of its processors, 0 to 1."""
    memory_used: float | None
    """Bytes."""
    memory_leased: float | None
    leases: Mapping[str, float]
    """Threads and reclaim locks that are leased, and requests that wait, by resource."""
    queue: Mapping[str, float]


@dataclass(frozen=True)
class NodeStory:
    """One node over a session."""

    node: str
    limits: Mapping[str, float]
    samples: tuple[Sample, ...]
    peak_memory: float | None
    """The most memory that was leased, in bytes."""
    processes: Mapping[str, float]
    """The most bytes that each process of ours was resident in, by its name."""
    gpus: tuple[Mapping[str, Any], ...]
    """What was seen of each GPU (`cluster.governor.watch`): numbers, and texts."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> NodeStory:
        """Read a governor's report; whatever is not of the right kind counts as missing."""
        samples = [_sample(item) for item in _items(record.get("samples"))]
        return cls(
            str(record.get("node", "?")),
            _numbers(record.get("limits")),
            tuple(sorted((s for s in samples if s is not None), key=lambda s: s.time)),
            number(record.get("peak_memory")),
            _numbers(record.get("processes")),
            tuple(_items(record.get("gpus"))),
        )


def _sample(item: Mapping[str, Any]) -> Sample | None:
    time = number(item.get("t"))
    if time is None:
        return None
    return Sample(
        time,
        number(item.get("cpu")),
        number(item.get("memory_used")),
        number(item.get("memory_leased")),
        _numbers(item.get("leases")),
        _numbers(item.get("queue")),
    )


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def number(value: Any) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def _numbers(value: Any) -> dict[str, float]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {str(key): found for key, item in pairs if (found := number(item)) is not None}
