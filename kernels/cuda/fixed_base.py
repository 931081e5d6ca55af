"""Many multiples of one point on the GPU, by `cuda/src/fixed_base.cu`: needed to set up a proving key."""

from __future__ import annotations

import numpy as np

from kernels.cuda.device import Device, check_index32
from kernels.cuda.points import group_source, normalise, sum_limbs
from kernels.interface.arrays import Array, HostArray
from kernels.maths.curves import Curve, Group

TABLE_ENTRIES = 32 * 256
"""Entries of the table: one multiple for each value of each byte of a scalar."""

BATCH = 1 << 20
"""Scalars multiplied at a time. Bounds the XYZZ scratch at 128 to 384 MiB."""


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


def fixed_base(device: Device, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
    """Return scalars[i] * base, (n, point_limbs) affine points on the device, for (n, 4) uint64 scalars there.

    Raises OutOfMemory if the arena cannot hold the result, SizeError for too many scalars.
    """
    n = int(scalars.shape[0])
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
