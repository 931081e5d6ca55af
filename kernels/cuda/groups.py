"""Points on the GPU: fixed-base multiplication, and the check of points. Multi-scalar multiplication, which
`CudaGroups` inherits, is in `kernels.cuda.msm`, products of sparse matrices and points in `sparse_points`."""

from __future__ import annotations

import numpy as np

from kernels.cuda.device import ByValue, Device, check_index32
from kernels.cuda.msm import CudaPointTable, CudaSums, CudaTable
from kernels.cuda.points import group_source, normalise, sum_limbs
from kernels.cuda.sparse_points import sparse_product
from kernels.cuda.streamed import StreamedPoints
from kernels.interface.arrays import Array, HostArray
from kernels.interface.groups import Groups
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import BN254, Curve, Group
from kernels.maths.encoding import field_from_ints

TABLE_ENTRIES = 32 * 256
"""Entries of the table of a fixed base: one multiple for each value of each byte of a scalar."""
BATCH = 1 << 20
"""Scalars that a fixed base is multiplied by at a time. Bounds the XYZZ scratch at 128 to 384 MiB."""
CHECK_ROWS = 1 << 20
"""Points that `check_points` has on the device at a time."""
NONE_BAD = 2**64 - 1


class CudaGroups(CudaSums, Groups[CudaTable]):
    """Points on one device."""

    loaded = (CudaPointTable, StreamedPoints)
    loads_slices = True

    def _fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
        """Raises OutOfMemory if the arena cannot hold the result, SizeError for too many scalars."""
        device, n = self.device, int(scalars.shape[0])
        check_index32("scalars", n)
        table = base_table(device, curve, group, base)
        out = device.empty((n, curve.point_limbs(group)))
        multiply = device.kernel(group_source("fixed_base", curve, group), "fixed_base_multiply")
        for begin in range(0, n, BATCH):
            count = min(BATCH, n - begin)
            sums = device.empty((count, sum_limbs(curve, group)))
            multiply.launch_items(count, (table, scalars[begin : begin + count], np.uint32(count), sums))
            normalise(device, curve, group, sums, out[begin : begin + count])
        return out

    def _sparse_product(self, curve: Curve, group: Group, matrix: CsrMatrix, points: HostArray) -> HostArray:
        return sparse_product(self.device, curve, group, matrix, points)

    def _check_points(self, curve: Curve, group: Group, points: HostArray, subgroup: bool) -> int | None:
        kernel = self.device.kernel(group_source("points", curve, group), "points_check")
        constant = (curve.b1,) if group is Group.G1 else curve.b2
        b = ByValue(field_from_ints(curve.fq, constant))
        # BN254's G1 has prime order: a point on the curve is in the subgroup.
        check_subgroup = np.uint32(subgroup and not (curve is BN254 and group is Group.G1))
        first_bad = self.device.upload(np.array([NONE_BAD], dtype=np.uint64))
        for begin in range(0, len(points), CHECK_ROWS):
            rows = self.device.upload(points[begin : begin + CHECK_ROWS])
            count = int(rows.shape[0])
            kernel.launch_items(count, (rows, np.uint64(count), np.uint64(begin), b, check_subgroup, first_bad))
        found = int(self.device.fetch(first_bad).result()[0])
        return None if found == NONE_BAD else found


def base_table(device: Device, curve: Curve, group: Group, base: HostArray) -> Array:
    """Return (TABLE_ENTRIES, point_limbs) affine points on the device: row 256 w + d is d * 2^(8 w) * base."""
    source = group_source("fixed_base", curve, group)
    device.prepare(source)
    device.prepare(group_source("point_batch", curve, group))
    sums = device.empty((TABLE_ENTRIES, sum_limbs(curve, group)))
    table = device.empty((TABLE_ENTRIES, curve.point_limbs(group)))
    device.kernel(source, "fixed_base_table").launch_items(TABLE_ENTRIES, (device.upload(base), sums))
    normalise(device, curve, group, sums, table)
    return table
