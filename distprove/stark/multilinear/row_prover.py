"""The prover's univariate round and multilinear rounds over the rules of all tables.

Every table is summed over its own row variables, which are the first ones of the shared point: in rounds after its last
variable its share is constant. Each program is evaluated as often as its own degree asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from distprove.stark.field import (
    ONE,
    ZERO,
    Ext,
    P,
    Words,
    e_add,
    e_inv,
    e_mul,
    e_scale,
    e_sub,
    element,
    root_of_unity,
    total,
)
from distprove.stark.multilinear.buses import evaluate
from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.rules import RuleScalars
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import lagrange
from distprove.stark.multilinear.vectors import Vectors, total_of

_UNITS = np.array([(0, 1, 0), (0, 0, 1)], dtype=np.uint64)


@dataclass
class RowTable:
    """A table in the prover's rounds. Its cells are secret."""

    programs: CellPrograms
    log_height: int
    fixed: Words | None = field(repr=False)
    """The preprocessed columns (width, rows); None without."""
    main: Words = field(repr=False)
    scalars: RuleScalars | None = field(default=None, repr=False)
    cells: Words = field(default_factory=lambda: np.empty((3, 0, 0), dtype=np.uint64), repr=False)
    """All cells as vectors (3, cells, rows), from the univariate round on."""
    claim: Ext = ZERO
    """The table's share of the running claim."""

    def base_cells(self) -> list[Words | None]:
        """The matrices of a program on a coset, on the rows themselves."""
        rules = self.programs.rules
        columns = self.main if self.fixed is None else np.concatenate([self.fixed, self.main])
        after = np.roll(columns[list(rules.next_row)], -1, axis=1)
        selectors = None
        if rules.reads_selectors:
            selectors = np.zeros((3, self.main.shape[1]), dtype=np.uint64)
            selectors[0, 0] = selectors[1, -1] = selectors[2, :] = 1
            selectors[2, -1] = 0
        return [self.fixed, self.main, None, selectors, after if rules.next_row else None]


@dataclass(frozen=True)
class UnivariateRound:
    """The polynomials of the univariate round, (coefficients, 3)."""

    quotient: Words
    leaves: Words


def univariate_round(vectors: Vectors, shape: Shape, tables: Sequence[RowTable], xi: Sequence[Ext]) -> UnivariateRound:
    """The quotient of the constraints' sum by Z^L - 1, and the leaves' sum, over all tables."""
    log_skip = shape.log_skip
    quotient = np.zeros((shape.quotient_length, 3), dtype=np.uint64)
    leaves = np.zeros((shape.leaves_length, 3), dtype=np.uint64)
    for table in tables:
        rules, scalars = table.programs.rules, table.scalars
        assert scalars is not None, "they are drawn before"
        rows = table.log_height - log_skip
        eq = vectors.eq_table(xi[log_skip : log_skip + rows], ONE)
        base = table.base_cells()
        on_cosets: dict[int, list[Words | None]] = {}
        programs = (
            (table.programs.constraints_on_coset, scalars.constraints, rules.constraint_degree, 1),
            (table.programs.interactions_on_coset, scalars.interactions, rules.interaction_degree, 0),
        )
        for program, given, degree, first in programs:
            if program is None or given is None:
                continue
            wanted = range(first, max(degree, first))
            values = []
            for coset in wanted:
                if coset not in on_cosets:
                    on_cosets[coset] = _moved(vectors, base, log_skip, coset)
                evaluated = vectors.run(program, on_cosets[coset], given)
                values.append(_sum_over_rows(vectors, evaluated, eq, log_skip))
            if not values:
                continue
            made = interpolate_cosets(vectors, values, log_skip, list(wanted), over_vanishing=first == 1)
            target = quotient if first else leaves
            made = made[: len(target)]
            target[: len(made)] = vectors.add(target[: len(made)], made)
    return UnivariateRound(quotient, leaves)


def coset_shift(log_skip: int, coset: int) -> int:
    """The shift of a coset of the univariate round's domain; that of coset 0 is 1. There are 2^9."""
    return pow(root_of_unity(log_skip + LOG_COSETS), coset, P)


LOG_COSETS = 9
"""log2 of the number of cosets, more than the greatest degree."""


def _moved(vectors: Vectors, base: Sequence[Words | None], log_skip: int, coset: int) -> list[Words | None]:
    if coset == 0:
        return list(base)
    shift = coset_shift(log_skip, coset)
    return [None if m is None else vectors.runs_on_coset(m, log_skip, shift) for m in base]


def _sum_over_rows(vectors: Vectors, values: Words, eq: Words, log_skip: int) -> Words:
    """The sums over x of eq(x) value(a, x) for each point a of the domain, (2^log_skip, 3), of values (3, rows)."""
    size = 1 << log_skip
    weighted = vectors.product(values, np.repeat(eq, size, axis=1))
    return np.ascontiguousarray(total(weighted.reshape(3, -1, size), axis=1).T)


