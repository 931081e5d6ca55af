"""Proving keys of gnark: proofs under keys that gnark 0.14 made, over both curves, and files that are none.

`tests/interop/gnark` made the files: a circuit of 44 constraints, its keys compressed and in full, its witness, and a
proof of gnark's own.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

import distprove
from distprove.errors import CurveMismatch, DistproveError, FormatError, InputError, InvalidKey, JobFailed
from distprove.groth16 import gnark
from distprove.groth16.gnark_key import GnarkKey
from distprove.groth16.key_check import check_key, find_damage
from distprove.groth16.keyfile import read_key
from distprove.groth16.prover import prove
from distprove.groth16.r1cs import read_r1cs, write_r1cs
from distprove.groth16.resident import load_key
from distprove.groth16.system import Groth16System
from distprove.groth16.verifier import verify
from distprove.groth16.wtns import read_wtns, write_wtns
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BLS12_381, BN254, Curve
from kernels.maths.encoding import unpack
from tests.cli.conftest import run, why_refused

FILES = Path(__file__).parent / "gnark"
FOLDERS = {BN254: FILES / "bn254", BLS12_381: FILES / "bls12-381"}
CURVES = pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda curve: curve.name)
DOMAIN, WIRES, PUBLIC = 64, 46, 2


@pytest.fixture(scope="module")
def cpu() -> CpuBackend:
    return CpuBackend(threads=2)


def files(curve: Curve, suffix: str = ".raw", **changed: Path) -> dict[str, Path]:
    folder = FOLDERS[curve]
    named = {"gnark_pk": folder / f"pk{suffix}", "gnark_vk": folder / f"vk{suffix}", "r1cs": folder / "c.r1cs"}
    return {**named, **changed}


def read(curve: Curve, suffix: str = ".raw", **changed: Path) -> GnarkKey:
    key = read_key(files(curve, suffix, **changed), "pk")
    assert isinstance(key, GnarkKey)
    return key


def changed(tmp_path: Path, content: bytes) -> Path:
    (tmp_path / "changed").write_bytes(content)
    return tmp_path / "changed"


@CURVES
def test_both_encodings_are_one_key(curve: Curve, cpu: CpuBackend) -> None:
    short, full = read(curve, ""), read(curve)
    assert (full.n_vars, full.n_public, full.domain_size) == (WIRES, PUBLIC, DOMAIN)
    assert full.verification_key.digest() == short.verification_key.digest()
    for section in ("a", "b1", "b2", "c", "h"):
        assert np.array_equal(getattr(short.points, section)[:], getattr(full.points, section)[:])
    assert len(full.points.h) == DOMAIN - 1
    assert 0 < len(full.points.b1) < WIRES  # some wires are in no row of B
    check_key(full, cpu)
    assert find_damage(full, cpu) is None


@CURVES
@pytest.mark.parametrize("suffix", ["", ".raw"])
def test_a_proof_under_gnarks_key_holds_under_gnarks_verifying_key(curve: Curve, suffix: str, cpu: CpuBackend) -> None:
    """The verifying key and the public values are read from gnark's files, and judge gnark's own proof as well."""
    folder = FOLDERS[curve]
    vk = gnark.parse_verifying_key((folder / "vk").read_bytes(), curve)
    public = gnark.parse_public((folder / "public").read_bytes(), curve)
    assert verify(vk, public, gnark.parse_proof((folder / "proof").read_bytes()))
    witness = read_wtns(folder / "w.wtns").values
    assert tuple(unpack(witness[1 : PUBLIC + 1])) == public
    proof, _ = prove(load_key(read(curve, suffix), cpu), witness)
    assert verify(vk, public, proof)
    assert not verify(vk, (public[0], public[1] + 1), proof)


@CURVES
def test_a_job_under_a_key_of_gnark(curve: Curve, tmp_path: Path) -> None:
    folder, out = FOLDERS[curve], tmp_path / "run"
    job = ["--gnark-pk", folder / "pk.raw", "--gnark-vk", folder / "vk", "--r1cs", folder / "c.r1cs"]
    here = ("--local", "--gpus", 0, "--threads", 2)
    done = run("prove", "groth16", *job, "--wtns", folder / "w.wtns", *here, "--out", out)
    assert done.exit_code == 0, done.output
    assert run("gnark", "export", out, "--out", tmp_path / "files").exit_code == 0
    made = tmp_path / "files" / "w"
    judged = ("gnark", "verify", made / "proof.gnark", "--vk", folder / "vk", "--public", folder / "public")
    assert run(*judged).exit_code == 0
    assert (made / "public.gnark").read_bytes() == (folder / "public").read_bytes()


def test_a_false_witness_is_named_by_its_constraint(tmp_path: Path) -> None:
    folder = FOLDERS[BN254]
    bad = np.array(read_wtns(folder / "w.wtns").values)
    bad[-1, 0] += np.uint64(1)
    write_wtns(tmp_path / "bad.wtns", BN254, bad)
    with pytest.raises(JobFailed, match=r"constraint \d+ of the circuit: \("):
        distprove.prove(
            **files(BN254), witnesses=[tmp_path / "bad.wtns"], out=tmp_path / "run", executor={"local": True, "gpus": 0}
        )


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    """Another curve's, another set-up's, and another circuit's."""
    with pytest.raises(CurveMismatch, match="root of unity is not one of BLS12-381"):
        read(BLS12_381, gnark_pk=FOLDERS[BN254] / "pk.raw")
    with pytest.raises(DistproveError):
        read(BN254, gnark_vk=FOLDERS[BLS12_381] / "vk")
    content = bytearray((FOLDERS[BN254] / "pk.raw").read_bytes())
    alpha, beta = content[169:233], content[233:297]
    content[169:233] = beta  # a point of the curve in the place of alpha
    with pytest.raises(InvalidKey, match="another alpha than in the verifying key of pk: keys of two set-ups"):
        read(BN254, gnark_pk=changed(tmp_path, bytes(content)))
    assert alpha != beta

    circuit = read_r1cs(FOLDERS[BN254] / "c.r1cs")
    cut = type(circuit)(**{**vars(circuit), "n_vars": circuit.n_vars + 1, "wire_labels": None})
    write_r1cs(tmp_path / "more.r1cs", cut)
    with pytest.raises(InvalidKey, match="46 wires, expected 47"):
        read(BN254, r1cs=tmp_path / "more.r1cs")
    swapped = type(circuit)(**{**vars(circuit), "a": circuit.b, "b": circuit.a})
    write_r1cs(tmp_path / "swapped.r1cs", swapped)
    other = read(BN254, r1cs=tmp_path / "swapped.r1cs")
    with pytest.raises(InvalidKey, match=r"wire \d+ has a point of A and is not in the circuit's A"):
        other.matrices()


