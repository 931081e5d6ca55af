"""Points on the GPU: multi-scalar and fixed-base multiplication, and their checking."""

from __future__ import annotations

import numpy as np

from kernels.cuda.device import ByValue, Device
from kernels.cuda.fixed_base import fixed_base
from kernels.cuda.msm import CudaMsm, CudaPointTable, MsmProfile
from kernels.cuda.points import group_source
from kernels.interface.arrays import Array, HostArray
from kernels.interface.groups import Groups, PendingPoint
from kernels.maths.curves import BN254, Curve, Group
from kernels.maths.encoding import field_from_ints

CHECK_ROWS = 1 << 20
"""Points that `check_points` has on the device at a time."""
NONE_BAD = 2**64 - 1


class CudaGroups(Groups[CudaPointTable]):
    """Points on one device."""

    def __init__(self, device: Device, profile: MsmProfile | None = None) -> None:
        """`profile` tunes the MSMs."""
        super().__init__(CudaPointTable)
        self._device = device
        self._sums = CudaMsm(device, profile)

    def prepare(self, curve: Curve, group: Group) -> None:
        """Begin to compile what `load_points` and `msm` need in the background."""
        self._sums.prepare(curve, group)

    def msm_scratch(self, curve: Curve, group: Group, n: int) -> int:
        return self._sums.scratch_bytes(curve, group, n)

    def _load_points(self, curve: Curve, group: Group, points: HostArray, memory: int | None) -> CudaPointTable:
        return self._sums.load_points(curve, group, points, memory)

    def _msm(self, table: CudaPointTable, scalars: Array, start: int) -> PendingPoint:
        return self._sums.msm(table, scalars, start)

    def _fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
        return fixed_base(self._device, curve, group, base, scalars)

    def _check_points(self, curve: Curve, group: Group, points: HostArray, subgroup: bool) -> int | None:
        kernel = self._device.kernel(group_source("points", curve, group), "points_check")
        constant = (curve.b1,) if group is Group.G1 else curve.b2
        b = ByValue(field_from_ints(curve.fq, constant))
        # BN254's G1 has prime order: a point on the curve is in the subgroup.
        check_subgroup = np.uint32(subgroup and not (curve is BN254 and group is Group.G1))
        first_bad = self._device.upload(np.array([NONE_BAD], dtype=np.uint64))
        for begin in range(0, len(points), CHECK_ROWS):
            rows = self._device.upload(points[begin : begin + CHECK_ROWS])
            count = int(rows.shape[0])
            kernel.launch_items(count, (rows, np.uint64(count), np.uint64(begin), b, check_subgroup, first_bad))
        found = int(self._device.fetch(first_bad).result()[0])
        return None if found == NONE_BAD else found
