"""The table of all lookups: ranges, conjunctions of bytes, powers of two."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Table
from distprove.stark.riscv.buses import AND_KIND, LOOKUP, POWER_KIND

Words64 = NDArray[np.uint64]

LOG_ROWS = 18
ROWS = 1 << LOG_ROWS
RANGES = 17
"""Ranges are of 0 to 16 bits; those of k bits begin at row 2^k - 1."""
FIRST_AND = (1 << RANGES) - 1
FIRST_POWER = FIRST_AND + (1 << 16)


class LookupAir(Air):
    """The table of everything that can be looked up, each with its multiplicity."""

    name = "lookup"
    preprocessed: Mapping[str, int] = MappingProxyType({"kind": 1, "x": 1, "y": 1, "z": 1})
    main: Mapping[str, int] = MappingProxyType({"used": 1})

    def define(self, t: Table) -> None:
        row = t.fixed
        t.receive(LOOKUP, {"kind": row.kind, "x": row.x, "y": row.y, "z": row.z}, times=t.this.used)


def lookup_rows() -> Words64:
    """The fixed columns, (4, 2^18). Rows at the end repeat the first one, the range of 0 bits."""
    out = np.zeros((4, ROWS), dtype=np.uint64)
    for k in range(RANGES):
        rows = slice((1 << k) - 1, (2 << k) - 1)
        out[0, rows], out[1, rows] = k, np.arange(1 << k)
    pair = np.arange(1 << 16)
    rows = slice(FIRST_AND, FIRST_POWER)
    out[0, rows], out[1, rows], out[2, rows], out[3, rows] = AND_KIND, pair >> 8, pair & 255, pair >> 8 & pair & 255
    rows = slice(FIRST_POWER, FIRST_POWER + 32)
    out[0, rows], out[1, rows], out[2, rows] = POWER_KIND, np.arange(32), 1 << np.arange(32)
    return out


def row_of(kind: Words64, x: Words64, y: Words64) -> Words64:
    """The rows at which these tuples are, which a valid trace looks up."""
    first = np.array([(1 << k) - 1 for k in range(RANGES)] + [FIRST_AND, FIRST_POWER], dtype=np.uint64)
    pairs = kind == np.uint64(AND_KIND)
    found: Words64 = first[np.minimum(kind, np.uint64(POWER_KIND)).astype(np.int64)] + x
    found[pairs] += np.uint64(255) * x[pairs] + y[pairs]
    return found
