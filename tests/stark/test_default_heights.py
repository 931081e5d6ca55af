"""The heights that a program states by default: those that its key fixes anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.stark.air import Air, Table
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.statement import Statement
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend


class Free(Air):
    main: Mapping[str, int] = {"a": 1}

    def define(self, t: Table) -> None:
        t.boolean(t.this.a)


class Fixed(Air):
    preprocessed: Mapping[str, int] = {"value": 1}
    main: Mapping[str, int] = {"a": 1}

    def define(self, t: Table) -> None:
        t.always(t.this.a - t.fixed.value)


class Two(Program):
    """A table whose height its arguments fix or not, and one that its preprocessed columns fix."""

    name = "two"
    tables = (Free(), Fixed())
    statement = Statement()

    def __init__(self, rows: int = 0, lacks: Sequence[str] = ()) -> None:
        self.rows, self.lacks = rows, lacks

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"rows": self.rows}

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        return {"Free": self.rows} if self.rows else {}

    @property
    def optional(self) -> Sequence[str]:
        return self.lacks

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        return {"Fixed": np.zeros((1, 32), dtype=np.uint64)}

    def slices(self, partitions: int) -> list[Slice]:
        return []

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        return {}

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        raise AssertionError("no trace is made")


def test_preprocessed_columns_fix_a_height() -> None:
    assert Two(rows=4).log_heights(3) == [(4, 5)] * 3


def test_a_height_that_nothing_fixes_is_named() -> None:
    with pytest.raises(UsageError, match=r"how tall table Free will be .*--queries"):
        Two().log_heights(1)


def test_a_table_that_may_be_absent_has_no_height_by_its_columns() -> None:
    with pytest.raises(UsageError, match="how tall tables Free and Fixed will be"):
        Two(lacks=("Fixed",)).log_heights(1)


def test_columns_are_not_made_for_heights_that_are_known() -> None:
    class Known(Two):
        @property
        def fixed_heights(self) -> Mapping[str, int]:
            return {"Free": 4, "Fixed": 5}

        def preprocessed(self) -> Mapping[str, NDArray[Any]]:
            raise AssertionError("columns were made")

    assert Known().log_heights(1) == [(4, 5)]
