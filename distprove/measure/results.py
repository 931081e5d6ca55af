"""The raw form of benchmark results: `--json` prints it, docs/results keeps it, docs/performance.md is made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Protocol

from distprove.host.machine import Machine
from distprove.measure.timing import Timing
from kernels.interface.backend import DeviceInfo

SCHEMA = 2
"""Version of the raw form. Version 1 called `steps` of a row `phases`."""


@dataclass(frozen=True)
class Ceiling:
    """The maximum rate that the hardware could reach in the operation that bounds the work."""

    operation: str
    per_second: float
    source: str
    """Source of the rate: "measured" in the same run, or a table."""


@dataclass(frozen=True)
class Row:
    """The result of one measurement, a row of a report."""

    what: str
    curve: str
    log_n: int
    timing: Timing
    variant: str = ""
    """Difference between rows of the same size, such as the kind of scalars or the order of an NTT."""
    bytes_moved: int = 0
    """Minimum bytes that the algorithm must read and write, once each."""
    to_device: int = 0
    to_host: int = 0
    operations: float = 0.0
    """Number of operations of the ceiling's kind that the algorithm needs."""
    ceiling: Ceiling | None = None
    steps: dict[str, float] = field(default_factory=dict)
    """Median seconds per step, where the work has steps."""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def fraction(self) -> float | None:
        """Share of the ceiling that was reached; None without a ceiling."""
        if self.ceiling is None or not self.operations:
            return None
        return self.operations / self.ceiling.per_second / self.timing.median

    def to_dict(self) -> dict[str, Any]:
        plain = {name: value for name, value in asdict(self).items() if name != "timing"}
        return {**plain, "seconds": self.timing.to_dict(), "fraction": self.fraction}


class Reported(Protocol):
    """A result row of any kind of benchmark."""

    def to_dict(self) -> dict[str, Any]: ...


def report(
    bench: str, timed: str, checked: str, info: DeviceInfo, machine: Machine, rows: Sequence[Reported]
) -> dict[str, Any]:
    """Build the JSON document of one run. `timed` says what is inside the timed region, `checked` how results were
    checked."""
    return {
        "schema": SCHEMA,
        "bench": bench,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "timed": timed,
        "checked": checked,
        "backend": {"name": info.name, "kind": info.kind, "details": dict(info.details)},
        "machine": machine.to_dict(),
        "rows": [row.to_dict() for row in rows],
    }
