"""Leaves out relations of a circuit that it does not need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.recursion.circuit import NONE, Circuit, Kind, Numbers, Target, read_by_relations
from kernels.maths.distinct import distinct


def simplified(circuit: Circuit, zero: int, one: int) -> Circuit:
    """Leave out relations whose result nobody reads, and make a product and the sum that alone reads it one relation.

    `zero` and `one` are the wires of these constants.
    """
    relations, stays = _simplified(circuit.tables["relations"], circuit.reads(), zero, one)
    kept = np.ones(len(circuit.kinds), dtype=np.bool_)
    kept[circuit.kinds == Kind.RELATION] = stays
    tables = {**circuit.tables, "relations": relations[stays]}
    return replace(circuit, kinds=circuit.kinds[kept], tables=tables)


def _simplified(relations: Numbers, reads: NDArray[np.int64], zero: int, one: int) -> tuple[Numbers, NDArray[np.bool_]]:
    """The changed relations, (n, 6), and which of them stay."""
    stays = _read(relations, reads)
    changed = relations.copy()
    a, b, c, d, target = relations[:, :5].T
    count = reads - _times(read_by_relations(relations[~stays]), len(reads))
    product = stays & (target == Target.D) & (c == zero) & (count[d] == 1)
    row_of = np.full(len(reads), -1, dtype=np.int64)
    row_of[d[product]] = np.flatnonzero(product)
    sums = stays & (b == one) & ~product
    first = np.where(sums, row_of[a], -1)
    second = np.where(sums & (target == Target.D) & (first < 0), row_of[c], -1)
    rows = np.flatnonzero(first >= 0)
    changed[rows, :2] = relations[first[rows], :2]
    stays[first[rows]] = False
    rows = np.flatnonzero(second >= 0)
    changed[rows, :2], changed[rows, 2] = relations[second[rows], :2], a[rows]
    stays[second[rows]] = False
    return changed, stays


def _read(relations: Numbers, reads: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which relations have a result that is read, by one that is, or state something."""
    left = reads.copy()
    stays = np.ones(len(relations), dtype=np.bool_)
    rows = np.flatnonzero((relations[:, 4] != Target.NOTHING) & (relations[:, 5] == NONE))
    outs = relations[rows, relations[rows, 4]]
    row_of = np.full(len(reads), -1, dtype=np.int64)
    row_of[outs] = rows
    found = rows[left[outs] == 0]
    while len(found):
        stays[found] = False
        operands = read_by_relations(relations[found])
        left -= _times(operands, len(left))
        touched = distinct(operands[operands != NONE])
        found = row_of[touched[left[touched] == 0]]
        found = found[found >= 0]
    return stays


def _times(wires: Numbers, count: int) -> NDArray[Any]:
    """How often each of `count` wires is among these."""
    return np.bincount(wires[wires != NONE], minlength=count)
