"""Evaluates an AIR's graph of expressions at many points at once, for the prover."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from distprove.stark.openvm.graph import Kind
from kernels.interface.babybear import BabyBearKernels
from kernels.maths.babybear import Elements, P, add, ext, ext_mul, mul, neg, sub

Node = tuple[int, int, int, int]
"""A row of a graph's nodes."""
Value = int | Elements
"""A value that is the same at every point, or one for each point."""


class Ring(Protocol):
    """The products of values at points: base elements (...,) or extension elements (..., 4)."""

    kernels: BabyBearKernels
    item: int
    """Number of the last axes of a value that are one element's: 0 or 1."""

    def mul(self, a: Elements, b: Elements) -> Elements: ...

    def constant(self, value: int) -> Elements: ...


class BaseRing:
    """Points of the base field: values (...,)."""

    item = 0

    def __init__(self, k: BabyBearKernels) -> None:
        self.kernels = k

    def mul(self, a: Elements, b: Elements) -> Elements:
        return self.kernels.mul(a, b)

    def constant(self, value: int) -> Elements:
        return np.asarray(value, dtype=np.uint32)


class ExtensionRing:
    """Points of the extension: values (..., 4)."""

    item = 1

    def __init__(self, k: BabyBearKernels) -> None:
        self.kernels = k

    def mul(self, a: Elements, b: Elements) -> Elements:
        return self.kernels.ext_mul(a, b)

    def constant(self, value: int) -> Elements:
        return ext(np.asarray(value, dtype=np.uint32))


@dataclass
class Form:
    """A linear form of nodes with coefficients in the extension."""

    constant: Elements = field(default_factory=lambda: np.zeros(4, dtype=np.uint32))
    coefficients: dict[int, Elements] = field(default_factory=dict)

    def plus(self, node: int, coefficient: Elements) -> None:
        """Add coefficient times the node."""
        before = self.coefficients.get(node)
        self.coefficients[node] = coefficient if before is None else add(before, coefficient)

    def add_form(self, other: Form, scale: Elements) -> None:
        """Add another form times an element (4,)."""
        self.constant = add(self.constant, ext_mul(other.constant, scale))
        for node, coefficient in other.coefficients.items():
            self.plus(node, ext_mul(coefficient, scale))


@dataclass(frozen=True)
class Cells:
    """The cells that the variables of an AIR read, at some points."""

    columns: Mapping[tuple[int, int], Elements] = field(repr=False)
    """For (part, rotation) the values of its columns, (width, ...points). Part -1 is preprocessed; the others are the
    cached mains, then the common main."""
    selectors: Elements = field(repr=False)
    """The selectors of the first row, the last row, and all rows but the last, (3, ...points)."""
    public: Sequence[int]

    def map(self, function: Callable[[Elements], Elements]) -> Cells:
        """Return the cells with a function applied to each array (width, ...points)."""
        columns = {name: function(columns) for name, columns in self.columns.items()}
        return Cells(columns, function(self.selectors), self.public)

    def read(self, node: Node) -> Value:
        """The value of a node without operands."""
        kind, index, part, rotation = node
        if kind == Kind.CONSTANT:
            return index
        if kind == Kind.PUBLIC:
            return self.public[index]
        if kind in (Kind.PREPROCESSED, Kind.MAIN):
            column: Elements = self.columns[-1 if kind == Kind.PREPROCESSED else part, rotation][index]
            return column
        selector: Elements = self.selectors[kind - Kind.IS_FIRST]
        return selector


@dataclass(frozen=True)
class Plan:
    """The nodes that some forms need, in order, and for each those that no later node reads."""

    steps: tuple[tuple[int, Node, tuple[int, ...]], ...]

    @classmethod
    def of(cls, nodes: Sequence[Node], wanted: set[int]) -> Plan:
        """Plan the evaluation of some nodes of a graph in topological order."""
        needed, last_reader = set(wanted), dict[int, int]()
        for number in range(len(nodes) - 1, -1, -1):
            if number in needed:
                for operand in operands(nodes[number]):
                    needed.add(operand)
                    last_reader.setdefault(operand, number)
        dead: dict[int, list[int]] = {}
        for number in needed:
            dead.setdefault(last_reader.get(number, number), []).append(number)
        return cls(tuple((number, nodes[number], tuple(dead.get(number, ()))) for number in sorted(needed)))


def operands(node: Node) -> tuple[int, ...]:
    """The numbers of a node's operands."""
    kind, left, right, _ = node
    if kind in (Kind.ADD, Kind.SUB, Kind.MUL):
        return left, right
    return (left,) if kind == Kind.NEG else ()


def evaluate(plan: Plan, cells: Cells, ring: Ring, forms: Sequence[Form]) -> Elements:
    """Return the values of forms at the cells' points, (forms, ...points, 4).

    `plan` must contain the nodes of all forms.
    """
    uses: dict[int, list[tuple[int, Elements]]] = {}
    for form_number, form in enumerate(forms):
        for number, coefficient in form.coefficients.items():
            uses.setdefault(number, []).append((form_number, coefficient))
    points = cells.selectors.shape[1 : cells.selectors.ndim - ring.item]
    found = np.zeros((len(forms), *points, 4), dtype=np.uint32)
    constants = [form.constant for form in forms]
    values: dict[int, Value] = {}
    for number, node, dead in plan.steps:
        value = _apply(node, cells, ring, values)
        for form_number, coefficient in uses.get(number, ()):
            if isinstance(value, int):
                constants[form_number] = add(constants[form_number], mul(coefficient, np.uint32(value)))
            else:
                ring.kernels.add_scaled(found[form_number], value, coefficient)
        values[number] = value
        for old in dead:
            del values[old]
    for values_of, constant in zip(found, constants, strict=True):
        if constant.any():
            values_of[...] = add(values_of, constant)
    return found


def _apply(node: Node, cells: Cells, ring: Ring, values: Mapping[int, Value]) -> Value:
    kind, left, right, _ = node
    if kind == Kind.NEG:
        return _negated(values[left])
    if kind not in (Kind.ADD, Kind.SUB, Kind.MUL):
        return cells.read(node)
    a, b = values[left], values[right]
    if isinstance(a, int):
        if isinstance(b, int):
            return (a * b if kind == Kind.MUL else a + b if kind == Kind.ADD else a - b) % P
        if kind == Kind.MUL:
            return mul(b, np.uint32(a))
        a = ring.constant(a)
    elif isinstance(b, int):
        if kind == Kind.MUL:
            return mul(a, np.uint32(b))
        b = ring.constant(b)
    if kind == Kind.MUL:
        return ring.mul(a, b)
    return add(a, b) if kind == Kind.ADD else sub(a, b)


def _negated(value: Value) -> Value:
    return -value % P if isinstance(value, int) else neg(value)
