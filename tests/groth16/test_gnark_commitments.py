"""Proofs of gnark's circuits with two commitments: those that gnark made hold, and no changed one does.

`tests/interop/gnark` made the files (`gnark commit CURVE DIR [HASH]`). The second commitment is hashed with a public
value and the first one's wire.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distprove.errors import CurveMismatch, FormatError, InputError, InvalidKey, InvalidProof
from distprove.groth16 import gnark
from distprove.groth16.committed.hashes import HASHES, expand_message_xmd
from distprove.groth16.committed.key import CommitmentKey, CommittedKey, CommittedProof, key_from_dict
from distprove.groth16.committed.names import NAMES
from distprove.groth16.committed.verifier import find_invalid_committed, verify_committed, verify_committed_batch
from kernels.cpu.group import add, neg
from kernels.maths.curves import BLS12_381, BN254, Curve, Group
from kernels.maths.encoding import generator, point_from_ints
from tests.cli.conftest import run

FILES = Path(__file__).parent / "gnark"
CURVES = {"bn254": BN254, "bls12-381": BLS12_381}


def committed(curve: str, folder: str = "commit") -> tuple[CommittedKey, tuple[int, ...], CommittedProof]:
    files = FILES / curve / folder
    key = gnark.parse_committed_key((files / "vk").read_bytes(), CURVES[curve])
    public = gnark.parse_public((files / "public").read_bytes(), CURVES[curve])
    return key, public, gnark.parse_committed_proof((files / "proof").read_bytes())


@pytest.mark.parametrize("curve", CURVES)
def test_a_proof_of_gnark_holds(curve: str) -> None:
    key, public, proof = committed(curve)
    assert (key.n_public, len(key.committed), key.weakness) == (2, 2, None)
    assert verify_committed(key, public, proof)
    raw = FILES / curve / "commit"
    assert gnark.parse_committed_key((raw / "vk.raw").read_bytes(), CURVES[curve]).digest() == key.digest()
    again = gnark.parse_committed_proof((raw / "proof.raw").read_bytes())
    assert again.proof == proof.proof
    assert np.array_equal(again.commitments, proof.commitments)


def changed(curve: Curve, proof: CommittedProof) -> Iterator[CommittedProof]:
    """Proofs whose points are members of their groups, and that say something else."""
    one = generator(curve, Group.G1)
    first, second = proof.commitments
    for commitments in ((second, first), (first, first), (neg(curve, Group.G1, first), second), (first, one)):
        yield replace(proof, commitments=np.stack(commitments))
    for knowledge in (one, neg(curve, Group.G1, proof.knowledge), point_from_ints(curve, Group.G1, None)):
        yield replace(proof, knowledge=knowledge)
    yield replace(proof, proof=replace(proof.proof, c=one))
    none = np.zeros_like(proof.commitments)
    yield CommittedProof(proof.proof, none, point_from_ints(curve, Group.G1, None))  # knows nothing, and shows it


@pytest.mark.parametrize("curve", CURVES)
def test_changed_proofs_do_not_hold(curve: str) -> None:
    key, public, proof = committed(curve)
    assert [verify_committed(key, public, each) for each in changed(CURVES[curve], proof)] == [False] * 9
    for place in range(2):
        assert not verify_committed(key, [v + (k == place) for k, v in enumerate(public)], proof)
    with pytest.raises(InvalidProof, match="1 public value,"):
        verify_committed(key, public[:1], proof)
    with pytest.raises(InvalidProof, match="1 commitment, and its key 2"):
        verify_committed(key, public, replace(proof, commitments=proof.commitments[:1]))
    off = proof.commitments.copy()
    off[1, 0] ^= np.uint64(1)
    with pytest.raises(InvalidProof, match="not a point"):
        verify_committed(key, public, replace(proof, commitments=off))


def test_a_changed_key_does_not_accept() -> None:
    key, public, proof = committed("bn254")
    wires, (one, other) = key.committed, key.commitment_keys
    negated = CommitmentKey(one.g, neg(BN254, Group.G2, one.g_sigma_neg))
    for bad in (
        replace(key, commitment_keys=(other, one)),
        replace(key, commitment_keys=(negated, other)),
        replace(key, committed=(wires[1][:1], wires[0])),
        replace(key, committed=(wires[0], wires[1][::-1])),
    ):
        assert bad.digest() != key.digest()
        assert not verify_committed(bad, public, proof)


def test_keys_that_bind_nothing_are_refused_or_named() -> None:
    key, _, _ = committed("bn254")
    one, other = key.commitment_keys
    none = point_from_ints(BN254, Group.G2, None)
    doubled = CommitmentKey(one.g_sigma_neg, one.g_sigma_neg)
    for keys in ((replace(one, g=none), other), (one, replace(other, g_sigma_neg=none)), (doubled, other)):
        with pytest.raises(InvalidKey):
            replace(key, commitment_keys=keys)
    for wires in (((0,), ()), ((3,), ()), ((), (4,))):  # the constant, the wire of itself
        with pytest.raises(InvalidKey, match="names a wire"):
            replace(key, committed=wires)
    with pytest.raises(InvalidKey, match="1 key of"):
        replace(key, commitment_keys=(one,))
    known = replace(key, commitment_keys=(CommitmentKey(one.g, neg(BN254, Group.G2, one.g)), other))
    assert "prove knowledge" in (known.weakness or "")


@pytest.mark.parametrize("curve", CURVES)
def test_a_batch_holds_only_as_a_whole(curve: str) -> None:
    key, public, proof = committed(curve)
    good = (public, proof)
    off = proof.commitments.copy()
    off[0, 0] ^= np.uint64(1)
    bad = [(public, each) for each in changed(CURVES[curve], proof)]
    malformed = [(public[:1], proof), (public, replace(proof, commitments=off))]
    assert verify_committed_batch(key, [])
    assert verify_committed_batch(key, [good] * 3)
    for each in bad:
        assert not verify_committed_batch(key, [good, each, good])
    for each in malformed:
        with pytest.raises(InvalidProof):
            verify_committed_batch(key, [good, each])
    assert find_invalid_committed(key, [good, bad[0], good, malformed[1], bad[7], good]) == [1, 3, 4]
    # Faults that cancel each other: without random coefficients the batch would hold.
    one = generator(CURVES[curve], Group.G1)
    shifts = [add(CURVES[curve], Group.G1, proof.knowledge, each) for each in (one, neg(CURVES[curve], Group.G1, one))]
    assert not verify_committed_batch(key, [(public, replace(proof, knowledge=each)) for each in shifts])
    other = committed("bn254" if curve == "bls12-381" else "bls12-381")
    with pytest.raises(CurveMismatch):
        verify_committed(key, *other[1:])


@pytest.mark.parametrize("curve", CURVES)
def test_keys_and_proofs_as_data_and_as_files(curve: str) -> None:
    """What is written is read as the same, and other data is refused as input."""
    key, _, proof = committed(curve)
    own = key_from_dict(replace(key, commitment_hash="sha256").to_dict())
    assert isinstance(own, CommittedKey)
    assert own.digest() == replace(key, commitment_hash="sha256").digest()
    written = gnark.parse_committed_key(gnark.format_verifying_key(key), CURVES[curve])
    assert written.digest() == key.digest()
    files = FILES / curve / "commit"
    assert gnark.format_proof(proof) == (files / "proof").read_bytes()
    again = CommittedProof.from_dict(proof.to_dict())
    assert gnark.format_proof(again) == gnark.format_proof(proof)
    told, said = key.to_dict(), proof.to_dict()
    for name, value in (
        *(("commitment_hash", "md5"), ("commitment_hash", b"")),
        *(("commitment_keys", []), ("commitment_keys", [b""] * 2), ("commitment_keys", [1, 2])),
        *(
            ("committed", [[0], []]),
            ("committed", [["1"], []]),
            ("committed", 1),
            ("committed", [[]] * 17),
            ("ic", b""),
        ),
    ):
        with pytest.raises(InputError):
            key_from_dict({**told, name: value})
    for name, value in (
        *(("commitments", b"1"), ("commitments", bytes(17 * 128)), ("knowledge", b""), ("knowledge", 1), ("a", b"")),
        ("more", b""),
    ):
        with pytest.raises(FormatError):
            CommittedProof.from_dict({**said, name: value})
    for data in (None, [], told):
        with pytest.raises(FormatError):
            CommittedProof.from_dict(data)


@pytest.mark.parametrize("made", ["keccak256", "sha256"])
def test_other_hashes_of_commitments(made: str) -> None:
    """As provers take for gnark's contracts."""
    key, public, proof = committed("bn254", f"commit-{made}")
    keys = {name: replace(key, commitment_hash=name) for name in HASHES}
    assert [name for name, each in keys.items() if verify_committed(each, public, proof)] == [made]
    assert len({each.digest() for each in keys.values()}) == len(HASHES)
    assert tuple(HASHES) == NAMES
    with pytest.raises(InvalidKey, match="hashed by rfc9380, keccak256, sha256 only"):
        replace(key, commitment_hash="md5")


