"""Circuits as tables of numbers: wires that are written once, and the operations that relate them.

A wire carries four elements of F_p: a *scalar* (v, 0, 0, 0), an *element* of F (a, b, c, 0) or a *digest*. An operation
is a row of a table and states what it enforces. It *writes* some of its wires and *reads* the others; what an honest
prover writes there follows from what it reads, or is *given*.

The kinds of operations, with their columns:

- *constant* (out): the wire is four fixed elements.
- *public* (out): the wire is the next public value.
- *given* (first, count, out, field, place): at most four wires from `first` on are scalars of the prover's choice, and
  `out` is the element or digest of them. An honest prover has them from a field of the proof, from `place` on; without
  a field, from a row or node of a tree.
- *join* (count, four parts, out): `out` has these scalars as its parts.
- *relation* (a, b, c, d, target, message): a b + c = d in F. It writes the wire at the place `target`, or with 0 none.
- *bits* (of, first, exponent bits, power): the wires from `first` on are the lower and the upper half of a scalar and
  its 64 bits, the lowest first, as a number below p. `power` is the power of a number by that of the lowest bits.
- *permutation* (16 of a state, first, digest, expected): the 16 scalars from `first` on are Poseidon2 of the state, and
  `digest` has the first four of them. An expected digest is read, not written.
- *step* (child, two bits, out, expected, tree, leaf, log size): `out` is the digest of a node of a Merkle path with
  `child` at the place of these bits, the lower first; without a second bit the node has two children, else four. A
  prover finds the others beside the leaf's ancestor at the level of 2^log_size nodes of the tree.
- *opened tree* (tree, first leaf, leaves, first, width): states nothing. The wires from `first` on are the rows of a
  tree at these leaves.
- *opened node* (tree, leaf, log size, flipped, first): states nothing. Four wires from `first` on are the node beside
  the leaf's ancestor at the level of 2^log_size nodes, whose number differs in bit `flipped`.

A leaf is a row of a further table, of indices (first, count): the number of consecutive bits, and a fixed part that is
added to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.field import Words
from kernels.host.native import native
from kernels.interface.tree_hash import NODE_TAG
from kernels.maths.poseidon2 import WIDTH

Numbers = NDArray[np.uint32]

WORDS = 4
"""Elements of F_p on a wire."""
BITS = 64
"""Bits of a scalar in its one decomposition below p."""
HALF = BITS // 2
HALVES = 2
"""Wires of the halves, before those of the bits."""
BINARY_REST = (NODE_TAG, *[0] * (WIDTH // 2 - 1))
"""What a node of two children hashes beside them."""
NONE = 0xFFFFFFFF
"""Stands for no wire, no field or no message."""


class Wire:
    """A wire; its number is its address on the bus."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


@dataclass(frozen=True)
class Index:
    """A leaf of a tree: the number that the bits make, plus a fixed one."""

    bits: tuple[Wire, ...]
    upper: int = 0


@dataclass(frozen=True)
class SiblingPlace:
    """Where a prover finds the other children of a node: of the leaf's ancestor at the level of 2^log_size nodes."""

    tree: int
    leaf: Index
    log_size: int


class Kind(IntEnum):
    """Kinds of operations, with the values that native code has for them (`kernels/cpu/src/recursion_circuit.h`)."""

    CONSTANT = 0
    PUBLIC = 1
    GIVEN = 2
    JOIN = 3
    RELATION = 4
    BITS = 5
    PERMUTATION = 6
    STEP = 7
    OPENED_TREE = 8
    OPENED_NODE = 9


class Target(IntEnum):
    """The wire that a relation writes, by its place."""

    NOTHING = 0
    B = 1
    C = 2
    D = 3


TABLES = {
    "constants": 1,
    "publics": 1,
    "givens": 5,
    "joins": 6,
    "relations": 6,
    "bits": 4,
    "permutations": 19,
    "steps": 8,
    "opened_trees": 5,
    "opened_nodes": 5,
    "indices": 2,
}
"""The tables' numbers of columns: one for each kind, in their order, and that of the leaves' indices."""
WORDS_OF = {"constant_words": WORDS, "bases": 1, "fixed_parts": 1}
"""What the tables of constants, bits and indices have in words of 64 bits, with its numbers of columns."""


@dataclass(frozen=True, eq=False)
class Circuit:
    """A circuit. Operations stand in an order in which each is computed from those before it."""

    wires: int
    public: tuple[tuple[str, int], ...]
    """Fields of the proof that are public, with their numbers of scalars, in the order of the public values."""
    fields: tuple[tuple[str, int], ...]
    """The other fields with their numbers of scalars, by the numbers that `givens` has for them."""
    messages: tuple[str, ...]
    """The faults of proofs for which a relation does not hold, by the numbers that `relations` has for them."""
    kinds: NDArray[np.uint8]
    """Kinds of the operations, (n,). Each is the next row of its kind's table."""
    tables: dict[str, Numbers]
    """Tables by the names of `TABLES`, each (rows, columns)."""
    words: dict[str, Words]
    """By name as in `WORDS_OF`, (rows, columns)."""

    @property
    def public_count(self) -> int:
        return sum(count for _, count in self.public)

    @cached_property
    def native(self) -> Any:
        """The circuit as native code evaluates it. Raises ValueError for tables that are no circuit."""
        tables = {name: np.ascontiguousarray(rows).reshape(-1) for name, rows in self.tables.items()}
        words = {name: np.ascontiguousarray(rows).reshape(-1) for name, rows in self.words.items()}
        return native.RecursionCircuit(self.wires, len(self.messages), self.kinds, tables, words)

    def reads(self) -> NDArray[np.int64]:
        """How often each wire is read, (wires,)."""
        t = self.tables
        joins, permutations, steps = t["joins"], t["permutations"], t["steps"]
        relations = t["relations"]
        found = [
            read_by_relations(relations).reshape(-1),
            joins[:, 1:-1].reshape(-1),
            t["bits"][:, 0],
            permutations[:, :WIDTH].reshape(-1),
            permutations[permutations[:, -1] == 1, -2],
            steps[:, :3].reshape(-1),
            steps[steps[:, 4] == 1, 3],
        ]
        wires = np.concatenate(found)
        return np.bincount(wires[wires != NONE], minlength=self.wires)


def read_by_relations(relations: Numbers) -> Numbers:
    """The wires that relations (n, 6) read, (n, 4), with `NONE` in place of the written one."""
    wires: Numbers = relations[:, :4].copy()
    rows = np.flatnonzero(relations[:, 4])
    wires[rows, relations[rows, 4]] = NONE
    return wires
