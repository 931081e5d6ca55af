"""Set-up: keys that snarkjs proves with, and that its ceremony check accepts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import Circuit
from distprove.circuits.merkle import MembershipTree, membership_circuit
from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import CurveMismatch, InputError, InvalidKey, UsageError
from distprove.groth16.contribute import contribute
from distprove.groth16.hash_to_g2 import hash_to_g2
from distprove.groth16.inputs import read_input
from distprove.groth16.overread import difference
from distprove.groth16.prover import prove
from distprove.groth16.ptau import read_ptau
from distprove.groth16.r1cs import R1cs, read_r1cs, write_r1cs
from distprove.groth16.resident import load_key
from distprove.groth16.setup import CONTRIBUTOR, setup
from distprove.groth16.snarkjs import format_proof, format_public, write_verification_key
from distprove.groth16.verifier import verify
from distprove.groth16.witness import WitnessProgram
from distprove.groth16.wtns import write_wtns
from distprove.groth16.zkey import INSECURE_DEV_NAME, read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from kernels.maths.encoding import point_to_ints, unpack
from tests.support.known_tau import write_known_tau

SECRETS = {"tau": 0x1234567890ABCDEF1234567890ABCDEF, "alpha": 987654321987654321, "beta": 123123123123123123123}


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    made = CpuBackend(threads=2)
    yield made
    made.close()


def small_circuit(curve: Curve) -> Circuit:
    """Outputs, public and private inputs, long and short combinations, unused and constant entries: 12 constraints."""
    b = CircuitBuilder(curve)
    shown = b.public_input("shown", 2)
    hidden = b.private_input("hidden", 3)
    b.output("product", b.multiply(hidden[0] * 3 - 5, shown[1] + hidden[2] * (2**200)))
    b.output("bit", b.bits(hidden[1], 8)[3])
    b.private_input("unused")
    return b.build()


INPUTS = {"shown": [11, 12], "hidden": [7, 200, 2**100], "unused": 1}


def prove_and_verify(snarkjs: Any, folder: Path, zkey: Path, curve: Curve, witness: np.ndarray) -> list[str]:
    """snarkjs proves with the key, exports its verification key and verifies; returns the public values."""
    write_wtns(folder / "w.wtns", curve, witness)
    snarkjs("groth16", "prove", zkey, folder / "w.wtns", folder / "proof.json", folder / "public.json")
    snarkjs("zkey", "export", "verificationkey", zkey, folder / "vk.json")
    verified = snarkjs("groth16", "verify", folder / "vk.json", folder / "public.json", folder / "proof.json")
    assert "OK!" in verified.stdout
    public: list[str] = json.loads((folder / "public.json").read_text())
    return public


@pytest.mark.node
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_snarkjs_proves_with_a_development_key(curve: Curve, backend: Backend, snarkjs: Any, tmp_path: Path) -> None:
    circuit = membership_circuit(curve, depth=2)
    tree = MembershipTree(curve.fr, [5, 6, 7], depth=2)
    report = setup(circuit.r1cs, insecure_dev=True, backend=backend, out=tmp_path / "dev.zkey")
    witness = circuit.witness(tree.membership(1).inputs(scope=9), backend)
    public = prove_and_verify(snarkjs, tmp_path, tmp_path / "dev.zkey", curve, witness)
    assert public[0] == str(tree.root)
    assert public[2] == "9"
    assert report.insecure
    assert report.size == (tmp_path / "dev.zkey").stat().st_size


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_development_keys_say_so(curve: Curve, backend: Backend, tmp_path: Path) -> None:
    circuit = small_circuit(curve)
    report = setup(circuit.r1cs, insecure_dev=True, backend=backend, out=tmp_path / "dev.zkey")
    key = read_zkey(tmp_path / "dev.zkey")
    assert key.insecure
    assert [c.name for c in key.contributions] == [INSECURE_DEV_NAME]
    assert (key.n_vars, key.n_public, key.domain_size) == (circuit.n_wires, 4, 32)
    assert (report.constraints, report.wires, report.public, report.domain_size) == (12, circuit.n_wires, 4, 32)
    for group, points in (
        (Group.G1, key.points.a),
        (Group.G1, key.points.b1),
        (Group.G2, key.points.b2),
        (Group.G1, key.points.c),
        (Group.G1, key.points.h),
        (Group.G1, key.points.ic),
    ):
        assert backend.groups.check_points(curve, group, points) is None


def test_set_up_says_what_it_does(backend: Backend, tmp_path: Path) -> None:
    """Each step as it begins, and each section of points of a .params file, which take most of the time."""
    begun: list[str] = []
    r1cs = small_circuit(BLS12_381).r1cs
    report = setup(r1cs, insecure_dev=True, backend=backend, out=tmp_path / "dev.zkey", began=begun.append)
    assert begun == list(report.seconds) == ["points", "contribution", "write"]
    begun.clear()
    membership = membership_circuit(BLS12_381, depth=2).r1cs
    setup(membership, insecure_dev=True, backend=backend, out=tmp_path / "dev.params", began=begun.append)
    assert begun[:2] == ["points", "write"]
    assert [each.rpartition(" of ")[2] for each in begun[2:]] == ["H", "L", "A", "B1", "B2"]


def test_two_development_keys_share_no_point(backend: Backend, tmp_path: Path) -> None:
    r1cs = small_circuit(BN254).r1cs
    keys = []
    for name in ("a.zkey", "b.zkey"):
        setup(r1cs, insecure_dev=True, backend=backend, out=tmp_path / name)
        keys.append(read_zkey(tmp_path / name))
    assert keys[0].ceremony[0] != keys[1].ceremony[0]
    for part in ("alpha1", "beta1", "delta1", "h"):
        assert not np.array_equal(getattr(keys[0].points, part), getattr(keys[1].points, part)), part


@pytest.fixture(scope="module")
def ptau_of(tmp_path_factory: pytest.TempPathFactory, backend: Backend) -> Callable[[Curve, int], Path]:
    """Prepared files with known secrets, by curve and power."""
    folder = tmp_path_factory.mktemp("ptau")

    def get(curve: Curve, power: int) -> Path:
        path = folder / f"{curve.name}_{power}.ptau"
        if not path.exists():
            write_known_tau(path, curve, power, backend, **SECRETS, smallest=power if power > 6 else 0)
        return path

    return get


def check_with_snarkjs(snarkjs: Any, folder: Path, r1cs: R1cs, ptau: Path, backend: Backend) -> Path:
    """Set up from `ptau`; snarkjs rebuilds the initial key, and compares and verifies everything."""
    write_r1cs(folder / "c.r1cs", r1cs)
    setup(r1cs, ptau=ptau, backend=backend, out=folder / "c.zkey")
    done = snarkjs("zkey", "verify", folder / "c.r1cs", ptau, folder / "c.zkey", check=False)
    assert "ZKey Ok!" in done.stdout, done.stdout
    return folder / "c.zkey"


@pytest.mark.node
@pytest.mark.parametrize(("curve", "power"), [(BN254, 6), (BLS12_381, 5)], ids=lambda v: getattr(v, "title", v))
def test_snarkjs_accepts_a_key_from_a_ceremony(
    curve: Curve, power: int, backend: Backend, snarkjs: Any, tmp_path: Path, ptau_of: Callable[[Curve, int], Path]
) -> None:
    circuit = small_circuit(curve)  # its domain of 2^5 fills the smaller file
    path = check_with_snarkjs(snarkjs, tmp_path, circuit.r1cs, ptau_of(curve, power), backend)
    prove_and_verify(snarkjs, tmp_path, path, curve, circuit.witness(INPUTS, backend))
    key = read_zkey(path)
    assert not key.insecure
    assert [c.name for c in key.contributions] == [CONTRIBUTOR]


@pytest.mark.node
def test_snarkjs_own_ceremony_serves(backend: Backend, snarkjs: Any, tmp_path: Path) -> None:
    curve = BN254
    snarkjs("powersoftau", "new", curve.name, "5", tmp_path / "0.ptau")
    snarkjs("powersoftau", "contribute", tmp_path / "0.ptau", tmp_path / "1.ptau", "-n=test", "-e=test")
    snarkjs("powersoftau", "prepare", "phase2", tmp_path / "1.ptau", tmp_path / "2.ptau")
    check_with_snarkjs(snarkjs, tmp_path, small_circuit(curve).r1cs, tmp_path / "2.ptau", backend)
    with pytest.raises(InputError, match="prepare phase2"):
        setup(small_circuit(curve).r1cs, ptau=tmp_path / "1.ptau", backend=backend, out=tmp_path / "no.zkey")


@pytest.mark.node
def test_snarkjs_contributes_further(
    backend: Backend, snarkjs: Any, tmp_path: Path, ptau_of: Callable[[Curve, int], Path]
) -> None:
    ptau = ptau_of(BN254, 5)
    path = check_with_snarkjs(snarkjs, tmp_path, small_circuit(BN254).r1cs, ptau, backend)
    snarkjs("zkey", "contribute", path, tmp_path / "more.zkey", "-n=more", "-e=more")
    done = snarkjs("zkey", "verify", tmp_path / "c.r1cs", ptau, tmp_path / "more.zkey")
    assert "ZKey Ok!" in done.stdout
    assert [c.name for c in read_zkey(tmp_path / "more.zkey").contributions] == [CONTRIBUTOR, "more"]

    last = tmp_path / "last.zkey"
    made = contribute(tmp_path / "more.zkey", out=last, name="ours", backend=backend)
    done = snarkjs("zkey", "verify", tmp_path / "c.r1cs", ptau, last)
    assert "ZKey Ok!" in done.stdout
    assert made.hash.hex() in "".join(done.stdout.split())
    assert [c.name for c in read_zkey(last).contributions] == [CONTRIBUTOR, "more", "ours"]
    prove_and_verify(snarkjs, tmp_path, last, BN254, small_circuit(BN254).witness(INPUTS, backend))
    damaged = bytearray(last.read_bytes())
    damaged[read_zkey(last).file.sections[9][0] + 3] ^= 1
    (tmp_path / "damaged.zkey").write_bytes(damaged)
    with pytest.raises(InvalidKey, match="section H"):
        contribute(tmp_path / "damaged.zkey", out=tmp_path / "no.zkey", name="ours", backend=backend)
    assert not (tmp_path / "no.zkey").exists()


@pytest.mark.node
@pytest.mark.slow
def test_snarkjs_accepts_a_key_that_fills_a_large_ceremony(
    backend: Backend, snarkjs: Any, tmp_path: Path, ptau_of: Callable[[Curve, int], Path]
) -> None:
    # snarkjs reads past the end of such a file. Rows without entries make the circuit large and quick to set up.
    small = small_circuit(BN254).r1cs
    count = 20_000
    a, b, c = (
        replace(m, rows=count, row_ptr=np.pad(m.row_ptr, (0, count - m.rows), mode="edge"))
        for m in (small.a, small.b, small.c)
    )
    check_with_snarkjs(snarkjs, tmp_path, replace(small, a=a, b=b, c=c), ptau_of(BN254, 15), backend)


@pytest.mark.node
@pytest.mark.parametrize(
    ("name", "curve", "power"),
    [("tiny", BN254, None), ("tiny", BN254, 5), ("sha256_256", BN254, 15), ("chain_bls12381", BLS12_381, None)],
    ids=["tiny, dev", "tiny", "sha256", "chain, dev"],
)
def test_keys_of_the_shared_circuits_prove(
    name: str,
    curve: Curve,
    power: int | None,
    backend: Backend,
    snarkjs: Any,
    tmp_path: Path,
    ptau_of: Callable[[Curve, int], Path],
    shared_data: Path,
) -> None:
    """Keys from a ceremony of so much power, and development keys."""
    folder = shared_data / "circom" / name
    r1cs = read_r1cs(folder / "circuit.r1cs")
    witness = WitnessProgram(folder / "circuit.wasm").generate(read_input(folder / "inputs" / "input_00.json"))
    public = unpack(witness[1 : r1cs.n_public + 1])
    source: dict[str, Any] = {"insecure_dev": True} if power is None else {"ptau": ptau_of(curve, power)}
    setup(r1cs, **source, backend=backend, out=tmp_path / "c.zkey")
    zkey = read_zkey(tmp_path / "c.zkey")
    proof, _ = prove(load_key(zkey, backend), witness)
    vk = zkey.verification_key
    assert verify(vk, public, proof)
    (tmp_path / "proof.json").write_text(format_proof(proof))
    (tmp_path / "public.json").write_text(format_public(public))
    write_verification_key(tmp_path / "vk.json", vk)
    done = snarkjs("groth16", "verify", tmp_path / "vk.json", tmp_path / "public.json", tmp_path / "proof.json")
    assert "OK!" in done.stdout


def test_ceremony_and_development_key_agree_on_the_circuit(
    backend: Backend, tmp_path: Path, ptau_of: Callable[[Curve, int], Path]
) -> None:
    r1cs = synthetic_circuit(BN254, 20, backend).r1cs
    setup(r1cs, insecure_dev=True, backend=backend, out=tmp_path / "dev.zkey")
    setup(r1cs, ptau=ptau_of(BN254, 5), backend=backend, out=tmp_path / "real.zkey")
    dev, real = (read_zkey(tmp_path / name) for name in ("dev.zkey", "real.zkey"))
    np.testing.assert_array_equal(dev.coefficients, real.coefficients)


def test_refusals(backend: Backend, tmp_path: Path, ptau_of: Callable[[Curve, int], Path]) -> None:
    r1cs = small_circuit(BN254).r1cs
    out = tmp_path / "no.zkey"
    with pytest.raises(UsageError, match="exactly one"):
        setup(r1cs, backend=backend, out=out)
    with pytest.raises(UsageError, match="exactly one"):
        setup(r1cs, ptau=ptau_of(BN254, 5), insecure_dev=True, backend=backend, out=out)
    with pytest.raises(CurveMismatch, match="BLS12-381"):
        setup(r1cs, ptau=ptau_of(BLS12_381, 5), backend=backend, out=out)
    large = synthetic_circuit(BN254, 40, backend).r1cs
    with pytest.raises(InputError, match=r"up to 2\^5; this circuit needs 2\^6"):
        setup(large, ptau=ptau_of(BN254, 5), backend=backend, out=out)
    assert not out.exists()


@pytest.mark.parametrize("section", [2, 4, 5, 6, 12, 13, 14, 15])
def test_points_off_the_curve_are_refused(
    section: int, backend: Backend, tmp_path: Path, ptau_of: Callable[[Curve, int], Path]
) -> None:
    good = read_ptau(ptau_of(BN254, 5))
    data = bytearray(ptau_of(BN254, 5).read_bytes())
    offset, size = good.file.sections[section]
    # the last point of the domain of 2^5, which ends the section but for tau G1's one larger basis
    end = offset + size - (64 * 64 if section == 12 else 0)
    data[(offset if section in (2, 4, 5) else end - 64) + 3] ^= 1
    (tmp_path / "bad.ptau").write_bytes(data)
    with pytest.raises(InvalidKey, match="not in G"):
        setup(small_circuit(BN254).r1cs, ptau=tmp_path / "bad.ptau", backend=backend, out=tmp_path / "no.zkey")


# Drawn with ffjavascript: curve.G2.fromRng(new ChaCha(seed)) for the digest 13, 20, 27, ... (mod 256).
HASHED = {
    "bn128": (
        0x2FDB6F1493F57847659F3E345AF6516B22C7C0075EC90522BBA414C308F8F349,
        0x189CB61CC82F0C8E1D28A5C3F67D36AC33684F61A4E205ECFFC90303DA70FE9A,
        0x19EF25B3A72E50386F5FA18410308584214F1D32B57E08AFE9F6E7D1F54F414B,
        0x137C0D55F11CDB8C9487C6882447937BBFCE3B05A4B12E247F20CB440F2DCF83,
    ),
    "bls12381": (
        0xC67FE675918E081F4144E9FCD4F7A0C63F58ED7EB0AC9D2B1E23CBC4D27FF0F13E4F62F58321D95AE9A662D767A091C,
        0x6B23C3A4B28D39EBBCAB0192E68B06CB682939A3E19ADA85EDC0BEF8709E8DE33FA029215FBA1D3A6C4AA786D727A0,
        0x146E9AFB19E0A03EA3FFDFF77452EE5FE15E6E585FBECB4F662E68D224D594E23EBB8713EA55FE1E4EBBEA91721F4C13,
        0x1590D49F4707D056FF2D052AA4CBCBF963ACA50D27F263783089B867AAE2B1CB6096D271027EE95C42D95366BC9BEA5,
    ),
}


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_hash_to_g2_is_snarkjs(curve: Curve) -> None:
    digest = bytes((13 + 7 * i) % 256 for i in range(64))
    assert point_to_ints(curve, Group.G2, hash_to_g2(curve, digest)) == HASHED[curve.name]


# operand, point and uncompressed difference of wasmcurves' g1m_subAffine, for operands that are no points
OVERREAD = {
    "bn128": [
        (
            "00254c739cc5f01b4875a4d30435689bd0053c73ace5205b98d5145394d5185ba0e52c73bc05509be83584d32475c81b"
            "70c51c73cc2580db3895f453b41578db",
            "c85c1745af9b145932b15a2519a00f5ce38c1c21e247025321206c34ece9ba2ec4dc8c15ddc75a29fcb41e8ebfa5e1b1"
            "e427d83d301d09eafcc0fd891ca20100",
            "095f841e4c3e5748ef50b55b3679d2d24103bf4a640b8c510d6bf0a9010a5a5d100ebabc4a9336cf138cb073dc48c406"
            "c71f1ac13edc7351867c44e28b0d4df3",
        ),
        (
            "030000006300000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
            "00000000000000000000000000000000",
            "c85c1745af9b145932b15a2519a00f5ce38c1c21e247025321206c34ece9ba2ec4dc8c15ddc75a29fcb41e8ebfa5e1b1"
            "e427d83d301d09eafcc0fd891ca20100",
            "074d2e1f01b3a0de0de080a33e9393f8e7f602ad1885d4f2ebff430e3951182302a85b64e452d4b72b793b02b0e93cbd"
            "24338d1d7e6855b50f3c12eb9b1ccf3d",
        ),
        (
            "b6db0229527ba6d1fe2b5a89baeb1e5186bbf229629bd6114e8bca094a8bce11569be22972bb06519eeb3a89da2b7ed1"
            "267bd22982db3691ee4baa096acb2e91",
            "c85c1745af9b145932b15a2519a00f5ce38c1c21e247025321206c34ece9ba2ec4dc8c15ddc75a29fcb41e8ebfa5e1b1"
            "e427d83d301d09eafcc0fd891ca20100",
            "18a078c08677b817a3d1295cacf71c18080bba473faea84b54dbbc43b4792c912035471f9c7c184102caa077657cb97f"
            "90b77833b09f1fc06f85a7204a11d0c9",
        ),
    ],
    "bls12381": [
        (
            "00254c739cc5f01b4875a4d30435689bd0053c73ace5205b98d5145394d5185ba0e52c73bc05509be83584d32475c81b"
            "70c51c73cc2580db3895f453b41578db40a50c73dc45b01b88f564d344b5289b1085fc73ec65e05bd855d453d455d85b",
            "0563e8e0a1319b8582ed73fb68e377f686b448eef986bf0797d9d3392281a219a91d8016152995392988e52baad9530b"
            "306e00264a845371d9ecf9131bed0f5f8d8d9b9cb3bbc7e52211cc6821cdd81f09784fe225a7a26045ce349b58a21201",
            "06334abc6fb01f02d1fb8a2a9ef0615b8cd19845691fe3738cea73bb1cac2bfa72b77f5e82fd8ce614d734f9e231e140"
            "020c4b2ed47506ec2ffad963201438ecff108b80401db98fb9c5407bccf69ead2c6ff90df95449e9cbe10676c19904dc",
        ),
        (
            "030000006300000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
            "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
            "0563e8e0a1319b8582ed73fb68e377f686b448eef986bf0797d9d3392281a219a91d8016152995392988e52baad9530b"
            "306e00264a845371d9ecf9131bed0f5f8d8d9b9cb3bbc7e52211cc6821cdd81f09784fe225a7a26045ce349b58a21201",
            "0c5444739ca1716a79d1a8e5ac799899cf439da359a855844a05142f08aae0648af484fc1f7da5beec1e0e1d8590db63"
            "09998b793abf9370a4efae1115811e82a101d68ea1403cebd327cc9f52db3be6973cb82c21a435ec9e27dba5c4ea1c20",
        ),
        (
            "b6db0229527ba6d1fe2b5a89baeb1e5186bbf229629bd6114e8bca094a8bce11569be22972bb06519eeb3a89da2b7ed1"
            "267bd22982db3691ee4baa096acb2e91f65bc22992fb66d13eab1a89fa6bde51c63bb229a21b96118e0b8a098a0b8e11",
            "0563e8e0a1319b8582ed73fb68e377f686b448eef986bf0797d9d3392281a219a91d8016152995392988e52baad9530b"
            "306e00264a845371d9ecf9131bed0f5f8d8d9b9cb3bbc7e52211cc6821cdd81f09784fe225a7a26045ce349b58a21201",
            "0e4d899499d2042fbc9d03872a289ea6a785c81787c34dd89ca53eda42701dcbca6e327afc757ae18bc1c8aafd9552d1"
            "1170ed47d0113a5cdbe930bacf44aacd6b199790654a7dd3c38c265ccb86ecfade9b4f9056a10b6aab01c60d959304d0",
        ),
    ],
}


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_reading_past_the_end_is_snarkjs(curve: Curve) -> None:
    for operand, point, expected in OVERREAD[curve.name]:
        assert difference(curve, bytes.fromhex(operand), bytes.fromhex(point)).hex() == expected


def test_reading_past_the_end_of_a_made_up_file_does_no_harm() -> None:
    x = (5).to_bytes(32, "little")
    assert difference(BN254, x + x, x + bytes(32)) == bytes(64)
