"""Files of gnark: a key and a proof that gnark made, and ours in its formats.

The key and the proof are SP1's of version 6.0.0-beta.1, which gnark made over BN254: its verifying key ships with the
crate sp1-verifier, and the proof with the tests of SP1's contracts (both MIT or Apache-2.0).
"""

from __future__ import annotations

import hashlib
import re
from random import Random
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, InputError, InvalidKey, InvalidProof
from distprove.groth16 import gnark
from distprove.groth16.compressed_points import GNARK_BN254, ZCASH, Form
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import to_bytes
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.verifier import verify
from kernels.cpu.group import mul, neg
from kernels.maths.curves import BLS12_381, BN254, Group
from kernels.maths.encoding import generator, point_from_ints

KEY = bytes.fromhex(
    "a63656811c1493c795953e7d378fe13b81f2e6cd9710048939bfc3d258d2e4a7ab7e53366aa2c2ec4625531fcee34005d0841cf1e8cbbd"
    "ba55f4467ab5ebb43ba5ec4a188ee970000c6ac624c698052fa2f4bd08c3e70ebd0477c4799e58e3c61391e09eedc7e14701b4477e137f"
    "68b409d8040af5630cbbb43dea854ce488978195d3f9475c6791330cf4e0bb36330b736069abd02a29cd0bc319f0b7fce53a20b4909652"
    "0b50c11d6c7221315a147cfa6e24299e8dc5484b7d5503a6dc86e5c64759c5eb1f73612f47ac2c7897bea11550456dc7a7e05c83f1aa94"
    "82140aa2973f46647999537cf3ca248ef7454192503ddc7e72e8163e12d7a36dbf8369ce0201184c0e3daef6f4d3794013740a75b5ad30"
    "cbb25be0105ee1b43ecde3b7e50000000692eac7e81514f4e4c8ab2a662a88292493c1171d6e5c1a2877570f6a6cec2dbbace5d7f481db"
    "e8ac82251ffb753075cc90a87614e4efda2b54b1137f6e44d56f834b8186f2982368e73e5eb213aaca00b11410bad9e89ffc371fe1826a"
    "a6fd07e424fd35a5c485a9f002397c0f78cef327629648c593b3015423f2884d7b4035acafdf7641d51745e94607f9bf371913fa0e7683"
    "e9a762c82ecede490ef7055cdc1ef8d841b2ed98eb48359560aa624195fb4ae2d71ae4e2c7de15d9c1b74bda0000000000000000"
)
PROOF = bytes.fromhex(
    "14e9a2527f46b171765ec899347fd37659986fe967bd1ae30c55643ca0cf62a3268461232fdb5b7d1ba5a69868e8b598abda6cf53985ba"
    "1e7b8fe0a5df151a37045a81cf89115ae3978dfadce9149a4eebc7edbb8a2dadb70134d8a3f9c247cf20fbd89c5ad9bdef194dbfc5d9d8"
    "354fad6c86124079b23a768a468e588b1b1823958e6f802c959a489c019ebbad85a10a712e94c3f50e006aa80789fc7ef4ac14b7db52fd"
    "de1238e89c74daa5c22b79b39104b6534b419e0623d5db813d139a24a66dd5a80ac8bcf1a28fd1d444cf84efa1644369d1d84c7855456d"
    "aab9b23d07d07fc6f32cbe73af675b20351ba2e723be019bf596636b40176e4559a3c58f"
)
"""A, B and C in full, as gnark's `MarshalSolidity` writes them."""
OUTPUT = b"".join(n.to_bytes(32, "big") for n in (20, 6765, 10946))
"""The public output of the guest that SP1 proved."""
DIGEST = int.from_bytes(hashlib.sha256(OUTPUT).digest(), "big") % (1 << 253)
PUBLIC = (
    0x00502858E1222437B63F4B710C8FD5E45A3C3797E02A84D9B70D97C9D22286E7,
    DIGEST,
    0,
    0x00410A5637E8B7B8C4B895991B4892EFD0FF4DA2B5E277D701F2F5C1F23D0C7B,
    0,
)
"""The guest's key, its output's digest, its exit code, SP1's root, and a nonce."""


