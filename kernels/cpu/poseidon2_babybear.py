"""Poseidon2 over BabyBear in native code on the caller's thread, for transcripts, verifiers and hashes of keys.

It computes what `kernels.maths.poseidon2_babybear` computes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cpu.babybear import permutation_constants
from kernels.cpu.babybear_caller import CALLER
from kernels.errors import SizeError
from kernels.host.native import native
from kernels.maths.babybear import Elements
from kernels.maths.broadcasting import flat
from kernels.maths.poseidon2_babybear import RATE, WIDTH

_CALLER = native.Pool(1)
"""The thread of the caller."""
hash_rows, compress, least_witness = CALLER.hash_rows, CALLER.compress, CALLER.least_witness


def permuted(state: Sequence[int]) -> list[int]:
    """Return the permutation of 16 canonical elements as numbers. Raises SizeError."""
    if len(state) != WIDTH:
        raise SizeError(f"a state is {WIDTH} elements, not {len(state)}")
    out = np.empty(WIDTH, dtype=np.uint32)
    native.bb_permute(_CALLER, permutation_constants(), np.array(state, dtype=np.uint32), out)
    numbers: list[int] = out.tolist()
    return numbers


def absorbed(state: Sequence[int], at: int, values: Elements) -> tuple[list[int], int]:
    """Overwrite elements of a sponge's state by canonical values, and permute after each one at place 7.

    The first value goes to place `at`, below 8, and the one after place 7 to place 0. Returns the state and the place
    after the last value. Raises SizeError.
    """
    if len(state) != WIDTH or not 0 <= at < RATE:
        raise SizeError(f"a state is {WIDTH} elements, not {len(state)}, and {at} is a place below {RATE}")
    found = np.array(state, dtype=np.uint32)
    after = int(native.bb_absorb(permutation_constants(), found, at, flat(values)))
    numbers: list[int] = found.tolist()
    return numbers, after
