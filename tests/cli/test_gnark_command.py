"""`distprove gnark`: a run's proofs in gnark's files and back."""

from __future__ import annotations

import json
from pathlib import Path

import distprove
from tests.cli.conftest import SmallJob, run, why_refused


def test_a_run_is_exported_and_verified_by_its_commands(proven: Path, small_job: SmallJob, tmp_path: Path) -> None:
    done = run("gnark", "export", proven, "--out", tmp_path / "files")
    assert done.exit_code == 0, done.output
    folders = sorted(path for path in (tmp_path / "files").iterdir() if path.is_dir())
    assert len(folders) == 3
    vk = tmp_path / "files" / "verifying_key.gnark"
    for folder in folders:
        args = (folder / "proof.gnark", "--vk", vk, "--public", folder / "public.gnark")
        told = json.loads(run("gnark", "verify", *args, "--json").stdout)
        assert told["status"] == "verified"
    other = run("gnark", "verify", *args[:-1], folders[0] / "public.gnark")
    assert (other.exit_code, "does not hold" in " ".join(other.stderr.split())) == (1, True)
    assert run("gnark", "key", vk, "--out", tmp_path / "vk.json").exit_code == 0
    assert distprove.verify(proven, vk=tmp_path / "vk.json").key_given
    assert (tmp_path / "vk.json").read_bytes() == small_job.vk.read_bytes()
    assert "--curve is" in why_refused(run("gnark", "key", vk, "--out", tmp_path / "x.json", "--curve", "bn128"))
    told = why_refused(run("gnark", "key", vk, "--out", tmp_path / "x.json", "--curve", "bls12-381"))
    assert "a key over BN254, which `--curve bn254` reads" in told
    (tmp_path / "short").write_bytes(vk.read_bytes()[:300])
    assert "points of K" in why_refused(run("gnark", "key", tmp_path / "short", "--out", tmp_path / "x.json"))
