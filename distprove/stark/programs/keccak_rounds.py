"""Keccak-f[1600] (FIPS 202) as rules for a table, one row per round, and the generation of the rows.

A row holds a round's state after theta as bits, A'; the parities of its columns, C'; the bits D that theta added; and
the state after the round as 32-bit words, `out`. With the parities before theta, C = C' xor D, this gives:

    D[x, z] = C[x-1, z] xor C[x+1, z-1]     the five bits D, C'[x-1], D[x-1], C'[x+1], D[x+1] have an even sum
    C'[x, z] = parity of A'[x, ., z]        their sum, less C', is even
    state before the round = A' xor D       degree 2, so that with a selector it has degree 3
    out = iota(chi(pi(rho(A'))))            degree 3; where the round constants have bits, chi has a column of its own

These are 2,321 columns. A layout that also commits to every state in words and to C takes about 2,630.

Lanes are numbered x + 5 y, bits from the least significant, words low half first: word k of the state is bytes 4 k to
4 k + 3 of a message block, little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from distprove.stark.air import CppRows, Expression, Table
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

ROUNDS = 24
LANES = 25
WORDS = 2 * LANES
RATE_LANES = 17
"""Number of lanes into which Keccak-256 absorbs a block, 136 bytes."""

COLUMNS = {"state": 64 * LANES, "parity": 320, "theta": 320, "out": WORDS, "chi": 7, "round": ROUNDS}
"""Columns that `constrain_rounds` uses, which must come first in a table."""
WIDTH = sum(COLUMNS.values())
ROWS = CppRows(Path(__file__).with_name("keccak_rounds.cpp"), COLUMNS, ("states",))
"""The function that makes the rows of `COLUMNS` from the lanes (25, blocks) of the permutations' initial states."""

CONSTANT_BITS = (0, 1, 3, 7, 15, 31, 63)
"""Bits of lane 0 that a round constant can set. The columns `chi` hold their values before iota."""


def _round_constants() -> tuple[int, ...]:
    """The round constants, from the standard's shift register x^8 + x^6 + x^5 + x^4 + 1 with seven steps a round."""
    register, constants = 1, []
    for _ in range(ROUNDS):
        constant = 0
        for bit in CONSTANT_BITS:
            constant |= (register & 1) << bit
            register = (register << 1) ^ (0x171 if register >> 7 else 0)
        constants.append(constant)
    return tuple(constants)


