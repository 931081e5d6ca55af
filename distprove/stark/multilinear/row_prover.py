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
    element,
    mul,
    root_of_unity,
    total,
)
from distprove.stark.multilinear.buses import evaluate
from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.rules import RuleScalars
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import lagrange
from distprove.stark.multilinear.vectors import coset_matrix, inverse_matrix
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.multilinear import Products
from kernels.interface.row_program import RowProgram

_UNITS = np.array([(0, 1, 0), (0, 0, 1)], dtype=np.uint64)


@dataclass
class RowTable:
    """A table in the prover's rounds, whose cells lie in the backend's memory. They are secret."""

    programs: CellPrograms
    log_height: int
    base: Array = field(repr=False)
    """All cells on the rows themselves, (cells, rows)."""
    scalars: RuleScalars | None = field(default=None, repr=False)
    cells: Any = field(default=None, repr=False)
    """All cells as vectors (3, cells, rows), from the univariate round on."""
    claim: Ext = ZERO
    """The table's share of the running claim."""

    @classmethod
    def of(cls, backend: Backend, programs: CellPrograms, fixed: Array | None, main: Array) -> RowTable:
        """The table with these preprocessed and main columns, (width, rows)."""
        columns, rules = [main] if fixed is None else [fixed, main], programs.rules
        base = backend.multilinear.cells(columns, rules.next_row, selectors=rules.reads_selectors)
        return cls(programs, int(main.shape[1]).bit_length() - 1, base)

    def run(self, backend: Backend, program: RowProgram, cells: Array, scalars: Words) -> Array:
        """The outputs (columns, rows) of a program on a coset where the table has these cells."""
        rules = self.programs.rules
        cut, after, selectors = rules.preprocessed_width, rules.columns, rules.columns + len(rules.next_row)
        spans = (0, cut), (cut, after), (0, 0), (selectors, len(cells)), (after, selectors)
        given = [cells[begin:end] if begin < end else None for begin, end in spans]
        made = backend.goldilocks.evaluate(program, given, scalars)
        return made.reshape(made.shape[0], -1)


@dataclass(frozen=True)
class UnivariateRound:
    """The polynomials of the univariate round, (coefficients, 3)."""

    quotient: Words
    leaves: Words


@dataclass(frozen=True)
class _Use:
    """A program of a table in the univariate round, and the cosets on which it is evaluated."""

    program: RowProgram
    scalars: Words
    cosets: range
    """From 1 on for constraints, whose sum is zero on the domain itself."""


def _uses(table: RowTable) -> list[_Use]:
    programs, rules, scalars = table.programs, table.programs.rules, table.scalars
    assert scalars is not None, "they are drawn before"
    given = (
        (programs.constraints_on_coset, scalars.constraints, rules.constraint_degree, 1),
        (programs.interactions_on_coset, scalars.interactions, rules.interaction_degree, 0),
    )
    uses = [(p, s, range(first, degree)) for p, s, degree, first in given if p is not None and s is not None]
    return [_Use(p, s, cosets or range(0, 1)) for p, s, cosets in uses if cosets or not cosets.start]


def univariate_round(backend: Backend, shape: Shape, tables: Sequence[RowTable], xi: Sequence[Ext]) -> UnivariateRound:
    """The quotient of the constraints' sum by Z^L - 1, and the leaves' sum, over all tables."""
    log_skip, kernels = shape.log_skip, backend.multilinear
    asked = [_uses(table) for table in tables]
    room = kernels.sums_of(max(1, sum(len(use.cosets) for uses in asked for use in uses)), 1 << log_skip)
    which: list[range] = []  # the cosets of the use that each sum is of, and which of them
    number: list[int] = []
    for table, uses in zip(tables, asked, strict=True):
        eq = kernels.products(xi[log_skip:][: table.log_height - log_skip], eq=True)
        for coset in sorted({coset for use in uses for coset in use.cosets}):
            shift = coset_shift(log_skip, coset)
            cells = kernels.apply_runs(table.base, coset_matrix(log_skip, shift)) if coset else table.base
            for use in uses:
                if coset in use.cosets:
                    values = table.run(backend, use.program, cells, use.scalars)
                    kernels.run_sums(values, eq, log_skip, room[len(which)])
                    which.append(use.cosets)
                    number.append(coset)
    found = backend.to_host(room)
    quotient = np.zeros((shape.quotient_length, 3), dtype=np.uint64)
    leaves = np.zeros((shape.leaves_length, 3), dtype=np.uint64)
    for cosets in dict.fromkeys(which):
        values = []
        for coset in cosets:
            chosen = [i for i, own in enumerate(which) if own == cosets and number[i] == coset]
            values.append(total(found[chosen]))
        made = interpolate_cosets(values, log_skip, cosets, over_vanishing=cosets.start == 1)
        target = quotient if cosets.start else leaves
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


def bind_univariate(backend: Backend, shape: Shape, tables: Sequence[RowTable], r_0: Ext) -> None:
    """Bind the univariate variable of all tables' cells to r_0."""
    weights = np.array(lagrange(r_0, shape.log_skip), dtype=np.uint64)
    for table in tables:
        table.cells = backend.multilinear.bind_runs(table.base, weights)
        table.base = None


