"""A part of a circuit that is copied is the one that would have been recorded again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from distprove.stark.recursion.circuit import Circuit, Wire
from distprove.stark.recursion.layout import Layout
from distprove.stark.recursion.node import Child, node_circuit
from distprove.stark.recursion.symbols import Symbols
from distprove.stark.recursion.tree import node_child
from tests.stark.recursion.test_parity import SMALL, circuit_of
from tests.support.circuit_operations import (
    Bits,
    Given,
    Index,
    Join,
    OpenedNode,
    OpenedTree,
    Operation,
    Permutation,
    Relation,
    Step,
    operations_of,
    written_by,
)


class Meanings:
    """A number for each value that wires can have: equal for wires of any circuits that are computed alike."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def statements(self, circuit: Circuit) -> Counter[Any]:
        """What the operations state, in whatever order, with meanings in place of wires. Sums and products state
        nothing by themselves, and are counted."""
        of: dict[int, int] = {}
        found: Counter[Any] = Counter()
        for operation in operations_of(circuit):
            if isinstance(operation, Relation) and operation.target in ("c", "d"):
                assert operation.out is not None
                of[operation.out] = self._result(operation, of)
                found[operation.target] += 1
                continue
            meaning = self._meaning(operation, of)
            found[meaning] += 1
            for place, wire in enumerate(computed_by(operation)):
                of[wire] = self._number(meaning, place)
        return found

    def _number(self, *meaning: Any) -> int:
        return self._numbers.setdefault(meaning, len(self._numbers))

    def _sum(self, a: int, b: int, c: int) -> int:
        """The meaning of a b + c."""
        zero, one = (self._number(("Constant", (x, 0, 0, 0)), 0) for x in (0, 1))
        product = a if b == one else b if a == one else self._number("*", *sorted((a, b)))
        return product if c == zero else self._number("+", *sorted((product, c)))

    def _result(self, relation: Relation, of: dict[int, int]) -> int:
        a, b, c, d = (of.get(wire, -1) for wire in relation.wires)
        if relation.target == "d":
            return self._sum(a, b, c)
        zero = self._number(("Constant", (0, 0, 0, 0)), 0)
        return self._number("-", d, self._sum(a, b, zero))

    def _meaning(self, operation: Operation, of: dict[int, int]) -> Any:
        def all_of(wires: Sequence[int]) -> tuple[int, ...]:
            return tuple(of[wire] for wire in wires)

        def leaf(index: Index) -> Any:
            return all_of(index.bits), index.fixed_part

        name = type(operation).__name__
        match operation:
            case Given(field, place, parts):
                return name, field, place, len(parts), () if field else all_of(parts)
            case Join(parts):
                return name, all_of(parts)
            case Relation((a, _, c, d), "b", otherwise):
                return "/", *all_of((a, c, d)), otherwise
            case Relation((a, b, c, d), _, otherwise):
                return "=", self._sum(*all_of((a, b, c))), of[d], otherwise
            case Bits(wire, _, _, base, exponent_bits, power):
                return name, of[wire], base, exponent_bits, power is None
            case Permutation(state, _, digest, expected):
                return name, all_of(state), digest is not None and (expected and of[digest])
            case Step(child, position, out, expected, tree, index, log_size):
                return name, all_of([child, *position]), expected and of[out], tree, leaf(index), log_size
            case OpenedTree(tree, leaves, rows):
                return name, tree, tuple(map(leaf, leaves)), len(rows[0])
            case OpenedNode(tree, index, log_size, flipped):
                return name, tree, leaf(index), log_size, flipped
            case _:
                return name, *(getattr(operation, f.name) for f in fields(operation) if f.name != "out")


def computed_by(operation: Operation) -> list[int]:
    """The wires whose values an operation says. Those of a tree are said where it is opened."""
    match operation:
        case OpenedTree(_, _, rows):
            return [wire for row in rows for wire in row]
        case OpenedNode():
            return [*operation.parts]
        case Given("", _, parts):
            return [wire for wire in written_by(operation) if wire not in parts]
        case _:
            return written_by(operation)


def direct(children: Sequence[Child], monkeypatch: pytest.MonkeyPatch) -> Circuit:
    """The circuit of a node in which nothing is copied."""

    def recorded(s: Symbols, key: Any, prefix: str, trees: int, inputs: Any, make: Callable[[], Any]) -> Any:
        return make()

    with monkeypatch.context() as patched:
        patched.setattr(Symbols, "repeated", recorded)
        return node_circuit(children)


def segments() -> list[Child]:
    """Of two keys; one of them is not at its first place, and one has a name of another length."""
    (_, a), (_, b) = circuit_of("global", 0), circuit_of("sparse", 1)
    return [a, b, a, b, replace(a, name_length=(a.name_length or 0) + 40), a]


def nodes() -> list[Child]:
    frame = Layout.of(node_circuit([circuit_of("fibonacci", 0)[1]])).frame
    return [node_child(frame, replace(SMALL, log_skip=2))] * 3


@pytest.mark.parametrize("children", [segments, nodes])
def test_a_copied_part_is_the_recorded_one(
    children: Callable[[], list[Child]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = children()
    copied, recorded = node_circuit(made), direct(made, monkeypatch)
    meanings = Meanings()
    assert meanings.statements(copied) == meanings.statements(recorded)
    assert copied.fields == recorded.fields
    assert Layout.of(copied).rows == Layout.of(recorded).rows


def test_a_part_must_say_what_it_reads() -> None:
    s = Symbols()
    a, b = s.public("given", 2)
    first = s.repeated("part", "0.", 0, [a], lambda: [s.mul(a, s.scalars("0.x", 1)[0])])
    second = s.repeated("part", "1.", 0, [b], lambda: [])
    assert len(first) == len(second) == 1
    s.repeated("other part", "2.", 0, [a], lambda: [s.mul(b, s.scalars("2.x", 1)[0])])
    with pytest.raises(AssertionError, match="reads nothing else"):
        s.repeated("other part", "3.", 0, [a], lambda: [])


def test_a_copy_depends_on_its_own_inputs() -> None:
    s = Symbols()
    a, b = s.public("given", 2)
    for prefix, own in ("0.", a), ("1.", b):

        def make(prefix: str = prefix, own: Wire = own) -> list[Wire]:
            return [s.mul(own, s.scalars(prefix + "x", 1)[0])]

        (product,) = s.repeated("part", prefix, 0, [own], make)
        s.need_equal(product, s.constant(6), "not six")
    operations = [*operations_of(s.circuit())]
    read = [o.wires[0] for o in operations if isinstance(o, Relation)]
    assert sorted(read) == sorted([a.number, b.number])
    assert [o.field for o in operations if isinstance(o, Given)] == ["0.x", "1.x"]