@CURVES
@pytest.mark.parametrize("suffix", ["", ".raw"])
def test_spoilt_keys(curve: Curve, suffix: str, cpu: CpuBackend, tmp_path: Path) -> None:
    """A key that was cut, or changed in one bit, is refused by reading it or by the check. Where points are compressed
    over BN254 a changed bit may mean another point of the group. Then a proof does not verify, unless the point's
    scalar is 0."""
    content, random = (FOLDERS[curve] / f"pk{suffix}").read_bytes(), Random(5)
    for cut in (0, 8, 168, 169, 200, len(content) - 1):
        with pytest.raises(FormatError):
            read(curve, suffix, gnark_pk=changed(tmp_path, content[:cut]))
    with pytest.raises(FormatError, match="byte follows"):
        read(curve, suffix, gnark_pk=changed(tmp_path, content + b"\0"))
    witness = read_wtns(FOLDERS[curve] / "w.wtns").values
    public = unpack(witness[1 : PUBLIC + 1])
    verdicts = set()
    for place in [random.randrange(169, len(content)) for _ in range(24)]:
        spoilt = bytearray(content)
        spoilt[place] ^= 1 << random.randrange(8)
        try:
            key = read(curve, suffix, gnark_pk=changed(tmp_path, bytes(spoilt)))
            check_key(key, cpu)
        except InputError:
            verdicts.add("refused")
            continue
        proof, _ = prove(load_key(key, cpu), witness)
        verdicts.add(f"verifies: {verify(key.verification_key, public, proof)}")
    assert "refused" in verdicts
    if suffix:
        assert verdicts == {"refused"}
    elif curve is BN254:
        assert "verifies: False" in verdicts


@pytest.mark.parametrize(
    ("left_out", "more", "said"),
    [
        ("gnark_vk", (), "--gnark-pk, --gnark-vk and --r1cs (the circuit that they are for) go together"),
        ("r1cs", (), "go together"),
        ("", ("--zkey", "k.zkey"), "give one of --zkey, --params and --gnark-pk"),
        ("", ("--circuit", "filecoin/porep-2KiB"), "--gnark-pk is for one of gnark's: give --r1cs"),
    ],
)
def test_what_goes_together(left_out: str, more: tuple[str, ...], said: str, tmp_path: Path) -> None:
    named = {name: path for name, path in files(BN254).items() if name != left_out}
    args = [each for name, path in named.items() for each in (f"--{name.replace('_', '-')}", path)]
    done = run("prove", "groth16", *args, *more, "--wtns", FOLDERS[BN254] / "w.wtns", "--out", tmp_path / "run")
    assert said in why_refused(done)


def test_a_service_knows_the_files_of_such_a_key() -> None:
    system = Groth16System.of_key(files(BN254), None)
    assert system.describe()["domain"] == DOMAIN
    with pytest.raises(DistproveError, match="go together"):
        Groth16System.of_key({"gnark_pk": FOLDERS[BN254] / "pk"}, None)
