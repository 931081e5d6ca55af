"""The Poseidon2 permutation over BabyBear of width 16, many states at a time, and its hash and compression.

eprint 2023/323, with x^7, 8 full and 13 partial rounds. The constants are those of the Grain LFSR of eprint 2019/458,
appendix E. The internal layer has the diagonal that Plonky3 chose for BabyBear (`default_babybear_poseidon2_16`).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from kernels.maths.babybear import Elements, P, add, elements, mul, total
from kernels.maths.grain import grain_elements

WIDTH, HALF_FULL, PARTIAL, ALPHA = 16, 4, 13, 7
RATE = DIGEST = 8
"""Elements that a block of the sponge overwrites, and elements of a digest."""


def _inverse_of_two(exponent: int) -> int:
    return pow(2, -exponent, P)


DIAGONAL = tuple(
    x % P
    for x in (
        *(-2, 1, 2, _inverse_of_two(1), 3, 4, -_inverse_of_two(1), -3, -4),
        *(_inverse_of_two(k) for k in (8, 2, 3, 27)),
        *(-_inverse_of_two(k) for k in (8, 4, 27)),
    )
)
"""The diagonal of the internal layer, less one."""


@cache
def round_constants() -> tuple[int, ...]:
    """The constants in the order of the powers: 16 for each full round, one for each partial one."""
    return grain_elements(P, WIDTH, 2 * HALF_FULL, PARTIAL)


@cache
def _constants() -> tuple[Elements, Elements, Elements]:
    """The constants as arrays: first full rounds (4, 16, 1), partial rounds (13,), last full rounds (4, 16, 1)."""
    every = elements(round_constants())
    first = HALF_FULL * WIDTH
    return (
        every[:first].reshape(HALF_FULL, WIDTH, 1),
        every[first : first + PARTIAL],
        every[first + PARTIAL :].reshape(HALF_FULL, WIDTH, 1),
    )


def _seventh(x: Elements) -> Elements:
    square = mul(x, x)
    return mul(mul(mul(square, square), square), x)


def _external(state: Elements) -> Elements:
    """The external layer of (16, n): circ(2 M4, M4, M4, M4), with M4 = circ(2, 3, 1, 1)."""
    wide = state.astype(np.uint64).reshape(4, 4, -1)
    mixed = wide.sum(axis=1, keepdims=True) + wide + 2 * np.roll(wide, -1, axis=1)
    mixed += mixed.sum(axis=0, keepdims=True)
    return np.asarray(mixed % P).astype(np.uint32).reshape(WIDTH, -1)


def permute(states: Elements) -> Elements:
    """Return the permutation of (n, 16) states."""
    first, partial, last = _constants()
    diagonal = elements(DIAGONAL).reshape(WIDTH, 1)
    state = _external(np.ascontiguousarray(states.T))
    for constants in first:
        state = _external(_seventh(add(state, constants)))
    for constant in partial:
        state[0] = _seventh(add(state[0], constant))
        state = add(total(state, 0)[None], mul(state, diagonal))
    for constants in last:
        state = _external(_seventh(add(state, constants)))
    return np.ascontiguousarray(state.T)


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
