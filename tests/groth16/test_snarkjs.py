"""snarkjs' JSON files: written byte for byte as it writes them, and read strictly."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distprove.errors import CurveMismatch, DistproveError, FormatError, InputError, InvalidKey, InvalidProof
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.snarkjs import (
    format_proof,
    format_public,
    format_verification_key,
    parse_proof,
    parse_public,
    parse_verification_key,
    read_proof,
    read_public,
    read_verification_key,
    write_verification_key,
)
from distprove.groth16.verifier import verify, verify_batch
from kernels.maths.curves import BLS12_381, BN254, CURVES, Group
from tests.support.simulated_proofs import OUTSIDE, Trapdoor, trapdoor

CIRCUITS = (
    "chain_bls12381",
    "epochKeyLite",
    "reputation",
    "sha256_256",
    "signup",
    "tiny",
    "userStateTransition",
)


@pytest.fixture(scope="module", params=CURVES, ids=lambda c: c.name)
def secret(request: pytest.FixtureRequest) -> Trapdoor:
    return trapdoor(request.param, 2)


@pytest.fixture(scope="module")
def proof(secret: Trapdoor) -> Groth16Proof:
    return secret.prove([3, 4], seed=0)


# -- with snarkjs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_real_verification_keys_come_back_byte_for_byte(shared_data: Path, tmp_path: Path, circuit: str) -> None:
    path = shared_data / "circom" / circuit / "verification_key.json"
    key = read_verification_key(path)
    write_verification_key(tmp_path / "vk.json", key)
    assert (tmp_path / "vk.json").read_bytes() == path.read_bytes()


@pytest.mark.node
@pytest.mark.parametrize("circuit", ["tiny", "signup", "chain_bls12381"])
def test_snarkjs_proofs_verify_and_come_back_byte_for_byte(
    shared_data: Path, snarkjs: Callable[..., Any], tmp_path: Path, circuit: str
) -> None:
    folder = shared_data / "circom" / circuit
    key = read_verification_key(folder / "verification_key.json")
    statements = []
    for path in sorted((folder / "inputs").iterdir())[: 2 if circuit == "tiny" else 1]:
        theirs, public = tmp_path / f"{path.stem}.proof.json", tmp_path / f"{path.stem}.public.json"
        snarkjs("groth16", "fullprove", path, folder / "circuit.wasm", folder / "circuit.zkey", theirs, public)
        proof, values = read_proof(theirs, key.curve), read_public(public, key.curve)
        assert format_proof(proof).encode() == theirs.read_bytes()
        assert format_public(values).encode() == public.read_bytes()
        assert verify(key, values, proof) is True
        assert verify(key, [*values[:-1], (values[-1] + 1) % key.curve.fr.modulus], proof) is False
        statements.append((values, proof))
    assert verify_batch(key, statements) is True
    assert verify_batch(key, [*statements, (statements[0][0], statements[-1][1])]) is (len(statements) == 1)


@pytest.mark.node
def test_snarkjs_accepts_what_is_written(secret: Trapdoor, snarkjs: Callable[..., Any], tmp_path: Path) -> None:
    vk, proof, public = (tmp_path / name for name in ("vk.json", "proof.json", "public.json"))
    values = [0, secret.key.curve.fr.modulus - 1]
    write_verification_key(vk, secret.key)
    proof.write_text(format_proof(secret.prove(values, seed=9)))
    public.write_text(format_public(values))
    assert "OK!" in snarkjs("groth16", "verify", vk, public, proof).stdout
    public.write_text(format_public(values[::-1]))
    assert snarkjs("groth16", "verify", vk, public, proof, check=False).returncode != 0


# -- round trips -------------------------------------------------------------------------------------------------------


def test_files_round_trip(secret: Trapdoor, proof: Groth16Proof, tmp_path: Path) -> None:
    curve = secret.key.curve
    (tmp_path / "proof.json").write_text(format_proof(proof))
    (tmp_path / "public.json").write_text(format_public([3, 4]))
    write_verification_key(tmp_path / "vk.json", secret.key)
    assert read_proof(tmp_path / "proof.json") == proof
    assert read_proof(tmp_path / "proof.json", curve) == proof
    assert read_public(tmp_path / "public.json", curve) == (3, 4)
    assert read_verification_key(tmp_path / "vk.json") == secret.key
    assert verify(secret.key, [3, 4], read_proof(tmp_path / "proof.json"))


def test_infinity_is_written_as_snarkjs_does(secret: Trapdoor, proof: Groth16Proof) -> None:
    curve = secret.key.curve
    zeros = Groth16Proof(curve, 0 * proof.a, 0 * proof.b, 0 * proof.c)
    data = json.loads(format_proof(zeros))
    assert data["pi_a"] == data["pi_c"] == ["0", "1", "0"]
    assert data["pi_b"] == [["0", "0"], ["1", "0"], ["0", "0"]]
    assert parse_proof(format_proof(zeros).encode()) == zeros
    assert verify(secret.key, [3, 4], zeros) is False


def test_no_public_values() -> None:
    assert format_public([]) == "[\n]"
    assert parse_public(b"[\n]", BN254) == parse_public(b"[]", BN254) == ()


def test_the_layout_of_public_json() -> None:
    assert format_public([1, 22]) == '[\n "1",\n "22"\n]'


def test_proofs_without_a_curve_need_one_given(secret: Trapdoor, proof: Groth16Proof) -> None:
    data = json.loads(format_proof(proof))
    del data["curve"]  # as rapidsnark writes them
    text = json.dumps(data).encode()
    assert parse_proof(text, secret.key.curve) == proof
    with pytest.raises(FormatError, match="does not name its curve"):
        parse_proof(text)


def test_another_curve_than_expected(secret: Trapdoor, proof: Groth16Proof) -> None:
    other = BLS12_381 if secret.key.curve is BN254 else BN254
    with pytest.raises(CurveMismatch):
        parse_proof(format_proof(proof).encode(), other)


def test_a_key_may_leave_the_pairing_out_but_not_lie_about_it(secret: Trapdoor) -> None:
    data = json.loads(format_verification_key(secret.key))
    value = data.pop("vk_alphabeta_12")
    assert parse_verification_key(json.dumps(data).encode()) == secret.key
    value[1][2][0] = str(int(value[1][2][0]) - 1)
    with pytest.raises(InvalidKey, match="vk_alphabeta_12"):
        parse_verification_key(json.dumps({**data, "vk_alphabeta_12": value}).encode())


# -- malformed ---------------------------------------------------------------------------------------------------------


def bad_scalars(modulus: int) -> list[Any]:
    big = str(modulus)
    return [
        1,
        1.5,
        None,
        True,
        [],
        {},
        "",
        "0x1",
        "-1",
        "+1",
        "01",
        " 1",
        "1 ",
        "1_0",
        "1e3",
        "\u0661",
        big,
        "9" * 5000,
    ]


@pytest.mark.parametrize("name", ["pi_a", "pi_b", "pi_c"])
def test_malformed_coordinates_are_refused(secret: Trapdoor, proof: Groth16Proof, name: str) -> None:
    data = json.loads(format_proof(proof))
    q = secret.key.curve.fq.modulus
    for bad in bad_scalars(q):
        point = json.loads(json.dumps(data[name]))
        if name == "pi_b":
            point[1][0] = bad
        else:
            point[1] = bad
        with pytest.raises(FormatError):
            parse_proof(json.dumps({**data, name: point}).encode())
    x, y, one = data[name]
    two = ["2", "0"] if name == "pi_b" else "2"
    zero = ["0", "0"] if name == "pi_b" else "0"
    for bad_point in (None, "1", [], [x, y], [x, y, one, one], [x, y, two], [x, y, zero], [zero, zero, one], [x, one]):
        with pytest.raises(FormatError, match=name):
            parse_proof(json.dumps({**data, name: bad_point}).encode())


def test_malformed_public_values_are_refused(secret: Trapdoor) -> None:
    curve = secret.key.curve
    for bad in bad_scalars(curve.fr.modulus):
        with pytest.raises(FormatError):
            parse_public(json.dumps(["1", bad]).encode(), curve)
    for text in (
        b"",
        b"{}",
        b'"1"',
        b"1",
        b"null",
        b'["1",]',
        b'["1"] x',
        b"\xff\xfe",
        b'["1"',
        b"[NaN]",
        b"[Infinity]",
    ):
        with pytest.raises(FormatError):
            parse_public(text, curve)


def test_structure_is_strict(proof: Groth16Proof) -> None:
    data = json.loads(format_proof(proof))
    text = format_proof(proof)
    bad = [
        json.dumps({k: v for k, v in data.items() if k != "pi_c"}),
        json.dumps({k: v for k, v in data.items() if k != "protocol"}),
        json.dumps({**data, "protocol": "plonk"}),
        json.dumps({**data, "curve": "bn999"}),
        json.dumps({**data, "curve": ["bn128"]}),
        json.dumps({**data, "more": 1}),
        json.dumps([data]),
        text.replace('"protocol"', '"pi_a": ["1", "2", "1"],\n "protocol"'),  # twice: parsers disagree on which holds
        text[:-1],
        text + "}",
    ]
    for document in bad:
        with pytest.raises(FormatError):
            parse_proof(document.encode())


def test_hostile_documents_cost_little() -> None:
    for text in (
        b"[" * 10000,
        b'{"a":' * 2000,
        b"[" + b"9" * 10000 + b"]",
        b'["' + b"9" * 10000 + b'"]',
        b"[1e999999]",
    ):
        with pytest.raises(FormatError):
            parse_proof(text)
        with pytest.raises(FormatError):
            parse_public(text, BN254)
        with pytest.raises(FormatError):
            parse_verification_key(text)
    with pytest.raises(FormatError, match="larger than"):
        parse_proof(b" " * (1 << 15))


def test_files_too_large_or_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"proof\.json"):
        read_proof(tmp_path / "proof.json")
    (tmp_path / "proof.json").write_bytes(b" " * (1 << 15))
    with pytest.raises(FormatError, match="larger than"):
        read_proof(tmp_path / "proof.json")


def test_points_off_the_curve_parse_and_do_not_verify(secret: Trapdoor, proof: Groth16Proof) -> None:
    data = json.loads(format_proof(proof))
    data["pi_a"][0] = str((int(data["pi_a"][0]) + 1) % secret.key.curve.fq.modulus)
    with pytest.raises(InvalidProof, match="A is not a point"):
        verify(secret.key, [3, 4], parse_proof(json.dumps(data).encode()))


@pytest.mark.parametrize("name", ["vk_alpha_1", "vk_beta_2", "vk_gamma_2", "vk_delta_2"])
def test_key_points_are_checked(secret: Trapdoor, name: str) -> None:
    curve = secret.key.curve
    data = json.loads(format_verification_key(secret.key))
    del data["vk_alphabeta_12"]
    group = Group.G1 if name == "vk_alpha_1" else Group.G2
    infinity: list[Any] = ["0", "1", "0"] if group is Group.G1 else [["0", "0"], ["1", "0"], ["0", "0"]]
    off: list[Any] = ["1", "1", "1"] if group is Group.G1 else [["1", "1"], ["1", "1"], ["1", "0"]]
    bad = [infinity, off]
    if (curve.name, group) in OUTSIDE:
        flat = [str(v) for v in OUTSIDE[curve.name, group]]
        bad.append([*flat, "1"] if group is Group.G1 else [flat[:2], flat[2:], ["1", "0"]])
    for point in bad:
        with pytest.raises(InvalidKey):
            parse_verification_key(json.dumps({**data, name: point}).encode())


def test_key_structure_is_checked(secret: Trapdoor) -> None:
    data = json.loads(format_verification_key(secret.key))
    for change in (
        {"nPublic": 1},
        {"nPublic": "2"},
        {"nPublic": -1, "IC": []},
        {"nPublic": True},
        {"nPublic": 2.0},
        {"nPublic": 10**12},
        {"IC": data["IC"][:2]},
        {"IC": None},
        {"IC": [["1", "2"]] * 3},
        {"protocol": "fflonk"},
        {"extra": 0},
    ):
        with pytest.raises(FormatError):
            parse_verification_key(json.dumps({**data, **change}).encode())


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutations_never_crash(secret: Trapdoor, proof: Groth16Proof, data: st.DataObject) -> None:
    parse, original = data.draw(
        st.sampled_from(
            [
                (parse_proof, format_proof(proof)),
                (parse_verification_key, format_verification_key(secret.key)),
                (lambda text: parse_public(text, secret.key.curve), format_public([3, 4])),
            ]
        )
    )
    text = bytearray(original.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text) - 1))
        if data.draw(st.booleans()):
            text[place] = data.draw(st.sampled_from(b'0129"[]{},:x \xff\\'))
        else:
            del text[place : place + data.draw(st.integers(1, 40))]
        if not text:
            break
    with suppress(DistproveError):  # and nothing else
        parse(bytes(text))
