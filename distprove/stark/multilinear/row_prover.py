"""The prover's univariate round and multilinear rounds over the rules of all tables.

Every table is summed over its own row variables, which are the first ones of the shared point: in rounds after its last
variable its share is constant. Each program is evaluated as often as its own degree asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from distprove.stark.arithmetic import NUMBERS
from distprove.stark.field import (
    ONE,
    ZERO,
    Ext,
    P,
    Words,
    add,
    e_add,
    e_inv,
    e_mul,
    e_scale,
    e_sub,
    mul,
    root_of_unity,
    total,
)
from distprove.stark.multilinear.buses import evaluate
from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.rules import RuleScalars
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.vectors import coset_matrix, inverse_matrix
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.multilinear import BoundRules, CosetTask, Products, RoundTask


@dataclass
class TableCells:
    """The cells of one table, in the backend's memory."""

    programs: CellPrograms
    log_height: int
    base: Array = field(repr=False)
    """(cells, rows)"""
    first: int
    """The table's first element among the cells of all tables."""

    @property
    def opened(self) -> int:
        """Number of columns and next columns."""
        return self.programs.rules.columns + len(self.programs.rules.next_row)


@dataclass
class Cells:
    """The cells of all tables, one after the other, the tallest first. They are secret."""

    tables: list[TableCells]
    base: Array = field(repr=False)
    """All base cells, (1, n)."""
    vectors: Any = field(default=None, repr=False)
    """The cells of tables that have variables left, as vectors of F (3, n), from the univariate round on."""
    ended: list[tuple[list[TableCells], Array]] = field(default_factory=list, repr=False)
    """Tables without variables left, and the values of their cells (3, n), in order."""

    @classmethod
    def of(
        cls,
        backend: Backend,
        programs: Sequence[CellPrograms],
        fixed: Sequence[Array | None],
        main: Sequence[Array],
    ) -> Cells:
        """The cells of tables with these preprocessed and main columns, (width, rows)."""
        kernels, heights = backend.multilinear, [int(m.shape[1]) for m in main]
        base = kernels.vector(sum(own.cells * n for own, n in zip(programs, heights, strict=True)))
        tables: dict[int, TableCells] = {}
        at = 0
        for i in sorted(range(len(programs)), key=lambda i: -heights[i]):
            rules, size = programs[i].rules, programs[i].cells * heights[i]
            view = base[at : at + size].reshape(-1, heights[i])
            before = fixed[i]
            columns = [main[i]] if before is None else [before, main[i]]
            kernels.cells(columns, rules.next_row, selectors=rules.reads_selectors, out=view)
            tables[i] = TableCells(programs[i], heights[i].bit_length() - 1, view, at)
            at += size
        return cls([tables[i] for i in range(len(programs))], base.reshape(1, -1))

    def bind(self, backend: Backend, r_0: Ext, log_skip: int) -> None:
        """Bind the univariate variable to r_0. The base cells are dropped."""
        weights = np.array(NUMBERS.lagrange(r_0, log_skip), dtype=np.uint64)
        self.vectors = backend.multilinear.bind_runs(self.base, weights).reshape(3, -1)
        self.base = None
        for table in self.tables:
            table.base = None
            table.first >>= log_skip

    def fold(self, backend: Backend, r: Ext, bound: int) -> None:
        """Bind the lowest row variable to r. `bound` variables are bound then, the univariate ones included."""
        self.vectors = backend.multilinear.fold_values(self.vectors[:, None], r)[:, 0]
        for table in self.tables:
            table.first >>= 1
        self.end(backend, bound)

    def end(self, backend: Backend, bound: int) -> None:
        """Set the tables aside whose last variable was bound, of which there are so many."""
        own = sorted((t for t in self.tables if t.log_height == bound), key=lambda t: t.first)
        if own:
            first, end = own[0].first, int(self.vectors.shape[1])
            self.ended.append((own, backend.multilinear.columns(self.vectors, first, end)))
            self.vectors = backend.multilinear.columns(self.vectors, 0, first) if first else None


@dataclass
class Rule:
    """The constraints or the interactions of a table, with their challenges."""

    table: TableCells
    bound: BoundRules = field(repr=False)
    degree: int
    constrains: bool
    """Whether they are constraints, whose sum is zero on the univariate round's domain itself."""
    claim: Ext = ZERO
    """Their share of the running claim."""

    @property
    def cosets(self) -> range:
        """The cosets on which they are evaluated in the univariate round."""
        return range(1, self.degree) if self.constrains else range(max(1, self.degree))


