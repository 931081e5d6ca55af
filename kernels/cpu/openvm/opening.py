"""The CPU implementation of `kernels.interface.openvm_opening`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cpu.openvm.tables import eq_table, message, mobius_table
from kernels.interface.arrays import Array
from kernels.interface.babybear import BabyBearKernels
from kernels.interface.openvm_opening import Opening, OpeningKernels
from kernels.maths.babybear import Elements, add, ext_mul, ext_powers, mul, sub, total
from kernels.maths.babybear_ntt import cube_coefficients, log2_of, subset_sums


class CpuOpening(Opening):
    """Values and weights, tables (n, 4)."""

    def __init__(self, k: BabyBearKernels, values: Elements, weights: Elements) -> None:
        self._k = k
        self.values = values
        self.weights = weights
        self._coefficients: Elements | None = None

    def sums(self) -> Elements:
        return self._k.pair_round(self.values, self.weights)

    def bind(self, challenge: Elements) -> None:
        self.values, self.weights = (self._k.fold(table, challenge) for table in (self.values, self.weights))
        self._coefficients = None

    @property
    def coefficients(self) -> Elements:
        if self._coefficients is None:
            self._coefficients = cube_coefficients(np.ascontiguousarray(self.values.T))
        return self._coefficients

    def evaluate(self, at: Elements) -> Elements:
        coefficients = np.ascontiguousarray(self.coefficients.T)
        return total(self._k.ext_mul(coefficients, ext_powers(at, len(coefficients))), 0)

    def add_points(self, outside: Elements, points: Elements, factors: Elements) -> None:
        n = len(self.weights)
        log_n = log2_of(n)
        coordinates = [outside]
        while len(coordinates) < log_n:
            coordinates.append(ext_mul(coordinates[-1], coordinates[-1]))
        found = eq_table(self._k, coordinates[:log_n], factors[0])
        # The table of a base element is the product of two small ones; the sum of many is a product of matrices.
        log_low = log_n // 2
        low, squares = _base_tables(points, log_low)
        high = mul(_base_tables(squares, log_n - log_low)[0][..., None], factors[1:, None])
        # (4, high) by points, times points by low
        by_point = np.ascontiguousarray(high.transpose(2, 1, 0)).reshape(-1, len(points))
        found = add(found, np.ascontiguousarray(self._k.matmul(by_point, low).reshape(4, n).T))
        self.weights = add(self.weights, found)


class CpuOpenings(OpeningKernels):
    """The kernels, which compute by those of BabyBear."""

    def __init__(self, k: BabyBearKernels) -> None:
        self._k = k

    def begin(self, columns: Sequence[Array], powers: Elements, log_skip: int, point: Sequence[Elements]) -> CpuOpening:
        combined = np.zeros((4, 1 << len(point)), dtype=np.uint32)
        for each in columns:
            own, powers = powers[: len(each)], powers[len(each) :]
            combined = add(combined, self._k.matmul(np.ascontiguousarray(own.T), each))
        values = np.ascontiguousarray(subset_sums(message(self._k, combined, log_skip)).T)
        return CpuOpening(self._k, values, mobius_table(self._k, point))


def _base_tables(points: Elements, variables: int) -> tuple[Elements, Elements]:
    """Return eq(z, z^2, z^4, ...) for base elements z (m,), tables (m, 2^variables), and the next power of each z."""
    tables = np.ones((len(points), 1), dtype=np.uint32)
    for _ in range(variables):
        high = mul(tables, points[:, None])
        tables = np.concatenate((sub(tables, high), high), axis=1)
        points = mul(points, points)
    return tables, points
