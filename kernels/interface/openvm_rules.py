"""The interface of the constraints and interactions of OpenVM 2's prover: what it sums over the rows of all traces.

An AIR is a graph of expressions. What the prover sums are linear forms of the graph's nodes, with coefficients in the
extension: a program names the nodes, and each proof brings the coefficients. A row of a trace of fewer than
2^log_skip rows repeats, so every trace has a run of 2^log_skip rows at least.

Implementations: `kernels.cpu.openvm.rules`, `kernels.cuda.openvm.rules`; reached as `OpenVmKernels.rules`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from math import comb, factorial

import numpy as np
from numpy.typing import NDArray

from kernels.interface.arrays import Array
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import GENERATOR, Elements, P, elements

Node = tuple[int, int, int, int]
"""A row of a graph's nodes: kind, then three numbers."""


class NodeKind(IntEnum):
    """The kinds of nodes. Operands come before a node."""

    PREPROCESSED = 0
    """Column a of the preprocessed part, c rows ahead: 0 or 1."""
    MAIN = 1
    """Column a of main part b, c rows ahead."""
    PUBLIC = 2
    """Public value a."""
    IS_FIRST = 3
    IS_LAST = 4
    IS_TRANSITION = 5
    """1 in all rows but the last."""
    CONSTANT = 6
    """The element a."""
    ADD = 7
    SUB = 8
    NEG = 9
    MUL = 10


def operands(node: Node) -> tuple[int, ...]:
    """The numbers of a node's operands."""
    kind, left, right, _ = node
    if kind in (NodeKind.ADD, NodeKind.SUB, NodeKind.MUL):
        return left, right
    return (left,) if kind == NodeKind.NEG else ()


@dataclass(frozen=True, eq=False)
class GraphProgram:
    """Linear forms of the nodes of a graph. A program outlives a proof: what is made from it is kept by identity."""

    nodes: Elements = field(repr=False)
    """(nodes, 4), the operands of a node before it."""
    forms: tuple[NDArray[np.int64], ...] = field(repr=False)
    """For each form the nodes that it adds up, each once. A term is one of these, counted over all forms."""

    @cached_property
    def rows(self) -> tuple[Node, ...]:
        """The nodes as numbers."""
        return tuple((kind, a, b, c) for kind, a, b, c in self.nodes.tolist())

    @cached_property
    def term_nodes(self) -> tuple[int, ...]:
        """The node of each term."""
        return tuple(int(node) for form in self.forms for node in form)

    @cached_property
    def term_forms(self) -> tuple[int, ...]:
        """The form of each term."""
        return tuple(number for number, form in enumerate(self.forms) for _ in form)


@dataclass(frozen=True, eq=False)
class BoundForms:
    """A program with a proof's coefficients."""

    program: GraphProgram
    coefficients: Elements = field(repr=False)
    """(terms, 4)"""
    constants: Elements = field(repr=False)
    """(forms, 4), added to each form."""


@dataclass(frozen=True, eq=False)
class RuleTable:
    """The trace of one AIR."""

    parts: Mapping[int, Array] = field(repr=False)
    """Columns (width, height) in the backend's memory: the cached mains from 0 on, then the common main; preprocessed
    is -1."""
    height: int
    public: tuple[int, ...]

    def rows(self, log_skip: int) -> int:
        """Number of rows with repetitions."""
        return max(self.height, 1 << log_skip)


class OpenVmRules(ABC):
    """The kernels of one device."""

    @abstractmethod
    def fractions(
        self,
        tables: Sequence[RuleTable],
        forms: Sequence[BoundForms],
        starts: Sequence[int],
        count: int,
        log_skip: int,
    ) -> tuple[Array, Array]:
        """Return numerators (count,) of the base field and denominators (count, 4) in the backend's memory.

        Forms 2 i and 2 i + 1 of a table are the numerator and the denominator of its interaction i; the former has
        coefficients of the base field. Their values in the rows r of the table's `rows` have the place start + i rows +
        r. These are all places.
        """

    @abstractmethod
    def rounds(self, tables: Sequence[RuleTable], log_skip: int, point: Elements) -> RuleRounds:
        """Begin the sumcheck of tables in descending order of their heights. `point` (variables of the first, 4) has
        the coordinates of eq over the cube. Raises SizeError for runs that are too long for the backend."""


class RuleRounds(ABC):
    """The tables of one sumcheck, over a subgroup D of 2^log_skip points and a cube.

    The methods are called in the order in which they stand here.
    """

    @abstractmethod
    def coset_sums(self, forms: Sequence[BoundForms], counts: NDArray[np.int64]) -> Elements:
        """Return the forms on the cosets of D that `coset_shifts` names, summed over the cube with the weights eq.

        `counts` (tables, forms) has the number of cosets for each form. The result is (tables, forms, most, 2^log_skip,
        4) with the greatest of these numbers; it is arbitrary on the further cosets of a form.
        """

    @abstractmethod
    def bind_univariate(self, weights: Elements, forms: Sequence[BoundForms]) -> None:
        """Bind the variable of D: a column is the sum of its values on D times weights (2^log_skip, 4). Each table has
        one form, which `prove` sums."""

    @abstractmethod
    def prove(self, sponge: Sponge, claim: Elements, points: int) -> tuple[Elements, Elements]:
        """Prove the rounds over the cube, whose sum is claimed to be `claim` (4,).

        Returns the values that are sent, (rounds, points + 1, 4), and the challenges (rounds, 4). A round's polynomial
        is s(X) = eq(coordinate, X) h(X) + tail X, h of at most the degree `points`. h sums the forms of all tables that
        have a variable left, with the weights eq of all other coordinates. `tail` has the forms of the other tables,
        each with the eq of its own challenges, times the challenges of the rounds after these. s is sent at 1, 2, ...
        """

    @abstractmethod
    def openings(self, reads_next: Sequence[bool]) -> list[dict[int, Elements]]:
        """Return for each table and part the values (width, 1 or 2, 4) of its columns at the point that was bound, and
        of their next rows if `reads_next` says so for the table."""


def coset_shifts(count: int, first: int = 0) -> list[int]:
    """The shifts of `count` cosets of D from coset `first` on: 31, 31^2, ... None is 1, where Z^n - 1 is 0."""
    return [pow(GENERATOR, i + 1, P) for i in range(first, first + count)]


def extrapolation(count: int) -> Elements:
    """The factors (count,) of a polynomial's values at 0, 1, ... that give its value at `count`, its degree below
    `count`."""
    return elements([(-1) ** (count - 1 - i) * comb(count, i) % P for i in range(count)])


def node_weights(count: int) -> Elements:
    """The inverses (count,) of the products of i - j over all j < count other than i, for each i."""
    products = [(-1) ** (count - 1 - i) * factorial(i) * factorial(count - 1 - i) for i in range(count)]
    return elements([pow(product, -1, P) for product in products])
