"""Verifies a powers-of-tau file, as `snarkjs powersoftau verify` does.

1. Every point is in its group.
2. Each contribution follows from the one before, by somebody who knew its factors of tau, alpha and beta.
3. The sections are the powers of the last contribution's secrets: the ratio of neighbours is tau, for a random
   combination of all of them.
4. The last contribution's hashes are those of the sections. A file that was cut from a larger one has other ones.
5. The Lagrange bases of a prepared file have the values of random polynomials at tau that the powers have.

snarkjs also accepts a ceremony of beacons alone, whose secrets everybody knows. It is refused here, and so is a factor
of one. Random coefficients have 128 bits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from distprove.errors import FormatError, InputError, InvalidCeremony
from distprove.groth16.beacon import AFFORDED_EXPONENT, Beacon, require_affordable
from distprove.groth16.combinations import coefficients, combination, is_next_power, same_pairing
from distprove.groth16.points import Words, chunks_to_bytes, chunks_to_compressed
from distprove.groth16.ptau import MAX_POWER, Powers, Ptau, read_ptau
from distprove.groth16.ptau_contributions import (
    Heads,
    PtauContribution,
    Secret,
    drawn_keys,
    first_challenge,
    keys_bytes,
    read_contributions,
    second_base,
)
from distprove.groth16.vectors import finite
from distprove.groth16.zkey import BEACON, PERSON
from distprove.steps import Steps
from kernels.cpu.group import add, neg
from kernels.host.units import count_of
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator

_ROWS_AT_ONCE = 1 << 24
"""Points that are checked at a time."""


@dataclass(frozen=True)
class PtauContributor:
    """A contribution that was verified."""

    number: int
    """Counted from 1."""
    name: str | None
    response: bytes
    """The response's hash, 64 bytes, which the contributor published."""
    next_challenge: bytes | None
    """The hash of the file after this contribution, 64 bytes; None where it is not compared with the file, so that
    whoever made the file chose it."""
    beacon: Beacon | None


@dataclass(frozen=True)
class VerifiedPowers:
    """Public facts about a powers-of-tau file that was verified."""

    curve: str
    power: int
    ceremony_power: int
    """More than `power` if the file was cut from a larger one. The last hashes cannot be compared then."""
    prepared: bool
    contributions: tuple[PtauContributor, ...]
    seconds: dict[str, float]
    """Wall time of each step in seconds."""


def verify_ptau(path: str | os.PathLike[str], *, backend: Backend, most: int = AFFORDED_EXPONENT) -> VerifiedPowers:
    """Verify a `.ptau` file, prepared or not.

    Raises InvalidCeremony for a file that does not hold, FormatError for one that is malformed, TooMuchWork for beacons
    of more than 2^most iterations together.
    """
    ptau = read_ptau(path)
    if not ptau.power <= ptau.ceremony_power <= MAX_POWER:
        raise FormatError(f"{ptau.name}: of a ceremony of 2^{ptau.ceremony_power}, with powers up to 2^{ptau.power}")
    steps, contributions = Steps(), read_contributions(ptau)
    with steps("points"):
        _check_points(ptau, backend)
    with steps("contributions"):
        found = _check_contributions(ptau, contributions, backend, most)
    with steps("powers"):
        _check_powers(ptau, contributions[-1].heads, backend)
    if ptau.power == ptau.ceremony_power:
        with steps("hashes"):
            _check_hashes(ptau, contributions, backend)
    if ptau.prepared:
        with steps("Lagrange bases"):
            for which in Powers:
                _check_lagrange(ptau, which, backend)
    return VerifiedPowers(ptau.curve.title, ptau.power, ptau.ceremony_power, ptau.prepared, found, steps.seconds)


def _sections(ptau: Ptau) -> Iterator[tuple[str, Group, HostArray]]:
    """The vectors of points that a contribution changes, in the order in which they are hashed."""
    for which in Powers:
        yield which.name, which.group, ptau.powers(which)
    yield "beta G2", Group.G2, ptau.beta_g2


