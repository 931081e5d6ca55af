"""Guests in C give what Python computes by other means, for random inputs."""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
from collections import Counter
from pathlib import Path

import pytest
from Crypto.Hash import keccak
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc import bls12_381, bn128
from py_ecc.secp256k1 import secp256k1

from distprove.stark.riscv.elf import Elf, read_elf
from distprove.stark.riscv.executor import Execution, Inputs, Outcome, Trap
from tests.support.curve_points import (
    ED25519_BASE,
    ED25519_ORDER,
    ed25519_pairs,
    edwards_decoded,
    edwards_encoded,
    edwards_multiple,
    edwards_sum,
    p256_points,
    pairing_points,
    secp256k1_points,
    small_edwards_points,
)

GUESTS = Path(__file__).parent / "guests"
WORD = 1 << 32


def guest(name: str) -> Elf:
    return read_elf(GUESTS / f"{name}.elf")


def run(elf: Elf, private: bytes = b"", public: bytes = b"") -> Outcome:
    return Execution(elf, Inputs(private, public), max_cycles=1 << 28).run()


def words(output: bytes) -> list[int]:
    return [word for (word,) in struct.iter_unpack("<I", output)]


@pytest.mark.parametrize("n", [0, 1, 2, 47, 48, 10_000])
def test_fibonacci(n: int) -> None:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, (a + b) % WORD
    outcome = run(guest("fibonacci"), public=struct.pack("<I", n))
    assert (outcome.exit_code, words(outcome.output)) == (0, [a])


@pytest.mark.parametrize("count", [0, 1, 2, 13, 500, 20_000])
@pytest.mark.parametrize("most", [3, WORD - 1])
def test_quicksort(count: int, most: int) -> None:
    rng = random.Random(count + most)
    values = [rng.randint(0, most) for _ in range(count)]
    total = 0
    for value in sorted(values):
        total = (31 * total + value) % WORD
    assert words(run(guest("quicksort"), struct.pack(f"<{count}I", *values)).output) == [count, total]


@given(st.binary(max_size=400))
@settings(max_examples=40, deadline=None)
def test_hashes(message: bytes) -> None:
    assert {run(elf, message).output for elf in SHA256} == {hashlib.sha256(message).digest()}
    assert {run(elf, message).output for elf in KECCAK} == {keccak.new(data=message, digest_bits=256).digest()}


SHA256 = [guest(name) for name in ("sha256", "sha256_block", "sha256_block64")]
KECCAK = [guest(name) for name in ("keccak", "keccak_f", "keccak_f64")]
JSON = guest("json")


@pytest.mark.parametrize("size", [55, 56, 63, 64, 135, 136, 137, 100_000])
def test_hashes_at_the_edges_of_blocks(size: int) -> None:
    message = random.Random(size).randbytes(size)
    assert {run(elf, message).output for elf in SHA256} == {hashlib.sha256(message).digest()}
    assert {run(elf, message).output for elf in KECCAK} == {keccak.new(data=message, digest_bits=256).digest()}


def seen(value: object, found: list[int], depth: int = 1) -> None:
    """Add up what guests/json.c counts of a value."""
    found[5] = max(found[5], depth)
    if isinstance(value, dict):
        found[0] += 1
        for name, member in value.items():
            seen(name, found, depth)
            seen(member, found, depth + 1)
    elif isinstance(value, list):
        found[1] += 1
        for member in value:
            seen(member, found, depth + 1)
    elif isinstance(value, str):
        found[2] += 1
        for byte in value.encode("utf-8", "surrogatepass"):
            found[7] = (31 * found[7] + byte) % WORD
    elif value is None or isinstance(value, bool):
        found[4] += 1
    else:
        found[3] += 1
        if isinstance(value, int):
            found[6] = (found[6] + value) % WORD


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans(), st.sampled_from([None, 0, 3]))
@settings(max_examples=150, deadline=None)
def test_json(value: object, ascii_only: bool, indent: int | None) -> None:
    found = [0] * 8
    seen(value, found)
    outcome = run(JSON, json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode())
    assert (outcome.exit_code, words(outcome.output)) == (0, found)