def _rotations() -> tuple[int, ...]:
    """The rotation offset of each lane in rho."""
    offsets, x, y = [0] * LANES, 1, 0
    for t in range(24):
        offsets[x + 5 * y] = (t + 1) * (t + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return tuple(offsets)


ROUND_CONSTANTS = _round_constants()
ROTATIONS = _rotations()
PI_SOURCE = tuple((x + 3 * y) % 5 + 5 * x for y in range(5) for x in range(5))
"""The source lane of each lane in pi: lane x + 5 y comes from lane (x + 3 y) + 5 x."""


# -- rules ------------------------------------------------------------------------------------------------------------


class Rounds:
    """The state before a row's round, as expressions in the cells of the row."""

    def __init__(self, cells: Sequence[Expression], theta: Sequence[Expression]) -> None:
        self._state, self._theta = cells, theta

    def bits(self, start: int, stop: int) -> Expression:
        """Bits start to stop - 1 of the state before the round, at most 32 bits, as one number of degree 2."""
        total: Expression | int = 0
        for weight, bit in enumerate(range(start, stop)):
            lane, z = divmod(bit, 64)
            a, d = self._state[bit], self._theta[64 * (lane % 5) + z]
            total = total + (a + d - 2 * a * d) * (1 << weight)
        assert isinstance(total, Expression), "some bits are asked for"
        return total

    def word(self, k: int) -> Expression:
        """The 32-bit word k of the state before the round, of degree 2."""
        return self.bits(32 * k, 32 * k + 32)


def constrain_rounds(t: Table) -> Rounds:
    """Constrain every row to be a round, with rounds counted 0 to 23 repeatedly, each on the state of the previous
    round; round 0 takes any state. Returns the state before this row's round. The constraints have degree 3.
    """
    rounds = t.this["round"]
    for i, flag in enumerate(rounds):
        t.first(flag - (i == 0), f"round {i}: first")
        t.transition(t.next["round"][(i + 1) % ROUNDS] - flag, f"round {i}: next")
    for flag in (rounds[0], rounds[-1]):  # implied; stated for interactions that use them as multiplicities
        t.boolean(flag)
    state, parity, theta = t.this["state"], t.this["parity"], t.this["theta"]
    for bit in (*state, *parity, *theta):
        t.boolean(bit)
    for x in range(5):
        for z in range(64):
            added = sum(state[64 * (x + 5 * y) + z] for y in range(5)) - parity[64 * x + z]
            t.always(added * (added - 2) * (added - 4), f"parity of {x}, {z}")
            beside, behind = 64 * ((x - 1) % 5) + z, 64 * ((x + 1) % 5) + (z - 1) % 64
            five = theta[64 * x + z] + parity[beside] + theta[beside] + parity[behind] + theta[behind]
            t.always(five * (five - 2) * (five - 4), f"theta of {x}, {z}")
    for k, word in enumerate(t.this["out"]):
        bits = (_after_round(t, *divmod(bit, 64)) for bit in range(32 * k, 32 * k + 32))
        t.always(word - sum(bit * (1 << i) for i, bit in enumerate(bits)), f"out {k}")
    for value, z in zip(t.this["chi"], CONSTANT_BITS, strict=True):
        t.always(value - _chi(t, 0, z), f"chi {z}")
    after = Rounds(t.next["state"], t.next["theta"])
    for k, word in enumerate(t.this["out"]):
        t.transition((1 - rounds[-1]) * (word - after.word(k)), f"next {k}")
    return Rounds(state, theta)


def _chi(t: Table, lane: int, z: int) -> Expression:
    """Bit z of a lane after chi, of degree 3."""

    def rotated(x: int, y: int) -> Expression:
        source = PI_SOURCE[x % 5 + 5 * y]
        bit: Expression = t.this["state"][64 * source + (z - ROTATIONS[source]) % 64]
        return bit

    y, x = divmod(lane, 5)
    a, b, c = (rotated(x + i, y) for i in range(3))
    masked = c - b * c
    return a + masked - 2 * a * masked


def _after_round(t: Table, lane: int, z: int) -> Expression:
    if lane or z not in CONSTANT_BITS:
        return _chi(t, lane, z)
    value: Expression = t.this["chi"][CONSTANT_BITS.index(z)]
    constant = sum(flag * (c >> z & 1) for flag, c in zip(t.this["round"], ROUND_CONSTANTS, strict=True))
    return value + constant - 2 * value * constant


# -- rows -------------------------------------------------------------------------------------------------------------


def rows_for(permutations: int) -> int:
    """Number of rows, a power of two, for so many permutations and at least one more row, where none of them ends."""
    return 1 << (ROUNDS * permutations).bit_length()


def blocks_for(rows: int) -> int:
    """Number of permutations that begin in so many rows. The last one is cut off."""
    return -(-rows // ROUNDS)


def over_rounds(values: Array, rows: int) -> Array:
    """Repeat `values`, (k, blocks) with one value for each permutation, in all its rows: (k, rows)."""
    return values.repeat(ROUNDS).reshape(len(values), -1)[:, :rows]


def fill_rounds(columns: Array, states: Array, backend: Backend) -> None:
    """Write the first WIDTH columns of `columns`, (>= WIDTH, rows), for permutations of the initial states `states`.

    `states` holds lanes, (25, blocks_for(rows)) uint64.
    """
    ROWS.make(backend, columns.shape[1], out=columns[:WIDTH], states=states)