def interpolate_cosets(
    vectors: Vectors, values: Sequence[Words], log_skip: int, cosets: Sequence[int], *, over_vanishing: bool
) -> Words:
    """Coefficients (c 2^log_skip, 3) of the polynomial with these values (2^log_skip, 3) on each of c cosets, or of its
    quotient by Z^L - 1."""
    size, shifts = 1 << log_skip, [coset_shift(log_skip, coset) for coset in cosets]
    stretched = []
    for shift, own in zip(shifts, values, strict=True):
        coefficients = vectors.runs_to_coefficients(np.ascontiguousarray(own.T), log_skip)  # (3, size)
        scale = pow(pow(shift, size, P) - 1, -1, P) if over_vanishing else 1
        back = pow(shift, -1, P)
        factors = [(scale * pow(back, k, P) % P, 0, 0) for k in range(size)]
        stretched.append([e_mul(element(coefficients[:, k]), factors[k]) for k in range(size)])
    # On a coset Z^L is the constant shift^L: what is left is an interpolation in Z^L for each power below L.
    matrix = _inverse_vandermonde(tuple(pow(shift, size, P) for shift in shifts))
    out = np.zeros((len(shifts) * size, 3), dtype=np.uint64)
    for power, row in enumerate(matrix):
        for k in range(size):
            value = ZERO
            for weight, coefficients_there in zip(row, stretched, strict=True):
                value = e_add(value, e_scale(coefficients_there[k], weight))
            out[power * size + k] = value
    return out


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


def bind_univariate(vectors: Vectors, shape: Shape, tables: Sequence[RowTable], r_0: Ext) -> None:
    """Bind the univariate variable of all tables' cells to r_0."""
    weights = lagrange(r_0, shape.log_skip)
    for table in tables:
        matrices = [m for m in (table.base_cells()[i] for i in (0, 1, 4, 3)) if m is not None and len(m)]
        table.cells = vectors.bind_runs(np.concatenate(matrices), weights)


def multilinear_rounds(
    vectors: Vectors, shape: Shape, tables: Sequence[RowTable], xi: Sequence[Ext], nu: Ext, transcript: ProofTranscript
) -> tuple[Words, list[Ext]]:
    """Prove the sums of all tables' rules over their row variables: the rounds' coefficients and the point drawn."""
    point: list[Ext] = []
    sent = np.zeros((shape.row_variables, shape.degree, 3), dtype=np.uint64)
    tails = xi[shape.log_skip :]
    for table in tables:
        rows = table.log_height - shape.log_skip
        table.claim = _claim_of(vectors, table, vectors.eq_table(tails[:rows], ONE), nu)
    for i in range(shape.row_variables):
        coefficients = [ZERO] * (shape.degree + 1)
        polynomials: list[list[Ext] | None] = []
        for table in tables:
            rows = table.log_height - shape.log_skip
            if i >= rows:
                coefficients[0] = e_add(coefficients[0], table.claim)
                polynomials.append(None)
                continue
            own = _round_of(vectors, table, tails[i], vectors.eq_table(tails[i + 1 : rows], ONE), nu)
            polynomials.append(own)
            for k, c in enumerate(own):
                coefficients[k] = e_add(coefficients[k], c)
        sent[i] = coefficients[1:]
        point.append(transcript.row_round(coefficients[1:]))
        for table, polynomial in zip(tables, polynomials, strict=True):
            if polynomial is not None:
                table.claim = evaluate(polynomial, point[-1])
                table.cells = vectors.fold_values(table.cells, point[-1])
    return sent, point


def _claim_of(vectors: Vectors, table: RowTable, eq: Words, nu: Ext) -> Ext:
    return total_of(_weighted(vectors, table, table.cells, eq, nu))


def _round_of(vectors: Vectors, table: RowTable, x: Ext, eq: Words, nu: Ext) -> list[Ext]:
    """The coefficients of one table's polynomial in a round. Its value at 1 follows from the claim."""
    rules = table.programs.rules
    degree = max(1, rules.constraint_degree, rules.interaction_degree)
    even, odd = table.cells[..., 0::2], table.cells[..., 1::2]
    step = vectors.sub(odd, even)
    values = [total_of(_weighted(vectors, table, even, eq, nu))]
    at_one = e_mul(e_sub(table.claim, e_mul(e_sub(ONE, x), values[0])), e_inv(x))
    values.append(at_one)
    here = np.ascontiguousarray(odd)
    for _ in range(2, degree + 1):
        here = vectors.add(here, step)
        values.append(total_of(_weighted(vectors, table, here, eq, nu)))
    matrix = _inverse_vandermonde(tuple(range(degree + 1)))
    found = []
    for row in matrix:
        value = ZERO
        for weight, own in zip(row, values, strict=True):
            value = e_add(value, e_scale(own, weight))
        found.append(value)
    return found


def _weighted(vectors: Vectors, table: RowTable, cells: Words, eq: Words, nu: Ext) -> Words:
    """eq times the folded rules of a table in every row, (3, rows), of cells (3, cells, rows)."""
    programs, scalars = table.programs, table.scalars
    assert scalars is not None, "they are drawn before"
    rows = cells.shape[-1]
    matrix = np.ascontiguousarray(cells).reshape(-1, rows)
    parts = []
    for program, given in ((programs.constraints, scalars.constraints), (programs.interactions, scalars.interactions)):
        if program is None or given is None:
            parts.append(np.zeros((3, rows), dtype=np.uint64))
        else:
            parts.append(vectors.run(program, [matrix], np.concatenate([given, _UNITS])))
    return vectors.joined(parts[0], parts[1], nu, eq)


def openings_of(tables: Sequence[RowTable]) -> Words:
    """The values of all tables' columns and next columns at the point to which all variables are bound."""
    found = []
    for table in tables:
        rules = table.programs.rules
        found.append(table.cells[:, : rules.columns + len(rules.next_row), 0].T)
    return np.ascontiguousarray(np.concatenate(found))
