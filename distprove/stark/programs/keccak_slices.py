"""Keccak-f[1600] as rules for a narrow table: four rows per round, each with 16 of the 64 slices of the state.

A slice is the 25 bits of one z. Theta, chi and iota work within slices (theta also reads the slice before), and only
rho moves bits from slice to slice. So a row holds, for its 16 slices, the state before chi as bits, B, and

    A  = iota(chi(B))                       degree 3; where round constants have bits, iota has a column of its own
    C[x, z] = parity of A[x, ., z]          their sum, less C, is 0, 2 or 4: twice the column `carry`
    A' = theta(A)                           A xor C[x-1, z] xor C[x+1, z-1], degree 5

and its bits of A' travel to the rows where rho and pi take them: those that go to one row of the next round are packed
into words of at most 63 bits, and the words are sent and received on the bus `MOVED`. A sum of fewer than 64 bits with
powers of two decodes in one way, and (stage, slice, group) occurs once on either side, so balance says that each bit
arrives. 24 rounds are 25 stages, as each stage has chi of the round before and theta of its own: at stage 0 A is the
permutation's input, so that B is chi's preimage of it, and at stage 24 A is its result.

These are 606 columns and six for LogUp in 100 rows per permutation, at degree 5: blow-up 4 or more. `keccak_rounds`
has 2,321 columns in 24 rows, at degree 3. docs/programs.md compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from distprove.stark.air import Bus, CppRows, Expression, Table, total
from distprove.stark.air.definition import Value
from distprove.stark.programs.keccak_rounds import LANES, PI_SOURCE, ROTATIONS, ROUND_CONSTANTS, ROUNDS
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

SLICES = 16
"""Slices in a row."""
PARTS = 64 // SLICES
"""Rows of a stage."""
STAGES = ROUNDS + 1
ROWS_EACH = STAGES * PARTS
"""Rows of a permutation."""
CONSTANT_PLACES = (0, 1, 3, 7, 15)
"""Places within a row's slices where a round constant can have a bit."""
WORD_BITS = 63
"""Maximum number of bits of A' in one word, which is below 2^63 and so below p."""
LAST = STAGES // 5 - 1
"""Stage 5 a + b has the flags outer[a] and inner[b]."""


@dataclass(frozen=True)
class Piece:
    """Consecutive bits of a lane, within the row's slices, that go to one row of the next stage."""

    source: int
    """The lane of A' they come from."""
    target: int
    """The lane of B they go to."""
    start: int
    """The first bit's place among the slices of the row it leaves."""
    arrives: int
    """Its place among the slices of the row it reaches."""
    length: int


def _words() -> tuple[tuple[tuple[Piece, ...], ...], ...]:
    """The pieces of each word, by the number of rows (modulo `PARTS`) between the slices they leave and reach."""
    groups: list[list[Piece]] = [[] for _ in range(PARTS)]
    for target, source in enumerate(PI_SOURCE):
        rows, by = divmod(ROTATIONS[source], SLICES)
        groups[rows].append(Piece(source, target, 0, by, SLICES - by))
        if by:
            groups[(rows + 1) % PARTS].append(Piece(source, target, SLICES - by, 0, by))
    out = []
    for group in groups:
        words: list[list[Piece]] = [[]]
        for piece in group:
            if sum(p.length for p in words[-1]) + piece.length > WORD_BITS:
                words.append([])
            words[-1].append(piece)
        out.append(tuple(map(tuple, words)))
    return tuple(out)


WORDS = _words()
"""WORDS[group][k] are the pieces of a word."""
COLUMNS = {
    "bits": SLICES * LANES,
    "parity": SLICES * 5,
    "carry": SLICES * 5,
    "below": 5,
    "around": 5,
    "iota": len(CONSTANT_PLACES),
    "constant": len(CONSTANT_PLACES),
    "outer": 5,
    "inner": 5,
    "slices": PARTS,
    "stamp": 1,
    "moved": sum(map(len, WORDS)),
}
"""Columns that the row function writes, which must come first in a table. A row holds bit z = 16 s + j of lane x + 5 y
in bits[16 (x + 5 y) + j]; parity and carry likewise by x."""
FLAGS = {"sends": 1, "takes": 1}
"""Columns of the rows, of permutations in use, that send to the next stage and receive from the one before."""
START = {name: sum(list(COLUMNS.values())[:i]) for i, name in enumerate(COLUMNS)}
"""The first column of each name."""
WIDTH = sum(COLUMNS.values())
ROWS = CppRows(Path(__file__).with_name("keccak_slices.cpp"), COLUMNS, ("states", "pieces"))
"""The function that makes the rows of `COLUMNS` from the lanes (25, blocks) of the permutations' initial states."""
MOVED = Bus("keccak moved", 2 + max(map(len, WORDS)))