@given(VALUES, st.integers(0), st.sampled_from(list(b'{}[]",:\\u0x1e-. \n')))
@settings(max_examples=150, deadline=None)
def test_what_is_no_json(value: object, place: int, byte: int) -> None:
    text = bytearray(json.dumps(value).encode())
    text[place % len(text)] = byte
    try:
        json.loads(text, parse_constant=lambda name: 1 / 0)
        valid = True
    except (ValueError, ZeroDivisionError):
        valid = False
    assert run(JSON, bytes(text)).exit_code == (0 if valid else 1)


@given(st.text(st.sampled_from("aab \n\té") | st.characters(codec="utf-8"), max_size=300))
@settings(max_examples=100, deadline=None)
def test_words_in_rust(text: str) -> None:
    """A guest in Rust, with a heap."""
    found = Counter(re.findall(rb"[^ \t\n\f\r]+", text.encode()))
    most = min(found, key=lambda word: (-found[word], word), default=b"")
    outcome = run(WORDS, text.encode())
    assert outcome.exit_code == 0
    assert words(outcome.output[:16]) == [found.total(), len(found), found[most], len(most)]
    assert outcome.output[16:] == most + bytes(-len(most) % 4)
    assert run(WORDS, text.encode() + b"\xff").exit_code == 1


WORDS = guest("words")


@pytest.mark.parametrize(
    "name", ["ecdsa", "ecdsa_modular", "ecdsa_points", "ecdsa64", "ecdsa_modular64", "ecdsa_points64"]
)
def test_ecdsa(name: str) -> None:
    rng, ecdsa = random.Random(4), guest(name)
    order, prime = secp256k1.N, secp256k1.P
    for case in range(3):
        good = signature(rng)
        digest, x, y, r, s = good
        assert verified(ecdsa, good)
        assert verified(ecdsa, [*good[:4], order - s])  # its twin
        place = (case, rng.randrange(256))
        assert not verified(ecdsa, [v ^ (i == place[0]) << place[1] for i, v in enumerate(good)])
        assert not verified(ecdsa, [*good[:3], r ^ 1, s])
        assert not verified(ecdsa, [*good[:4], s ^ 1])
        assert not verified(ecdsa, [digest, x, prime - y, r, s])
        assert not verified(ecdsa, [*good[:3], 0, s])
        assert not verified(ecdsa, [*good[:4], 0])
        if r + order < 1 << 256:
            assert not verified(ecdsa, [*good[:3], r + order, s])


def signature(rng: random.Random) -> list[int]:
    """A digest, a public key, and a signature of the one under the other."""
    order = secp256k1.N
    secret, nonce, digest = rng.randrange(1, order), rng.randrange(1, order), rng.getrandbits(256)
    x, y = secp256k1.multiply(secp256k1.G, secret)
    r = secp256k1.multiply(secp256k1.G, nonce)[0] % order
    return [digest, x, y, r, pow(nonce, -1, order) * (digest + r * secret) % order]


def verified(ecdsa: Elf, numbers: list[int]) -> bool:
    outcome = run(ecdsa, public=b"".join(number.to_bytes(32, "big") for number in numbers))
    assert outcome.exit_code == 0
    (answer,) = words(outcome.output)
    return bool(answer)


def test_cycles_with_calls_that_compute() -> None:
    """SHA-256 of 256 KiB takes 23.1 million cycles without them, and a signature 13.3 million."""
    message = random.Random(1).randbytes(1 << 18)
    hashed = run(guest("sha256_block"), message)
    assert hashed.output == hashlib.sha256(message).digest()
    assert hashed.cycles < 450_000
    public = b"".join(number.to_bytes(32, "big") for number in signature(random.Random(4)))
    checked = run(guest("ecdsa_modular"), public=public)
    assert words(checked.output) == [1]
    assert checked.cycles < 150_000
    checked = run(guest("ecdsa_points"), public=public)
    assert words(checked.output) == [1]
    assert checked.cycles < 35_000


