"""The Poseidon2 permutation over BabyBear of width 16, many states at a time, and its hash and compression.

It has x^7, 8 full and 13 partial rounds, and the diagonal that Plonky3 chose for BabyBear
(`default_babybear_poseidon2_16`). Native code computes the same, faster: `kernels.cpu.poseidon2_babybear`.
"""

from __future__ import annotations

import numpy as np

from kernels.maths.babybear import Elements, P, add, mul
from kernels.maths.poseidon2_rounds import Poseidon2, plonky3_diagonal, quads

WIDTH = 16
RATE = DIGEST = 8
"""Elements that a block of the sponge overwrites, and elements of a digest."""
PERMUTATION = Poseidon2(P, 13, plonky3_diagonal(P, (8, 2, 3, 27, -8, -4, -27)), quads)


def permute(states: Elements) -> Elements:
    """Return the permutation of (n, 16) states."""

    def power(x: Elements, constant: int) -> Elements:
        given = add(x, np.uint32(constant))
        square = mul(given, given)
        return mul(mul(mul(square, square), square), given)

    def scale(x: Elements, factor: int) -> Elements:
        return mul(x, np.uint32(factor))

    return np.stack(PERMUTATION.rounds(list(states.T), power, add, scale), axis=1)


def hash_rows(rows: Elements) -> Elements:
    """Return the digests (n, 8) of the rows of (n, width) base elements.

    A sponge in overwrite mode without padding: each block of 8 overwrites the first elements of the state, a shorter
    last block as many as it has. No permutation follows an empty block, so a row of no element has the digest zero.
    """
    state = np.zeros((len(rows), WIDTH), dtype=np.uint32)
    for start in range(0, rows.shape[1], RATE):
        block = rows[:, start : start + RATE]
        state[:, : block.shape[1]] = block
        state = permute(state)
    return np.ascontiguousarray(state[:, :DIGEST])


def compress(left: Elements, right: Elements) -> Elements:
    """Return the parents (n, 8) of digests (n, 8): the first half of the permutation of left beside right."""
    return np.ascontiguousarray(permute(np.concatenate((left, right), axis=1))[:, :DIGEST])
