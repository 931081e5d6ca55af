"""Random linear combinations of a file's points, which show at once that all of them stand in one relation.

With 128-bit coefficients that nobody can foresee, a relation that fails for one point holds for the combination with
probability 2^-128.
"""

from __future__ import annotations

import secrets

import numpy as np

from distprove.groth16.points import Words
from kernels.cpu.group import mul, neg
from kernels.cpu.pairing import pairing_product_is_one
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator, unpack

COEFFICIENT_BYTES = 16


def coefficients(curve: Curve, count: int) -> Words:
    """Random coefficients, (count, fr.limbs) canonical integers of 128 bits."""
    random = np.frombuffer(secrets.token_bytes(COEFFICIENT_BYTES * count), dtype="<u8").reshape(count, 2)
    return np.pad(random, ((0, 0), (0, curve.fr.limbs - 2)))


def combination(
    curve: Curve, group: Group, points: HostArray, factors: HostArray, backend: Backend, *, start: int = 0
) -> Words:
    """The sum of factors[i] * points[start + i], (point_limbs,), for points as `Groups.load_points` takes them."""
    # Used once, so that multiples of the points would cost more than they save.
    table = backend.groups.load_points(curve, group, points, memory=points.nbytes)
    found: Words = backend.groups.msm(table, backend.to_device(factors), start=start).result()
    return found


def same_pairing(curve: Curve, one: tuple[Words, Words], other: tuple[Words, Words]) -> bool:
    """Whether e(one) = e(other), of a point of G1 and a point of G2 each."""
    g1 = np.stack([one[0], neg(curve, Group.G1, other[0])])
    return pairing_product_is_one(curve, g1, np.stack([one[1], other[1]]))


def is_next_power(curve: Curve, rest: Words, factor: HostArray, last: Words, tau2: Words) -> bool:
    """Whether `rest` is `factor` (1, fr.limbs) times the power of tau that follows `last` in G1, or infinity.

    The Lagrange basis for twice as many points as a file has powers in G2 reaches one power further than those in G1.
    snarkjs makes it with infinity in place of that power; in a file that was cut it has the power itself.
    """
    scaled = mul(curve, Group.G1, last, unpack(factor)[0])
    return not rest.any() or same_pairing(curve, (rest, generator(curve, Group.G2)), (scaled, tau2))
