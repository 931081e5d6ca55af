"""Verifies that a key is what a ceremony makes of a circuit and a powers-of-tau file, as `snarkjs zkey verify` does.

The key with delta = 1 is made again from the circuit and the file. All of it but delta, C and H must be the same. C and
H must be the same up to the last contribution's delta, which random linear combinations and a pairing show.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from distprove.errors import InvalidCeremony, InvalidKey
from distprove.groth16.beacon import AFFORDED_EXPONENT
from distprove.groth16.binfile import Bytes
from distprove.groth16.ceremony import ceremony_hash, check_ptau, initial_points
from distprove.groth16.combinations import coefficients, combination, same_pairing
from distprove.groth16.key import KeyPoints
from distprove.groth16.key_check import check_key
from distprove.groth16.phase2_check import Contributor, check_contributions
from distprove.groth16.ptau import read_ptau
from distprove.groth16.qap import Qap
from distprove.groth16.r1cs import R1cs
from distprove.groth16.zkey import ZKey, coefficient_records, read_zkey
from distprove.steps import Steps
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Group
from kernels.maths.encoding import generator

_ROWS_AT_ONCE = 1 << 18
"""Points that are compared at a time, which bounds temporaries to 48 MiB."""


@dataclass(frozen=True)
class VerifiedCeremony:
    """Public facts about a key that was verified."""

    curve: str
    constraints: int
    circuit_hash: bytes
    """64 bytes, from which the first contribution's transcript starts."""
    contributions: tuple[Contributor, ...]
    seconds: dict[str, float]
    """Wall time of each step in seconds."""


def verify_key(
    key: str | os.PathLike[str],
    r1cs: R1cs,
    ptau: str | os.PathLike[str],
    *,
    backend: Backend,
    most: int = AFFORDED_EXPONENT,
) -> VerifiedCeremony:
    """Verify a `.zkey` against its circuit and the powers-of-tau file that it was made from.

    The sections of the file must agree with each other, but its own contributions are not examined (`verify_ptau`
    does). Raises InvalidCeremony for a key that does not hold; CurveMismatch, InputError, FormatError or InvalidKey for
    a `.ptau` that cannot be used; TooMuchWork for beacons of more than 2^most iterations together.
    """
    steps = Steps()
    given, powers, qap = read_zkey(key), read_ptau(ptau), Qap.from_r1cs(r1cs)
    _check_sizes(given, qap)
    with steps("key"):
        try:
            check_key(given, backend)
            weakness = given.verification_key.weakness
        except InvalidKey as error:
            raise InvalidCeremony(str(error)) from error
        contributions = check_contributions(given, backend, most)
        if weakness is not None:
            raise InvalidCeremony(f"{given.name}: {weakness}")
    with steps("powers of tau"):
        check_ptau(qap, powers, backend)
    with steps("points"):
        initial = initial_points(qap, powers, backend)
    with steps("compare"):
        _check_same(given, initial)
        _check_coefficients(given, qap)
        _check_up_to_delta(given, initial, backend)
    with steps("hash"):
        circuit_hash = ceremony_hash(qap, initial, powers, backend)
    if given.ceremony[0] != circuit_hash:
        raise InvalidCeremony(f"{given.name}: the circuit hash is not that of this circuit and these powers of tau")
    return VerifiedCeremony(qap.curve.title, r1cs.n_constraints, circuit_hash, contributions, steps.seconds)


def _check_sizes(key: ZKey, qap: Qap) -> None:
    for what, found, expected in (
        ("curve", key.curve.title, qap.curve.title),
        ("number of wires", key.n_vars, qap.n_vars),
        ("number of public wires", key.n_public, qap.n_public),
        ("domain", key.domain_size, qap.domain_size),
    ):
        if found != expected:
            raise InvalidCeremony(f"{key.name}: of another circuit: the {what} is {found}, the circuit's {expected}")


def _check_same(key: ZKey, initial: KeyPoints) -> None:
    """Compare all points that no contribution changes."""
    for name in ("alpha1", "beta1", "beta2", "gamma2"):
        if not np.array_equal(getattr(key.points, name), getattr(initial, name)):
            origin = "the generator" if name == "gamma2" else "that of the powers of tau"
            raise InvalidCeremony(f"{key.name}: {name} is not {origin}")
    for title, found, expected in (
        ("IC", key.points.ic, initial.ic),
        ("A", key.points.a, initial.a),
        ("B1", key.points.b1, initial.b1),
        ("B2", key.points.b2, initial.b2),
    ):
        for first in range(0, len(expected), _ROWS_AT_ONCE):
            ours, theirs = (_bytes(each[first : first + _ROWS_AT_ONCE]) for each in (expected, found))
            wrong = np.flatnonzero((ours != theirs).any(axis=1))
            if wrong.size:
                raise InvalidCeremony(
                    f"{key.name}: point {first + wrong[0]} of section {title} is not that of the circuit and the powers"
                )


def _bytes(points: HostArray) -> Bytes:
    return np.ascontiguousarray(points).view(np.uint8).reshape(len(points), -1)


def _check_coefficients(key: ZKey, qap: Qap) -> None:
    wrong = f"{key.name}: the coefficients (section 4) are not the circuit's"
    if key.nnz != qap.a.nnz + qap.b.nnz:
        raise InvalidCeremony(wrong)
    first = 0
    for records in coefficient_records(qap.curve.fr, qap.a, qap.b):
        if key.coefficients[first : first + len(records)].tobytes() != records.tobytes():
            raise InvalidCeremony(wrong)
        first += len(records)


def _check_up_to_delta(key: ZKey, initial: KeyPoints, backend: Backend) -> None:
    """Check that delta times each point of C and H is that of the key with delta = 1."""
    curve = key.curve
    for title, found, expected in (("C", key.points.c, initial.c), ("H", key.points.h, initial.h)):
        if not len(expected):
            continue
        factors = coefficients(curve, len(expected))
        ours, theirs = (combination(curve, Group.G1, each, factors, backend) for each in (expected, found))
        if not same_pairing(curve, (theirs, key.points.delta2), (ours, generator(curve, Group.G2))):
            raise InvalidCeremony(
                f"{key.name}: points of section {title} are not those of the circuit and the powers, divided by delta"
            )
