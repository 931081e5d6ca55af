"""Verification keys and proofs as values: checks at construction, plain-data encodings, digests."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, InvalidKey, InvalidProof
from distprove.formats import canonical
from distprove.groth16 import points
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254, CURVES, Group
from kernels.maths.encoding import point_from_ints, point_to_ints
from tests.support.simulated_proofs import OUTSIDE, Trapdoor, multiple, trapdoor

GROUP = {"alpha1": Group.G1, "beta2": Group.G2, "gamma2": Group.G2, "delta2": Group.G2}


@pytest.fixture(scope="module", params=CURVES, ids=lambda c: c.name)
def secret(request: pytest.FixtureRequest) -> Trapdoor:
    return trapdoor(request.param, 2)


@pytest.mark.parametrize("name", GROUP)
def test_keys_refuse_points_that_are_no_members(secret: Trapdoor, name: str) -> None:
    key, group = secret.key, GROUP[name]
    off = getattr(key, name).copy()
    off[0] ^= np.uint64(1)
    bad = [off, np.zeros_like(off)]  # infinity: under such a key false statements verify
    if (key.curve.name, group) in OUTSIDE:
        bad.append(point_from_ints(key.curve, group, OUTSIDE[key.curve.name, group]))
    for point in bad:
        with pytest.raises(InvalidKey, match=name):
            replace(key, **{name: point})


def test_keys_refuse_a_bad_input_point_and_name_it(secret: Trapdoor) -> None:
    ic = secret.key.ic.copy()
    ic[1, 0] ^= np.uint64(1)
    with pytest.raises(InvalidKey, match=r"ic\[1\]"):
        replace(secret.key, ic=ic)
    with pytest.raises(InvalidKey, match="constant 1"):
        replace(secret.key, ic=ic[:0])


def test_keys_and_proofs_refuse_other_shapes(secret: Trapdoor) -> None:
    key, proof = secret.key, secret.prove([1, 2], seed=0)
    for bad in (key.alpha1[:-1], key.alpha1.astype(np.int64), key.beta2, key.ic):
        with pytest.raises(InvalidKey, match="alpha1"):
            replace(key, alpha1=bad)
        with pytest.raises(InvalidProof, match="proof: a"):
            replace(proof, a=bad)


def test_a_key_cannot_be_changed_after_its_checks(secret: Trapdoor) -> None:
    mine = secret.key.ic.copy()
    key = replace(secret.key, ic=mine)
    mine[0, 0] ^= np.uint64(1)
    assert key == secret.key
    with pytest.raises(ValueError, match="read-only"):
        key.ic[0, 0] = 0


def test_plain_data_round_trips_through_messagepack(secret: Trapdoor) -> None:
    proof = secret.prove([1, 2], seed=0)
    infinite = replace(proof, c=np.zeros_like(proof.c))
    for value in (secret.key, proof, infinite):
        data = canonical.decode(canonical.encode(value.to_dict()), "value")
        assert type(value).from_dict(data) == value
        assert type(value).from_dict(data).to_dict() == data


@pytest.mark.parametrize("group", Group)
def test_the_fast_encoder_writes_the_same_bytes(secret: Trapdoor, group: Group) -> None:
    curve = secret.key.curve
    listed = np.stack([multiple(curve, group, k) for k in (1, 0, 7, -3)])  # infinity among them
    expected = b"".join(
        b"".join(v.to_bytes(curve.fq.bytes, "big") for v in reversed_pairs(group, point_to_ints(curve, group, point)))
        if np.any(point)
        else bytes(8 * curve.point_limbs(group))
        for point in listed
    )
    assert points.to_bytes(curve, group, listed) == expected
    with CpuBackend() as backend:
        assert b"".join(points.chunks_to_bytes(curve, group, listed, backend)) == expected
        as_mapped = listed.view(np.uint8).reshape(4, -1)
        assert b"".join(points.chunks_to_bytes(curve, group, as_mapped, backend)) == expected


def reversed_pairs(group: Group, coordinates: tuple[int, ...] | None) -> list[int]:
    """x, y of G1 as they are; of G2 the parts of each with c1 first."""
    assert coordinates is not None
    return list(coordinates) if group is Group.G1 else [coordinates[i] for i in (1, 0, 3, 2)]


def test_proofs_take_three_points_and_little_more(secret: Trapdoor) -> None:
    size = 8 * secret.key.curve.fq.bytes
    assert size < len(canonical.encode(secret.prove([1, 2], seed=0).to_dict())) < size + 40


def test_digests_tell_keys_apart(secret: Trapdoor) -> None:
    key, curve = secret.key, secret.key.curve
    others = [replace(key, **{name: multiple(curve, group, 5)}) for name, group in GROUP.items()]
    others += [replace(key, ic=key.ic[::-1]), replace(key, ic=key.ic[:2])]
    digests = {k.digest() for k in (key, *others)}
    assert len(digests) == len(others) + 1
    assert all(k != key for k in others)
    again = VerificationKey.from_dict(key.to_dict())
    assert again == key
    assert again.digest() == key.digest()
    assert hash(again) == hash(key)


def test_the_digest_is_the_documented_one() -> None:
    """Fixed bytes, so that no refactoring changes what keys are called."""
    generator = {g: multiple(BN254, g, 1) for g in Group}
    key = VerificationKey(
        BN254, generator[Group.G1], generator[Group.G2], generator[Group.G2], generator[Group.G2],
        np.stack([generator[Group.G1]] * 2),
    )  # fmt: skip
    g1 = b"".join(v.to_bytes(32, "big") for v in BN254.g1)
    (x0, x1), (y0, y1) = BN254.g2
    g2 = b"".join(v.to_bytes(32, "big") for v in (x1, x0, y1, y0))
    text = b"distprove/groth16/verification-key/1\0bn128\0" + (1).to_bytes(4, "big") + g1 + 3 * g2 + 2 * g1
    assert key.digest() == hashlib.sha256(text).digest()


def corruptions(data: dict[str, Any], point: str) -> list[dict[str, Any]]:
    raw = data[point]
    return [
        {},
        {k: v for k, v in data.items() if k != point},
        {**data, "extra": 1},
        {**data, "curve": "secp256k1"},
        {**data, "curve": "BN254"},
        {**data, "curve": 7},
        {**data, point: raw[:-1]},
        {**data, point: raw + b"\0"},
        {**data, point: raw + raw},
        {**data, point: b""},
        {**data, point: raw.hex()},
        {**data, point: b"\xff" * len(raw)},
    ]


@pytest.mark.parametrize("point", ["a", "b", "c"])
def test_malformed_proof_data_is_refused(secret: Trapdoor, point: str) -> None:
    for bad in [*corruptions(secret.prove([1, 2], seed=0).to_dict(), point), None, [], b"proof"]:
        with pytest.raises(FormatError) as alone:
            Groth16Proof.from_dict(bad)
        good = secret.prove([3, 4], seed=1).to_dict()
        with pytest.raises(FormatError) as among:
            Groth16Proof.from_dicts([good, bad, good])
        assert str(among.value) == str(alone.value)


def test_proofs_that_are_read_together_are_those_that_are_read_alone(secret: Trapdoor) -> None:
    each = [secret.prove([1, seed], seed=seed).to_dict() for seed in range(3)]
    assert Groth16Proof.from_dicts(each) == [Groth16Proof.from_dict(data) for data in each]
    assert Groth16Proof.from_dicts([]) == []
    longer, shorter = {**each[0], "a": each[0]["a"] + b"\0"}, {**each[1], "a": each[1]["a"][:-1]}
    with pytest.raises(FormatError, match=r"is 64 bytes, not 65|is 96 bytes, not 97"):
        Groth16Proof.from_dicts([longer, shorter])


@pytest.mark.parametrize("point", GROUP)
def test_malformed_key_data_is_refused(secret: Trapdoor, point: str) -> None:
    for bad in [*corruptions(secret.key.to_dict(), point), None, [], b"key"]:
        with pytest.raises(FormatError):
            VerificationKey.from_dict(bad)


def test_key_data_with_points_that_are_no_members_is_refused(secret: Trapdoor) -> None:
    data = secret.key.to_dict()
    for name in (*GROUP, "ic"):
        raw = bytearray(data[name])
        raw[-1] ^= 1
        with pytest.raises((InvalidKey, FormatError)):
            VerificationKey.from_dict({**data, name: bytes(raw)})
