"""The rows of a circuit's tables, as preprocessed columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.field import P, Words
from distprove.stark.recursion.circuit import HALVES, NONE, WORDS, Circuit, Kind, Numbers
from distprove.stark.recursion.tables import FIRST_PUBLIC, POWER_BITS, USED_BITS
from kernels.maths.poseidon2 import WIDTH

READ = np.uint64(P - 1)
"""The multiplicity of a wire that is read."""

Column = NDArray[Any]
"""Numbers below 2^64, (n,)."""


def row_counts(circuit: Circuit) -> dict[str, int]:
    """How many rows of each kind `rows_of` has."""
    given, joins = (len(circuit.tables[name]) for name in ("givens", "joins"))
    hashed = sum(len(circuit.tables[name]) for name in ("permutations", "steps"))
    counts = {name: len(circuit.tables[name]) for name in ("relations", "constants", "bits")}
    return {**counts, "joins": given + joins, "publics": 1, "poseidon2": hashed}


def rows_of(circuit: Circuit) -> dict[str, list[Column]]:
    """The columns of each kind, by the table's name, with rows in the order of the operations."""
    reads: Words = circuit.reads().astype(np.uint64)
    constants = circuit.words["constant_words"]
    zero = int(circuit.tables["constants"][np.flatnonzero(~constants.any(axis=1))[0], 0])
    assert zero == 0, "rows without an operation have this wire"
    parts, times, wholes = _joined(circuit, reads)
    absent = (parts == NONE) & (wholes != NONE)[:, None]
    reads[zero] += np.uint64(absent.sum())  # what a whole has none of is zero
    times[absent], parts[parts == NONE] = READ, zero
    return {
        "relations": _relations(circuit.tables["relations"], reads),
        "joins": [*parts.T, *times.T, *_written(wholes, reads)],
        "constants": [*circuit.tables["constants"].T, *constants.T, reads[circuit.tables["constants"][:, 0]]],
        "publics": _publics(circuit.tables["publics"][:, 0], reads),
        "bits": _bits(circuit.tables["bits"], circuit.words["bases"][:, 0], reads),
        "poseidon2": _poseidon2(circuit, reads, zero),
    }


def _written(wires: Numbers, reads: Words) -> tuple[Numbers, Words]:
    """Numbers and multiplicities of the wires (n,) that operations write, zero for none."""
    some = wires != NONE
    numbers = np.where(some, wires, np.uint32(0))
    return numbers, np.where(some, reads[numbers], np.uint64(0))


def _places(circuit: Circuit, kinds: tuple[Kind, Kind]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of the operations of each of two kinds, in a table of both."""
    first, second = (circuit.kinds == kind for kind in kinds)
    of_first = first[first | second]
    return np.flatnonzero(of_first), np.flatnonzero(~of_first)


def _joined(circuit: Circuit, reads: Words) -> tuple[Numbers, Words, Numbers]:
    """Parts (n, 4), their multiplicities, and wholes (n,), of what is given or joined."""
    given, joins = circuit.tables["givens"], circuit.tables["joins"]
    of_given, of_joins = _places(circuit, (Kind.GIVEN, Kind.JOIN))
    count = len(given) + len(joins)
    parts, times = np.empty((count, WORDS), dtype=np.uint32), np.empty((count, WORDS), dtype=np.uint64)
    wholes = np.empty(count, dtype=np.uint32)
    place = np.arange(WORDS, dtype=np.uint32)
    own = np.where(place < given[:, 1:2], given[:, :1] + place, np.uint32(NONE)).astype(np.uint32)
    parts[of_given], parts[of_joins] = own, joins[:, 1 : 1 + WORDS]
    times[of_given] = _written(own, reads)[1]
    times[of_joins] = np.where(joins[:, 1 : 1 + WORDS] == NONE, np.uint64(0), READ)
    wholes[of_given], wholes[of_joins] = given[:, 2], joins[:, -1]
    return parts, times, wholes


def _relations(table: Numbers, reads: Words) -> list[Column]:
    times: list[Column] = [np.full(len(table), READ, dtype=np.uint64)]  # none writes its first wire
    for operand in range(1, WORDS):
        writing = np.flatnonzero(table[:, WORDS] == operand)
        own = np.full(len(table), READ, dtype=np.uint64)
        own[writing] = reads[table[writing, operand]]
        times.append(own)
    return [*table[:, :WORDS].T, *times]


def _publics(wires: Numbers, reads: Words) -> list[Column]:
    expected = np.arange(FIRST_PUBLIC, FIRST_PUBLIC + len(wires))
    assert np.array_equal(wires, expected), "declared before anything else"
    return [*reads[wires][:, None]]


def _bits(table: Numbers, bases: Words, reads: Words) -> list[Column]:
    of, first, exponent_bits, power = table.T
    own = reads[first + np.arange(HALVES + USED_BITS, dtype=np.uint32)[:, None]]
    factors = np.zeros((POWER_BITS, len(table)), dtype=np.uint64)
    for base in sorted(set(bases.tolist())):
        powers = np.array([pow(base, 1 << i, P) - 1 for i in range(POWER_BITS)], dtype=np.uint64)
        rows = np.flatnonzero((bases == base) & (power != NONE))
        used = np.arange(POWER_BITS)[:, None] < exponent_bits[rows]
        factors[:, rows] = np.where(used, powers[:, None], np.uint64(0))
    return [np.ones(len(table), dtype=np.uint64), of, first, *own, *_written(power, reads), *factors]


def _poseidon2(circuit: Circuit, reads: Words, zero: int) -> list[Column]:
    sponges, steps = circuit.tables["permutations"], circuit.tables["steps"]
    of_sponges, of_steps = _places(circuit, (Kind.PERMUTATION, Kind.STEP))
    state, first, digest = sponges[:, :WIDTH].T, sponges[:, WIDTH], sponges[:, -2]
    numbers, written = _written(digest, reads)
    outs = reads[first + np.arange(WIDTH, dtype=np.uint32)[:, None]]
    absorbed = [*state, 1, first, *outs, numbers, np.where(sponges[:, -1] == 1, READ, written), *[None] * 5]
    child, lower, upper, out = steps.T[:4]
    binary = upper == NONE
    upper = np.where(binary, np.uint32(zero), upper)
    times = np.where(steps[:, 4] == 1, READ, reads[out])
    node = [*[None] * (2 * WIDTH + 2), out, times, child, lower, upper, 1, binary]

    def both(sponge: Any, step: Any) -> Column:
        column = np.zeros(len(sponges) + len(steps), dtype=np.uint64)
        if sponge is not None:
            column[of_sponges] = sponge
        if step is not None:
            column[of_steps] = step
        return column

    return [both(sponge, step) for sponge, step in zip(absorbed, node, strict=True)]
