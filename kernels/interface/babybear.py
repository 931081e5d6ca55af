"""The interface of the kernels over BabyBear: products, transforms, Poseidon2 and proofs of work.

Elements, and elements of the extension in a last axis of 4, are those of `kernels.maths.babybear`: canonical uint32
arrays on the host. Sums and differences of them are NumPy's, by the functions there.

The CPU's implementation of `kernels.interface.openvm` computes by them: `kernels.cpu.babybear`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from kernels.errors import SizeError
from kernels.maths.babybear import DEGREE, Elements, add, sub, total


class BabyBearKernels(ABC):
    """The kernels over BabyBear. Factors broadcast as NumPy's do, over all axes but that of the extension."""

    @abstractmethod
    def mul(self, a: Elements, b: Elements) -> Elements:
        """Return the product of base elements, elementwise."""

    @abstractmethod
    def ext_mul(self, a: Elements, b: Elements) -> Elements:
        """Return the product of extension elements (..., 4), elementwise."""

    @abstractmethod
    def add_scaled(self, total: Elements, a: Elements, by: Elements) -> None:
        """Add a times `by` (4,) to extension elements `total` (..., 4) in place, which is contiguous.

        `a` has base elements (...,) or extension elements (..., 4); it does not broadcast. Raises SizeError.
        """

    @abstractmethod
    def matmul(self, a: Elements, b: Elements) -> Elements:
        """Return the product (m, n) of matrices (m, k) and (k, n) of base elements."""

    def fold(self, table: Elements, at: Elements) -> Elements:
        """Bind the first variable of tables (..., 2 n, 4), which joins neighbours, to an element: (..., n, 4)."""
        low, high = table[..., ::2, :], table[..., 1::2, :]
        return add(low, self.ext_mul(sub(high, low), at))

    def pair_round(self, a: Elements, b: Elements) -> Elements:
        """Return the sums of a times b over all entries with the first variable at 1 and at 2, (2, 4).

        `a` and `b` are tables (..., 2 n, 4) of one shape.
        """
        points = zip(line(a, 2), line(b, 2), strict=True)
        return np.stack([total(self.ext_mul(x, y).reshape(-1, DEGREE), 0) for x, y in points])

    def layer_round(self, eq: Elements, halves: Elements, batch: Elements) -> Elements:
        """Return the sums of eq ((p0 + batch q0) q1 + p1 q0) with the first variable at 1, 2 and 3, (3, 4).

        `eq` is a table (2 n, 4), `halves` has p0, p1, q0 and q1, (4, 2 n, 4).
        """
        found = []
        for weights, (p0, p1, q0, q1) in zip(line(eq, 3), line(halves, 3), strict=True):
            terms = add(self.ext_mul(add(p0, self.ext_mul(q0, batch)), q1), self.ext_mul(p1, q0))
            found.append(total(self.ext_mul(weights, terms), 0))
        return np.stack(found)

    @abstractmethod
    def ntt(self, coefficients: Elements, axis: int = -1) -> Elements:
        """Return values at the powers of a root of unity, as `kernels.maths.babybear_ntt.ntt`. Raises ValueError."""

    @abstractmethod
    def intt(self, values: Elements, axis: int = -1) -> Elements:
        """Return coefficients, as `kernels.maths.babybear_ntt.intt`. Raises ValueError."""

    @abstractmethod
    def hash_rows(self, rows: Elements) -> Elements:
        """Return the digests (n, 8) of rows (n, width), as `kernels.maths.poseidon2_babybear.hash_rows`."""

    @abstractmethod
    def compress(self, left: Elements, right: Elements) -> Elements:
        """Return the parents (n, 8) of digests (n, 8). Raises SizeError for other shapes."""

    @abstractmethod
    def least_witness(self, state: Sequence[int], position: int, bits: int) -> int:
        """Return the least w with which a sponge's state, w at `position`, permutes to `bits` low zeros of element 7.

        Raises ValueError if there is none.
        """


def line(table: Elements, points: int) -> list[Elements]:
    """Return tables (..., 2 n, 4) with the first variable at 1, 2, ... points: that many (..., n, 4)."""
    low, high = table[..., ::2, :], table[..., 1::2, :]
    step, found = sub(high, low), [high]
    while len(found) < points:
        found.append(add(found[-1], step))
    return found


def check_sum(total: Elements, a: Elements) -> None:
    """Raise SizeError unless `add_scaled` can add `a` to `total`."""
    if a.shape not in (total.shape, total.shape[:-1]) or not total.flags.c_contiguous:
        raise SizeError(f"an array {a.shape} cannot be added to one {total.shape}, or that is not contiguous")
