"""Native code refuses tables that are no circuit, before it evaluates them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from distprove.stark.recursion.circuit import NONE, TABLES, WORDS_OF, Circuit, Kind

Row = tuple[int, ...]
P64 = 2**64 - 1
"""No element of the field."""


def circuit_of(*operations: tuple[Kind, Row], indices: Sequence[Row] = (), base: int = 1, word: int = 0) -> Circuit:
    """100 wires, the first of them the constant zero, and some operations. `word` is in every later constant."""
    kinds = [Kind.CONSTANT, *(kind for kind, _ in operations)]
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    rows["constants"].append((0,))
    rows["indices"] += indices
    for kind, row in operations:
        rows[list(TABLES)[kind]].append(row)
    words = {
        "constant_words": [0] * 4 + [word] * 4 * (len(rows["constants"]) - 1),
        "bases": [base] * len(rows["bits"]),
        "fixed_parts": [0] * len(indices),
    }
    return Circuit(
        wires=100,
        public=(),
        fields=(),
        messages=(),
        kinds=np.array(kinds, dtype=np.uint8),
        tables={name: np.array(rows[name], dtype=np.uint32).reshape(-1, n) for name, n in TABLES.items()},
        words={name: np.array(words[name], dtype=np.uint64).reshape(-1, n) for name, n in WORDS_OF.items()},
    )


ZEROS = (0,) * 16
LEAF = (0, 1)
OPENED = (Kind.OPENED_TREE, (0, 0, 1, 1, 4))
REFUSED = {
    "an operand before it is there": (circuit_of((Kind.RELATION, (1, 0, 0, 2, 3, NONE))), "before it is written"),
    "an operand beyond the last wire": (circuit_of((Kind.RELATION, (100, 0, 0, 2, 3, 0))), "before it is written"),
    "a result beyond the last wire": (circuit_of((Kind.RELATION, (0, 0, 0, 100, 3, 0))), "beyond the last"),
    "a second result": (circuit_of((Kind.RELATION, (0, 0, 0, 0, 3, 0))), "written twice"),
    "a result of no place": (circuit_of((Kind.RELATION, (0, 0, 0, 2, 4, 0))), "relation writes"),
    "a fault without a name": (circuit_of((Kind.RELATION, (0, 0, 0, 0, 0, NONE))), "a message"),
    "bits beyond the last wire": (circuit_of((Kind.BITS, (0, 40, 0, NONE))), "beyond the last"),
    "an exponent of too many bits": (circuit_of((Kind.BITS, (0, 1, 64, 90))), "an exponent"),
    "a base beyond the field": (circuit_of((Kind.BITS, (0, 1, 3, 90)), base=P64), "its powers"),
    "a constant beyond the field": (circuit_of((Kind.CONSTANT, (1,)), word=P64), "its constants"),
    "outs beyond the last wire": (circuit_of((Kind.PERMUTATION, (*ZEROS, 90, NONE, 0))), "beyond the last"),
    "no expected digest": (circuit_of((Kind.PERMUTATION, (*ZEROS, 1, 50, 1))), "before it is written"),
    "five given scalars": (circuit_of((Kind.GIVEN, (1, 5, NONE, 0, 0))), "a given element"),
    "a row of no tree": (circuit_of((Kind.GIVEN, (1, 4, NONE, NONE, 0))), "before it is written"),
    "five joined scalars": (circuit_of((Kind.JOIN, (5, 0, 0, 0, 0, 1))), "a join"),
    "a step of no tree": (circuit_of((Kind.STEP, (0, 0, NONE, 1, 0, 0, 0, 3)), indices=[LEAF]), "before it is opened"),
    "a step of no leaf": (circuit_of((Kind.STEP, (0, 0, NONE, 1, 0, 0, 0, 3))), "a leaf"),
    "a leaf of too many bits": (circuit_of(OPENED, indices=[(0, 61)]), "a leaf"),
    "a leaf beyond the last wire": (circuit_of(OPENED, indices=[(90, 20)]), "beyond the last"),
    "leaves beyond the last": (circuit_of((Kind.OPENED_TREE, (0, 0, 2, 1, 4)), indices=[LEAF]), "the leaves"),
    "rows beyond the last wire": (circuit_of((Kind.OPENED_TREE, (0, 0, 1, 1, 200)), indices=[LEAF]), "beyond the last"),
    "a tree's number too large": (circuit_of((Kind.OPENED_TREE, (7, 0, 1, 1, 4)), indices=[LEAF]), "number of a tree"),
    "a tree opened twice": (
        circuit_of(OPENED, (Kind.OPENED_TREE, (0, 0, 1, 9, 4)), indices=[LEAF]),
        "opened twice",
    ),
    "a node of too high a level": (
        circuit_of(OPENED, (Kind.OPENED_NODE, (0, 0, 61, 0, 9)), indices=[LEAF]),
        "a node of a tree",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_tables_that_are_no_circuit(what: str) -> None:
    circuit, why = REFUSED[what]
    with pytest.raises(ValueError, match=why):
        _ = circuit.native


@pytest.mark.parametrize("kinds", [[0, 10], [0, 4], [0, 0], []])
def test_kinds_without_rows_and_rows_without_kinds(kinds: list[int]) -> None:
    circuit = circuit_of()
    made = Circuit(1, (), (), (), np.array(kinds, dtype=np.uint8), circuit.tables, circuit.words)
    with pytest.raises(ValueError, match="kinds of operations"):
        _ = made.native


def test_a_circuit() -> None:
    relation = (Kind.RELATION, (0, 0, 0, 5, 3, NONE))
    assert circuit_of(relation, OPENED, indices=[LEAF]).native.states == 0
