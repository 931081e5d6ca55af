"""The table of all lookups: ranges, conjunctions of bytes, powers of two."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from distprove.stark.air import Air, Table
from distprove.stark.riscv.buses import AND_KIND, LOOKUP, POWER_KIND, range_kind
from distprove.stark.riscv.record import Words64

LOG_ROWS = 18
RANGES = 17
"""Ranges are of 0 to 16 bits."""


class LookupAir(Air):
    """The table of everything that can be looked up. The prover counts how often each is."""

    name = "lookup"
    preprocessed: Mapping[str, int] = {"kind": 1, "x": 1, "y": 1, "z": 1}
    main: Mapping[str, int] = {"used": 1}

    def define(self, t: Table) -> None:
        row = {name: t.fixed[name][0] for name in self.preprocessed}
        t.receive(LOOKUP, row, times=t.this.used, row_of=lambda kind, x, y, z: kind + 256 * x + y)


def lookup_rows() -> Words64:
    """The fixed columns, (4, 2^18). Rows at the end repeat the first one, the range of 0 bits."""
    out = np.zeros((4, 1 << LOG_ROWS), dtype=np.uint64)
    for bits in range(RANGES):
        first = range_kind(bits)
        rows = slice(first, first + (1 << bits))
        out[0, rows], out[2, rows] = first, np.arange(1 << bits)
    pair = np.arange(1 << 16)
    rows = slice(AND_KIND, POWER_KIND)
    out[0, rows], out[1, rows], out[2, rows], out[3, rows] = AND_KIND, pair >> 8, pair & 255, pair >> 8 & pair & 255
    rows = slice(POWER_KIND, POWER_KIND + 32)
    out[0, rows], out[2, rows], out[3, rows] = POWER_KIND, np.arange(32), 1 << np.arange(32)
    return out
