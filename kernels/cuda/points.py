"""Common code of the CUDA operations on groups: sources for a curve and group, and XYZZ sums on the host."""

from __future__ import annotations

import numpy as np

from kernels.cuda.device import Device
from kernels.interface.arrays import Array
from kernels.maths.curves import BLS12_381, BN254, Curve, Group
from kernels.source import KernelSource

CURVE_NAMES = {BN254.name: "Bn254", BLS12_381.name: "Bls12381"}
"""Name of each curve in `include/curve/curves.h`, by `Curve.name`."""


def curve_source(name: str, curve: Curve, *defines: tuple[str, int]) -> KernelSource:
    """Return the source `name`, compiled for `curve` with further preprocessor definitions."""
    return KernelSource(name, (("CURVE", CURVE_NAMES[curve.name]), *((key, str(value)) for key, value in defines)))


def group_source(name: str, curve: Curve, group: Group, *defines: tuple[str, int]) -> KernelSource:
    """Return the source `name`, compiled for one group of `curve` with further preprocessor definitions."""
    return curve_source(name, curve, ("GROUP", 1 if group is Group.G1 else 2), *defines)


def sum_limbs(curve: Curve, group: Group) -> int:
    """Number of uint64 words of an XYZZ sum: X, Y, ZZ, ZZZ."""
    return 2 * curve.point_limbs(group)


def normalise(device: Device, curve: Curve, group: Group, sums: Array, out: Array) -> None:
    """Write the affine points of (n, sum_limbs) XYZZ sums to (n, point_limbs) `out`, both on the device.

    A thread shares one inversion (some 400 products) between up to 32 points, fewer if the device would be idle.
    """
    n = sums.shape[0]
    per_thread = min(32, max(1, n // (256 * device.sm_count)))
    stride = -(-n // per_thread)
    kernel = device.kernel(group_source("point_batch", curve, group), "point_normalise")
    kernel.launch_items(stride, (sums, np.uint32(n), np.uint32(stride), out), spread=True)
