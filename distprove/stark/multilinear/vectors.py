"""The heavy steps of the multilinear prover over arrays, on a backend's row programs and transforms.

Vectors of F are (3, n) arrays of words, coordinate by coordinate; k of them are (3, k, n). Arrays lie on the host
between the steps: a backend can take a step over as a whole, under the name that it has here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from distprove.stark.air.expression import Expression, Graph, operand
from distprove.stark.air.lowering import lower
from distprove.stark.field import Ext, P, Words, total
from distprove.stark.multilinear import plain
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.row_program import RowProgram
from kernels.maths.goldilocks import GENERATOR, root_of_unity

Cells = Sequence[Expression]
Define = Callable[[Cells, Cells], Sequence[Expression]]

_UNITS: list[Ext] = [(0, 1, 0), (0, 0, 1)]


def _program(vectors: int, scalars: int, define: Define) -> RowProgram:
    """A program over vectors of F, which lie in one matrix, and scalars of F."""
    graph = Graph()
    units = [Expression(graph, graph.scalar(i, extension=True)) for i in range(2)]
    given = [Expression(graph, graph.scalar(2 + i, extension=True)) for i in range(scalars)]
    cells = []
    for vector in range(vectors):
        a, b, c = (Expression(graph, graph.load(0, 3 * vector + i)) for i in range(3))
        cells.append(a + b * units[0] + c * units[1])
    outputs = [operand(graph, value) for value in define(cells, given)]
    return lower(graph, outputs, widths=(3 * vectors,), scalars=2 + scalars)


@cache
def _product() -> RowProgram:
    return _program(2, 0, lambda v, s: [v[0] * v[1]])


@cache
def _scaled() -> RowProgram:
    return _program(1, 1, lambda v, s: [v[0] * s[0]])


@cache
def _line() -> RowProgram:
    return _program(2, 1, lambda v, s: [v[0] + (v[1] - v[0]) * s[0]])


@cache
def _axpy() -> RowProgram:
    return _program(2, 1, lambda v, s: [v[0] + v[1] * s[0]])


@cache
def _layer() -> RowProgram:
    return _program(4, 0, lambda v, s: [v[0] * v[3] + v[1] * v[2], v[2] * v[3]])


@cache
def _layer_round() -> RowProgram:
    def define(v: Cells, s: Cells) -> Sequence[Expression]:
        p0, p1, q0, q1, next_p0, next_p1, next_q0, next_q1, eq = v
        d_p0, d_p1, d_q0, d_q1 = next_p0 - p0, next_p1 - p1, next_q0 - q0, next_q1 - q1
        return [(p0 * q1 + p1 * q0) * eq, (d_p0 * d_q1 + d_p1 * d_q0) * eq]

    return _program(9, 0, define)


@cache
def _pair_round() -> RowProgram:
    return _program(4, 0, lambda v, s: [v[0] * v[3] + v[1] * v[2], v[1] * v[3]])


@cache
def _joined() -> RowProgram:
    return _program(3, 1, lambda v, s: [(v[0] + v[1] * s[0]) * v[2]])


class Vectors:
    """Arithmetic on vectors of F on the host, done by a backend's kernels."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kernels = backend.goldilocks
        self._own = backend.multilinear

    def run(self, program: RowProgram, inputs: Sequence[Words | None], scalars: Words) -> Words:
        """Run a row program over host matrices (width, n): (columns, n)."""
        given = [None if m is None else self._backend.to_device(np.ascontiguousarray(m)) for m in inputs]
        made: Words = self._backend.to_host(self._kernels.evaluate(program, given, scalars))
        return made.reshape(made.shape[0], -1)

    def _vectors(self, program: RowProgram, inputs: Sequence[Words], scalars: Sequence[Ext] = ()) -> Words:
        """Run a program over vectors (3, .., n): (outputs, 3, n). A row program has a power of two
        of rows, so that vectors are filled up with zeros."""
        size = inputs[0].size // 3
        rows = 1 << (size - 1).bit_length()
        given = np.array([*_UNITS, *scalars], dtype=np.uint64)
        matrix = np.empty((3 * len(inputs), rows), dtype=np.uint64)
        matrix[:, size:] = 0
        for at, vector in enumerate(inputs):
            matrix[3 * at : 3 * at + 3, :size] = vector.reshape(3, size)
        return self.run(program, [matrix], given).reshape(-1, 3, rows)[..., :size]

    def _vector(self, program: RowProgram, inputs: Sequence[Words], scalars: Sequence[Ext] = ()) -> Words:
        """Run a program with one output over vectors of one shape: a vector of that shape."""
        made: Words = self._vectors(program, inputs, scalars)[0]
        return made.reshape(inputs[0].shape)

    # -- elementwise ------------------------------------------------------------------------------------------------

    def product(self, a: Words, b: Words) -> Words:
        return self._vector(_product(), [a, b])

    def scaled(self, a: Words, factor: Ext) -> Words:
        return self._vector(_scaled(), [a], [factor])

    def add(self, a: Words, b: Words) -> Words:
        return self._words("add", a, b)

    def sub(self, a: Words, b: Words) -> Words:
        return self._words("sub", a, b)

    def _words(self, operation: str, a: Words, b: Words) -> Words:
        left, right = (self._backend.to_device(np.ascontiguousarray(v).reshape(-1)) for v in (a, b))
        made: Words = self._backend.to_host(getattr(self._kernels, operation)(left, right))
        return made.reshape(a.shape)

    # -- folds ------------------------------------------------------------------------------------------------------

    def fold_values(self, vectors: Words, r: Ext) -> Words:
        """Bind the lowest variable of tables of values (3, .., n) to r: even + r (odd - even)."""
        return self._fold(_line(), vectors, r)

    def fold_coefficients(self, vectors: Words, r: Ext) -> Words:
        """Bind the lowest variable of tables of coefficients (3, .., n) to r: even + r odd."""
        return self._fold(_axpy(), vectors, r)

    def _fold(self, program: RowProgram, vectors: Words, r: Ext) -> Words:
        return self._vector(program, [vectors[..., 0::2], vectors[..., 1::2]], [r])

    # -- tables of a point ------------------------------------------------------------------------------------------

    def eq_table(self, point: Sequence[Ext], scale: Ext) -> Words:
        """scale eq(point, j) for all j, the point's first coordinate being the lowest bit: (3, 2^len)."""
        table = np.array(scale, dtype=np.uint64).reshape(3, 1)
        for x in reversed(point):
            high = self.scaled(table, x)
            table = np.stack([self.sub(table, high), high], axis=-1).reshape(3, -1)
        return table

    def power_table(self, point: Sequence[Ext], scale: Ext) -> Words:
        """scale times the product of the point's coordinates at the bits of j, for all j: (3, 2^len)."""
        table = np.array(scale, dtype=np.uint64).reshape(3, 1)
        for x in point:
            table = np.concatenate([table, self.scaled(table, x)], axis=1)
        return table

    # -- sums of rounds ---------------------------------------------------------------------------------------------

    def layer(self, fractions: Words) -> Words:
        """The layer above one of fractions (3, 2, n), numerators and denominators: (3, 2, n / 2)."""
        p, q = fractions[:, 0], fractions[:, 1]
        made = self._vectors(_layer(), [p[:, 0::2], p[:, 1::2], q[:, 0::2], q[:, 1::2]])
        return np.ascontiguousarray(made.transpose(1, 0, 2))

    def layer_round(self, halves: Words, eq: Words) -> tuple[Ext, Ext]:
        """The sums over pairs of eq (p_0 q_1 + p_1 q_0) at 0, and of their coefficients at X^2. `halves` (3, 4, n) are
        p_0, p_1, q_0, q_1; `eq` is (3, n / 2)."""
        even, odd = halves[..., 0::2], halves[..., 1::2]
        given = [even[:, i] for i in range(4)] + [odd[:, i] for i in range(4)]
        at_zero, square = self._vectors(_layer_round(), [*given, eq])
        return total_of(at_zero), total_of(square)

    def pair_round(self, pair: Words) -> tuple[Ext, Ext]:
        """h_1 and h_2 of a round over coefficients and weights (3, 2, n)."""
        (v, u), (odd_v, odd_u) = (np.moveaxis(pair[..., start::2], 1, 0) for start in (0, 1))
        first, second = self._vectors(_pair_round(), [v, odd_v, u, odd_u])
        return total_of(first), total_of(second)

    def joined(self, constraints: Words, leaves: Words, nu: Ext, eq: Words) -> Words:
        """(constraints + nu leaves) eq, (3, n)."""
        return self._vector(_joined(), [constraints, leaves, eq], [nu])

    # -- transforms and runs ----------------------------------------------------------------------------------------

    def codewords(self, coefficients: Words, log_blowup: int) -> Array:
        """The codewords of columns of coefficients (w, n) at the powers of w_(n 2^log_blowup), in the backend's memory,
        (w, 2^log_blowup, n)."""
        if self._own is not None:
            return self._own.encode(self._backend.to_device(np.ascontiguousarray(coefficients)), log_blowup)
        # `lde` calls its result's domain a coset of 7, so that it is given values as if on one.
        values = self._backend.to_device(plain.transform(self._kernels, self._backend, coefficients))
        return self._kernels.lde(values, log_blowup, coset=GENERATOR)

    def transform(self, columns: Words) -> Words:
        """The values of polynomials with coefficients (w, n) at the powers of w_n, in natural order."""
        made: Words = self._backend.to_host(self.codewords(columns, 0))
        return made.reshape(columns.shape)

    def runs_to_coefficients(self, columns: Words, log_run: int) -> Words:
        """Interpolate each run of 2^log_run values of columns (w, n) over the powers of w(log_run): (w, n)."""
        return self._applied(columns, inverse_matrix(log_run))

    def runs_on_coset(self, columns: Words, log_run: int, shift: int) -> Words:
        """Move each run of 2^log_run values of columns (w, n) to the coset shift <w(log_run)>: (w, n)."""
        return self._applied(columns, coset_matrix(log_run, shift))

    def bind_runs(self, columns: Words, weights: Sequence[Ext]) -> Words:
        """The sum of weight times element in each run of columns (w, n): vectors (3, w, n / len(weights))."""
        matrix = np.ascontiguousarray(np.array(weights, dtype=np.uint64).T)
        made = self._applied(columns, matrix).reshape(len(columns), -1, 3)
        return np.ascontiguousarray(np.moveaxis(made, 2, 0))

    def sum_runs(self, columns: Words, weights: Sequence[Words], size: int) -> list[list[Ext]]:
        """For each vector (3, runs) of `weights` the sum of weight times run, over all runs of columns (w, n)."""
        sets = np.ascontiguousarray(np.concatenate(weights))
        if self._own is None:
            found = plain.sum_runs(columns, sets, size)
        else:
            given = self._backend.to_device(np.ascontiguousarray(columns)), self._backend.to_device(sets)
            found = self._own.sum_runs(*given, size)
        return [[(a, b, c) for a, b, c in own.T.tolist()] for own in found.reshape(-1, 3, size)]

    def _applied(self, columns: Words, matrix: Words) -> Words:
        """A matrix (r, size) applied to each run of columns (w, n): (w, n r / size)."""
        if not columns.size:
            return np.empty((len(columns), columns.shape[1] // matrix.shape[1] * len(matrix)), dtype=np.uint64)
        if self._own is None:
            return plain.apply_runs(columns, matrix)
        given = self._backend.to_device(np.ascontiguousarray(columns))
        made: Words = self._backend.to_host(self._own.apply_runs(given, matrix))
        return made


@cache
def inverse_matrix(log_run: int) -> Words:
    """The matrix that interpolates 2^log_run values over the powers of w(log_run)."""
    size, root = 1 << log_run, pow(root_of_unity(log_run), -1, P)
    scale = pow(size, -1, P)
    rows = [[pow(root, k * a % size, P) * scale % P for a in range(size)] for k in range(size)]
    return np.array(rows, dtype=np.uint64)


@cache
def coset_matrix(log_run: int, shift: int) -> Words:
    """The matrix that moves values over the powers of w = w(log_run) to those on the coset shift <w>."""
    size, root = 1 << log_run, root_of_unity(log_run)
    inverse = inverse_matrix(log_run).tolist()
    forward = [[pow(shift * pow(root, a, P), k, P) for k in range(size)] for a in range(size)]
    rows = [
        [sum(x * row[a] for x, row in zip(line, inverse, strict=True)) % P for a in range(size)] for line in forward
    ]
    return np.array(rows, dtype=np.uint64)


def total_of(vector: Words) -> Ext:
    """The sum of a vector (3, n)."""
    a, b, c = total(vector, axis=1).tolist()
    return a, b, c
