"""Main columns of the tables from the values of wires and from the states that permutations take."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from distprove.stark.air import CppRows
from distprove.stark.field import Words
from distprove.stark.recursion.circuit import Numbers
from distprove.stark.recursion.tables import Permutations
from kernels.host.native import native

PERMUTATION_ROWS = CppRows(Path(__file__).with_name("permutations.cpp"), Permutations.main, ("states", "places"))
"""Makes the columns of permutations where the trace is: a state is a tenth of its row. Takes `states` (16 n,) and
`places` (2 n,), state after state."""


def wire_columns(values: Words, wires: Numbers, words: int, height: int, threads: int = 1) -> Words:
    """The columns (operands x words, height) of the first words of wires (rows, operands), from the values of all
    wires (n, 4). They end in zeros."""
    operands = wires.shape[1]
    out = np.empty((operands * words, height), dtype=np.uint64)
    flat = values.reshape(-1), wires.reshape(-1)
    native.wire_columns(native.Pool(threads), *flat, operands, words, height, out.reshape(-1))
    return out
