"""The commands on a real job, in process: what they print, what they leave on disk, and how they end."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import distprove
from cluster.record.run import Run
from distprove.cli import demo
from distprove.errors import InputError, InvalidProof, UntrustedKey, UsageError
from distprove.groth16 import snarkjs
from distprove.groth16.verifier import verify
from distprove.job import Job
from distprove.settings import ExecutorSettings
from tests.cli.conftest import SmallJob, run, why_refused
from tests.conftest import Snarkjs

DISTPROVE = [sys.executable, "-m", "distprove"]


def test_the_summary_is_for_people(small_job: SmallJob, tmp_path: Path) -> None:
    done = run(*small_job.prove(tmp_path / "run"))
    assert done.exit_code == 0, done.output
    assert "proved: 3 of 3 partitions" in done.stdout
    assert "insecure development set-up" in done.stdout
    assert "[3/3]" in done.stderr


def test_verify_names_the_key_and_where_it_comes_from(small_job: SmallJob, proven: Path) -> None:
    given = run("verify", proven / "proof.msgpack", "--vk", small_job.vk, "--json")
    own = run("verify", proven, "--trust-own-key", "--json")
    assert given.exit_code == own.exit_code == 0
    first, second = json.loads(given.stdout), json.loads(own.stdout)
    assert first["key_given"]
    assert not second["key_given"]
    assert first["key_digest"] == second["key_digest"]
    assert "--vk" in own.stderr
    assert [p["public"][2] for p in first["partitions"]] == ["7", "7", "7"]
    people = run("verify", proven, "--vk", small_job.vk, "--job", first["job_digest"], "--show-public")
    assert people.exit_code == 0
    assert first["key_digest"] in people.stdout
    assert "as expected" in people.stdout
    assert "member-2: " in people.stdout


def test_verify_refuses_another_job_another_key_and_a_changed_file(
    small_job: SmallJob, proven: Path, tmp_path: Path
) -> None:
    assert run("verify", proven, "--vk", small_job.vk, "--job", "00" * 32).exit_code == 1
    other = tmp_path / "other.zkey"
    args = ("setup", "groth16", "--r1cs", small_job.folder / "c.r1cs", "--insecure-dev", "--backend", "cpu")
    assert run(*args, "--out", other, "--vk", tmp_path / "vk.json").exit_code == 0
    assert run("verify", proven, "--vk", tmp_path / "vk.json").exit_code == 1
    data = bytearray((proven / "proof.msgpack").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "changed.msgpack").write_bytes(data)
    assert run("verify", tmp_path / "changed.msgpack", "--vk", small_job.vk).exit_code in (1, 2)
    (tmp_path / "short.msgpack").write_bytes(data[:100])
    assert run("verify", tmp_path / "short.msgpack").exit_code == 2


def test_a_key_that_comes_with_the_proof_is_trusted_only_if_that_is_said(
    small_job: SmallJob, proven: Path, tmp_path: Path
) -> None:
    """Whoever makes a key of their own for the same circuit can prove anything under it."""
    theirs = tmp_path / "theirs.zkey"
    args = ("setup", "groth16", "--r1cs", small_job.folder / "c.r1cs", "--insecure-dev", "--backend", "cpu")
    assert run(*args, "--out", theirs).exit_code == 0
    forged = tmp_path / "forged"
    own_key = ("prove", "groth16", "--zkey", theirs, "--wtns", small_job.witnesses, "--local", "--threads", "2")
    assert run(*own_key, "--out", forged).exit_code == 0

    refused = run("verify", forged)
    assert refused.exit_code == 1
    assert refused.stdout == ""
    told = " ".join(refused.stderr.split())
    assert "only under the key that the file itself carries" in told
    assert "--vk" in told
    assert "--trust-own-key" in told
    with pytest.raises(UntrustedKey, match="trust_own_key"):
        distprove.verify(forged)
    assert json.loads(run("verify", forged, "--json").stdout)["error"]["type"] == "UntrustedKey"

    trusting = run("verify", forged, "--trust-own-key")
    assert trusting.exit_code == 0
    assert "came with the proof" in trusting.stdout
    assert "--vk" in trusting.stderr
    assert not distprove.verify(forged, trust_own_key=True).key_given
    with pytest.raises(InvalidProof):
        distprove.verify(forged, vk=small_job.vk)
    both = run("verify", proven, "--vk", small_job.vk, "--trust-own-key")
    assert "exclude each other" in why_refused(both)


def test_a_finished_run_is_left_alone_unless_told_otherwise(small_job: SmallJob, proven: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(proven, out)
    assert "--resume" in why_refused(run(*small_job.prove(out)))
    (out / "partitions" / "member-1.msgpack").unlink()
    (out / "proof.msgpack").unlink()
    resumed = run("resume", out, "--local", "--json")
    assert resumed.exit_code == 0, resumed.output
    assert [p["status"] for p in json.loads(resumed.stdout)["partitions"]] == ["resumed", "proved", "resumed"]
    again = run(*small_job.prove(out, "--resume", "--json"))
    assert [p["status"] for p in json.loads(again.stdout)["partitions"]] == ["resumed"] * 3
    fresh = run(*small_job.prove(out, "--overwrite", "--json"))
    assert [p["status"] for p in json.loads(fresh.stdout)["partitions"]] == ["proved"] * 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    assert run(*small_job.prove(tmp_path / "mine", "--overwrite")).exit_code == 2
    assert (tmp_path / "mine" / "file").exists()


def test_a_run_is_overwritten_only_by_a_job_that_can_begin(small_job: SmallJob, proven: Path, tmp_path: Path) -> None:
    """Neither a driver at work on it nor one whose key is bad costs what is there."""
    out = tmp_path / "run"
    shutil.copytree(proven, out)
    demo_folder = tmp_path / "demo-run"
    shutil.copytree(proven, demo_folder / "run")
    (demo_folder / demo.MARKER_NAME).touch()
    with Run.open(out), Run.open(demo_folder / "run"):
        for refused in (run(*small_job.prove(out, "--overwrite")), run("demo", "--out", demo_folder)):
            assert refused.exit_code == 3
            assert "in use by process" in refused.stderr
            assert "hint:" not in refused.stderr
    (tmp_path / "c.zkey").write_bytes(small_job.zkey.read_bytes()[:1000])
    bad_key = [str(tmp_path / "c.zkey") if arg == str(small_job.zkey) else arg for arg in small_job.prove(out)]
    why_refused(run(*bad_key, "--overwrite"))
    for left in (out, demo_folder / "run"):
        assert run("verify", left, "--vk", small_job.vk).exit_code == 0


def test_verify_and_export_of_an_unfinished_run_say_how_far_it_is(proven: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(proven, out)
    (out / "proof.msgpack").unlink()
    (out / "partitions" / "member-1.msgpack").unlink()
    for command in (["verify"], ["export", "--out", tmp_path / "E"]):
        told = why_refused(run(*command, out))
        assert "is not finished: 2 of 3 partitions proven" in told
        assert "does what is missing" in told
        with Run.open(out):
            assert "2 of 3 partitions proven, and a driver is at work on it" in why_refused(run(*command, out))
    shutil.rmtree(out / "partitions")
    assert "0 of 3 partitions proven" in why_refused(run("verify", out))


def test_a_command_that_reads_a_run_does_not_say_to_resume_it(proven: Path, tmp_path: Path) -> None:
    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))

    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # Python keeps bytecode that was cut off
    for command in (f"export {proven} --out E", f"report {proven} --out page.html --trace trace.json"):
        words = [*DISTPROVE, *command.split()]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment, preexec_fn=no_room
        )
        assert done.returncode == 3, done.stderr
        assert "ulimit -f" in done.stderr
        assert "resume" not in done.stderr


def test_a_bad_witness_fails_its_partition_and_no_other(small_job: SmallJob, tmp_path: Path) -> None:
    args = small_job.prove(tmp_path / "run", "--json")
    position = args.index("--wtns") + 2
    done = run(*args[:position], small_job.bad_witness, *args[position:])
    assert done.exit_code in (1, 2), done.output
    partitions = {p["name"]: p for p in json.loads(done.stdout)["partitions"]}
    assert partitions["bad"]["status"] == "failed"
    assert all(partitions[f"member-{i}"]["status"] == "proved" for i in range(3))
    assert "satisf" in partitions["bad"]["error"]
    assert "bad" in done.stderr


def test_a_mended_input_is_resumed_and_a_proven_one_may_not_change(small_job: SmallJob, tmp_path: Path) -> None:
    """The way that the command's hint names, for a folder with a space."""
    inputs, out = tmp_path / "w", tmp_path / "my run"
    inputs.mkdir()
    for number in range(2):
        shutil.copy(small_job.witnesses / f"member-{number}.wtns", inputs / f"w{number}.wtns")
    (inputs / "w2.wtns").write_bytes(small_job.bad_witness.read_bytes()[:-32])
    done = run("prove", "groth16", "--zkey", small_job.zkey, "--wtns", inputs, "--out", out, "--local", "--threads", 2)
    told = " ".join(done.stderr.split())
    assert (done.exit_code, f"distprove resume '{out}' proves it" in told) == (2, True), done.output
    assert (done.stdout + done.stderr).count("w2.wtns") <= 2  # as it happens, and in the table
    shutil.copy(small_job.witnesses / "member-2.wtns", inputs / "w2.wtns")
    again = run("resume", out, "--json")
    assert again.exit_code == 0, again.output
    statuses = {p["name"]: p["status"] for p in json.loads(again.stdout)["partitions"]}
    assert statuses == {"w0": "resumed", "w1": "resumed", "w2": "proved"}
    assert run("verify", out, "--vk", small_job.vk).exit_code == 0
    (out / "proof.msgpack").unlink()
    assert run("resume", out).exit_code == 0  # the record has the mended file
    (inputs / "w2.wtns").write_bytes(small_job.bad_witness.read_bytes()[:-32])
    assert "changed since the run began: w2; put back what was proven" in why_refused(run("resume", out))


