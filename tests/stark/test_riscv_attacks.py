"""Forged executions that the tables of the RISC-V machine refuse: changed cells, and executions that never were."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from distprove.stark.riscv.segment import tables
from tests.support.riscv_oracle import Run, run
from tests.support.riscv_programs import random_program
from tests.support.riscv_traces import DEFINITIONS, job_of

INPUT = bytes(range(64))


@cache
def random_run() -> Run:
    return run(random_program(5, 700), INPUT, INPUT[::-1])


def cells(table: str, columns: dict[str, int]) -> Iterator[tuple[str, int]]:
    return ((name, k) for name, count in columns.items() for k in range(count))


@pytest.mark.parametrize("table", [air.name for air in tables() if air.name not in ("rom", "image", "lookup")])
def test_no_cell_can_be_changed(table: str) -> None:
    """Of each column the first cell that is not zero, which is in use, by one, and a middle one to 0."""
    job = job_of(random_run())
    for name, k in cells(table, DEFINITIONS[table].main):
        column = job.column(table, name, 0, k)
        used = np.flatnonzero(column)
        for row, to in ((used[:1], None), (used[len(used) // 2 :][:1], 0)):
            was = column[row].copy()
            column[row] = was + np.uint64(1) if to is None else to
            job.recount()
            assert job.failures() or not len(row), f"{table}.{name}[{k}], row {row}: {column[row]} instead of {was}"
            column[row] = was
    job.recount()
    assert job.failures() == []


@pytest.mark.parametrize("name", ["rom", "image", "lookup"])
def test_no_multiplicity_can_be_changed(name: str) -> None:
    job = job_of(random_run())
    row = int(np.flatnonzero(job.main[0][name][0])[0])
    job.main[0][name][0, row] += np.uint64(1)
    assert job.failures()