@given(st.integers(1, (1 << 256) - 1), st.integers(0), st.integers(0, (1 << 256) - 1), st.binary(max_size=200))
@settings(max_examples=30, deadline=None)
def test_calls_that_compute_in_rust(modulus: int, x: int, added: int, message: bytes) -> None:
    numbers = modulus, x % modulus, added
    given = b"".join(number.to_bytes(32, "little") for number in numbers) + message
    outcome, wide = (run(elf, given) for elf in COMPUTES)
    assert (outcome.exit_code, wide.exit_code) == (0, 0)
    assert outcome.output == wide.output
    digest = list(struct.unpack(">8I", hashlib.sha256(message).digest()))
    power = pow(x, 65537, modulus)
    assert words(outcome.output[:64]) == 2 * digest
    assert outcome.output[64:96] == power.to_bytes(32, "little")
    assert outcome.output[96:128] == ((power + added) % modulus).to_bytes(32, "little")
    modulus += ((1 << 128) - 1) << 256
    power = pow(numbers[1], 65537, modulus)
    assert outcome.output[128:176] == power.to_bytes(48, "little")
    assert outcome.output[176:] == ((power + added) % modulus).to_bytes(48, "little")


COMPUTES = guest("computes"), guest("computes64")


def test_no_call_of_rv64im_takes_memory_beyond_32_bits_for_another_place() -> None:
    """A prover may choose a pointer that a guest computes, and its lower half is the address of other data."""
    for call in range(8):
        near, far = (run(guest("far64"), struct.pack("<2I", call, beyond)) for beyond in (0, 1))
        assert (near.exit_code, len(near.output)) == (0, 4)
        assert (far.exit_code, far.output) == (254, b"")


CURVES = [secp256k1_points, p256_points, pairing_points(bn128), None, pairing_points(bls12_381)]
"""In the order of curves.h; Ed25519 has a test of its own."""


def sums(name: str, curve: int, p: tuple[int, int], q: tuple[int, int]) -> tuple[int, list[int]]:
    """Exit code, and the coordinates of p + q and p + p, by a guest."""
    size = 48 if curve == 4 else 32
    given = struct.pack("<I", curve) + b"".join(number.to_bytes(size, "little") for number in (*p, *q))
    outcome = run(guest(name), given)
    out = outcome.output
    return outcome.exit_code, [int.from_bytes(out[k : k + size], "little") for k in range(0, len(out), size)]


@pytest.mark.parametrize("name", ["points", "points64", "sums"])
@pytest.mark.parametrize("curve", [0, 1, 2, 4])
def test_sums_of_points(name: str, curve: int) -> None:
    """In C for both instruction sets, and in Rust."""
    points = CURVES[curve]
    assert points is not None
    for seed in range(3):
        p, q, total, twice = points(random.Random(seed))
        assert sums(name, curve, p, q) == (0, [*total, *twice])
    for same, other in ((p, p), ((p[0], 0), q)):
        with pytest.raises(Trap, match="a sum of points that the formula does not give"):
            sums(name, curve, same, other)


@pytest.mark.parametrize("name", ["points", "points64", "sums"])
def test_sums_of_points_of_ed25519(name: str) -> None:
    for p, q in ed25519_pairs():
        assert sums(name, 3, p, q) == (0, [*edwards_sum(p, q), *edwards_sum(p, p)])
    modulus = (1 << 255) - 19
    d = -121665 * pow(121666, -1, modulus)
    for product in (1, -1):
        with pytest.raises(Trap, match="a sum of points that the formula does not give"):
            sums(name, 3, (2, 3), (5, product * pow(d * 2 * 3 * 5, -1, modulus) % modulus))