def _check_points(ptau: Ptau, backend: Backend) -> None:
    vectors = list(_sections(ptau))
    if ptau.prepared:
        vectors += [(f"Lagrange {which.name}", which.group, ptau.all_lagrange(which)) for which in Powers]
    for title, group, points in vectors:
        for first in range(0, len(points), _ROWS_AT_ONCE):
            bad = backend.groups.check_points(ptau.curve, group, points[first : first + _ROWS_AT_ONCE])
            if bad is not None:
                raise InvalidCeremony(f"{ptau.name}: point {first + bad} of {title} is not in {group.name}")


def _check_contributions(
    ptau: Ptau, contributions: tuple[PtauContribution, ...], backend: Backend, most: int
) -> tuple[PtauContributor, ...]:
    curve = ptau.curve
    if all(one.kind == BEACON for one in contributions):
        count = f"only {count_of(len(contributions), 'public beacon')}" if contributions else "no contribution"
        raise InvalidCeremony(f"{ptau.name}: {count}: everybody knows tau, alpha and beta")
    require_affordable(ptau.name, (one.iterations_exponent for one in contributions if one.kind == BEACON), most)
    _check_contributed_points(ptau, contributions, backend)
    heads, challenge = Heads.initial(curve), first_challenge(curve, ptau.ceremony_power)
    found = []
    for number, one in enumerate(contributions, 1):
        where = f"{ptau.name}: contribution {number}"
        beacon = _checked_beacon(curve, one, challenge, where)
        _check_factors(curve, one, heads, challenge, where)
        try:
            response = one.response(curve)
        except ValueError as error:
            raise InvalidCeremony(f"{where} has a damaged hash: {error}") from None
        compared = number == len(contributions) and ptau.power == ptau.ceremony_power
        found.append(PtauContributor(number, one.name, response, one.next_challenge if compared else None, beacon))
        heads, challenge = one.heads, one.next_challenge
    return tuple(found)


def _check_contributed_points(ptau: Ptau, contributions: tuple[PtauContribution, ...], backend: Backend) -> None:
    for number, one in enumerate(contributions, 1):
        heads, keys = one.heads, one.keys.values()
        g1 = [heads.tau1, heads.alpha1, heads.beta1, *(p for key in keys for p in (key.g1_s, key.g1_sx))]
        g2 = [heads.tau2, heads.beta2, *(key.g2_spx for key in keys)]
        for group, points in ((Group.G1, np.stack(g1)), (Group.G2, np.stack(g2))):
            where = f"{ptau.name}: contribution {number} has a point"
            if backend.groups.check_points(ptau.curve, group, points) is not None:
                raise InvalidCeremony(f"{where} that is not in {group.name}")
            if not finite(points).all():
                raise InvalidCeremony(f"{where} at infinity")


def _check_factors(curve: Curve, one: PtauContribution, before: Heads, challenge: bytes, where: str) -> None:
    """Check that the maker of a contribution knew its three factors, and that they lead from the heads before it to
    its own."""
    after = one.heads
    for secret, first, second in (
        (Secret.TAU, (before.tau1, after.tau1), (before.tau2, after.tau2)),
        (Secret.ALPHA, (before.alpha1, after.alpha1), None),
        (Secret.BETA, (before.beta1, after.beta1), (before.beta2, after.beta2)),
    ):
        key, name = one.keys[secret], secret.name.lower()
        sp = second_base(curve, secret, challenge, key.g1_s, key.g1_sx)
        if not same_pairing(curve, (key.g1_s, key.g2_spx), (key.g1_sx, sp)):
            raise InvalidCeremony(f"{where} does not prove that its maker knew the factor of {name}")
        follows = same_pairing(curve, (first[0], key.g2_spx), (first[1], sp))
        if second is not None:
            follows = follows and same_pairing(curve, (key.g1_s, second[1]), (key.g1_sx, second[0]))
        if not follows:
            raise InvalidCeremony(f"{where} does not multiply the {name} before it by its factor")
        if np.array_equal(key.g1_s, key.g1_sx):
            raise InvalidCeremony(f"{where} has the factor 1 for {name}, and adds nothing")