def test_keys_without_commitments_are_their_own() -> None:
    """A key of a circuit without commitments has the digest that it has elsewhere."""
    files = FILES / "bn254"
    read = gnark.parse_committed_key((files / "vk").read_bytes(), BN254)
    assert read.digest() == gnark.parse_verifying_key((files / "vk").read_bytes(), BN254).digest()
    public = gnark.parse_public((files / "public").read_bytes(), BN254)
    proof = gnark.parse_committed_proof((files / "proof").read_bytes())
    assert verify_committed(read, public, proof)
    with pytest.raises(InvalidProof, match="1 commitment, and its key 0"):
        verify_committed(read, public, replace(proof, commitments=generator(BN254, Group.G1)[None]))
    with pytest.raises(InputError, match="only `gnark verify` and jobs"):
        gnark.parse_verifying_key((files / "commit" / "vk").read_bytes(), BN254)


@pytest.mark.parametrize("curve", CURVES)
def test_files_with_a_changed_byte(curve: str) -> None:
    """No file with a changed byte in the part for commitments holds, and each error is one of input."""
    key, public, _ = committed(curve)
    data = (FILES / curve / "commit" / "proof").read_bytes()
    point = (len(data) - 4) // 7
    for place in range(4 * point, len(data), 7):
        bad = bytearray(data)
        bad[place] ^= 1
        try:
            assert not verify_committed(key, public, gnark.parse_committed_proof(bytes(bad)))
        except (InputError, InvalidProof):
            continue


