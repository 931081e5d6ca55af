"""gnark itself makes keys and judges our proofs under them, over both curves, and refuses changed ones.

`go build -o gnark .` in the folder gnark makes the program; DISTPROVE_GNARK names one that is elsewhere.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import distprove
from distprove.groth16.export import export_for_gnark
from distprove.proof import Proof

BUILT = Path(__file__).parent / "gnark" / "gnark"
GNARK = Path(os.environ.get("DISTPROVE_GNARK", BUILT))
pytestmark = pytest.mark.skipif(not GNARK.exists(), reason="no gnark: go build makes it")


def gnark(*args: object) -> str:
    """What the program prints; an error's text of files that it cannot read."""
    done = subprocess.run([str(GNARK), *map(str, args)], capture_output=True, text=True, timeout=120)
    return done.stdout.splitlines()[-1] if done.returncode == 0 and done.stdout else done.stderr.strip()


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