# -- rules ------------------------------------------------------------------------------------------------------------


class Slices:
    """The state A of a row: at `begins` the permutation's input, at `closes` its result, in four rows each."""

    def __init__(self, t: Table, on: Expression) -> None:
        self._t = t
        self.begins = on - t.this.takes
        """1 on the rows of the input of a permutation in use, else 0. Degree 1, as that of `closes`."""
        self.closes = on - t.this.sends
        self.ends = t.this.slices[-1] * t.this.inner[-1] * t.this.outer[LAST]
        """1 on the last row of a permutation, in use or not, else 0. Degree 3."""

    def bit(self, lane: int, j: int) -> Expression:
        """Bit j of the row's part of a lane, of degree 3."""
        return _after_iota(self._t, lane, j)

    def number(self, lane: int, start: int = 0, stop: int = SLICES) -> Expression:
        """Bits start to stop - 1 of the row's part of a lane as one number, of degree 3."""
        return total(self.bit(lane, j) * (1 << (j - start)) for j in range(start, stop))


def constrain_slices(t: Table, used: Sequence[str]) -> Slices:
    """Constrain the rows to be permutations, 100 rows each, of any states. The constraints have degree 5.

    The sum of the columns `used` is 1 if the permutation is in use, else 0. It is held constant within a permutation,
    and to 0 in the last one, which the table's end cuts off. The program must have the bus `MOVED`.
    """
    this, after = t.this, t.next
    on = total(this[name][0] for name in used)
    _constrain_counters(t)
    out = Slices(t, on)
    t.boolean(on)
    t.transition((1 - out.ends) * (total(after[name][0] for name in used) - on), "a permutation is in use as a whole")
    t.last(on, "the last permutation, cut off, is idle")
    t.always(this.sends - on * (1 - this.outer[LAST] * this.inner[-1]), "sends")
    t.always(this.takes - on * (1 - this.outer[0] * this.inner[0]), "takes")
    for flag in (this.sends, this.takes, out.begins, out.closes):
        t.boolean(flag)

    for bit in (*this.bits, *this.parity):
        t.boolean(bit)
    for carry in this.carry:
        t.always(carry * (carry - 1) * (carry - 2))
    for i, j in enumerate(CONSTANT_PLACES):
        t.always(this.constant[i] - _constant(t, j), f"constant {j}")
        chi = _chi(t, 0, j)
        t.always(this.iota[i] - chi - this.constant[i] + 2 * chi * this.constant[i], f"iota {j}")
    for x in range(5):
        for j in range(SLICES):
            column = total(out.bit(x + 5 * y, j) for y in range(5))
            at = SLICES * x + j
            t.always(column - this.parity[at] - 2 * this.carry[at], f"parity of {x}, {j}")
        top = this.parity[SLICES * x + SLICES - 1]
        t.transition((1 - this.slices[-1]) * (after.below[x] - top), f"below {x}")
        t.transition((1 - this.slices[-1]) * (after.around[x] - this.around[x]), f"around {x} stays")
        t.always(this.slices[0] * (this.below[x] - this.around[x]), f"below {x} at first")
        t.always(this.slices[-1] * (this.around[x] - top), f"around {x}")

    moved = iter(this.moved)
    part = total(flag * s for s, flag in enumerate(this.slices))
    for group, words in enumerate(WORDS):
        sent: list[Value] = []
        received: list[Value] = []
        for k, pieces in enumerate(words):
            cell = next(moved)
            leaving = [_theta(t, p.source, p.start + i) for p in pieces for i in range(p.length)]
            arriving = [this.bits[SLICES * p.target + p.arrives + i] for p in pieces for i in range(p.length)]
            t.always(cell - sum(bit * (1 << i) for i, bit in enumerate(leaving)), f"moved {group}, {k}")
            sent.append(cell)
            received.append(sum(bit * (1 << i) for i, bit in enumerate(arriving)))
        empty = [0] * (MOVED.width - 2 - len(words))
        reached = total(flag * ((s + group) % PARTS) for s, flag in enumerate(this.slices))
        t.send(MOVED, [PARTS * this.stamp + PARTS + reached, group, *sent, *empty], times=this.sends)
        t.receive(MOVED, [PARTS * this.stamp + part, group, *received, *empty], times=this.takes, at_most=1)
    return out


