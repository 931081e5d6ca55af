"""Checks of the arrays that a program's methods give: the main columns of a trace, and the preprocessed columns.

A fault here is the program's and raises AirError, so that no other worker is asked in vain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import AirError
from distprove.stark.air import Air
from distprove.stark.field import P
from kernels.host.units import count_of


def check_columns(tables: Sequence[Air], main: Any) -> None:
    """Raise AirError unless `main`, as `Program.trace` gave it, has None or the main columns of each table: a uint64
    array (width, rows), where rows is a power of two."""
    if not isinstance(main, list):
        raise AirError(f"the main columns of a trace are a list, one entry for each table, not a {type(main).__name__}")
    if len(main) != len(tables):
        raise AirError(f"the trace has {count_of(len(main), 'table')}; the program has {len(tables)}")
    for air, columns in zip(tables, main, strict=True):
        if columns is not None:
            _check_matrix(columns, sum(air.main.values()), f"table {air.name}: the trace")
            if columns.dtype != np.uint64:
                raise AirError(f"table {air.name}: the trace is of {columns.dtype}, expected uint64")


def check_public(public: Any) -> None:
    """Raise AirError unless these public values of a trace are integers that a proof can hold: a tuple of ints, from 0
    to p - 1."""
    if not isinstance(public, (tuple, list)):
        raise AirError(f"the public values of a trace are a tuple of integers, not a {type(public).__name__}")
    if not all(isinstance(value, int) and 0 <= value < P for value in public):
        raise AirError("a public value of the trace is no field element: not an integer from 0 to p - 1")


def checked_preprocessed(
    tables: Sequence[Air], given: Any, fixed_heights: Mapping[str, int]
) -> list[NDArray[Any] | None]:
    """The preprocessed columns of each table, (width, rows), out of those that `Program.preprocessed` gave by name;
    None for a table without. `fixed_heights` are the program's.

    Raises AirError for columns of another shape, of a table that does not exist, or that are missing.
    """
    if not isinstance(given, Mapping):
        raise AirError(f"Program.preprocessed gave a {type(given).__name__}, not a mapping from tables to arrays")
    names = [air.name for air in tables]
    unknown = [str(name) for name in given if name not in names]
    if unknown:
        raise AirError(
            f"Program.preprocessed gave columns of {', '.join(unknown)}, which is none of its tables "
            f"({', '.join(names)})"
        )
    columns = [given.get(name) for name in names]
    for air, matrix in zip(tables, columns, strict=True):
        width = sum(air.preprocessed.values())
        if matrix is None and width:
            raise AirError(f"table {air.name}: its preprocessed columns are missing in Program.preprocessed")
        if matrix is not None:
            _check_matrix(matrix, width, f"table {air.name}: preprocessed columns")
            fixed = fixed_heights.get(air.name)
            if fixed is not None and matrix.shape[1] != 1 << fixed:
                raise AirError(
                    f"table {air.name}: {count_of(matrix.shape[1], 'row')} of preprocessed columns, and it is "
                    f"fixed to 2^{fixed} "
                    "(Program.fixed_heights gives log2 of the rows)"
                )
    return columns


def _check_matrix(columns: Any, width: int, what: str) -> None:
    """Raise AirError unless `columns` is an array (width, rows) and rows is a power of two."""
    shape = getattr(columns, "shape", None)
    if shape is None or not hasattr(columns, "dtype"):
        raise AirError(f"{what}: expected an array of shape ({width}, rows), not a {type(columns).__name__}")
    if len(shape) != 2 or shape[0] != width:
        raise AirError(f"{what}: an array of shape {tuple(shape)}, expected ({width}, rows)")
    if shape[1] == 0 or shape[1] & (shape[1] - 1):
        raise AirError(f"{what}: {count_of(shape[1], 'row')}, expected a power of two")
