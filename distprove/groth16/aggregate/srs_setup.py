"""Makes the keys of aggregation: from two powers-of-tau files, from bellperson's file of both, or for development.

That two ceremonies are independent cannot be computed. Refused is what shows that they are not: secrets that are equal
or inverse, one that is a power of the other within the keys, all these with either sign, and files that share a
contribution, since a later contributor of one ceremony would know the ratio of the two secrets, and could open
commitments in two ways. Refused is also a secret whose powers repeat themselves within the keys: it has a small order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distprove.errors import CurveMismatch, InputError, InvalidKey
from distprove.groth16.aggregate.generic_srs import GenericSrs
from distprove.groth16.aggregate.keys import powers_of
from distprove.groth16.aggregate.srs import Srs, size_for
from distprove.groth16.combinations import coefficients, combination, same_pairing
from distprove.groth16.phase2 import random_scalar
from distprove.groth16.ptau import Powers, Ptau
from kernels.cpu.group import neg
from kernels.host.units import count_of
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator, scalars_from_ints


def srs_from_ceremonies(alpha: Ptau, beta: Ptau, proofs: int, backend: Backend) -> Srs:
    """The keys for up to `proofs` proofs, every point of which is checked.

    Raises CurveMismatch, InvalidKey, InputError for files that are too small, UsageError.
    """
    n, curve = size_for(proofs), alpha.curve
    if beta.curve is not curve:
        raise CurveMismatch(f"{alpha.name} is over {curve.title}, {beta.name} over {beta.curve.title}")
    shared = {*alpha.contributions()} & {*beta.contributions()}
    if shared:
        raise InvalidKey(
            f"{alpha.name} and {beta.name} share {count_of(len(shared), 'contribution')}: they are of one ceremony"
        )
    return _srs_of(curve, _taken(alpha, n), _taken(beta, n), backend)


def srs_from_generic(generic: GenericSrs, backend: Backend) -> Srs:
    """The keys of bellperson's file, every point of which is checked. It does not tell of its ceremonies, so nothing
    here compares them. Raises InvalidKey."""
    alpha, beta = (
        _Powers(f"{generic.name}: {title}", generic.g1[i], generic.g2[i]) for i, title in enumerate(("alpha", "beta"))
    )
    return _srs_of(generic.curve, alpha, beta, backend)


def insecure_srs(curve: Curve, proofs: int, backend: Backend) -> Srs:
    """Keys with fresh secrets that this process knew, marked as such. Raises UsageError."""
    n = size_for(proofs)

    def points(group: Group, secret: int, count: int) -> HostArray:
        scalars = backend.to_device(scalars_from_ints(curve.fr, powers_of(secret, count, curve.fr.modulus)))
        return backend.to_host(backend.groups.fixed_base(curve, group, generator(curve, group), scalars))

    alpha, beta = random_scalar(curve), random_scalar(curve)
    g1 = points(Group.G1, alpha, 2 * n), points(Group.G1, beta, 2 * n)
    return Srs(curve, n, True, g1, (points(Group.G2, alpha, n), points(Group.G2, beta, n)))


@dataclass(frozen=True)
class _Powers:
    """Powers of a secret from the 0th on as a file has them: 2n in G1 and n in G2, (count, point_limbs)."""

    name: str
    g1: HostArray
    g2: HostArray


def _taken(ptau: Ptau, n: int) -> _Powers:
    """The powers of the file's secret that n proofs take. Raises InputError for too few."""
    taken: list[HostArray] = []
    for which, count in ((Powers.TAU_G1, 2 * n), (Powers.TAU_G2, n)):
        found = ptau.powers(which)
        if len(found) < count:
            raise InputError(
                f"{ptau.name}: powers of tau up to 2^{ptau.power} are too few: "
                f"{count_of(n, 'proof takes', 'proofs take')} 2^{n.bit_length()}"
            )
        taken.append(np.array(found[:count], order="C").view("<u8"))  # the file may change while it is mapped
    return _Powers(ptau.name, *taken)


def _srs_of(curve: Curve, alpha: _Powers, beta: _Powers, backend: Backend) -> Srs:
    """The keys of two secrets, every point of which is checked. Raises InvalidKey."""
    n = len(alpha.g2)
    for secret in (alpha, beta):
        _check(curve, secret, backend)
    own = [{row.tobytes() for row in secret.g1} for secret in (alpha, beta)]
    for secret, different in zip((alpha, beta), own, strict=True):
        if len(different) < 2 * n:
            raise InvalidKey(f"{secret.name}: the first {count_of(2 * n, 'power')} of its secret are not different")
    own = [others - {secret.g1[1].tobytes()} for others, secret in zip(own, (alpha, beta), strict=True)]
    for secret, others in ((beta, own[0]), (alpha, own[1])):
        if not others.isdisjoint((secret.g1[1].tobytes(), neg(curve, Group.G1, secret.g1[1]).tobytes())):
            raise InvalidKey(
                f"the secret of {beta.name} or its negative is a power of that of {alpha.name}, or the other way round"
            )
    srs = Srs(curve, n, False, (alpha.g1, beta.g1), (alpha.g2, beta.g2))
    srs.verifier  # noqa: B018 (refuses secrets that do not belong together)
    return srs


def _check(curve: Curve, secret: _Powers, backend: Backend) -> None:
    """Raise InvalidKey unless these are the powers of one secret, members of their groups, from the generators on."""
    g1, g2 = secret.g1, secret.g2
    for group, powers in ((Group.G1, g1), (Group.G2, g2)):
        bad = backend.groups.check_points(curve, group, powers)
        if bad is not None:
            raise InvalidKey(f"{secret.name}: point {bad} of the powers is not in {group.name}")
        if not np.array_equal(powers[0], generator(curve, group)):
            raise InvalidKey(f"{secret.name}: the powers in {group.name} do not begin with the generator")
    # Successive points have the same ratio, and it is that of the other group: as random combinations of all of them.
    low, high = _combinations(curve, Group.G1, g1, backend)
    if not same_pairing(curve, (high, g2[0]), (low, g2[1])):
        raise InvalidKey(f"{secret.name}: the points in G1 are not the powers of one secret")
    low, high = _combinations(curve, Group.G2, g2, backend)
    if not same_pairing(curve, (g1[0], high), (g1[1], low)):
        raise InvalidKey(f"{secret.name}: the points in G2 are not the powers of the secret")


def _combinations(curve: Curve, group: Group, powers: HostArray, backend: Backend) -> tuple[HostArray, HostArray]:
    """One random combination of all points but the last, and the same of all but the first."""
    factors = coefficients(curve, len(powers) - 1)
    on_device = backend.to_device(powers)
    low, high = (combination(curve, group, on_device, factors, backend, start=start) for start in (0, 1))
    return low, high