def bind_rules(backend: Backend, cells: Cells, scalars: Sequence[RuleScalars]) -> list[Rule]:
    """The rules of all tables with their scalars."""
    found, given = [], []
    for table, own in zip(cells.tables, scalars, strict=True):
        rules, programs = table.programs.rules, table.programs
        for constrains, program, words, degree in (
            (True, programs.constraints, own.constraints, rules.constraint_degree),
            (False, programs.interactions, own.interactions, rules.interaction_degree),
        ):
            if program is not None and words is not None:
                found.append(Rule(table, None, degree, constrains))
                given.append((program, words))
    for rule, bound in zip(found, backend.multilinear.bind(given), strict=True):
        rule.bound = bound
    return found


@dataclass(frozen=True)
class UnivariateRound:
    """The polynomials of the univariate round, (coefficients, 3)."""

    quotient: Words
    leaves: Words


def univariate_round(
    backend: Backend, shape: Shape, cells: Cells, rules: Sequence[Rule], xi: Sequence[Ext]
) -> UnivariateRound:
    """The quotient of the constraints' sum by Z^L - 1, and the leaves' sum, over all tables."""
    log_skip, kernels = shape.log_skip, backend.multilinear
    rest = xi[log_skip:]
    heights = {rule.table.log_height - log_skip for rule in rules}
    eq = {rows: kernels.products(rest[:rows], eq=True) for rows in heights}
    values: dict[tuple[bool, range], list[Words]] = {}
    for coset in range(max((rule.cosets.stop for rule in rules), default=0)):
        moved, on = cells.base, [rule for rule in rules if coset in rule.cosets]
        if coset:
            moved = kernels.apply_runs(cells.base, coset_matrix(log_skip, coset_shift(log_skip, coset)))
        tasks = []
        for rule in on:
            table = rule.table
            span = moved[0, table.first : table.first + (table.programs.cells << table.log_height)]
            own = span.reshape(-1, 1 << table.log_height)
            tasks.append(CosetTask(rule.bound, own, eq[table.log_height - log_skip]))
        found = kernels.coset_sums(tasks, log_skip)
        for kind in dict.fromkeys((rule.constrains, rule.cosets) for rule in on):
            chosen = [i for i, rule in enumerate(on) if (rule.constrains, rule.cosets) == kind]
            values.setdefault(kind, []).append(total(found[chosen]))
    quotient = np.zeros((shape.quotient_length, 3), dtype=np.uint64)
    leaves = np.zeros((shape.leaves_length, 3), dtype=np.uint64)
    for (constrains, cosets), own_values in values.items():
        made = interpolate_cosets(own_values, log_skip, cosets, over_vanishing=constrains)
        target = quotient if constrains else leaves
        count = min(len(made), len(target))
        target[:count] = add(target[:count], made[:count])
    return UnivariateRound(quotient, leaves)


def coset_shift(log_skip: int, coset: int) -> int:
    """The shift of a coset of the univariate round's domain; that of coset 0 is 1. There are 2^9."""
    return pow(root_of_unity(log_skip + LOG_COSETS), coset, P)


LOG_COSETS = 9
"""log2 of the number of cosets, more than the greatest degree."""


def interpolate_cosets(values: Sequence[Words], log_skip: int, cosets: Sequence[int], *, over_vanishing: bool) -> Words:
    """Coefficients (c 2^log_skip, 3) of the polynomial with these values (2^log_skip, 3) on each of c cosets, or of its
    quotient by Z^L - 1."""
    size, shifts = 1 << log_skip, [coset_shift(log_skip, coset) for coset in cosets]
    stretched = []
    for shift, own in zip(shifts, values, strict=True):
        coefficients = total(mul(inverse_matrix(log_skip)[:, :, None], own[None]), axis=1)
        scale = pow(pow(shift, size, P) - 1, -1, P) if over_vanishing else 1
        back = pow(shift, -1, P)
        factors = np.array([scale * pow(back, k, P) % P for k in range(size)], dtype=np.uint64)
        stretched.append(mul(coefficients, factors[:, None]))
    # On a coset Z^L is the constant shift^L: what is left is an interpolation in Z^L for each power below L.
    matrix = np.array(_inverse_vandermonde(tuple(pow(shift, size, P) for shift in shifts)), dtype=np.uint64)
    return total(mul(matrix[:, :, None, None], np.array(stretched)[None]), axis=1).reshape(-1, 3)