def test_a_proof_of_gnark_holds_under_its_key() -> None:
    assert hashlib.sha256(KEY).hexdigest().startswith("58b7a3c3")  # as SP1's contract names it
    key = gnark.parse_verifying_key(KEY, BN254)
    proof = gnark.parse_proof(PROOF)
    assert (key.n_public, key.weakness) == (5, None)
    assert verify(key, PUBLIC, proof)
    for place in range(5):
        changed = [value + (place == k) for k, value in enumerate(PUBLIC)]
        assert not verify(key, changed, proof)


def test_a_key_of_gnark_is_written_as_it_was() -> None:
    """But for beta and delta in G1, which a verification key of ours lacks."""
    written = gnark.format_verifying_key(gnark.parse_verifying_key(KEY, BN254))
    beta, delta = slice(32, 64), slice(64 + 128, 64 + 128 + 32)
    blank = bytearray(KEY)
    blank[beta] = blank[delta] = written[beta]
    assert bytes(blank) == written
    assert written[beta] == bytes([0x40, *bytes(31)])


def test_a_proof_comes_back_compressed_and_in_full() -> None:
    proof = gnark.parse_proof(PROOF)
    written = gnark.format_proof(proof)
    assert len(written) == 32 + 64 + 32 + 4 + 32
    assert gnark.parse_proof(written) == proof == gnark.parse_proof(written[:128])
    full = PROOF + bytes(4) + bytes(64)
    assert gnark.parse_proof(full) == proof


@pytest.mark.parametrize("form", gnark.FORMS.values(), ids=lambda form: form.curve.name)
@pytest.mark.parametrize("group", Group)
def test_points_come_back(form: Form, group: Group) -> None:
    one = generator(form.curve, group)
    encoded = []
    for point in (one, neg(form.curve, group, one), point_from_ints(form.curve, group, None)):
        compressed = form.compress(group, point)
        assert len(compressed) == form.size(group)
        assert form.is_compressed(compressed[0])
        assert np.array_equal(form.decompress(group, compressed, "x"), point)
        assert not form.is_compressed(to_bytes(form.curve, group, point)[0])
        encoded.append(compressed)
    assert len({*encoded}) == 3


