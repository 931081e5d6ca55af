"""A sweep's result as if it had been measured."""

from __future__ import annotations

from typing import Any

from cluster.record.analysis import Spread
from distprove.measure.sweep.grid import Cell, Grid
from distprove.measure.sweep.results import Measured, SweepResult

MACHINE = {"processor": {"model": "Xeon <script>", "usable": 16}}


WORKERS = (1, 2)


def made_sweep(repeats: tuple[float, ...] = (1.0,)) -> SweepResult:
    """More jobs give more proofs, up to a point; two provers are better than one. `repeats`: how many times as long as
    the median each repeat took."""
    grid = Grid(jobs=(1, 2, 5, 20), parallel=(1, 15), gpu_workers=WORKERS)
    about: dict[str, Any] = {"partitions": 32, "repeats": 3, "warmup": 1, "machine": MACHINE}
    cells = [_measured(cell, repeats) for cell in grid.cells()]
    return SweepResult(cells, next(m for m in cells if m.cell == grid.isolation()), about)


def _measured(cell: Cell, repeats: tuple[float, ...]) -> Measured:
    slower = 1 + 0.01 * cell.jobs * (len(WORKERS) - WORKERS.index(cell.gpu_workers or 1))
    wall = cell.jobs * 30.0 * slower / min(3, cell.jobs)
    stages = {name: Spread.of([slower * seconds]) for name, seconds in (("synthesise", 4.0), ("prove", 0.8))}
    walls = tuple(wall * each for each in repeats)
    latency = Spread.of(walls)
    idle = Spread.of([0.01, 0.02 * cell.jobs])
    memory = (4 + cell.jobs) << 30
    devices = ("NVIDIA H200",)
    return Measured(
        cell, 32, walls, latency, stages["prove"], stages, 0.9, 0.75, idle, 0.1, 9 << 30, memory, 5.0, devices
    )