def _checked_beacon(curve: Curve, one: PtauContribution, challenge: bytes, where: str) -> Beacon | None:
    if one.kind == PERSON:
        return None
    if one.kind != BEACON or one.beacon is None or one.iterations_exponent is None:
        raise InvalidCeremony(f"{where} is neither a person's nor a whole beacon's")
    try:
        beacon = Beacon(one.beacon, one.iterations_exponent)
    except InputError as error:
        raise InvalidCeremony(f"{where}: {error}") from error
    _, keys = drawn_keys(curve, challenge, beacon.draws())
    if keys_bytes(curve, keys) != keys_bytes(curve, one.keys):
        raise InvalidCeremony(f"{where} is not that of the beacon {beacon.value.hex()}")
    return beacon


def _check_powers(ptau: Ptau, heads: Heads, backend: Backend) -> None:
    """Check that the sections are the powers of the secrets that the last contribution left."""
    curve = ptau.curve
    one, two = generator(curve, Group.G1), generator(curve, Group.G2)
    for which, first, title in (
        (Powers.TAU_G1, (one, heads.tau1), "1 and tau"),
        (Powers.TAU_G2, (two, heads.tau2), "1 and tau"),
        (Powers.ALPHA_TAU_G1, (heads.alpha1,), "alpha"),
        (Powers.BETA_TAU_G1, (heads.beta1,), "beta"),
    ):
        points, group = ptau.powers(which), which.group
        if points[: len(first)].tobytes() != b"".join(point.tobytes() for point in first[: len(points)]):
            raise InvalidCeremony(f"{ptau.name}: {which.name} does not begin with {title} of the last contribution")
        factors = coefficients(curve, len(points) - 1)
        if not len(factors):
            continue
        low, high = (combination(curve, group, points, factors, backend, start=start) for start in (0, 1))
        if group is Group.G1:
            holds = same_pairing(curve, (high, two), (low, heads.tau2))
        else:
            holds = same_pairing(curve, (one, high), (heads.tau1, low))
        if not holds:
            raise InvalidCeremony(f"{ptau.name}: the points of {which.name} are not the powers of tau")
    if ptau.beta_g2[0].tobytes() != heads.beta2.tobytes():
        raise InvalidCeremony(f"{ptau.name}: beta G2 is not that of the last contribution")


def _check_hashes(ptau: Ptau, contributions: tuple[PtauContribution, ...], backend: Backend) -> None:
    """Check that the last contribution's hashes are those of the sections. snarkjs does not compare the first."""
    curve, last = ptau.curve, contributions[-1]
    challenge = contributions[-2].next_challenge if len(contributions) > 1 else first_challenge(curve, ptau.power)
    response = hashlib.blake2b(challenge)
    for _, group, points in _sections(ptau):
        for part in chunks_to_compressed(curve, group, points, backend):
            response.update(part)
    response.update(keys_bytes(curve, last.keys))
    if response.digest() != last.response(curve):
        raise InvalidCeremony(f"{ptau.name}: the response hash of the last contribution is not that of the sections")
    digest = hashlib.blake2b(response.digest())
    for _, group, points in _sections(ptau):
        for encoded in chunks_to_bytes(curve, group, points, backend):
            digest.update(encoded)
    if digest.digest() != last.next_challenge:
        raise InvalidCeremony(f"{ptau.name}: the next challenge is not the hash of the sections")


def _check_lagrange(ptau: Ptau, which: Powers, backend: Backend) -> None:
    """Check the Lagrange bases of all domains of one sequence by a random polynomial each."""
    curve, group, powers = ptau.curve, which.group, ptau.powers(which)
    for log_n in range(ptau.power + (2 if which is Powers.TAU_G1 else 1)):
        n = 1 << log_n
        factors: Words = coefficients(curve, n)
        values = backend.to_host(backend.vectors.ntt(curve.fr, backend.to_device(factors.copy())))
        found = combination(curve, group, ptau.lagrange(which, log_n), values, backend)
        rest = add(
            curve, group, found, neg(curve, group, combination(curve, group, powers, factors[: len(powers)], backend))
        )
        if n > len(powers):  # the largest domain has one point more than there are powers of tau
            tau2 = ptau.powers(Powers.TAU_G2)[1].view("<u8")
            agrees = is_next_power(curve, rest, factors[n - 1 :], powers[-1].view("<u8"), tau2)
        else:
            agrees = not rest.any()
        if not agrees:
            raise InvalidCeremony(
                f"{ptau.name}: the Lagrange basis of {which.name} for 2^{log_n} points is not that of the powers"
            )