@cache
def _inverse_vandermonde(points: tuple[int, ...]) -> list[list[int]]:
    """matrix[j][i]: the coefficient of y^j in the Lagrange polynomial of point i."""
    columns = []
    for i, point in enumerate(points):
        coefficients, scale = [1], 1
        for j, other in enumerate(points):
            if j != i:
                shifted = [0, *coefficients]
                coefficients = [(a - other * b) % P for a, b in zip(shifted, [*coefficients, 0], strict=True)]
                scale = scale * (point - other) % P
        inverse = pow(scale, -1, P)
        columns.append([c * inverse % P for c in coefficients])
    return [list(row) for row in zip(*columns, strict=True)]


def multilinear_rounds(
    backend: Backend,
    shape: Shape,
    cells: Cells,
    rules: Sequence[Rule],
    xi: Sequence[Ext],
    nu: Ext,
    transcript: ProofTranscript[Ext],
) -> tuple[Words, list[Ext]]:
    """Prove the sums of all tables' rules over their row variables: the rounds' coefficients and the point drawn."""
    point: list[Ext] = []
    log_skip, tails = shape.log_skip, xi[shape.log_skip :]
    sent = np.zeros((shape.row_variables, shape.degree, 3), dtype=np.uint64)
    for rule, (claim,) in zip(rules, _sums(backend, cells, rules, log_skip, tails, None), strict=True):
        rule.claim = claim
    cells.end(backend, log_skip)
    for i in range(shape.row_variables):
        live = [rule for rule in rules if i < rule.table.log_height - log_skip]
        polynomials = {id(rule): [rule.claim] for rule in rules}  # where no variable is left
        for rule, values in zip(live, _sums(backend, cells, live, log_skip, tails, i), strict=True):
            at_one = e_mul(e_sub(rule.claim, e_mul(e_sub(ONE, tails[i]), values[0])), e_inv(tails[i]))
            polynomials[id(rule)] = _interpolated([values[0], at_one, *values[1:]])
        coefficients = [ZERO] * (shape.degree + 1)
        for rule in rules:
            for k, c in enumerate(polynomials[id(rule)]):
                coefficients[k] = e_add(coefficients[k], c if rule.constrains else e_mul(nu, c))
        sent[i] = coefficients[1:]
        point.append(transcript.row_round(coefficients[1:]))
        for rule in live:
            rule.claim = evaluate(NUMBERS, polynomials[id(rule)], point[-1])
        cells.fold(backend, point[-1], log_skip + i + 1)
    return sent, point


def _sums(
    backend: Backend, cells: Cells, rules: Sequence[Rule], log_skip: int, tails: Sequence[Ext], number: int | None
) -> list[list[Ext]]:
    """The sums of each rule over its table's rows, weighted by eq: at 0, 2, 3, .. of the variable `number`, as many as
    its degree asks for; for None over all rows, before any variable is bound."""
    kernels, bound = backend.multilinear, 0 if number is None else number
    weights: dict[int, Products] = {}
    tasks = []
    for rule in rules:
        rows = rule.table.log_height - log_skip
        if rows not in weights:
            weights[rows] = kernels.products(tails[0 if number is None else number + 1 : rows], eq=True)
        points = () if number is None else (0, *range(2, rule.degree + 1))
        tasks.append(
            RoundTask(rule.bound, rule.table.first, rule.table.programs.cells, 1 << rows - bound, weights[rows], points)
        )
    return kernels.round_sums(cells.vectors, tasks)


def _interpolated(values: Sequence[Ext]) -> list[Ext]:
    """The coefficients of the polynomial with these values at 0, 1, 2 .."""
    found = []
    for row in _inverse_vandermonde(tuple(range(len(values)))):
        value = ZERO
        for weight, own in zip(row, values, strict=True):
            value = e_add(value, e_scale(own, weight))
        found.append(value)
    return found


def openings_of(backend: Backend, cells: Cells) -> Words:
    """The values of all tables' columns and next columns at the point to which all variables are bound."""
    found: dict[int, Words] = {}
    for tables, values in cells.ended:
        words, at = backend.to_host(values), 0
        for table in tables:
            found[id(table)] = words[:, at : at + table.opened].T
            at += table.programs.cells
    return np.ascontiguousarray(np.concatenate([found[id(table)] for table in cells.tables]))
