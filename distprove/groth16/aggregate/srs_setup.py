"""Makes the keys of aggregation: from two powers-of-tau files, or for development without a ceremony.

That two ceremonies are independent cannot be computed. Refused is what shows that they are not: secrets that are equal
or inverse, one that is a power of the other within the keys, all these with either sign, and files that share a
contribution, since a later contributor of one ceremony would know the ratio of the two secrets, and could open
commitments in two ways. Refused is also a secret whose powers repeat themselves within the keys: it has a small order.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import numpy as np

from distprove.errors import CurveMismatch, InputError, InvalidKey
from distprove.groth16.aggregate.keys import powers_of
from distprove.groth16.aggregate.srs import Srs, size_for
from distprove.groth16.combinations import coefficients, combination, same_pairing
from distprove.groth16.phase2 import random_scalar
from distprove.groth16.ptau import Powers, Ptau
from kernels.cpu.group import neg
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator, scalars_from_ints


def srs_from_ceremonies(
    alpha: Ptau, beta: Ptau, proofs: int, backend: Backend, rng: Callable[[int], bytes] = secrets.token_bytes
) -> Srs:
    """The keys for up to `proofs` proofs, every point of which is checked.

    Raises CurveMismatch, InvalidKey, InputError for files that are too small, UsageError.
    """
    n, curve = size_for(proofs), alpha.curve
    if beta.curve is not curve:
        raise CurveMismatch(f"{alpha.name} is over {curve.title}, {beta.name} over {beta.curve.title}")
    shared = {*alpha.contributions()} & {*beta.contributions()}
    if shared:
        raise InvalidKey(f"{alpha.name} and {beta.name} share {len(shared)} contributions: they are of one ceremony")
    taken = [_powers(ptau, n, backend, rng) for ptau in (alpha, beta)]
    (a1, a2), (b1, b2) = taken
    own = [{row.tobytes() for row in powers} for powers in (a1, b1)]
    for ptau, different in zip((alpha, beta), own, strict=True):
        if len(different) < 2 * n:
            raise InvalidKey(f"{ptau.name}: the first {2 * n} powers of its secret are not different")
    own = [others - {powers[1].tobytes()} for others, powers in zip(own, (a1, b1), strict=True)]
    for powers, others in ((b1, own[0]), (a1, own[1])):
        if not others.isdisjoint((powers[1].tobytes(), neg(curve, Group.G1, powers[1]).tobytes())):
            raise InvalidKey(
                f"the secret of {beta.name} or its negative is a power of that of {alpha.name}, or the other way round"
            )
    srs = Srs(curve, n, False, (a1, b1), (a2, b2))
    srs.verifier  # noqa: B018 (refuses secrets that do not belong together)
    return srs


def insecure_srs(curve: Curve, proofs: int, backend: Backend) -> Srs:
    """Keys with fresh secrets that this process knew, marked as such. Raises UsageError."""
    n = size_for(proofs)

    def points(group: Group, secret: int, count: int) -> HostArray:
        scalars = backend.to_device(scalars_from_ints(curve.fr, powers_of(secret, count, curve.fr.modulus)))
        return backend.to_host(backend.groups.fixed_base(curve, group, generator(curve, group), scalars))

    alpha, beta = random_scalar(curve), random_scalar(curve)
    g1 = points(Group.G1, alpha, 2 * n), points(Group.G1, beta, 2 * n)
    return Srs(curve, n, True, g1, (points(Group.G2, alpha, n), points(Group.G2, beta, n)))


def _powers(ptau: Ptau, n: int, backend: Backend, rng: Callable[[int], bytes]) -> tuple[HostArray, HostArray]:
    """The first 2n powers of the file's secret in G1 and n in G2, after they were checked. Raises InvalidKey."""
    curve = ptau.curve
    taken: list[HostArray] = []
    for which, count in ((Powers.TAU_G1, 2 * n), (Powers.TAU_G2, n)):
        found = ptau.powers(which)
        if len(found) < count:
            raise InputError(
                f"{ptau.name}: powers of tau up to 2^{ptau.power} are too few: {n} proofs take 2^{n.bit_length()}"
            )
        powers = np.array(found[:count], order="C").view("<u8")  # the file may change while it is mapped
        bad = backend.groups.check_points(curve, which.group, powers)
        if bad is not None:
            raise InvalidKey(f"{ptau.name}: point {bad} of {which.name} is not in {which.group.name}")
        if not np.array_equal(powers[0], generator(curve, which.group)):
            raise InvalidKey(f"{ptau.name}: {which.name} does not begin with the generator")
        taken.append(powers)
    g1, g2 = taken
    # Successive points have the same ratio, and it is that of the other group: as random combinations of all of them.
    low, high = _combinations(curve, Group.G1, g1, backend, rng)
    if not same_pairing(curve, (high, g2[0]), (low, g2[1])):
        raise InvalidKey(f"{ptau.name}: the points of {Powers.TAU_G1.name} are not the powers of one secret")
    low, high = _combinations(curve, Group.G2, g2, backend, rng)
    if not same_pairing(curve, (g1[0], high), (g1[1], low)):
        raise InvalidKey(f"{ptau.name}: the points of {Powers.TAU_G2.name} are not the powers of the secret")
    return g1, g2


def _combinations(
    curve: Curve, group: Group, powers: HostArray, backend: Backend, rng: Callable[[int], bytes]
) -> tuple[HostArray, HostArray]:
    """One random combination of all points but the last, and the same of all but the first."""
    factors = coefficients(curve, len(powers) - 1, rng)
    on_device = backend.to_device(powers)
    low, high = (combination(curve, group, on_device, factors, backend, start=start) for start in (0, 1))
    return low, high