SIGNED = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        "",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        "72",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        "af82",
    ),
]
"""Tests 1 to 3 of RFC 8032, 7.1: public key, signature and message."""


def accepts(name: str, key: bytes, signature: bytes, message: bytes) -> bool:
    """The answer of a guest that verifies signatures of Ed25519."""
    outcome = run(guest(name), public=key + signature + message)
    assert outcome.exit_code == 0
    assert outcome.cycles < 60_000 + 200 * len(message)
    (answer,) = words(outcome.output)
    return bool(answer)


@pytest.mark.parametrize("name", ["eddsa", "eddsa64"])
def test_eddsa(name: str) -> None:
    for texts in SIGNED:
        key, signature, message = (bytes.fromhex(text) for text in texts)
        assert accepts(name, key, signature, message)
        assert not accepts(name, key, signature, message + b"x")
    rng = random.Random(8)
    for size in (3, 47, 48, 200, 1000):
        secret, message = ECC.construct(curve="Ed25519", seed=rng.randbytes(32)), rng.randbytes(size)
        key = secret.public_key().export_key(format="raw")
        signature = eddsa.new(secret, "rfc8032").sign(message)
        assert accepts(name, key, signature, message)
        at = rng.randrange(64)
        assert not accepts(name, key, signature[:at] + bytes([signature[at] ^ 1]) + signature[at + 1 :], message)
        assert not accepts(name, bytes([key[0] ^ 1]) + key[1:], signature, message)
        beyond = int.from_bytes(signature[32:], "little") + ED25519_ORDER  # the same, were it not refused
        assert not accepts(name, key, signature[:32] + beyond.to_bytes(32, "little"), message)


def hashed(key: bytes, code: bytes, message: bytes) -> int:
    """The factor of the key's point, of a signature that begins with the code of R."""
    return int.from_bytes(hashlib.sha512(code + key + message).digest(), "little") % ED25519_ORDER


def follows(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether RFC 8032, 5.1.7, accepts a signature: without the cofactor, and with the hash modulo the order."""
    a, r, s = edwards_decoded(key), edwards_decoded(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= ED25519_ORDER:
        return False
    return edwards_multiple(ED25519_BASE, s) == edwards_sum(
        r, edwards_multiple(a, hashed(key, signature[:32], message))
    )


def test_eddsa_of_unusual_points() -> None:
    """Keys and signatures with points of small order, a y beyond the field, or a sign of x = 0."""
    field, small, message = (1 << 255) - 19, small_edwards_points(), b"unusual"
    codes = [edwards_encoded(point) for point in small]
    ys = (0, 1, 2, field - 1, field, field + 1, (1 << 255) - 1)
    codes += [(y | sign << 255).to_bytes(32, "little") for y in ys for sign in (0, 1)]
    neutral = codes[0]
    cases = [(key, code + bytes(32)) for code in codes for key in (neutral, code)]
    cases += [(neutral, neutral + s.to_bytes(32, "little")) for s in (ED25519_ORDER, 8 * ED25519_ORDER)]
    # A part of small order in the key and in R: right where they cancel out.
    keys = [edwards_encoded(edwards_sum(edwards_multiple(ED25519_BASE, 5), point)) for point in small]
    for key, point in ((key, point) for key in keys for point in small[::4]):
        code = edwards_encoded(edwards_sum(edwards_multiple(ED25519_BASE, 7), point))
        s = (7 + 5 * hashed(key, code, message)) % ED25519_ORDER
        cases.append((key, code + s.to_bytes(32, "little")))
    accepted = [follows(*case, message) for case in cases]
    assert {*accepted[:-16]} == {*accepted[-16:]} == {False, True}
    for name in ("eddsa", "eddsa64"):
        assert [accepts(name, *case, message) for case in cases] == accepted
