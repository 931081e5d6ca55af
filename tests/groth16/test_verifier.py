"""The verifier: what it accepts, what is false, what is malformed; alone and in batches."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distprove.errors import CurveMismatch, FormatError, InvalidProof
from distprove.groth16.export import export
from distprove.groth16.job_verifier import Groth16Verifier
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.snarkjs import format_verification_key
from distprove.groth16.verifier import find_invalid, verify, verify_batch
from distprove.proof import Proof, invalid_among, partition_digest
from distprove.system import PartitionProof
from distprove.verification import verify_proof
from kernels.cpu import group
from kernels.cpu.pairing import BY_BUCKETS
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from kernels.maths.encoding import pack, point_from_ints, unpack
from tests.support.simulated_proofs import OUTSIDE, Trapdoor, multiple, trapdoor

PUBLIC = [5, 0, 1]
GROUP = {"a": Group.G1, "b": Group.G2, "c": Group.G1}


@pytest.fixture(scope="module", params=CURVES, ids=lambda c: c.name)
def secret(request: pytest.FixtureRequest) -> Trapdoor:
    return trapdoor(request.param, len(PUBLIC))


@pytest.fixture(scope="module")
def proof(secret: Trapdoor) -> Groth16Proof:
    return secret.prove(PUBLIC, seed=1)


def with_point(proof: Groth16Proof, name: str, point: Words) -> Groth16Proof:
    changed: Groth16Proof = replace(proof, **{name: point})
    return changed


# -- one proof ---------------------------------------------------------------------------------------------------------


def test_a_valid_proof_is_accepted(secret: Trapdoor, proof: Groth16Proof) -> None:
    assert verify(secret.key, PUBLIC, proof) is True


def test_public_values_at_the_ends_of_the_field(secret: Trapdoor) -> None:
    r = secret.key.curve.fr.modulus
    for public in ([0, 0, 0], [r - 1, r - 1, r - 1]):
        assert verify(secret.key, public, secret.prove(public, seed=2))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_no_public_values(curve: Curve) -> None:
    secret = trapdoor(curve, 0)
    assert verify(secret.key, [], secret.prove([], seed=3))
    assert not verify(secret.key, [], trapdoor(curve, 0, seed=1).prove([], seed=3))


@pytest.mark.parametrize("index", range(len(PUBLIC)))
def test_another_public_value_is_false(secret: Trapdoor, proof: Groth16Proof, index: int) -> None:
    public = list(PUBLIC)
    public[index] = (public[index] + 1) % secret.key.curve.fr.modulus
    assert verify(secret.key, public, proof) is False


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_many_public_values(curve: Curve) -> None:
    """Their points are added up by buckets: none is left out; equal and opposite ones count too."""
    secret, rng, r = trapdoor(curve, BY_BUCKETS + 43), random.Random(5), curve.fr.modulus
    ic = [*secret.ic[:-2], secret.ic[0], r - secret.ic[0]]
    points = np.stack([*secret.key.ic[:-2], *(multiple(curve, Group.G1, k) for k in ic[-2:])])
    secret = replace(secret, ic=ic, key=replace(secret.key, ic=points))
    for public in ([rng.randrange(r) for _ in ic[1:]], [0] * len(ic[1:]), [r - 1] * len(ic[1:]), [7] * len(ic[1:])):
        proof = secret.prove(public, seed=6)
        assert verify(secret.key, public, proof) is True
        assert verify_batch(secret.key, [(public, proof), (public, secret.prove(public, seed=7))]) is True
    for index in range(0, len(public), 9):
        other = [*public[:index], (public[index] + 1) % r, *public[index + 1 :]]
        assert verify(secret.key, other, proof) is False
    assert verify_batch(secret.key, [(public, proof), (other, proof)]) is False


def test_public_values_in_another_order_are_false(secret: Trapdoor, proof: Groth16Proof) -> None:
    assert verify(secret.key, [PUBLIC[1], PUBLIC[0], PUBLIC[2]], proof) is False


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_another_member_in_place_of_a_point_is_false(secret: Trapdoor, proof: Groth16Proof, name: str) -> None:
    curve = secret.key.curve
    generator = multiple(curve, GROUP[name], 1)
    infinity = np.zeros_like(generator)
    for point in (generator, infinity, multiple(curve, GROUP[name], 12345)):
        assert verify(secret.key, PUBLIC, with_point(proof, name, point)) is False


def test_negated_points_are_false_alone_and_true_together(secret: Trapdoor, proof: Groth16Proof) -> None:
    curve = secret.key.curve
    minus_a, minus_c = (group.neg(curve, Group.G1, point) for point in (proof.a, proof.c))
    minus_b = group.neg(curve, Group.G2, proof.b)
    assert verify(secret.key, PUBLIC, with_point(proof, "a", minus_a)) is False
    assert verify(secret.key, PUBLIC, with_point(proof, "b", minus_b)) is False
    assert verify(secret.key, PUBLIC, with_point(proof, "c", minus_c)) is False
    # (-A, -B, C) is the same equation: Groth16 proofs are malleable, which the verifier neither can nor should refuse
    assert verify(secret.key, PUBLIC, with_point(with_point(proof, "a", minus_a), "b", minus_b)) is True


def test_a_proof_for_another_key_is_false(secret: Trapdoor, proof: Groth16Proof) -> None:
    assert verify(trapdoor(secret.key.curve, len(PUBLIC), seed=1).key, PUBLIC, proof) is False


def test_two_keys_that_differ_in_one_point_accept_different_proofs(secret: Trapdoor, proof: Groth16Proof) -> None:
    curve, key = secret.key.curve, secret.key
    for name, which in (("alpha1", Group.G1), ("beta2", Group.G2), ("gamma2", Group.G2), ("delta2", Group.G2)):
        other = replace(key, **{name: multiple(curve, which, 99)})
        assert verify(other, PUBLIC, proof) is False, name


# -- malformed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("public", [[], [5, 0], [5, 0, 1, 0]])
def test_the_wrong_number_of_public_values(secret: Trapdoor, proof: Groth16Proof, public: list[int]) -> None:
    with pytest.raises(InvalidProof, match="public values, the key has 3"):
        verify(secret.key, public, proof)


def test_public_values_outside_the_field(secret: Trapdoor, proof: Groth16Proof) -> None:
    r = secret.key.curve.fr.modulus
    for value in (r, 5 + r, -1, 5 - r, 1 << 256, 5 + (1 << 256), 5.5, "5", None):
        with pytest.raises(InvalidProof, match="public value 0 "):
            verify(secret.key, [value, 0, 1], proof)
        with pytest.raises(InvalidProof, match="statement 0: public value 0 "):
            verify_batch(secret.key, [([value, 0, 1], proof)])


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_points_off_the_curve(secret: Trapdoor, proof: Groth16Proof, name: str) -> None:
    point = getattr(proof, name)
    for word in (0, len(point) - secret.key.curve.fq.limbs):
        bad = point.copy()
        bad[word] ^= np.uint64(1)
        with pytest.raises(InvalidProof, match=f"{name.upper()} is not a point"):
            verify(secret.key, PUBLIC, with_point(proof, name, bad))


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_coordinates_written_with_the_modulus_added(secret: Trapdoor, proof: Groth16Proof, name: str) -> None:
    fq, point = secret.key.curve.fq, getattr(proof, name)
    for start in range(0, len(point), fq.limbs):
        bad = point.copy()
        (value,) = unpack(point[None, start : start + fq.limbs])
        bad[start : start + fq.limbs] = pack([value + fq.modulus], fq.limbs)[0]
        with pytest.raises(InvalidProof, match=f"{name.upper()} is not a point"):
            verify(secret.key, PUBLIC, with_point(proof, name, bad))


@pytest.mark.parametrize(("curve", "name"), [(BLS12_381, "a"), (BLS12_381, "b"), (BLS12_381, "c"), (BN254, "b")])
def test_points_outside_the_subgroup(curve: Curve, name: str) -> None:
    secret = trapdoor(curve, len(PUBLIC))
    proof = secret.prove(PUBLIC, seed=1)
    outside = point_from_ints(curve, GROUP[name], OUTSIDE[curve.name, GROUP[name]])
    bad = [outside]
    if GROUP[name] is Group.G1:
        # A + T with T of small order: the pairing alone would not see T
        bad.append(group.add(curve, Group.G1, getattr(proof, name), outside))
    for point in bad:
        with pytest.raises(InvalidProof, match=f"{name.upper()} is not a point"):
            verify(secret.key, PUBLIC, with_point(proof, name, point))


def test_the_other_curves_proofs() -> None:
    bn, bls = trapdoor(BN254, 1), trapdoor(BLS12_381, 1)
    with pytest.raises(CurveMismatch, match="over BLS12-381 under a key over BN254"):
        verify(bn.key, [1], bls.prove([1], seed=1))
    with pytest.raises(CurveMismatch, match="statement 1: "):
        verify_batch(bls.key, [([1], bls.prove([1], seed=1)), ([1], bn.prove([1], seed=1))])


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def statements(secret: Trapdoor) -> list[tuple[list[int], Groth16Proof]]:
    r = secret.key.curve.fr.modulus
    publics = [[i, r - 1 - i, i * i] for i in range(9)]
    return [(public, secret.prove(public, seed=i)) for i, public in enumerate(publics)]


def test_valid_batches_of_any_size(secret: Trapdoor, statements: list[tuple[list[int], Groth16Proof]]) -> None:
    for size in (0, 1, 2, 9):
        assert verify_batch(secret.key, statements[:size]) is True
    assert verify_batch(secret.key, [statements[0]] * 3) is True
    assert find_invalid(secret.key, statements) == []
    assert find_invalid(secret.key, []) == []


def test_one_false_among_many(secret: Trapdoor, statements: list[tuple[list[int], Groth16Proof]]) -> None:
    for place in (0, 4, 8):
        public, proof = statements[place]
        for bad in (([*public[:2], public[2] + 1], proof), (public, with_point(proof, "c", proof.a))):
            batch = [*statements[:place], bad, *statements[place + 1 :]]
            assert verify_batch(secret.key, batch) is False
            assert find_invalid(secret.key, batch) == [place]


def test_proofs_of_each_others_statements(secret: Trapdoor, statements: list[tuple[list[int], Groth16Proof]]) -> None:
    (p0, proof0), (p1, proof1) = statements[:2]
    batch = [(p0, proof1), (p1, proof0), *statements[2:]]
    assert verify_batch(secret.key, batch) is False
    assert find_invalid(secret.key, batch) == [0, 1]


def test_errors_that_cancel_do_not_pass(secret: Trapdoor, statements: list[tuple[list[int], Groth16Proof]]) -> None:
    curve = secret.key.curve
    (p0, proof0), (p1, proof1) = statements[:2]
    shift = multiple(curve, Group.G1, 7)
    batch = [
        (p0, with_point(proof0, "c", group.add(curve, Group.G1, proof0.c, shift))),
        (p1, with_point(proof1, "c", group.add(curve, Group.G1, proof1.c, group.neg(curve, Group.G1, shift)))),
    ]
    # With equal coefficients the two errors cancel: it is the randomness that catches them.
    assert verify_batch(secret.key, batch, rng=lambda n: b"\x01".ljust(16, b"\x00") * (n // 16)) is True
    assert verify_batch(secret.key, batch) is False
    assert find_invalid(secret.key, batch) == [0, 1]


def test_coefficients_have_128_bits_each(secret: Trapdoor, statements: list[tuple[list[int], Groth16Proof]]) -> None:
    asked: list[int] = []

    def rng(n: int) -> bytes:
        asked.append(n)
        return b"\xff" * n

    assert verify_batch(secret.key, statements, rng=rng) is True
    assert asked == [16 * len(statements)]
    public, proof = statements[1]
    bad = [statements[0], ([public[0] + 1, *public[1:]], proof)]
    for bit in (0, 63, 64, 127):  # every bit of a coefficient counts
        coefficients = bytes(16) + (1 << bit).to_bytes(16, "little")
        assert verify_batch(secret.key, bad, rng=lambda n, c=coefficients: c) is False


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_each_point_of_a_batch_is_checked(
    secret: Trapdoor, statements: list[tuple[list[int], Groth16Proof]], name: str
) -> None:
    public, proof = statements[3]
    off = getattr(proof, name).copy()
    off[0] ^= np.uint64(1)
    batch = [*statements[:3], (public, with_point(proof, name, off)), *statements[4:]]
    with pytest.raises(InvalidProof, match=f"statement 3: {name.upper()} is not a point"):
        verify_batch(secret.key, batch)


def test_malformed_statements_are_named(secret: Trapdoor, statements: list[tuple[list[int], Groth16Proof]]) -> None:
    public, proof = statements[2]
    off = proof.a.copy()
    off[0] ^= np.uint64(1)
    batch = [*statements[:2], (public, with_point(proof, "a", off)), statements[3], (public[:2], proof)]
    with pytest.raises(InvalidProof, match="statement 2: A is not a point"):
        verify_batch(secret.key, batch)
    batch[0] = (batch[0][0], batch[1][1])
    assert find_invalid(secret.key, batch) == [0, 2, 4]


def test_partition_proofs_are_told_apart(secret: Trapdoor, statements: list[tuple[list[int], Groth16Proof]]) -> None:
    verifier = Groth16Verifier(secret.key)
    proofs = [
        PartitionProof(f"p{i}", bytes(32), tuple(public), proof.to_dict())
        for i, (public, proof) in enumerate(statements)
    ]
    assert verifier.key_digest() == secret.key.digest()
    assert verifier.verify(proofs[0])
    assert verifier.verify_batch(proofs)
    assert invalid_among(verifier, proofs) == []
    unreadable = replace(proofs[5], data={**proofs[5].data, "a": b"short"})
    batch = [replace(proofs[0], public=proofs[1].public), *proofs[1:5], unreadable, *proofs[6:]]
    assert not verifier.verify(batch[0])
    assert verifier.find_invalid(batch) == [0, 5]
    assert invalid_among(verifier, batch) == [0, 5]


def test_the_default_randomness_is_the_systems(
    secret: Trapdoor, statements: list[tuple[list[int], Groth16Proof]]
) -> None:
    assert verify_batch.__defaults__ == (os.urandom,)
    assert find_invalid.__defaults__ == (os.urandom,)


# -- a proof file ------------------------------------------------------------------------------------------------------


def test_a_file_carries_no_other_key_than_the_one_it_was_verified_under(tmp_path: Path) -> None:
    """It was verified by --vk, and then exported with a key of somebody else's, or with none that could be read."""
    secret, other = trapdoor(BN254, len(PUBLIC)), trapdoor(BN254, len(PUBLIC), seed=9)
    key = tmp_path / "verification_key.json"
    key.write_text(format_verification_key(secret.key))
    digest = secret.key.digest()
    part = PartitionProof("p", b"", tuple(PUBLIC), secret.prove(PUBLIC, seed=1).to_dict())
    part = replace(part, digest=partition_digest(digest, 0, part.name, part.public))
    good = Proof("groth16", digest, secret.key.to_dict(), (part,))
    assert verify_proof(good, key).key_given
    for carried in (other.key.to_dict(), {}, {**secret.key.to_dict(), "more": 1}):
        file = replace(good, verification_key=carried)
        read = Proof.from_bytes(file.to_bytes())  # anyone can make the digests right
        with pytest.raises((InvalidProof, FormatError)):
            verify_proof(read, key)
        with pytest.raises((InvalidProof, FormatError)):
            export(read, tmp_path / "out")
    assert not (tmp_path / "out").exists()
