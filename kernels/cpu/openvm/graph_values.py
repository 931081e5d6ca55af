"""Evaluates linear forms of a graph's nodes at many points at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels.interface.babybear import BabyBearKernels
from kernels.interface.openvm_rules import BoundForms, GraphProgram, Node, NodeKind, operands
from kernels.maths.babybear import Elements, P, add, ext, mul, neg, sub

Value = int | Elements
"""A value that is the same at every point, or one for each point."""

_CELLS = (
    NodeKind.PREPROCESSED,
    NodeKind.MAIN,
    NodeKind.IS_FIRST,
    NodeKind.IS_LAST,
    NodeKind.IS_TRANSITION,
)


@dataclass(frozen=True)
class Ring:
    """Values at points: base elements (...,), or elements of the extension (..., 4)."""

    kernels: BabyBearKernels
    item: int
    """Number of the last axes of a value that are one element's: 0 or 1."""

    def mul(self, a: Elements, b: Elements) -> Elements:
        return self.kernels.ext_mul(a, b) if self.item else self.kernels.mul(a, b)

    def constant(self, value: int) -> Elements:
        found = np.asarray(value, dtype=np.uint32)
        return ext(found) if self.item else found


class Plan:
    """How a program's forms are evaluated. It does not refer to the program: a cache may keep it for as long as that is
    in use."""

    def __init__(self, program: GraphProgram) -> None:
        nodes, needed, last_reader = program.rows, set(program.term_nodes), dict[int, int]()
        for number in range(len(nodes) - 1, -1, -1):
            if number in needed:
                for operand in operands(nodes[number]):
                    needed.add(operand)
                    last_reader.setdefault(operand, number)
        dead: dict[int, list[int]] = {}
        for number in needed:
            dead.setdefault(last_reader.get(number, number), []).append(number)
        self.steps: tuple[tuple[int, Node, tuple[int, ...]], ...] = tuple(
            (number, nodes[number], tuple(dead.get(number, ()))) for number in sorted(needed)
        )
        """The nodes that the forms need, in order, each with its number and those that no later node reads."""
        self.cells: dict[int, Node] = {number: node for number, node, _ in self.steps if node[0] in _CELLS}
        """The nodes that are cells or selectors of a row, by their numbers, in ascending order."""
        uses: dict[int, list[tuple[int, int]]] = {}
        for term, (node, form) in enumerate(zip(program.term_nodes, program.term_forms, strict=True)):
            uses.setdefault(node, []).append((form, term))
        self.uses: Mapping[int, tuple[tuple[int, int], ...]] = {node: tuple(own) for node, own in uses.items()}
        """For a node its forms, each with the number of the term."""


def evaluate(plan: Plan, forms: BoundForms, cells: Elements, public: tuple[int, ...], ring: Ring) -> Elements:
    """Return the values of forms at the points of `cells`, (forms, ...points, 4).

    `cells` has the values of the plan's cells, (cells, ...points) of the ring.
    """
    points = cells.shape[1 : cells.ndim - ring.item]
    found = np.zeros((len(forms.constants), *points, 4), dtype=np.uint32)
    constants = list(forms.constants)
    values: dict[int, Value] = {}
    given = dict(zip(plan.cells, cells, strict=True))
    for number, node, dead in plan.steps:
        value = given[number] if number in given else _apply(node, public, ring, values)
        for form, term in plan.uses.get(number, ()):
            coefficient = forms.coefficients[term]
            if isinstance(value, int):
                constants[form] = add(constants[form], mul(coefficient, np.uint32(value)))
            else:
                ring.kernels.add_scaled(found[form], value, coefficient)
        values[number] = value
        for old in dead:
            del values[old]
    for values_of, constant in zip(found, constants, strict=True):
        if constant.any():
            values_of[...] = add(values_of, constant)
    return found


def _apply(node: Node, public: tuple[int, ...], ring: Ring, values: Mapping[int, Value]) -> Value:
    kind, left, right, _ = node
    if kind == NodeKind.CONSTANT:
        return left
    if kind == NodeKind.PUBLIC:
        return public[left]
    if kind == NodeKind.NEG:
        return _negated(values[left])
    a, b = values[left], values[right]
    if isinstance(a, int):
        if isinstance(b, int):
            return (a * b if kind == NodeKind.MUL else a + b if kind == NodeKind.ADD else a - b) % P
        if kind == NodeKind.MUL:
            return mul(b, np.uint32(a))
        a = ring.constant(a)
    elif isinstance(b, int):
        if kind == NodeKind.MUL:
            return mul(a, np.uint32(b))
        b = ring.constant(b)
    if kind == NodeKind.MUL:
        return ring.mul(a, b)
    return add(a, b) if kind == NodeKind.ADD else sub(a, b)


def _negated(value: Value) -> Value:
    return -value % P if isinstance(value, int) else neg(value)