def _constrain_counters(t: Table) -> None:
    """Count the rows of a stage, the stages of a permutation, and all stages of the table (`stamp`)."""
    this, after = t.this, t.next
    ends = this.slices[-1]
    for name, count in (("slices", PARTS), ("inner", 5), ("outer", 5)):
        for i in range(count):
            cell, before = this[name][i], this[name][i - 1]
            step = ends if name == "inner" else ends * this.inner[-1]
            wanted = before if name == "slices" else cell + step * (before - cell)
            t.first(cell - (i == 0), f"{name} {i}: first")
            t.transition(after[name][i] - wanted, f"{name} {i}: next")
    t.first(this.stamp)
    t.transition(after.stamp - this.stamp - ends, "stamp")


def _constant(t: Table, j: int) -> Expression:
    """The bit of the previous round's constant at place j of this row's slices; none at stage 0."""
    places = [
        t.this.outer[stage // 5] * t.this.inner[stage % 5] * t.this.slices[s]
        for stage in range(1, STAGES)
        for s in range(PARTS)
        if ROUND_CONSTANTS[stage - 1] >> (SLICES * s + j) & 1
    ]
    return total(places)


def _chi(t: Table, lane: int, j: int) -> Expression:
    y, x = divmod(lane, 5)
    a, b, c = (t.this.bits[SLICES * ((x + i) % 5 + 5 * y) + j] for i in range(3))
    masked = c - b * c
    value: Expression = a + masked - 2 * a * masked
    return value


def _after_iota(t: Table, lane: int, j: int) -> Expression:
    if lane or j not in CONSTANT_PLACES:
        return _chi(t, lane, j)
    cell: Expression = t.this.iota[CONSTANT_PLACES.index(j)]
    return cell


def _theta(t: Table, lane: int, j: int) -> Expression:
    """Bit j of a lane after theta, of degree 5."""
    x = lane % 5
    beside = t.this.parity[SLICES * ((x - 1) % 5) + j]
    behind = t.this.parity[SLICES * ((x + 1) % 5) + j - 1] if j else t.this.below[(x + 1) % 5]
    added = beside + behind - 2 * beside * behind
    bit = _after_iota(t, lane, j)
    value: Expression = bit + added - 2 * bit * added
    return value


# -- rows -------------------------------------------------------------------------------------------------------------


def rows_for(permutations: int) -> int:
    """Number of rows, a power of two, for so many permutations and at least one more row, where none of them ends."""
    return 1 << (ROWS_EACH * permutations).bit_length()


def blocks_for(rows: int) -> int:
    """Number of permutations that begin in so many rows. The last one is cut off."""
    return -(-rows // ROWS_EACH)


def fill_slices(columns: Array, states: Array, used: int, backend: Backend) -> None:
    """Write `COLUMNS` and `FLAGS` of `columns`, (>= WIDTH + 2, rows), for permutations of the initial states `states`,
    of which the first `used` are in use.

    `states` holds lanes, (25, blocks_for(rows)) uint64.
    """
    pieces = backend.to_device(np.array(PIECES, dtype=np.uint64).T.copy())
    ROWS.make(backend, columns.shape[1], out=columns[:WIDTH], states=states, pieces=pieces)
    flags = np.ones((len(FLAGS), 1, ROWS_EACH), dtype=np.uint64)
    flags[0, :, -PARTS:] = flags[1, :, :PARTS] = 0
    columns[WIDTH : WIDTH + len(FLAGS)] = 0
    if used:
        columns[WIDTH : WIDTH + len(FLAGS), : ROWS_EACH * used] = (
            backend.to_device(flags).repeat(used, axis=1).reshape(len(FLAGS), -1)
        )


PIECES = [
    (k, p.source, p.start, p.length, sum(q.length for q in pieces[:i]))
    for k, pieces in enumerate(word for words in WORDS for word in words)
    for i, p in enumerate(pieces)
]
"""(word, lane, first bit, length, place in the word) of each piece, for the row function."""
