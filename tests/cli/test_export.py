"""What `export` writes: a file for each thing under a name of its own, through no link, and over nothing."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from distprove.groth16.export import export as export_groth16
from distprove.groth16.wtns import read_wtns
from distprove.proof import Proof, heights_of, partition_digest
from distprove.stark.export import export as export_stark
from distprove.stark.key_front import MAX_BYTES
from distprove.stark.keyfile import read_key, shipped_key
from tests.cli.conftest import SmallJob, run, why_refused

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
    assert len({path.read_bytes() for path in (tmp_path / "E").iterdir()}) == 4


def test_an_exported_folder_is_verified_without_the_run_by_the_command_that_is_printed(tmp_path: Path) -> None:
    options = ("--rows", "8", "--security", "20", "--out", tmp_path / "my run")
    assert run("prove", "stark", "fibonacci", *options, *LOCAL).exit_code == 0
    done = run("export", tmp_path / "my run", "--out", tmp_path / "for others")
    assert done.exit_code == 0, done.output
    command = shlex.split(done.stdout.splitlines()[-1])
    shutil.rmtree(tmp_path / "my run")
    assert command[:2] == ["distprove", "verify"]
    verified = run(*command[1:])
    assert verified.exit_code == 0, verified.output
    weak = run(*command[1 : command.index("--security")])
    assert (weak.exit_code, "(--security, least_security=)" in " ".join(weak.stderr.split())) == (1, True)


def test_an_exported_proof_in_json_is_verified_with_its_public_values(
    proven: Path, small_job: SmallJob, tmp_path: Path
) -> None:
    assert run("export", proven, "--out", tmp_path / "E").exit_code == 0
    proof = tmp_path / "E" / "member-1" / "proof.json"
    held = run("verify", proof, "--vk", small_job.vk, "--json")
    assert held.exit_code == 0, held.output
    assert json.loads(held.stdout)["public"] == json.loads(proof.with_name("public.json").read_text())
    assert "the key that --vk names" in why_refused(run("verify", proof))
    for code in (0, 1):
        refused = run("verify", proof, "--vk", small_job.vk, "--exit-code", code)
        assert "--vk and --public alone" in why_refused(refused)
        refused = run("verify", proven, "--vk", small_job.vk, "--exit-code", code)
        assert "states neither an exit code" in why_refused(refused)
    assert f"{proof} is a proof by itself" in why_refused(run("verify", proof.parent, "--vk", small_job.vk))
    several = why_refused(run("verify", tmp_path / "E", "--vk", small_job.vk))
    assert f"it has single proofs: verify {tmp_path / 'E' / 'member-0' / 'proof.json'}" in several
    (tmp_path / "empty").mkdir()
    nothing = why_refused(run("verify", tmp_path / "empty", "--vk", small_job.vk))
    assert "empty has no proof.msgpack: it is not a run" in nothing
    swapped = run("verify", small_job.vk, "--vk", proof)
    assert f"{small_job.vk} is a verification key" in why_refused(swapped)
    told = why_refused(run("verify", proof, "--vk", small_job.zkey))
    assert "is a proving key: `distprove zkey export " in told
    other = tmp_path / "E" / "member-0" / "proof.json"
    other.write_bytes(proof.read_bytes())  # of other public values
    refused = run("verify", other, "--vk", small_job.vk)
    assert (refused.exit_code, "does not verify" in refused.stderr) == (1, True)
    other.with_name("public.json").unlink()
    assert "--public names their file" in why_refused(run("verify", other, "--vk", small_job.vk))


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


def test_an_export_says_which_file_each_partition_is_of(small_job: SmallJob, tmp_path: Path) -> None:
    """`a b` and `a_b` are the names of two files, of which only one can be a partition's."""
    witnesses = sorted(small_job.witnesses.iterdir())
    names = {"a b.wtns": "a_b-2", "a_b.wtns": "a_b", os.fsdecode(b"\xff.wtns"): "_", "files.json.wtns": "files.json"}
    for place, name in enumerate(names):
        (tmp_path / name).symlink_to(witnesses[place % 3])
    args = ("--zkey", small_job.zkey, "--wtns", *(tmp_path / name for name in names), "--out", tmp_path / "run", *LOCAL)
    assert run("prove", "groth16", *args).exit_code == 0
    assert run("prove", "groth16", *args, "--resume").exit_code == 0
    out = tmp_path / "E"
    for _ in range(2):
        done = run("export", tmp_path / "run", "--out", out, "--json")
        assert done.exit_code == 0, done.output
    expected = {kept if kept != "files.json" else "files.json-2": name for name, kept in names.items()}
    assert json.loads(done.stdout)["files"] == json.loads((out / "files.json").read_text()) == expected
    for name, file in expected.items():
        shown = json.loads((out / name / "public.json").read_text())
        witness = read_wtns(tmp_path / file).values
        assert shown == [str(int.from_bytes(value.tobytes(), "little")) for value in witness[1 : 1 + len(shown)]]


def test_the_maps_of_two_runs_in_one_folder_become_one(small_job: SmallJob, proven: Path, tmp_path: Path) -> None:
    (tmp_path / "z.wtns").symlink_to(small_job.witnesses / "member-0.wtns")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "z.wtns").symlink_to(small_job.witnesses / "member-0.wtns")
    for place, pattern in enumerate(("z.wtns", "w/../*.wtns", "*/z.wtns")):
        args = ("--zkey", small_job.zkey, "--wtns", tmp_path / pattern, "--out", tmp_path / f"run{place}", *LOCAL)
        assert run("prove", "groth16", *args).exit_code == 0
    out = tmp_path / "E"
    for path in (proven, tmp_path / "run0"):
        assert run("export", path, "--out", out).exit_code == 0
    whole = {f"member-{i}": f"member-{i}.wtns" for i in range(3)} | {"z": "z.wtns"}
    assert json.loads((out / "files.json").read_text()) == whole
    (out / "files.json").write_text(json.dumps({"z": "other.wtns"}))
    assert "files.json is there already" in why_refused(run("export", tmp_path / "run0", "--out", out))
    assert json.loads((out / "files.json").read_text()) == {"z": "other.wtns"}
