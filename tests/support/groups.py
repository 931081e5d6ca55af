"""Multiples of the generators by py_ecc, as the kernels write points: the independent reference of the group tests."""

from __future__ import annotations

from typing import Any

from py_ecc import optimized_bls12_381, optimized_bn128

from kernels.maths.curves import BN254, Curve, Group
from kernels.maths.encoding import Words, point_from_ints


def multiple_of_generator(curve: Curve, group: Group, k: int) -> Words:
    """k * G, (point_limbs,) uint64 affine in Montgomery form."""
    reference: Any = optimized_bn128 if curve is BN254 else optimized_bls12_381
    generator = reference.G1 if group is Group.G1 else reference.G2
    point = reference.multiply(generator, k % curve.fr.modulus)
    if reference.is_inf(point):
        return point_from_ints(curve, group, None)
    x, y = reference.normalize(point)
    if group is Group.G1:
        return point_from_ints(curve, group, (int(x), int(y)))
    return point_from_ints(curve, group, [int(c) for c in (*x.coeffs, *y.coeffs)])
