"""gnark's own library of curves and encodings accepts our proofs in its files, over both curves, and no changed ones.

`go build -o gnark-judge .` in gnark-judge makes the program; DISTPROVE_GNARK_JUDGE names one that is elsewhere.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

import distprove
from distprove.circuits.merkle import MembershipTree, membership_circuit, random_members
from distprove.groth16.export import export_for_gnark
from distprove.groth16.setup import setup
from distprove.groth16.wtns import write_wtns
from distprove.proof import Proof
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BLS12_381, BN254, Curve

BUILT = Path(__file__).parent / "gnark-judge" / "gnark-judge"
JUDGE = Path(os.environ.get("DISTPROVE_GNARK_JUDGE", BUILT))
pytestmark = pytest.mark.skipif(not JUDGE.exists(), reason="no gnark-judge: go build makes it")
NAMES = {BN254: "bn254", BLS12_381: "bls12-381"}


def judged(curve: Curve, key: Path, proof: Path, public: Path) -> str:
    """What the judge prints; an error's text of a file that it cannot read."""
    command = [str(JUDGE), NAMES[curve], str(key), str(proof), str(public)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()


@pytest.fixture(scope="module", params=[BN254, BLS12_381], ids=lambda curve: curve.name)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Curve, Path]:
    """A job of two members of a group, proven under a development key, in the files of gnark."""
    curve, folder = request.param, tmp_path_factory.mktemp("gnark")
    circuit = membership_circuit(curve, 2)
    tree = MembershipTree(curve.fr, random_members(curve.fr, 2), 2)
    with CpuBackend(threads=2) as cpu:
        for k, witness in enumerate(circuit.witnesses([tree.membership(k).inputs(scope=7) for k in range(2)], cpu)):
            write_wtns(folder / f"{k}.wtns", curve, witness)
        setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=folder / "c.zkey")
    here = {"local": True, "isolate": False, "threads": 2}
    result = distprove.prove(
        zkey=folder / "c.zkey", witnesses=[folder / "0.wtns", folder / "1.wtns"], out=folder / "run", executor=here
    )
    export_for_gnark(Proof.read(result.proof_path), folder / "files")
    return curve, folder / "files"


def test_gnarks_library_accepts_our_files(exported: tuple[Curve, Path]) -> None:
    curve, files = exported
    key = files / "verifying_key.gnark"
    assert judged(curve, key, files / "0" / "proof.gnark", files / "0" / "public.gnark") == "true"
    assert judged(curve, key, files / "1" / "proof.gnark", files / "1" / "public.gnark") == "true"
    assert judged(curve, key, files / "1" / "proof.gnark", files / "0" / "public.gnark") == "false"


@pytest.mark.parametrize("which", ["verifying_key", "proof", "public"])
def test_it_refuses_changed_files(exported: tuple[Curve, Path], which: str, tmp_path: Path) -> None:
    curve, files = exported
    paths = {
        "verifying_key": files / "verifying_key.gnark",
        "proof": files / "0" / "proof.gnark",
        "public": files / "0" / "public.gnark",
    }
    content, random = paths[which].read_bytes(), Random(1)
    for place in random.sample(range(len(content)), 12):
        changed = bytearray(content)
        changed[place] ^= 1 << random.randrange(8)
        (tmp_path / which).write_bytes(changed)
        assert judged(curve, *{**paths, which: tmp_path / which}.values()) != "true"
