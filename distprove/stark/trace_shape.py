"""Checks that a trace has the shape that its key needs, for the provers of both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distprove.errors import UsageError
from distprove.stark import logup
from distprove.stark.field import P
from distprove.stark.heights import LogHeights
from distprove.stark.key_front import KeyFront
from distprove.stark.program import Trace

AnyKey = KeyFront[Any, Any, Any]


def check_trace_shape(key: AnyKey, trace: Trace, heights_fit: Callable[[Any, LogHeights], bool]) -> LogHeights:
    """log2 of each table's rows, None for an absent table.

    Raises UsageError when the trace does not have the shape that this key needs.
    """
    if len(trace.main) != len(key.tables):
        raise UsageError(f"the trace has {len(trace.main)} tables; the program has {len(key.tables)}")
    expected = key.statement.public_values
    if len(trace.public) != expected:
        raise UsageError(f"the trace has {len(trace.public)} public values; the program's statement has {expected}")
    if not all(0 <= v < P for v in trace.public):
        raise UsageError("a public value of the trace is no field element: not an integer from 0 to p - 1")
    heights: list[int | None] = []
    for table, columns in zip(key.tables, trace.main, strict=True):
        if columns is None:
            heights.append(None)
            continue
        width, rows = columns.shape
        if width != table.main_width or rows & (rows - 1) or rows == 0:
            raise UsageError(
                f"table {table.name} has {table.main_width} columns and a power of two of rows, not {columns.shape}"
            )
        heights.append(rows.bit_length() - 1)
    for number, (table, height) in enumerate(zip(key.tables, heights, strict=True)):
        if height is None and not key.is_optional(number):
            raise UsageError(f"table {table.name} is absent, and the program does not say that it is optional")
    if not heights_fit(key, tuple(heights)):
        raise UsageError(f"tables of 2^{heights} rows do not fit this key (fixed heights: {key.fixed_heights})")
    logup.check_multiplicities(key.tables, [heights])
    return tuple(heights)
