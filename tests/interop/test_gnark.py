"""gnark itself makes keys and judges our proofs under them, over both curves, and refuses changed ones.

`go build -o gnark .` in the folder gnark makes the program; DISTPROVE_GNARK names one that is elsewhere.
"""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

import distprove
from distprove.groth16.committed.verifier import verify_committed
from distprove.groth16.export import export_for_gnark
from distprove.groth16.gnark import parse_committed_key, parse_committed_proof, parse_public
from distprove.proof import Proof
from kernels.maths.curves import BLS12_381, BN254

BUILT = Path(__file__).parent / "gnark" / "gnark"
GNARK = Path(os.environ.get("DISTPROVE_GNARK", BUILT))
CURVES = {"bn254": BN254, "bls12-381": BLS12_381}
pytestmark = pytest.mark.skipif(not GNARK.exists(), reason="no gnark: go build makes it")


def gnark(*args: object) -> str:
    """What the program prints; an error's text of files that it cannot read."""
    done = subprocess.run([str(GNARK), *map(str, args)], capture_output=True, text=True, timeout=120)
    return done.stdout.splitlines()[-1] if done.returncode == 0 and done.stdout else done.stderr.strip()


def test_a_witness_is_for_its_owner_alone_over_a_file_that_others_read(tmp_path: Path) -> None:
    (tmp_path / "w.wtns").write_bytes(bytes(10**6))
    (tmp_path / "w.wtns").chmod(0o644)
    gnark("make", "bn254", tmp_path)
    assert stat.S_IMODE((tmp_path / "w.wtns").stat().st_mode) == 0o600
    assert 0 < (tmp_path / "w.wtns").stat().st_size < 10**5


@pytest.mark.parametrize("curve", ["bn254", "bls12-381"])
def test_gnark_accepts_our_proofs_under_its_keys(curve: str, tmp_path: Path) -> None:
    gnark("make", curve, tmp_path)
    assert gnark("verify", curve, tmp_path / "vk", tmp_path / "proof", tmp_path / "public") == "true"
    here = {"local": True, "isolate": False, "threads": 2}
    for suffix in ("", ".raw"):
        result = distprove.prove(
            gnark_pk=tmp_path / f"pk{suffix}",
            gnark_vk=tmp_path / f"vk{suffix}",
            r1cs=tmp_path / "c.r1cs",
            witnesses=[tmp_path / "w.wtns"],
            out=tmp_path / f"run{suffix}",
            executor=here,
        )
        files = tmp_path / f"files{suffix}"
        export_for_gnark(Proof.read(result.proof_path), files)
        proof, public = files / "w" / "proof.gnark", files / "w" / "public.gnark"
        assert public.read_bytes() == (tmp_path / "public").read_bytes()
        assert gnark("verify", curve, tmp_path / "vk", proof, public) == "true"
        assert gnark("verify", curve, files / "verifying_key.gnark", proof, public) == "true"
        other = bytearray(public.read_bytes())
        other[-1] ^= 1
        (tmp_path / "other").write_bytes(other)
        assert gnark("verify", curve, tmp_path / "vk", proof, tmp_path / "other") == "false"


@pytest.mark.parametrize(
    ("curve", "kind"),
    [
        ("bn254", ("commit",)),
        ("bls12-381", ("commit",)),
        ("bn254", ("commit", "keccak256")),
        ("bn254", ("range",)),
        ("bls12-381", ("range",)),
    ],
)
def test_gnark_accepts_our_proofs_with_commitments(curve: str, kind: tuple[str, ...], tmp_path: Path) -> None:
    """Under its keys, from witnesses that its solver made; and it refuses changed ones."""
    gnark(kind[0], curve, tmp_path, *kind[1:])
    hashed = kind[1] if kind[1:] else "rfc9380"
    result = distprove.prove(
        gnark_pk=tmp_path / "pk.raw",
        gnark_vk=tmp_path / "vk.raw",
        r1cs=tmp_path / "c.r1cs",
        witnesses=[tmp_path / "w.wtns"],
        commitment_hash=hashed,
        out=tmp_path / "run",
        executor={"local": True, "isolate": False, "threads": 2},
    )
    distprove.verify(result.proof_path, vk=tmp_path / "vk")
    files = tmp_path / "files"
    export_for_gnark(Proof.read(result.proof_path), files)
    proof, public = files / "w" / "proof.gnark", files / "w" / "public.gnark"
    assert public.read_bytes() == (tmp_path / "public").read_bytes()
    for vk in (tmp_path / "vk", files / "verifying_key.gnark"):
        assert gnark("verify", curve, vk, proof, public, *kind[1:]) == "true"
    if kind[1:]:
        assert gnark("verify", curve, tmp_path / "vk", proof, public) == "false"
    content = bytearray(proof.read_bytes())
    size = (len(content) - 4) // 7  # of a point of G1, beside two commitments
    content[-size:] = content[:size]  # A in the place of the proof of knowledge
    (tmp_path / "other").write_bytes(content)
    assert gnark("verify", curve, tmp_path / "vk", tmp_path / "other", public, *kind[1:]) == "false"


@pytest.mark.parametrize("curve", ["bn254", "bls12-381"])
def test_gnark_and_we_agree_on_proofs_with_commitments(curve: str, tmp_path: Path) -> None:
    gnark("commit", curve, tmp_path)
    vk, proof, public = (tmp_path / name for name in ("vk", "proof", "public"))
    size = (len(proof.read_bytes()) - 4) // 7  # of a point of G1
    swapped = bytearray(proof.read_bytes())
    first, second = slice(4 * size + 4, 5 * size + 4), slice(5 * size + 4, 6 * size + 4)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    other = bytearray(public.read_bytes())
    other[-1] ^= 1
    (tmp_path / "swapped").write_bytes(swapped)
    (tmp_path / "other").write_bytes(other)
    for files, holds in (
        ((vk, proof, public), True),
        ((vk, tmp_path / "swapped", public), False),
        ((vk, proof, tmp_path / "other"), False),
    ):
        assert gnark("verify", curve, *files) == str(holds).lower()
        key, made, values = (path.read_bytes() for path in files)
        read = parse_committed_key(key, CURVES[curve])
        assert verify_committed(read, parse_public(values, CURVES[curve]), parse_committed_proof(made)) == holds
