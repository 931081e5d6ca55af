"""Main columns of the tables, which row functions make where the trace is: from the values of wires, from the states
that permutations take, and from the preprocessed columns, which have the numbers of wires."""

from __future__ import annotations

from pathlib import Path

from distprove.stark.air import CppRows
from distprove.stark.recursion.tables import Constants, Decompositions, Joins, Permutations, Relations


def _source(name: str) -> Path:
    return Path(__file__).with_name(name)


_WIRES = ("values", "numbers")
RELATION_ROWS = CppRows(_source("wires.cpp"), Relations.main, _WIRES, "elements")
JOIN_ROWS = CppRows(_source("wires.cpp"), Joins.main, _WIRES, "scalars")
CONSTANT_ROWS = CppRows(_source("wires.cpp"), Constants.main, _WIRES, "scalar")
"""Each takes `values` (4 wires,), wire after wire, and the preprocessed `numbers` (operands, rows)."""

BIT_ROWS = CppRows(_source("bits.cpp"), Decompositions.main, ("values", "of", "factors"))
"""Takes `values` as above, and the preprocessed `of` (1, rows) and `factors` (32, rows)."""

PERMUTATION_ROWS = CppRows(_source("permutations.cpp"), Permutations.main, ("states", "values", "bits"))
"""A state is a tenth of its row. Takes `states` (16 n,), state after state, `values` as above, and the preprocessed
`bits` (2, rows), the wires of places."""

ROWS = (RELATION_ROWS, JOIN_ROWS, CONSTANT_ROWS, BIT_ROWS, PERMUTATION_ROWS)
