"""How many witnesses a synthesiser makes in a row.

A message to a synthesiser and its answer wake three threads of the worker, and each of them takes the interpreter from
the prover once. Short witnesses of short proofs are therefore asked for several at a time.
"""

from __future__ import annotations

import math

from actors import patience

MOST = 8
"""Largest number of witnesses in a row."""
ROW_BYTES = 16 << 20
"""Most bytes that the witnesses of a row of several take."""
ROWS = 3
"""Rows that a worker holds beside what is with its prover."""


class Pace:
    """Follows how long witnesses and proofs take. The worker calls with its lock held."""

    def __init__(self) -> None:
        self.in_a_row = 1
        """Number of witnesses in a row: a power of two, so that a lease for one row mostly serves another; 1 as long as
        nothing was proven."""
        self._making = self._proving = math.inf
        """Seconds for a witness and for a proof, of which recent ones count most."""
        self._bytes = 1
        """Size of the largest witness."""

    @property
    def ahead(self) -> int:
        """Number of witnesses to hold beside what is with the prover, at least; 0 where none are made in rows."""
        return ROWS * self.in_a_row if self.in_a_row > 1 else 0

    def made(self, seconds: float, nbytes: int) -> None:
        """A witness of `nbytes` bytes took its synthesiser so many seconds."""
        self._making = _followed(self._making, seconds)
        self._bytes = max(self._bytes, nbytes)
        longest = max(self._making, self._proving, patience.ROW / MOST)
        most = max(1, min(int(patience.ROW / longest), ROW_BYTES // self._bytes))
        self.in_a_row = 1 << most.bit_length() - 1

    def proven(self, seconds: float) -> None:
        """A proof, or what else the prover was asked for, took so many seconds."""
        self._proving = _followed(self._proving, seconds)


def _followed(before: float, now: float) -> float:
    return now if before == math.inf else before + (now - before) / 16