def test_what_is_left_out_is_said_and_reported(small_job: SmallJob, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.wtns").symlink_to(small_job.witnesses / "member-0.wtns")
    os.mkfifo(tmp_path / "w" / "b.wtns")
    done = run("prove", "groth16", "--zkey", small_job.zkey, "--wtns", tmp_path / "w", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    left = f"{tmp_path / 'w' / 'b.wtns'} (a pipe)"
    assert f"warning: left out: {left}" in " ".join(done.stderr.split())
    assert json.loads((tmp_path / "run" / "report.json").read_text())["left_out"] == [left]
    assert run("resume", tmp_path / "run").exit_code == 0
    assert json.loads((tmp_path / "run" / "report.json").read_text())["left_out"] == [left]


def test_a_job_file_is_the_same_job(small_job: SmallJob, proven: Path, tmp_path: Path) -> None:
    for name in ("c.zkey", "w"):
        (tmp_path / name).symlink_to(small_job.folder / name)
    (tmp_path / "job.toml").write_text('system = "groth16"\nzkey = "c.zkey"\nwitnesses = ["w/*.wtns"]\n')
    done = run("prove", tmp_path / "job.toml", "--out", tmp_path / "run", "--local", "--json")
    assert done.exit_code == 0, done.output
    before = json.loads((proven / "report.json").read_text())
    assert json.loads(done.stdout)["job_digest"] == before["job_digest"]


@pytest.mark.node
def test_snarkjs_accepts_what_is_exported(proven: Path, snarkjs: Snarkjs, tmp_path: Path) -> None:
    assert run("export", proven, "--out", tmp_path / "out").exit_code == 0
    vk = tmp_path / "out" / "verification_key.json"
    for i in range(3):
        folder = tmp_path / "out" / f"member-{i}"
        assert "OK" in snarkjs("groth16", "verify", vk, folder / "public.json", folder / "proof.json").stdout


def test_an_export_names_the_contract_and_its_calls(proven: Path, tmp_path: Path) -> None:
    done = run("export", proven, "--out", tmp_path / "out", "--solidity")
    told = " ".join(done.stdout.split())
    assert f"The contract that verifies under this key: {tmp_path / 'out' / 'Groth16Verifier.sol'};" in told
    assert "the calldata.hex beside each proof is a call of it" in told
    assert (tmp_path / "out" / "Groth16Verifier.sol").exists()
    assert (tmp_path / "out" / "member-0" / "calldata.hex").exists()
    assert "contract" not in run("export", proven, "--out", tmp_path / "plain").stdout


def test_the_same_from_python(small_job: SmallJob, proven: Path, tmp_path: Path) -> None:
    local = ExecutorSettings(local=True, threads=2)
    result = distprove.prove(zkey=small_job.zkey, witnesses=small_job.witnesses, out=tmp_path / "run", executor=local)
    checked = distprove.verify(result.proof_path, vk=small_job.vk)
    assert (checked.partitions, checked.key_given) == (3, True)
    assert result.report["status"] == "proved"
    digest = result.proof.job_digest.hex()[:16]
    for shown in (repr(result), repr(checked), repr(result.proof)):
        assert "3 partitions" in shown
        assert f"job {digest}" in shown
        assert len(shown) < 400
    proofs = [snarkjs.proof_to_dict(partition) for partition in result.proof.partitions]
    assert all(snarkjs.proof_to_dict(snarkjs.proof_from_dict(proof)) == proof for proof in proofs)
    exported = run("export", result.run, "--out", tmp_path / "E")
    assert exported.exit_code == 0
    assert proofs[1] == json.loads((tmp_path / "E" / "member-1" / "proof.json").read_text())
    assert distprove.verify(proven, vk=small_job.vk, expected_job=result.proof.job_digest).job_expected
    with pytest.raises(InvalidProof):
        distprove.verify(proven, vk=small_job.vk, expected_job=bytes(32))
    with pytest.raises(UsageError):
        distprove.prove(out=tmp_path / "other")
    with pytest.raises(UsageError):
        distprove.prove("job.toml", zkey=small_job.zkey, out=tmp_path / "other")


def test_inputs_are_given_as_dicts_and_kept_nowhere(shared_data: Path, tmp_path: Path) -> None:
    """They are in no file of the run, under no form, and so whoever resumes it gives them again."""
    files, local = shared_data / "circom" / "tiny", ExecutorSettings(local=True, threads=2)
    paths = sorted((files / "inputs").iterdir())[:2]
    secrets = [json.loads(path.read_text()) for path in paths]
    inputs = [secrets[0], {name: int(value) for name, value in secrets[1].items()}]
    job = Job.from_options("groth16", zkey=files / "circuit.zkey", wasm=files / "circuit.wasm", inputs=inputs)
    out, values = tmp_path / "run", [str(value) for secret in secrets for value in secret.values()]
    result = distprove.prove(job, out=out, executor=local)
    assert [p.name for p in result.proof.partitions] == ["input-0", "input-1"]
    from_files = distprove.prove(
        zkey=files / "circuit.zkey", wasm=files / "circuit.wasm", inputs=paths, out=tmp_path / "files", executor=local
    )
    public = [p.public for p in result.proof.partitions]
    assert public == [p.public for p in from_files.proof.partitions]
    secret = {int(value) for value in values} - {value for each in public for value in each}
    assert secret
    shown = repr(job) + repr(job.sources) + repr(result)
    for content in (shown.encode(), *(path.read_bytes() for path in out.rglob("*") if path.is_file())):
        for value in secret:
            assert str(value).encode() not in content
            assert value.to_bytes(32, "big").lstrip(b"\0") not in content
            assert value.to_bytes(32, "little").rstrip(b"\0") not in content

    (out / "partitions" / "input-1.msgpack").unlink()
    with pytest.raises(InputError, match="given as values and are kept nowhere"):
        distprove.resume(out, executor=local)
    assert distprove.prove(job, out=out, resume_existing=True, executor=local).proof.partitions[0].public == public[0]
    with pytest.raises(InputError, match="input-0: not of strings") as refused:
        Job.from_options("groth16", zkey=files / "circuit.zkey", wasm=files / "circuit.wasm", inputs=[{"a": {1, 77}}])
    assert "77" not in str(refused.value)


def test_what_is_proven_of_an_unfinished_run_is_exported(small_job: SmallJob, proven: Path, tmp_path: Path) -> None:
    out, to = tmp_path / "run", tmp_path / "E"
    shutil.copytree(proven, out)
    (out / "proof.msgpack").unlink()
    damaged = out / "partitions" / "member-1.msgpack"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (out / "partitions" / "member-2.msgpack").rename(tmp_path / "later")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with Run.open(out):  # also while a driver is at work
        done = run("export", out, "--partial", "--out", to, "--json")
    assert json.loads(done.stdout)["partitions"] == ["member-0"]
    key = snarkjs.read_verification_key(to / "verification_key.json")
    public = snarkjs.read_public(to / "member-0" / "public.json", key.curve)
    assert verify(key, public, snarkjs.read_proof(to / "member-0" / "proof.json"))
    (tmp_path / "later").rename(out / "partitions" / "member-2.msgpack")
    assert "2 partitions in" in run("export", out, "--partial", "--out", to).stdout  # and into the same folder
    assert {path: path.read_bytes() for path in before if path.name != "lock"} == {
        path: content for path, content in before.items() if path.name != "lock"
    }
    shutil.rmtree(out / "partitions")
    assert "no partition is proven yet" in why_refused(run("export", out, "--partial", "--out", to))


def test_exit_codes_and_streams_of_the_real_command(small_job: SmallJob, proven: Path, tmp_path: Path) -> None:
    good = subprocess.run(
        [*DISTPROVE, "verify", str(proven), "--vk", str(small_job.vk), "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["status"] == "verified"
    bad = subprocess.run(
        [*DISTPROVE, "verify", str(tmp_path / "none")], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: ")
    assert "Traceback" not in bad.stderr
    traced = subprocess.run(
        [*DISTPROVE, "verify", str(tmp_path / "none"), "--debug"], capture_output=True, text=True, timeout=120
    )
    assert traced.returncode == 2
    assert "Traceback" in traced.stderr


def test_a_reader_of_the_output_that_is_gone_does_not_end_a_job(small_job: SmallJob, tmp_path: Path) -> None:
    """Neither a pipe that nobody reads nor a full disk under the log does."""
    read, gone = os.pipe()
    os.close(read)
    command = [*DISTPROVE, *small_job.prove(tmp_path / "run")]
    with open("/dev/full", "w") as full, open(gone, "w") as pipe:
        done = subprocess.run(command, stdout=full, stderr=pipe, timeout=120, cwd=tmp_path)
        assert done.returncode == 0
        assert json.loads((tmp_path / "run" / "report.json").read_text())["status"] == "proved"
        # Other than what people read, JSON is worth nothing in part.
        verify = [*DISTPROVE, "verify", str(tmp_path / "run"), "--vk", str(small_job.vk), "--json"]
        asked = subprocess.run(verify, stdout=full, stderr=subprocess.PIPE, timeout=120, cwd=tmp_path, text=True)
        assert asked.returncode == 3
        assert "error: standard output: No space left" in asked.stderr
        refused = subprocess.run([*DISTPROVE, "verify", "none", "--json"], stdout=full, timeout=120, cwd=tmp_path)
        assert refused.returncode == 2


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_a_run_that_can_be_resumed(small_job: SmallJob, tmp_path: Path) -> None:
    out = tmp_path / "run"
    # Many partitions, so that some are left when the first is there.
    copies = tmp_path / "w"
    copies.mkdir()
    for i in range(40):
        shutil.copy(small_job.witnesses / "member-0.wtns", copies / f"copy-{i}.wtns")
    args = ["prove", "groth16", "--zkey", small_job.zkey, "--wtns", copies, "--out", out, "--local", "--threads", "1"]
    process = subprocess.Popen(
        [*DISTPROVE, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    deadline = time.monotonic() + 200
    while not list(out.glob("partitions/*.msgpack")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=200)
    assert process.returncode == 130, stderr
    assert "interrupted" in stderr
    assert "distprove resume" in stderr
    assert "Traceback" not in stderr
    assert json.loads((out / "report.json").read_text())["status"] == "interrupted"
    kept = len(list(out.glob("partitions/*.msgpack")))
    resumed = run("resume", out, "--local", "--threads", "2", "--json")
    assert resumed.exit_code == 0, resumed.output
    assert sum(p["status"] == "resumed" for p in json.loads(resumed.stdout)["partitions"]) >= kept > 0


def test_the_demo_proves_and_verifies_and_cleans_up_after_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo-run").mkdir()
    (tmp_path / "demo-run" / demo.MARKER_NAME).touch()
    (tmp_path / "demo-run" / "of an earlier demo").touch()
    done = run("demo", "--partitions", "1", "--threads", "2", "--gpus", "0")
    assert done.exit_code == 0, done.output
    assert "verified: 1 partition" in done.stdout
    assert not (tmp_path / "demo-run" / "of an earlier demo").exists()
    (tmp_path / "mine").mkdir()
    assert run("demo", "--out", "mine").exit_code == 2
