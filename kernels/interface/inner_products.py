"""The family of inner products of points of both groups, and of folded vectors of points, for proof aggregation.

Points are as in `kernels.interface.groups`. Elements of the target group have shape (12, limbs) uint64 in Montgomery
form, in the order of `kernels.cpu.pairing.pairing_product`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate, pairwise

from kernels.errors import SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array, Pending
from kernels.maths.curves import Curve, Group


class InnerProducts(ABC):
    """Inner products on one backend. Raises SizeError for arrays that do not fit."""

    def prepare(self, curve: Curve) -> None:  # noqa: B027 (a backend with nothing to prepare need not say so)
        """Begin to compile the kernels for products over `curve` in the background. A kernel's first use waits for
        it."""

    def pairing_products(self, curve: Curve, products: Sequence[Sequence[tuple[Array, Array]]]) -> Pending:
        """Begin prod_i e(g1[i], g2[i]) over all pairs of vectors of each product: (products, 12, limbs).

        A vector of a pair has shape (n, point_limbs). A pair with a point at infinity contributes one.
        """
        for pairs in products:
            for g1, g2 in pairs:
                n, m = preconditions.points(curve, Group.G1, g1), preconditions.points(curve, Group.G2, g2)
                if n != m:
                    raise SizeError(f"a product of pairings needs pairs: {n} G1 points, {m} G2 points")
        return self._pairing_products(curve, products)

    def scaled(self, curve: Curve, group: Group, points: Array, scalars: Array) -> Array:
        """Return scalars[i] * points[i], (n, point_limbs), for canonical scalars (n, limbs). Not constant time."""
        n = preconditions.points(curve, group, points)
        if scalars.ndim != 2 or preconditions.elements(curve.fr, scalars, "scalars") != n:
            raise SizeError(f"{n} points take scalars of shape ({n}, {curve.fr.limbs}), not {scalars.shape}")
        return self._scaled(curve, group, points, scalars)

    def folded(self, curve: Curve, group: Group, vectors: Sequence[Array], scalar: int) -> list[Array]:
        """Fold vectors of even lengths: v[i] + scalar * v[n / 2 + i], (n / 2, point_limbs), for each v of n points.

        All are folded together, in one launch of a device. Not constant time."""
        for points in vectors:
            n = preconditions.points(curve, group, points)
            if n % 2:
                raise SizeError(f"a vector of {n} points has no halves")
        return self._folded(curve, group, vectors, scalar % curve.fr.modulus)

    # -- what a backend implements, on checked arguments ------------------------------------------------------------

    @abstractmethod
    def _pairing_products(self, curve: Curve, products: Sequence[Sequence[tuple[Array, Array]]]) -> Pending: ...

    @abstractmethod
    def _scaled(self, curve: Curve, group: Group, points: Array, scalars: Array) -> Array: ...

    @abstractmethod
    def _folded(self, curve: Curve, group: Group, vectors: Sequence[Array], scalar: int) -> list[Array]: ...


def halves(vectors: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """The first half of each vector, and the second."""
    return [v[: len(v) // 2] for v in vectors], [v[len(v) // 2 :] for v in vectors]


def split(joined: Array, parts: Sequence[Array]) -> list[Array]:
    """The rows of `joined`, as many after each other as each of the parts has."""
    ends = accumulate(map(len, parts), initial=0)
    return [joined[begin:end] for begin, end in pairwise(ends)]
