"""The grid of a sweep: which settings are tried."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from distprove.errors import UsageError
from distprove.settings import ExecutorSettings

MOST_CELLS = 1000
MOST_JOBS = 64
"""Copies of a job in progress at once: each is a thread of the driver."""


@dataclass(frozen=True)
class Cell:
    """One setting. None leaves a choice as the job has it."""

    jobs: int = 1
    """Copies of the job in progress at once. Each is a client of its own; all share the provers."""
    parallel: int | None = None
    """Partitions of one copy that may be in preparation or ready at a time."""
    gpu_workers: int | None = None
    """Provers per node."""

    @property
    def id(self) -> str:
        """Fit for a file name."""
        values = (("parallel", self.parallel), ("workers", self.gpu_workers))
        return "-".join([f"jobs{self.jobs}", *(f"{name}{value}" for name, value in values if value is not None)])

    def settings(self, base: ExecutorSettings) -> ExecutorSettings:
        """`base` with what this cell says. Raises UsageError for what does not go together."""
        given = {name: value for name, value in asdict(self).items() if name != "jobs" and value is not None}
        return replace(base, **given)


@dataclass(frozen=True)
class Grid:
    """The values of each axis; an axis with none is left as the job has it."""

    jobs: Sequence[int] = (1,)
    parallel: Sequence[int] = ()
    gpu_workers: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not self.jobs or not all(1 <= jobs <= MOST_JOBS for jobs in self.jobs):
            raise UsageError(f"jobs must be from 1 to {MOST_JOBS}")
        for name in ("jobs", "parallel", "gpu_workers"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise UsageError(f"{name}: a value is there twice")
        if len(self.cells()) > MOST_CELLS:
            raise UsageError(f"a sweep has at most {MOST_CELLS} settings, not {len(self.cells())}")

    def cells(self) -> list[Cell]:
        """Every setting of the grid, few jobs first."""
        axes = (self.jobs, self.parallel or (None,), self.gpu_workers or (None,))
        return [Cell(jobs, parallel, workers) for jobs, parallel, workers in itertools.product(*axes)]

    def isolation(self) -> Cell:
        """The setting that stages are compared with: one job, one partition at a time, and as few provers as the grid
        has."""
        return Cell(1, 1, min(self.gpu_workers, default=None))
