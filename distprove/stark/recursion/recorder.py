"""Collects the operations of a circuit as rows of its tables, and copies what repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.stark.recursion.circuit import (
    NONE,
    TABLES,
    WORDS,
    WORDS_OF,
    Circuit,
    Kind,
    Numbers,
    Target,
)
from distprove.stark.recursion.simplified import simplified
from kernels.maths.poseidon2 import WIDTH

Flat = NDArray[np.unsignedinteger]

_KINDS = "kinds"
_TYPES = {_KINDS: np.uint8, **dict.fromkeys(TABLES, np.uint32), **dict.fromkeys(WORDS_OF, np.uint64)}
_WIRES = {
    "givens": (0, 2),
    "joins": range(1, 6),
    "relations": range(4),
    "bits": (0, 1, 3),
    "permutations": range(WIDTH + 2),
    "steps": range(4),
    "opened_trees": (3,),
    "opened_nodes": (4,),
    "indices": (0,),
}
"""Columns that are wires, or the first of consecutive ones, of the tables that a copy has."""
_TREES = {"steps": 5, "opened_trees": 0, "opened_nodes": 0}
_LEAVES = {"steps": 6, "opened_trees": 1, "opened_nodes": 1}
_FIELD = 3
"""Column of the givens."""


@dataclass(frozen=True)
class Part:
    """The operations between two places of a record."""

    wires: range
    fields: tuple[str, ...]
    first_field: int
    indices: range
    record: Mapping[str, Flat]
    """Kinds, tables and words, flat."""

    def rows(self, table: str) -> Numbers:
        return self.record[table].reshape(-1, TABLES[table])


@dataclass
class Place:
    """A place in a record."""

    wires: int
    fields: int
    indices: int


MOST_WIRES = 1 << 22
"""Wires of the largest circuit, three times those of a leaf over segments of 2^20 cycles: hostile keys ask for more."""


class Recorder:
    """The operations of a circuit so far. Wires are numbers."""

    def __init__(self) -> None:
        self.wires = 0
        self._fields: dict[str, tuple[int, int]] = {}
        """Numbers and sizes of the fields."""
        self._messages: dict[str, int] = {}
        self._parts: dict[str, list[Flat]] = {name: [] for name in _TYPES}
        """Kinds, tables and words so far, flat, but for the last part of them."""
        self._last: dict[str, list[int]] = {name: [] for name in _TYPES}
        self._begin = Place(0, 0, 0)
        """Of the last part."""
        self._indices = 0

    def new(self, count: int) -> int:
        """The first of so many new wires."""
        first = self.wires
        if first + count > MOST_WIRES:
            raise UsageError(f"a circuit of more than {MOST_WIRES} wires")
        self.wires += count
        return first

    # -- operations -------------------------------------------------------------------------------------------------

    def constant(self, value: Sequence[int], out: int) -> None:
        self._add(Kind.CONSTANT, "constants", (out,))
        self._last["constant_words"] += value

    def public(self, out: int) -> None:
        self._add(Kind.PUBLIC, "publics", (out,))

    def given(self, first: int, count: int, out: int = NONE, field: str | None = None) -> None:
        """The next scalars of a field of the proof, or without a field of a tree."""
        number, place = NONE, 0
        if field is not None:
            number, place = self._fields.get(field, (len(self._fields), 0))
            self._fields[field] = number, place + count
        self._add(Kind.GIVEN, "givens", (first, count, out, number, place))

    def join(self, parts: Sequence[int], out: int) -> None:
        self._add(Kind.JOIN, "joins", (len(parts), *parts, *[NONE] * (WORDS - len(parts)), out))

    def relation(self, a: int, b: int, c: int, d: int, target: Target, otherwise: str | None = None) -> None:
        """`otherwise`: the fault of a proof for which the relation does not hold."""
        message = NONE if otherwise is None else self._messages.setdefault(otherwise, len(self._messages))
        self._add(Kind.RELATION, "relations", (a, b, c, d, target, message))

    def bits(self, of: int, first: int) -> int:
        """The number, within the part, of a decomposition. Its halves and bits are the wires from `first` on."""
        self._add(Kind.BITS, "bits", (of, first, 0, NONE))
        self._last["bases"].append(1)
        return len(self._last["bases"]) - 1

    def power(self, decomposition: int, base: int, exponent_bits: int, out: int) -> None:
        """Let a decomposition of this part have the power of `base` by its lowest bits."""
        end = (decomposition + 1) * TABLES["bits"]
        self._last["bits"][end - 2 : end] = exponent_bits, out
        self._last["bases"][decomposition] = base

    def permutation(self, state: Sequence[int], first: int, digest: int = NONE, expected: bool = False) -> None:
        """The outs are the wires from `first` on."""
        self._add(Kind.PERMUTATION, "permutations", (*state, first, digest, int(expected)))

    def step(
        self, child: int, places: Sequence[int], out: int, expected: bool, tree: int, leaf: int, log_size: int
    ) -> None:
        lower, upper = (*places, NONE)[:2]
        self._add(Kind.STEP, "steps", (child, lower, upper, out, int(expected), tree, leaf, log_size))

    def opened_tree(self, tree: int, first_leaf: int, leaves: int, first: int, width: int) -> None:
        self._add(Kind.OPENED_TREE, "opened_trees", (tree, first_leaf, leaves, first, width))

    def opened_node(self, tree: int, leaf: int, log_size: int, flipped: int, first: int) -> None:
        self._add(Kind.OPENED_NODE, "opened_nodes", (tree, leaf, log_size, flipped, first))

    def index(self, first: int, count: int, fixed_part: int) -> int:
        """The row of a leaf's index: consecutive bits, and what is added to their number."""
        self._last["indices"] += (first, count)
        self._last["fixed_parts"].append(fixed_part)
        self._indices += 1
        return self._indices - 1

    def _add(self, kind: Kind, table: str, row: Sequence[int]) -> None:
        self._last[_KINDS].append(kind)
        self._last[table] += row

    # -- parts ------------------------------------------------------------------------------------------------------

    def cut(self) -> Part:
        """End a part of the record here. Returns it."""
        begin, self._begin = self._begin, Place(self.wires, len(self._fields), self._indices)
        record: dict[str, Flat] = {name: np.array(self._last[name], dtype=kind) for name, kind in _TYPES.items()}
        for name, own in record.items():
            self._parts[name].append(own)
            self._last[name] = []
        names = tuple(self._fields)[begin.fields :]
        return Part(range(begin.wires, self.wires), names, begin.fields, range(begin.indices, self._indices), record)

    def copy(self, part: Part, wires: Mapping[int, int], prefixes: tuple[str, str], trees: int) -> Numbers:
        """Record a part once more, on new wires but for the constants, which are shared.

        `wires` replace those before the part that it reads: all of them must be here. The fields have the second prefix
        in place of the first, and the numbers of trees are larger by `trees`. Returns the wires that stand for those up
        to the part's end.
        """
        self.cut()
        moved = np.full(part.wires.stop + 1, NONE, dtype=np.uint32)
        moved[part.wires.start : part.wires.stop] = np.arange(len(part.wires)) + self.new(len(part.wires))
        constants = part.rows("constants")[:, 0]
        moved[constants] = constants
        moved[list(wires)] = list(wires.values())
        record = dict(part.record)
        record[_KINDS] = record[_KINDS][record[_KINDS] != Kind.CONSTANT]
        record["constants"], record["constant_words"] = record["constants"][:0], record["constant_words"][:0]
        for name, columns in _WIRES.items():
            rows = part.rows(name).copy()
            own = rows[:, list(columns)]
            found = moved[np.minimum(own, part.wires.stop)]
            assert ((found != NONE) | (own == NONE)).all(), "a part reads nothing else from before it"
            rows[:, list(columns)] = found
            if name in _TREES:
                rows[:, _TREES[name]] += trees
                rows[:, _LEAVES[name]] += self._indices - part.indices.start
            if name == "givens":
                given = rows[:, _FIELD] != NONE
                rows[given, _FIELD] += len(self._fields) - part.first_field
            record[name] = rows.reshape(-1)
        for field in part.fields:
            renamed = prefixes[1] + field.removeprefix(prefixes[0])
            assert renamed not in self._fields, "a part's own fields"
            self._fields[renamed] = len(self._fields), self._fields[field][1]
        self._indices += len(part.indices)
        for name, flat in record.items():
            self._parts[name].append(flat)
        self._begin = Place(self.wires, len(self._fields), self._indices)
        return moved

    def circuit(self, public: Sequence[tuple[str, int]], zero: int, one: int) -> Circuit:
        """The circuit of all operations, simplified. `zero` and `one` are the wires of these constants."""
        self.cut()
        record = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        tables = {name: record[name].reshape(-1, columns) for name, columns in TABLES.items()}
        words = {name: record[name].reshape(-1, columns) for name, columns in WORDS_OF.items()}
        fields = tuple((name, size) for name, (_, size) in self._fields.items())
        whole = Circuit(self.wires, tuple(public), fields, tuple(self._messages), record[_KINDS], tables, words)
        return simplified(whole, zero, one)
