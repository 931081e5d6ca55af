"""Inner products of points and folded vectors of points on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from kernels.cpu.leased_pool import LeasedPool
from kernels.cpu.points import flat_bytes
from kernels.interface.arrays import Array, HostArray, Ready
from kernels.interface.inner_products import InnerProducts, halves, split
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import pack

PAIRING_WORK = 8000
"""Rough cost of one pair's part of a Miller loop, in field multiplications."""
MULTIPLE_WORK = 4000
"""Rough cost of a multiple of one point, in field multiplications."""
_NONE = np.empty((0,), dtype=np.uint64)


class CpuInnerProducts(InnerProducts):
    """Inner products, on the threads of `pool`."""

    def __init__(self, pool: LeasedPool) -> None:
        self._pool = pool

    def _pairing_products(self, curve: Curve, products: Sequence[Sequence[tuple[Array, Array]]]) -> Ready:
        empty = [np.empty((0, curve.point_limbs(group)), dtype=np.uint64) for group in Group]
        g1 = np.concatenate([empty[0], *(g1 for pairs in products for g1, _ in pairs)])
        g2 = np.concatenate([empty[1], *(g2 for pairs in products for _, g2 in pairs)])
        ends = list(accumulate(sum(len(g1) for g1, _ in pairs) for pairs in products))
        out = np.empty((len(products), 12, curve.fq.limbs), dtype=np.uint64)
        arrays = flat_bytes(g1), flat_bytes(g2), ends, flat_bytes(out)
        with self._pool.leased(PAIRING_WORK * len(g1)) as threads:
            self._pool.native.pairing_products(threads, curve.name, *arrays)
        return Ready(out)

    def _scaled(self, curve: Curve, group: Group, points: Array, scalars: Array) -> Array:
        return self._multiply_add(curve, group, _NONE, points, scalars)

    def _folded(self, curve: Curve, group: Group, vectors: Sequence[Array], scalar: int) -> list[Array]:
        low, high = halves(vectors)
        empty = np.empty((0, curve.point_limbs(group)), dtype=np.uint64)
        addends, points = (np.concatenate([empty, *parts]) for parts in (low, high))
        return split(self._multiply_add(curve, group, addends, points, pack([scalar], curve.fr.limbs)), low)

    def _multiply_add(
        self, curve: Curve, group: Group, addends: HostArray, points: HostArray, scalars: HostArray
    ) -> HostArray:
        """addends[i] + scalars[i] * points[i]; no addends are zeros, and one scalar is that of all points."""
        out = np.empty((len(points), curve.point_limbs(group)), dtype=np.uint64)
        arrays = map(flat_bytes, (addends, points, scalars, out))
        with self._pool.leased(MULTIPLE_WORK * len(points)) as threads:
            self._pool.native.points_multiply_add(threads, curve.name, group.value, *arrays)
        return out