def test_expansion_gives_the_vectors_of_rfc_9380() -> None:
    """Appendix K.1."""
    domain = b"QUUX-V01-CS02-with-expander-SHA256-128"
    assert expand_message_xmd(b"", domain, 32).hex() == (
        "68a985b87eb6b46952128911f2a4412bbc302a9d759667f87f7a21d803f07235"
    )
    assert expand_message_xmd(b"abc", domain, 32).hex() == (
        "d8ccab23b5985ccea865c6c97b6e5b8350e794e603b4b97902f53a8a0d605615"
    )
    assert (
        expand_message_xmd(b"", domain, 128)
        .hex()
        .startswith("af84c27ccfd45d41914fdff5df25293e221afc53d8ad2ac06d5e3e29")
    )
    with pytest.raises(ValueError, match="expand_message_xmd"):
        expand_message_xmd(b"", domain, 256 * 32)


def test_the_command_verifies_them() -> None:
    files = FILES / "bn254" / "commit-keccak256"
    args = (files / "proof", "--vk", files / "vk", "--public", files / "public")
    done = run("gnark", "verify", *args, "--commitment-hash", "keccak256")
    assert done.exit_code == 0, done.output
    assert "commitments  2" in done.stdout
    assert run("gnark", "verify", *args).exit_code == 1
    assert run("gnark", "verify", *args, "--commitment-hash", "md5").exit_code == 2
