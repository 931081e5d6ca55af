"""What `export` writes: a file for each thing under a name of its own, through no link, and over nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from distprove.groth16.export import export as export_groth16
from distprove.proof import Proof, heights_of, partition_digest
from distprove.stark.export import export as export_stark
from distprove.stark.keyfile import read_key, shipped_key
from distprove.stark.verifying_key import MAX_BYTES
from tests.cli.conftest import run, why_refused

LOCAL = ("--local", "--no-isolate", "--threads", "2", "--backend", "cpu")


@pytest.fixture(scope="module")
def fibonacci(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("stark") / "run"
    done = run("prove", "stark", "fibonacci", "--rows", "8", "--partitions", "2", "--out", out, *LOCAL)
    assert done.exit_code == 0, done.output
    return out


def renamed(path: Path, *names: str) -> Proof:
    """The proof in a run with other names for its partitions, as whoever sends it may choose them."""
    proof = Proof.read_from(path)
    parts = tuple(
        replace(part, name=name, digest=partition_digest(proof.key_digest, i, name, part.public, heights_of(part)))
        for i, (part, name) in enumerate(zip(proof.partitions, names, strict=True))
    )
    return replace(proof, partitions=parts)


def test_a_partition_may_have_the_name_of_groth16s_key_file(proven: Path, tmp_path: Path) -> None:
    proof = renamed(proven, "verification_key.json", "proof", "Verification_Key.json-2")
    written = export_groth16(proof, tmp_path / "E").names
    assert written == ["verification_key.json-3", "proof", "Verification_Key.json-2"]
    assert json.loads((tmp_path / "E" / "verification_key.json").read_text())["protocol"] == "groth16"
    for name, part in zip(written, proof.partitions, strict=True):
        public = json.loads((tmp_path / "E" / name / "public.json").read_text())
        assert public == [str(value) for value in part.public]
        assert (tmp_path / "E" / name / "proof.json").is_file()


def test_a_partition_may_have_the_name_of_a_starks_key_file(fibonacci: Path, tmp_path: Path) -> None:
    proof = renamed(fibonacci, "verifying_key", "verifying_key.msgpack")
    key, _ = shipped_key(proof.verification_key)
    names = export_stark(proof, fibonacci, tmp_path / "E").names
    assert names == ["verifying_key-2", "verifying_key.msgpack"]
    assert read_key(tmp_path / "E" / "verifying_key.msgpack").digest == key.digest
    assert len({path.read_bytes() for path in (tmp_path / "E").iterdir()}) == 3


@pytest.mark.parametrize("place", ["E", "E/verification_key.json", "E/member-1", "E/member-0/proof.json"])
def test_export_writes_through_no_link(proven: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "home").mkdir()
    victim = tmp_path / "home" / "diary"
    victim.write_text("what is mine\n")
    link = tmp_path / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim if place.endswith(".json") else tmp_path / "home")
    told = why_refused(run("export", proven, "--out", tmp_path / "E"))
    assert f"{link} is a symbolic link" in told
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["diary"]
    assert victim.read_text() == "what is mine\n"


def test_export_overwrites_nothing(proven: Path, fibonacci: Path, tmp_path: Path) -> None:
    out = tmp_path / "E"
    for path in (proven, fibonacci):
        assert run("export", path, "--out", out).exit_code == 0
    assert out.stat().st_mode & 0o777 == 0o777 & ~current_umask(tmp_path)
    assert run("export", proven, "--out", out).exit_code == 0  # the same again
    for mine, path in ((out / "member-0" / "public.json", proven), (out / "verifying_key.msgpack", fibonacci)):
        kept = mine.read_bytes()
        for other in (b"what is mine\n", kept + b"\n", bytes(MAX_BYTES // 64)):
            mine.write_bytes(other)
            told = why_refused(run("export", path, "--out", out))
            assert f"{mine} is there already" in told
            assert "choose another folder" in told
            assert mine.read_bytes() == other
        mine.write_bytes(kept)


def current_umask(folder: Path) -> int:
    (folder / "made").mkdir()
    return 0o777 & ~(folder / "made").stat().st_mode
