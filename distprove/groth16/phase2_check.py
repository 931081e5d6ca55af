"""Verifies the contributions to a key's ceremony: each follows from the one before, by somebody who knew its factor.

    delta_0 = 1; for each contribution with sp = hash_to_g2(transcript):
    s : s x = sp : sp x         its maker knew x, and drew s before the transcript was known
    delta_before : delta_after = sp : sp x

A beacon's s and x are drawn again. snarkjs checks the same in zkey_verify_frominit.js. It also accepts ceremonies whose
delta everybody knows: without a contribution, with beacons alone, or with a factor of one. They are refused here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from distprove.errors import InputError, InvalidCeremony
from distprove.groth16.beacon import AFFORDED_EXPONENT, Beacon, require_affordable
from distprove.groth16.combinations import same_pairing
from distprove.groth16.hash_to_g2 import hash_to_g2
from distprove.groth16.phase2 import DeltaKey, contribution_hash, public_key_bytes
from distprove.groth16.points import Words, to_bytes
from distprove.groth16.vectors import finite
from distprove.groth16.zkey import BEACON, INSECURE_DEV_NAME, PERSON, Contribution, ZKey
from kernels.cpu.group import mul
from kernels.host.units import count_of
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator


@dataclass(frozen=True)
class Contributor:
    """A contribution that was verified."""

    number: int
    """Counted from 1."""
    name: str | None
    hash: bytes
    """64 bytes, which the contributor published."""
    beacon: Beacon | None
    """The public beacon whose contribution this is; None for a person's."""


def check_contributions(key: ZKey, backend: Backend, most: int = AFFORDED_EXPONENT) -> tuple[Contributor, ...]:
    """Check all contributions, and that the key's delta is that of the last one.

    The key's own points must have been checked (`check_key`). Raises InvalidCeremony, FormatError for a damaged section
    10, TooMuchWork for beacons of more than 2^most iterations together.
    """
    curve = key.curve
    circuit_hash, contributions = key.ceremony
    if circuit_hash is None:
        raise InvalidCeremony(f"{key.name}: the key has no section of contributions (section 10)")
    if key.insecure:
        raise InvalidCeremony(f"{key.name}: marked as {INSECURE_DEV_NAME!r}, a key without a ceremony")
    if all(one.kind == BEACON for one in contributions):
        count = f"only {count_of(len(contributions), 'public beacon')}" if contributions else "no contribution"
        raise InvalidCeremony(f"{key.name}: {count}: everybody knows delta, and can forge proofs under this key")
    require_affordable(key.name, (one.iterations_exponent for one in contributions if one.kind == BEACON), most)
    _check_points(key, contributions, backend)
    digest = hashlib.blake2b(circuit_hash)
    delta: Words = generator(curve, Group.G1)
    found = []
    for number, one in enumerate(contributions, 1):
        where = f"{key.name}: contribution {number}"
        ours = digest.copy()
        for point in (one.g1_s, one.g1_sx):
            ours.update(to_bytes(curve, Group.G1, point))
        if ours.digest() != one.transcript:
            raise InvalidCeremony(f"{where} does not follow from the circuit and the contributions before it")
        _check_factor(curve, one, delta, where)
        beacon = _checked_beacon(curve, one, where)
        digest.update(public_key_bytes(curve, one))
        delta = one.delta_after
        found.append(Contributor(number, one.name, contribution_hash(curve, one), beacon))
    if not np.array_equal(key.points.delta1, delta):
        raise InvalidCeremony(f"{key.name}: delta is not that of the last contribution")
    return tuple(found)


def _check_points(key: ZKey, contributions: tuple[Contribution, ...], backend: Backend) -> None:
    g1 = [point for one in contributions for point in (one.delta_after, one.g1_s, one.g1_sx)]
    for group, points in ((Group.G1, g1), (Group.G2, [one.g2_spx for one in contributions])):
        stacked = np.stack(points)
        each = len(points) // len(contributions)
        bad = backend.groups.check_points(key.curve, group, stacked)
        if bad is not None:
            raise InvalidCeremony(f"{key.name}: contribution {bad // each + 1} has a point that is not in {group.name}")
        infinite = np.flatnonzero(~finite(stacked))
        if infinite.size:
            raise InvalidCeremony(f"{key.name}: contribution {infinite[0] // each + 1} has a point at infinity")


def _check_factor(curve: Curve, one: Contribution, before: Words, where: str) -> None:
    sp = hash_to_g2(curve, one.transcript)
    if not same_pairing(curve, (one.g1_s, one.g2_spx), (one.g1_sx, sp)):
        raise InvalidCeremony(f"{where} does not prove that its maker knew the factor")
    if not same_pairing(curve, (before, one.g2_spx), (one.delta_after, sp)):
        raise InvalidCeremony(f"{where} does not multiply the delta before it by its factor")
    if np.array_equal(one.g1_s, one.g1_sx):
        raise InvalidCeremony(f"{where} has the factor 1, and adds nothing")


def _checked_beacon(curve: Curve, one: Contribution, where: str) -> Beacon | None:
    if one.kind == PERSON:
        return None
    if one.kind != BEACON or one.beacon is None or one.iterations_exponent is None:
        raise InvalidCeremony(f"{where} is neither a person's nor a whole beacon's")
    try:
        beacon = Beacon(one.beacon, one.iterations_exponent)
        expected = DeltaKey.of_beacon(curve, beacon.draws())
    except InputError as error:
        raise InvalidCeremony(f"{where}: {error}") from error
    multiple = mul(curve, Group.G1, expected.s, expected.factor)
    if not (np.array_equal(one.g1_s, expected.s) and np.array_equal(one.g1_sx, multiple)):
        raise InvalidCeremony(f"{where} is not that of the beacon {beacon.value.hex()}")
    return beacon
