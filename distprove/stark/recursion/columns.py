"""Main columns of the tables from the values of wires, in native code."""

from __future__ import annotations

import numpy as np

from distprove.stark.field import Words
from distprove.stark.recursion.circuit import Numbers
from kernels.cpu.poseidon2 import INSTRUCTION_SET
from kernels.host.native import native
from kernels.maths.poseidon2 import SBOXES, WIDTH


def wire_columns(values: Words, wires: Numbers, words: int, height: int) -> Words:
    """The columns (operands x words, height) of the first words of wires (rows, operands), from the values of all
    wires (n, 4). They end in zeros."""
    operands = wires.shape[1]
    out = np.empty((operands * words, height), dtype=np.uint64)
    flat = values.reshape(-1), wires.reshape(-1)
    native.wire_columns(native.Pool(1), *flat, operands, words, height, out.reshape(-1))
    return out


def permutation_columns(states: Words, places: Words) -> Words:
    """The columns (168, height) of the permutations of states (n, 16): state, powers, and places (2, height). Rows
    after the n-th permute zeros."""
    height = places.shape[1]
    out = np.empty((WIDTH + SBOXES + len(places), height), dtype=np.uint64)
    expanded = out[: WIDTH + SBOXES].reshape(-1)
    native.poseidon2_columns(native.Pool(1), INSTRUCTION_SET, states.reshape(-1), height, expanded)
    out[WIDTH + SBOXES :] = places
    return out
