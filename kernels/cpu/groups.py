"""Vectors of points on the CPU. Single points are in `kernels.cpu.group`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.cpu.leased_pool import LeasedPool
from kernels.cpu.points import Bytes, flat_bytes
from kernels.interface.arrays import Array, Empty, HostArray, Pending, Ready
from kernels.interface.groups import Groups
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Curve, Group

GROUP_WORK = 300
"""Rough cost of one point of a group sum, in field multiplications. Other operations on points cost more."""


@dataclass(frozen=True)
class CpuPoints:
    """Points of an MSM, used in place from an array or a mapped key. `nbytes` is the table's own memory: 0."""

    curve: Curve
    group: Group
    n: int
    nbytes: int
    data: Bytes


class CpuGroups(Groups[CpuPoints]):
    """Points, on the threads of `pool`; scratch memory comes from `empty`."""

    loaded = (CpuPoints,)
    leaves_out_infinity = True

    def __init__(self, pool: LeasedPool, empty: Empty) -> None:
        self._pool = pool
        self._empty = empty

    def _load_points(self, curve: Curve, group: Group, points: HostArray, memory: int | None) -> CpuPoints:
        return CpuPoints(curve, group, len(points), 0, flat_bytes(points))

    def _msm(self, table: CpuPoints, scalars: Array, start: int) -> Pending:
        """Compute the sum, which is complete when the call returns."""
        size = 8 * table.curve.point_limbs(table.group)
        points = table.data[start * size : (start + len(scalars)) * size]
        out = np.zeros(table.curve.point_limbs(table.group), dtype=np.uint64)
        where = (table.curve.name, table.group.value)
        scratch = self._empty((self._pool.native.msm_scratch(*where, len(scalars)),), np.uint8)
        with self._pool.leased(GROUP_WORK * len(scalars)) as threads:
            self._pool.native.msm(threads, *where, points, flat_bytes(scalars), scratch, flat_bytes(out))
        return Ready(out)

    def _fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
        out = np.empty((len(scalars), curve.point_limbs(group)), dtype=np.uint64)
        arrays = map(flat_bytes, (base, scalars, out))
        with self._pool.leased(GROUP_WORK * len(scalars)) as threads:
            self._pool.native.fixed_base(threads, curve.name, group.value, *arrays)
        return out

    def _sparse_product(self, curve: Curve, group: Group, matrix: CsrMatrix, points: HostArray) -> HostArray:
        out = np.empty((matrix.rows, curve.point_limbs(group)), dtype=np.uint64)
        parts = (matrix.row_ptr, matrix.columns, matrix.value_index, matrix.values)
        arrays = [flat_bytes(np.ascontiguousarray(part)) for part in parts]
        with self._pool.leased(GROUP_WORK * matrix.nnz) as threads:
            self._pool.native.sparse_points(
                threads, curve.name, group.value, *arrays, flat_bytes(points), flat_bytes(out)
            )
        return out

    def _check_points(self, curve: Curve, group: Group, points: HostArray, subgroup: bool) -> int | None:
        with self._pool.leased(GROUP_WORK * len(points)) as threads:
            found = self._pool.native.first_invalid(threads, curve.name, group.value, flat_bytes(points), subgroup)
        return None if found is None else int(found)