def multilinear_rounds(
    backend: Backend, shape: Shape, tables: Sequence[RowTable], xi: Sequence[Ext], nu: Ext, transcript: ProofTranscript
) -> tuple[Words, list[Ext]]:
    """Prove the sums of all tables' rules over their row variables: the rounds' coefficients and the point drawn."""
    point: list[Ext] = []
    sent = np.zeros((shape.row_variables, shape.degree, 3), dtype=np.uint64)
    sums = _RuleSums(backend, shape.log_skip, xi[shape.log_skip :], nu)
    for table, (claim,) in zip(tables, sums.over_rows(tables), strict=True):
        table.claim = claim
    for i in range(shape.row_variables):
        coefficients = [ZERO] * (shape.degree + 1)
        live = [table for table in tables if i < table.log_height - shape.log_skip]
        for table in tables:
            if table not in live:
                coefficients[0] = e_add(coefficients[0], table.claim)
        x, polynomials = sums.tails[i], []
        for table, values in zip(live, sums.of_round(live, i), strict=True):
            at_one = e_mul(e_sub(table.claim, e_mul(e_sub(ONE, x), values[0])), e_inv(x))
            polynomials.append(_interpolated([values[0], at_one, *values[1:]]))
            for k, c in enumerate(polynomials[-1]):
                coefficients[k] = e_add(coefficients[k], c)
        sent[i] = coefficients[1:]
        point.append(transcript.row_round(coefficients[1:]))
        for table, polynomial in zip(live, polynomials, strict=True):
            table.claim = evaluate(polynomial, point[-1])
            table.cells = backend.multilinear.fold_values(table.cells, point[-1])
    return sent, point


def _degree(table: RowTable) -> int:
    rules = table.programs.rules
    return max(1, rules.constraint_degree, rules.interaction_degree)


def _interpolated(values: Sequence[Ext]) -> list[Ext]:
    """The coefficients of the polynomial with these values at 0, 1, 2 .."""
    found = []
    for row in _inverse_vandermonde(tuple(range(len(values)))):
        value = ZERO
        for weight, own in zip(row, values, strict=True):
            value = e_add(value, e_scale(own, weight))
        found.append(value)
    return found


@dataclass
class _RuleSums:
    """Sums of the tables' rules over rows, weighted by eq. Those of all tables are fetched together."""

    backend: Backend
    log_skip: int
    tails: Sequence[Ext]
    nu: Ext

    def over_rows(self, tables: Sequence[RowTable]) -> list[list[Ext]]:
        """For each table the sum over all rows."""
        parts = [_Part(table, 0, [], table.cells.reshape(-1, 1, table.cells.shape[-1])) for table in tables]
        return self._fetched(tables, parts)

    def of_round(self, tables: Sequence[RowTable], number: int) -> list[list[Ext]]:
        """For each table the sums at 0, 2, 3, .. of the variable `number`, as many as its degree asks for."""
        parts = []
        for table in tables:
            points = [0, *range(2, _degree(table) + 1)]
            matrix = table.cells.reshape(-1, table.cells.shape[-1])
            while points:  # a program runs on a power of two of them at once
                count = 1 << len(points).bit_length() - 1
                parts.append(_Part(table, number + 1, points[:count], matrix))
                points = points[count:]
        return self._fetched(tables, parts)

    def _fetched(self, tables: Sequence[RowTable], parts: Sequence[_Part]) -> list[list[Ext]]:
        kernels = self.backend.multilinear
        room = kernels.sums_of(len(parts))
        weights: dict[tuple[int, int], Products] = {}
        for part, out in zip(parts, room, strict=True):
            span = part.first, part.table.log_height - self.log_skip
            if span not in weights:
                weights[span] = kernels.products(self.tails[slice(*span)], eq=True)
            cells = kernels.between(part.matrix, part.points) if part.points else part.matrix
            kernels.rule_sums(*self._rules(part.table, cells), self.nu, weights[span], out)
        found: dict[int, list[Ext]] = {id(table): [] for table in tables}
        for part, own in zip(parts, self.backend.to_host(room), strict=True):
            found[id(part.table)] += [element(words) for words in own[: max(1, len(part.points))]]
        return [found[id(table)] for table in tables]

    def _rules(self, table: RowTable, cells: Array) -> tuple[Array | None, Array | None]:
        """The folded constraints and interactions (3, points, rows) of cells (3 cells, points, rows)."""
        programs, scalars, log_points = table.programs, table.scalars, int(cells.shape[1]).bit_length() - 1
        assert scalars is not None, "they are drawn before"

        def run(program: RowProgram | None, given: Words | None) -> Array | None:
            if program is None or given is None:
                return None
            words = np.concatenate([given, _UNITS])
            return self.backend.goldilocks.evaluate(program, [cells], words, log_cosets=log_points)

        return run(programs.constraints, scalars.constraints), run(programs.interactions, scalars.interactions)


@dataclass(frozen=True)
class _Part:
    """Sums of a table's rules over the variables from `first` on."""

    table: RowTable
    first: int
    points: Sequence[int]
    """The points of the variable before; without any, the rows are summed as they are."""
    matrix: Array = field(repr=False)
    """The table's cells (3 cells, rows), or (3 cells, 1, rows) without points."""


def openings_of(backend: Backend, tables: Sequence[RowTable]) -> Words:
    """The values of all tables' columns and next columns at the point to which all variables are bound."""
    found = []
    for table in tables:
        rules = table.programs.rules
        values = backend.to_host(table.cells).reshape(3, -1)
        found.append(values[:, : rules.columns + len(rules.next_row)].T)
    return np.ascontiguousarray(np.concatenate(found))
