"""Common code of the CUDA operations on groups: sources for a curve and group, and XYZZ sums on the host."""

from __future__ import annotations

import numpy as np

from kernels.cuda.device import Device
from kernels.interface.arrays import Array, HostArray
from kernels.maths.curves import BLS12_381, BN254, Curve, Group
from kernels.maths.encoding import field_to_ints, point_from_ints
from kernels.maths.fq2 import inverse as fq2_inverse
from kernels.maths.fq2 import product
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
    kernel.launch_items(stride, (sums, np.uint32(n), np.uint32(stride), out))


def sum_to_affine(curve: Curve, group: Group, words: HostArray) -> HostArray:
    """Return the affine point, (point_limbs,) uint64, of one XYZZ sum of (sum_limbs,) words."""
    p = curve.fq.modulus
    values = field_to_ints(curve.fq, np.asarray(words).reshape(-1, curve.fq.limbs))
    if group is Group.G1:
        x, y, zz, zzz = values
        if zz == 0:
            return point_from_ints(curve, group, None)
        inverse = pow(zz * zzz, -1, p)
        return point_from_ints(curve, group, (x * inverse * zzz, y * inverse * zz))
    x2, y2, zz2, zzz2 = (values[0], values[1]), (values[2], values[3]), (values[4], values[5]), (values[6], values[7])
    if zz2 == (0, 0):
        return point_from_ints(curve, group, None)
    inverse2 = fq2_inverse(product(zz2, zzz2, p), p)
    x_affine = product(x2, product(inverse2, zzz2, p), p)
    y_affine = product(y2, product(inverse2, zz2, p), p)
    return point_from_ints(curve, group, (*x_affine, *y_affine))
