"""Checks of a trace against its key, for the provers of both engines and for the check of AIRs.

A fault here is the program's and raises AirError, so that no other worker is asked in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from distprove.errors import AirError
from distprove.stark import logup
from distprove.stark.heights import LogHeights, misfit
from distprove.stark.key_front import KeyFront
from distprove.stark.program import Trace
from kernels.host.units import count_of

AnyKey = KeyFront[Any, Any, Any]


def check_trace_shape(key: AnyKey, trace: Trace, heights_fit: Callable[[Any, LogHeights], bool]) -> LogHeights:
    """log2 of each table's rows, None for an absent table, of a trace that `whole_trace` made.

    Raises AirError when the trace does not have the shape that this key needs.
    """
    expected = key.statement.public_values
    if len(trace.public) != expected:
        raise AirError(
            f"the trace has {count_of(len(trace.public), 'public value')}; the program's statement has {expected}"
        )
    heights = tuple(None if columns is None else int(columns.shape[1]).bit_length() - 1 for columns in trace.main)
    if not heights_fit(key, heights):
        raise AirError(f"the trace does not fit the program: {misfit_of(key, heights)}")
    logup.check_multiplicities(key.tables, [heights])
    return heights


def misfit_of(key: AnyKey, log_heights: Sequence[int | None]) -> str:
    """Say why these heights do not fit a key."""
    optional = [key.is_optional(number) for number in range(len(key.tables))]
    return misfit([table.name for table in key.tables], key.fixed_heights, log_heights, optional)
