"""Where columns lie in a stacked matrix, as `StackedLayout` of stark-backend 2.0 places them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from distprove.errors import InvalidProof


@dataclass(frozen=True)
class Placed:
    """The columns of one trace in a stacked matrix. They lie one behind another, and go on in the next stacked column.

    A trace of fewer than 2^log_skip rows takes 2^log_skip rows. Its own rows are 2^(log_skip - log_height) apart there.
    """

    trace: int
    """Number of the trace in the order of the matrices that were stacked."""
    width: int
    log_height: int
    log_rows: int
    """log2 of the rows that a column takes: the greater of log_height and log_skip."""
    start: int
    """First cell, counted over all stacked columns."""

    def position(self, column: int, log_stacked: int) -> tuple[int, int]:
        """The stacked column and the row in it where a column of the trace begins."""
        cell = self.start + (column << self.log_rows)
        return cell >> log_stacked, cell & ((1 << log_stacked) - 1)


@dataclass(frozen=True)
class Layout:
    """The layout of a stacked matrix of 2^log_stacked rows."""

    log_skip: int
    log_stacked: int
    traces: tuple[Placed, ...]
    """Every matrix that was stacked, those without columns too."""
    width: int
    """Number of stacked columns."""

    @classmethod
    def of(cls, log_skip: int, log_stacked: int, sizes: Iterable[tuple[int, int]]) -> Layout:
        """Stack matrices (columns, log2 of rows), which are in descending order of their heights.

        Raises InvalidProof for a matrix that is taller than the stack.
        """
        placed, start = list[Placed](), 0
        for trace, (width, log_height) in enumerate(sizes):
            log_rows = max(log_height, log_skip)
            if log_rows > log_stacked:
                raise InvalidProof(f"a trace of 2^{log_height} rows in a stack of 2^{log_stacked}")
            placed.append(Placed(trace, width, log_height, log_rows, start))
            start += width << log_rows
        return cls(log_skip, log_stacked, tuple(placed), -(-start >> log_stacked))
