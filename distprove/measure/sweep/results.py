"""Results of a sweep: the record of a setting, the whole as JSON and CSV, and which setting is best."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import Any

from cluster.record.analysis import Spread
from distprove.errors import FormatError, UsageError
from distprove.formats.plain_data import read
from distprove.measure.sweep.grid import Cell

SCHEMA = 3
"""Version of the record of a setting. Version 1 called `stages` `phases`, version 2 had no means and device times."""
TIMED = (
    "from the moment at which all copies begin, with workers running and keys loaded, until the last copy's proof is "
    "bound, read back and on disk; every partition is synthesised, proven and verified, and written to a run folder"
)
"""Description of the timed region."""
CLOSE = 0.03
"""Settings whose rates differ by less are as good as each other."""
DISTURBED = 0.1
"""A setting whose slowest repeat took longer than its fastest by more was measured on a machine that did other things,
and so was a baseline whose stages are slower by more than those of partitions that compete."""


@dataclass(frozen=True)
class Measured:
    """One setting, measured. Times in seconds, memory in bytes."""

    cell: Cell
    partitions: int
    """Partitions of one copy of the job."""
    wall: tuple[float, ...]
    """Seconds from the beginning of all copies to the end of the last, for each repeat."""
    proof_latency: Spread
    """Seconds from a copy's beginning to its proof, over all copies and repeats."""
    prove_latency: Spread
    """Seconds that one partition took of its prover."""
    stages: dict[str, Spread]
    """Every stage and, as "stage: step", its steps."""
    busy_share: float
    """Average share of the time from the first launch to the last result in which devices were busy."""
    device_seconds: float
    """Seconds that one partition took of its device, on average: those in which the device was busy, with what is
    common to several partitions shared among them."""
    idle: Spread
    """Stretches in which a device had nothing to do."""
    idle_share: float
    device_peak: int
    """The most that provers took of one device; 0 where it does not tell."""
    node_peak: int
    """The most memory in use on one node, whatever used it, as its governor saw it; 0 where none looked."""
    load_seconds: float
    """Seconds to start workers and load keys, which are part of no other figure."""
    devices: tuple[str, ...] = ()
    """Names of the devices, one for each prover."""
    counters: dict[str, int] = field(default_factory=dict)
    """Counts of faults that were dealt with; all 0 in a measurement to be trusted."""
    warmup: int = 0
    """Repeats before those that count."""
    governors: tuple[dict[str, Any], ...] = ()
    """Throttle of each node's governor."""
    by_events: bool = False
    """Whether busy and idle are by events of the devices; else they are by their queues, as the host saw them."""

    @property
    def seconds_per_proof(self) -> float:
        """Median over the repeats of the wall time, shared among the copies."""
        return statistics.median(self.wall) / self.cell.jobs

    @property
    def proofs_per_minute(self) -> float:
        return 60.0 / self.seconds_per_proof

    @property
    def range(self) -> tuple[float, float]:
        """Proofs a minute in the slowest repeat, and in the fastest."""
        return 60.0 * self.cell.jobs / max(self.wall), 60.0 * self.cell.jobs / min(self.wall)

    @property
    def spread(self) -> float:
        """Extra time of the slowest repeat over the fastest one, as a share of the fastest one's time."""
        return max(self.wall) / min(self.wall) - 1

    def inflation(self, isolated: Measured) -> dict[str, float]:
        """Median of each stage over that of the isolated setting."""
        return {
            name: spread.median / isolated.stages[name].median
            for name, spread in self.stages.items()
            if name in isolated.stages and isolated.stages[name].median > 1e-6
        }

    def to_record(self) -> dict[str, Any]:
        return {"format": "distprove.sweep-cell", "schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_record(cls, record: Any, what: str) -> Measured:
        """Raises FormatError."""
        told = dict(record) if isinstance(record, dict) else {}
        try:
            if (told.pop("format", None), told.pop("schema", None)) != ("distprove.sweep-cell", SCHEMA):
                raise ValueError
            measured = read(cls, told, what)
            if measured.cell.jobs < 1 or not measured.wall or min(measured.wall) < 1e-9:
                raise ValueError
        except (UsageError, ValueError, OverflowError):
            raise FormatError(f"{what}: not a measurement that this distprove reads") from None
        return measured


_COLUMNS = {
    **{name: f"cell.{name}" for name in ("jobs", "parallel", "gpu_workers")},
    **{name: name for name in ("seconds_per_proof", "proofs_per_minute")},
    **{
        f"{name}_{of}": f"{name}.{of}"
        for name in ("proof_latency", "prove_latency")
        for of in ("median", "mean", "p95")
    },
    **{name: name for name in ("spread", "device_seconds", "busy_share")},
    **{"idle_gaps": "idle.count", "idle_median": "idle.median", "idle_p95": "idle.p95", "idle_max": "idle.most"},
    **{name: name for name in ("device_peak", "node_peak")},
}
"""Columns of the CSV, and where a measurement has each."""


@dataclass(frozen=True)
class SweepResult:
    """All that was measured, in the order of the grid. `isolated` may be one of them, or stand beside them."""

    measured: Sequence[Measured]
    isolated: Measured
    about: Mapping[str, Any]
    """Job, machine and number of repeats."""

    @property
    def best(self) -> Measured:
        """The setting with the most proofs a minute."""
        return max(self.measured, key=lambda m: m.proofs_per_minute)

    @property
    def close(self) -> list[Measured]:
        """The others within `CLOSE` of the best: a measurement hardly tells them apart."""
        least = (1 - CLOSE) * self.best.proofs_per_minute
        return [m for m in self.measured if m is not self.best and m.proofs_per_minute >= least]

    @property
    def noisy(self) -> list[Measured]:
        """The settings whose own repeats say that the machine did other things."""
        return [measured for measured in self.measured if measured.spread > DISTURBED]

    @property
    def disturbed(self) -> str:
        """Why the isolated setting is no baseline to compare with, in words; empty if it is one."""
        if self.isolated.spread > DISTURBED:
            return f"its repeats differ by {self.isolated.spread * 100:.0f} %"
        for measured in self.measured:
            for name, ratio in headline_inflation(measured.inflation(self.isolated)):
                if measured.cell != self.isolated.cell and ratio < 1 - DISTURBED:
                    return f"{name} took {(1 - ratio) * 100:.0f} % less in {measured.cell.id}, where partitions compete"
        return ""

    def to_record(self) -> dict[str, Any]:
        """The document of the sweep."""
        rows = [self._row(measured) for measured in self.measured]
        return {
            "format": "distprove.sweep",
            "schema": SCHEMA,
            "timed": TIMED,
            "about": dict(self.about),
            "isolated": self._row(self.isolated),
            "best": asdict(self.best.cell) if self.measured else None,
            "cells": rows,
        }

    def _row(self, measured: Measured) -> dict[str, Any]:
        return {
            **measured.to_record(),
            "seconds_per_proof": measured.seconds_per_proof,
            "proofs_per_minute": measured.proofs_per_minute,
            "inflation": measured.inflation(self.isolated),
        }

    def to_csv(self) -> str:
        """CSV with a line for each setting: settings, figures, medians and inflation of each stage."""
        stages = list(dict.fromkeys(name for m in self.measured for name in m.stages))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*_COLUMNS, *(f"{stage} {what}" for stage in stages for what in ("median", "inflation"))])
        for m in self.measured:
            ratios = m.inflation(self.isolated)
            row = [attrgetter(path)(m) for path in _COLUMNS.values()]
            for stage in stages:
                row += [m.stages[stage].median if stage in m.stages else None, ratios.get(stage)]
            writer.writerow("" if value is None else value for value in row)
        return text.getvalue()


def headline_inflation(ratios: Mapping[str, float]) -> Iterable[tuple[str, float]]:
    """Whole stages, without their steps."""
    return ((name, ratio) for name, ratio in ratios.items() if ":" not in name)
