"""Poseidon2 over BabyBear in native code on the caller's thread, for transcripts, verifiers and hashes of keys.

It computes what `kernels.maths.poseidon2_babybear` computes. `kernels.cpu.babybear` has the same on many threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from kernels.errors import SizeError
from kernels.host.native import native
from kernels.maths.babybear import Elements, P, elements
from kernels.maths.poseidon2_babybear import DIGEST, PERMUTATION, RATE, WIDTH

_CALLER = native.Pool(1)
"""The thread of the caller."""


@cache
def permutation_constants() -> Elements:
    """What native hashes are given: the rounds' constants, then the diagonal of the internal layer."""
    return elements((*PERMUTATION.round_constants, *PERMUTATION.diagonal))


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
    after = int(native.bb_absorb(permutation_constants(), found, at, _flat(values)))
    numbers: list[int] = found.tolist()
    return numbers, after


def hash_rows(rows: Elements) -> Elements:
    """Return the digests (n, 8) of rows (n, width) of canonical elements."""
    out = np.zeros((len(rows), DIGEST), dtype=np.uint32)
    if rows.size:
        native.bb_hash_rows(_CALLER, permutation_constants(), _flat(rows), out.reshape(-1))
    return out


def compress(left: Elements, right: Elements) -> Elements:
    """Return the parents (n, 8) of digests (n, 8). Raises SizeError for other shapes."""
    if left.shape != right.shape or left.shape[1:] != (DIGEST,):
        raise SizeError(f"digests of the shapes {left.shape} and {right.shape}")
    out = np.empty(left.shape, dtype=np.uint32)
    native.bb_compress(_CALLER, permutation_constants(), _flat(left), _flat(right), out.reshape(-1))
    return out


def least_witness(state: Sequence[int], position: int, bits: int) -> int:
    """Return the least w with which a sponge's state, w at `position`, permutes to `bits` low zeros of element 7.

    Raises SizeError, or ValueError if no element does the work.
    """
    if len(state) != WIDTH:
        raise SizeError(f"a state is {WIDTH} elements, not {len(state)}")
    witness = int(native.bb_grind(_CALLER, permutation_constants(), elements(state), position, bits))
    if witness == P:
        raise ValueError(f"no element does the work of {bits} bits")
    return witness


def _flat(array: Elements) -> Elements:
    return np.ascontiguousarray(array, dtype=np.uint32).reshape(-1)
