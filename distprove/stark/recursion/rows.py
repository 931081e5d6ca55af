"""The rows of a circuit's tables: preprocessed columns, and the wires whose values are main columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.field import P, Words
from distprove.stark.recursion.circuit import HALVES, NONE, WORDS, Circuit, Kind, Numbers
from distprove.stark.recursion.tables import FIRST_PUBLIC, POWER_BITS, USED_BITS
from kernels.maths.poseidon2 import WIDTH

READ = np.uint64(P - 1)
"""The multiplicity of a wire that is read."""

Reads = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """The rows of one table: preprocessed columns (n, width), and wires (n, count) whose values are its main columns or
    some of them."""

    fixed: Words
    wires: Numbers

    def split(self, height: int) -> tuple[Rows, Rows]:
        """The first rows, and those beyond a height."""
        return Rows(self.fixed[:height], self.wires[:height]), Rows(self.fixed[height:], self.wires[height:])


def rows_of(circuit: Circuit) -> dict[str, Rows]:
    """The rows of each kind, by the table's name, in the order of the operations."""
    reads = circuit.reads()
    constants = circuit.words["constant_words"]
    zero = int(circuit.tables["constants"][np.flatnonzero(~constants.any(axis=1))[0], 0])
    parts, times, wholes = _joined(circuit, reads)
    absent = (parts == NONE) & (wholes != NONE)[:, None]
    reads[zero] += int(absent.sum())  # what a whole has none of is zero
    times[absent], parts[parts == NONE] = READ, zero
    return {
        "relations": _relations(circuit.tables["relations"], reads),
        "joins": Rows(_columns(parts, times, *_written(wholes, reads)), parts),
        "constants": _constants(circuit.tables["constants"], constants, reads),
        "publics": _publics(circuit.tables["publics"][:, 0], reads),
        "bits": _bits(circuit.tables["bits"], circuit.words["bases"][:, 0], reads),
        "poseidon2": _poseidon2(circuit, reads, zero),
    }


def _columns(*columns: NDArray[Any]) -> Words:
    """Columns (n,) or (n, k) side by side."""
    return np.column_stack([column.astype(np.uint64) for column in columns])


def _written(wires: Numbers, reads: Reads) -> tuple[Numbers, Words]:
    """Numbers and multiplicities of the wires (n,) that operations write, zero for none."""
    some = wires != NONE
    numbers = np.where(some, wires, 0)
    return numbers, np.where(some, reads[numbers], 0).astype(np.uint64)


def _in_order(circuit: Circuit, kinds: tuple[Kind, Kind], rows: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[Any]:
    """Rows of two kinds in the order of their operations."""
    first = circuit.kinds[np.isin(circuit.kinds, kinds)] == kinds[0]
    merged = np.empty((len(first), *rows[0].shape[1:]), dtype=rows[0].dtype)
    merged[first], merged[~first] = rows
    return merged


def _joined(circuit: Circuit, reads: Reads) -> tuple[Numbers, Words, Numbers]:
    """Parts (n, 4), their multiplicities, and wholes (n,), of what is given or joined."""
    given, joins = circuit.tables["givens"], circuit.tables["joins"]
    place = np.arange(WORDS, dtype=np.uint32)
    parts = np.where(place < given[:, 1:2], given[:, :1] + place, np.uint32(NONE)).astype(np.uint32)
    kinds = Kind.GIVEN, Kind.JOIN
    read = np.where(joins[:, 1 : 1 + WORDS] == NONE, np.uint64(0), READ)
    times = np.stack([_written(column, reads)[1] for column in parts.T], axis=1)
    return (
        _in_order(circuit, kinds, (parts, joins[:, 1 : 1 + WORDS])),
        _in_order(circuit, kinds, (times, read)),
        _in_order(circuit, kinds, (given[:, 2], joins[:, -1])),
    )


def _relations(table: Numbers, reads: Reads) -> Rows:
    wires = np.ascontiguousarray(table[:, :4])
    times = np.full(wires.shape, READ, dtype=np.uint64)
    writing = np.flatnonzero(table[:, 4])
    target = table[writing, 4]
    times[writing, target] = reads[wires[writing, target]]
    return Rows(_columns(wires, times), wires)


def _publics(wires: Numbers, reads: Reads) -> Rows:
    expected = np.arange(FIRST_PUBLIC, FIRST_PUBLIC + len(wires))
    assert np.array_equal(wires, expected), "declared before anything else"
    return Rows(_columns(reads[wires][None, :]), np.empty((1, 0), dtype=np.uint32))


def _constants(table: Numbers, words: Words, reads: Reads) -> Rows:
    return Rows(_columns(table, words, reads[table[:, 0]]), table)


def _bits(table: Numbers, bases: Words, reads: Reads) -> Rows:
    of, first, exponent_bits, power = table.T
    own = reads[first[:, None] + np.arange(HALVES + USED_BITS)]
    factors = np.zeros((len(table), POWER_BITS), dtype=np.uint64)
    for base in np.unique(bases):
        powers = np.array([pow(int(base), 1 << i, P) - 1 for i in range(POWER_BITS)], dtype=np.uint64)
        rows = np.flatnonzero((bases == base) & (power != NONE))
        factors[rows] = np.where(np.arange(POWER_BITS) < exponent_bits[rows, None], powers, np.uint64(0))
    wires = np.ascontiguousarray(of[:, None])
    return Rows(_columns(np.ones(len(table)), of, first, own, *_written(power, reads), factors), wires)


def _poseidon2(circuit: Circuit, reads: Reads, zero: int) -> Rows:
    sponges, steps = circuit.tables["permutations"], circuit.tables["steps"]
    state, first, digest, expected = sponges[:, :WIDTH], sponges[:, WIDTH], sponges[:, -2], sponges[:, -1] == 1
    numbers, written = _written(digest, reads)
    outs = reads[first[:, None] + np.arange(WIDTH)]
    absorbed = (state, np.ones(len(sponges)), first, outs, numbers, np.where(expected, READ, written))
    child, lower, upper, out = steps.T[:4]
    expected = steps[:, 4] == 1
    binary = upper == NONE
    places = np.stack([lower, np.where(binary, np.uint32(zero), upper)], axis=1)
    times = np.where(expected, READ, reads[out].astype(np.uint64))
    node = out, times, child, places, np.ones(len(steps)), binary
    kinds = Kind.PERMUTATION, Kind.STEP
    no_place = np.full((len(sponges), 2), zero, dtype=np.uint32)
    fixed = (
        _columns(*absorbed, np.zeros((len(sponges), 5))),
        _columns(np.zeros((len(steps), 2 * WIDTH + 2)), *node),
    )
    return Rows(_in_order(circuit, kinds, fixed), _in_order(circuit, kinds, (no_place, places)))