@pytest.mark.parametrize("form", gnark.FORMS.values(), ids=lambda form: form.curve.name)
@pytest.mark.parametrize("group", Group)
def test_many_points_are_decoded_as_each_of_them(form: Form, group: Group) -> None:
    curve, one = form.curve, generator(form.curve, group)
    points = [mul(curve, group, one, k) for k in (*range(-6, 0), 0, *range(1, 7), curve.fr.modulus // 3)]
    rows = np.stack([np.frombuffer(form.compress(group, point), dtype=np.uint8) for point in points])
    assert np.array_equal(form.decompress_all(group, rows, "x"), np.stack(points))
    assert form.decompress_all(group, rows[:0], "x").shape == (0, curve.point_limbs(group))
    random, refused = Random(7), 0
    for _ in range(150):
        spoilt = rows.copy()
        place = random.randrange(len(rows)), random.choice((0, 0, random.randrange(rows.shape[1])))
        spoilt[place] ^= np.uint8(1 << random.randrange(8))
        try:
            each = np.stack([form.decompress(group, row.tobytes(), "x") for row in spoilt])
        except FormatError as error:
            refused += 1
            with pytest.raises(FormatError, match=re.escape(str(error))):
                form.decompress_all(group, spoilt, "x")
        else:
            assert np.array_equal(form.decompress_all(group, spoilt, "x"), each)
    assert 0 < refused < 150


@pytest.mark.parametrize("bad", [0x20, 0x41, 0x00, 0xFF])
def test_another_encoding_of_infinity_is_refused(bad: int) -> None:
    for form in (GNARK_BN254, ZCASH):
        if bytes([bad]) == form.compress(Group.G1, point_from_ints(form.curve, Group.G1, None))[:1]:
            continue
        with pytest.raises(FormatError):
            form.decompress(Group.G1, bytes([bad]) + bytes(form.size(Group.G1) - 1), "x")


def test_a_part_for_commitments_that_has_none_is_checked() -> None:
    written = gnark.format_proof(gnark.parse_proof(PROOF))
    with_one = written[:128] + (1).to_bytes(4, "big") + 2 * written[-32:]
    with pytest.raises(InputError, match="only `gnark verify` and jobs"):
        gnark.parse_proof(with_one)
    lists, keys = bytearray(KEY), bytearray(KEY)
    lists[-5], keys[-1] = 1, 1
    for bad, error in ((lists, "ends at byte"), (keys, "ends at byte"), (lists[:-4] + bytes(8), "1 list of")):
        with pytest.raises(InputError, match=error):
            gnark.parse_verifying_key(bytes(bad), BN254)
    knows = written[:132] + GNARK_BN254.compress(Group.G1, generator(BN254, Group.G1))
    with pytest.raises(FormatError, match="no commitments"):
        gnark.parse_proof(knows)


def test_damaged_files_are_refused() -> None:
    for size in (0, 1, 127, 129, len(PROOF) - 1, len(PROOF) + 1):
        with pytest.raises(FormatError):
            gnark.parse_proof((PROOF + b"\0")[:size])
    for size in (0, 31, 287, 291, 300, len(KEY) - 1):
        with pytest.raises(FormatError):
            gnark.parse_verifying_key(KEY[:size], BN254)
    with pytest.raises(FormatError, match="follow"):
        gnark.parse_verifying_key(KEY + b"\0", BN254)
    with pytest.raises(FormatError, match="points of K"):
        gnark.parse_verifying_key(KEY[:288] + b"\xff" * 4 + KEY[292:], BN254)
    none = GNARK_BN254.compress(Group.G1, point_from_ints(BN254, Group.G1, None))
    with pytest.raises(InvalidKey, match="infinity"):
        gnark.parse_verifying_key(none + KEY[32:], BN254)
    with pytest.raises(FormatError):
        gnark.parse_verifying_key(KEY, BLS12_381)
    # x = 4 is no abscissa of the curve, and the modulus is none of any.
    for x in (4, BN254.fq.modulus):
        point = bytearray(x.to_bytes(32, "big"))
        point[0] |= 0x80
        with pytest.raises(FormatError):
            gnark.parse_proof(bytes(point) + gnark.format_proof(gnark.parse_proof(PROOF))[32:])


def test_a_point_off_the_curve_is_no_proof() -> None:
    raw = bytearray(PROOF)
    raw[63] ^= 1
    with pytest.raises(InvalidProof):
        verify(gnark.parse_verifying_key(KEY, BN254), PUBLIC, gnark.parse_proof(bytes(raw)))


def test_public_witnesses() -> None:
    written = gnark.format_public(PUBLIC)
    assert written[:12] == bytes([0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5])
    assert gnark.parse_public(written, BN254) == PUBLIC
    secret = written[:3] + bytes([4, 0, 0, 0, 1]) + written[8:]
    for bad in (secret, written[:-1], written + b"\0", written[:11], b"\xff" * 44):
        with pytest.raises(FormatError):
            gnark.parse_public(bad, BN254)
    with pytest.raises(FormatError, match="value 0 is not below"):
        gnark.parse_public(gnark.format_public([BN254.fr.modulus]), BN254)


def points_over(form: Form) -> dict[str, Any]:
    """The two generators, as the points of a proof and of a key."""
    one1, one2 = (generator(form.curve, group) for group in Group)
    return {"alpha1": one1, "beta2": one2, "gamma2": one2, "delta2": one2, "ic": one1[None]}


@pytest.mark.parametrize("form", gnark.FORMS.values(), ids=lambda form: form.curve.name)
def test_keys_and_proofs_of_both_curves_come_back(form: Form) -> None:
    key = VerificationKey(form.curve, **points_over(form))
    assert gnark.parse_verifying_key(gnark.format_verifying_key(key), form.curve) == key
    proof = Groth16Proof(form.curve, key.alpha1, key.beta2, neg(form.curve, Group.G1, key.alpha1))
    assert gnark.parse_proof(gnark.format_proof(proof)) == proof
