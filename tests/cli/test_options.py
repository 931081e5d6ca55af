"""Parsing of the command line: repeatable options, sizes, settings, exit codes of bad usage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distprove.cli.bench import parse_sizes
from distprove.cli.variadic import spread
from distprove.errors import JobFailed, UsageError
from distprove.settings import ExecutorSettings
from tests.cli.conftest import SmallJob, run, why_refused

REPEATABLE = {"--input", "--wtns"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--input a b --out R", "--input a --input b --out R"),
        ("groth16 --input a --input b c", "groth16 --input a --input b --input c"),
        ("--input=a b --json", "--input=a --input b --json"),
        ("--out R x --wtns w", "--out R x --wtns w"),
        ("--wtns w -- --input a b", "--wtns w -- --input a b"),
        ("--input --json", "--input --json"),
        ("--input", "--input"),
        ("--input - a", "--input - --input a"),
    ],
)
def test_values_after_a_repeatable_option_belong_to_it(given: str, expected: str) -> None:
    assert spread(given.split(), REPEATABLE) == expected.split()


def test_sizes() -> None:
    assert parse_sizes("16,18, 20") == [16, 18, 20]
    assert parse_sizes("10-12,16") == [10, 11, 12, 16]
    for bad in ("", "a", "1-", "-3", "29", "1.5", "12-x"):
        with pytest.raises(UsageError):
            parse_sizes(bad)


def test_flags_override_the_job_file_and_answer_each_other() -> None:
    base = ExecutorSettings(address="auto", threads=4)
    assert base.changed({"local": True}) == ExecutorSettings(local=True, threads=4)
    assert base.changed({"local": False}) == ExecutorSettings(local=False, address="auto", threads=4)
    assert ExecutorSettings(local=True).changed({"address": "a:1"}) == ExecutorSettings(address="a:1")
    isolated = ExecutorSettings(local=True, isolate=True)
    assert isolated.changed({"address": "a:1"}) == ExecutorSettings(address="a:1")
    assert isolated.changed({"local": False}) == ExecutorSettings(local=False)
    with pytest.raises(UsageError, match="isolate is for local"):
        isolated.changed({"address": "a:1", "isolate": True})
    assert base.changed({"threads": None, "gpus": 0}) == ExecutorSettings(address="auto", threads=4, gpus=0)
    with pytest.raises(UsageError):
        base.changed({"local": True, "address": "auto"})


def test_a_failed_job_is_the_inputs_fault_only_if_all_of_it_is() -> None:
    def code(*kinds: str | None) -> int:
        return JobFailed("it failed", kinds).exit_code

    assert code("UnsatisfiedWitness") == 2
    assert code("UnsatisfiedWitness", "FormatError") == 2
    assert code("UnsatisfiedWitness", "WorkerDied") == 1
    assert code("OutOfMemory") == code("ClusterError") == 3
    assert code("OutOfMemory", "UnsatisfiedWitness") == 1
    assert code("typed") == code("KeyboardInterrupt") == 1
    assert code(None) == code() == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["prove"], "Missing command"),
        (["prove", "groth16"], "--out"),
        (["prove", "groth16", "--out", "R"], "--zkey"),
        (
            ["prove", "groth61", "--out", "R"],
            "neither a proof system (groth16, stark, filecoin, swirl) nor a job file; did you mean `groth16`",
        ),
        (["prove", "folder", "--out", "R"], "folder is a folder, not a job file"),
        (["prove", "old-run", "--out", "R"], "`distprove resume old-run` goes on"),
        (["verify", "other.bin"], "not a proof.msgpack"),
        (["status", "--service", "127.0.0.1:4870"], "a URL has http:// or https://"),
        (["prove", "groth16", "--out", "R", "--zkey", "K"], "--wtns"),
        (["prove", "groth16", "--out", "R", "--zkey", "K", "--wtns", "w", "--threads", "0"], "--threads"),
        (["prove", "job.toml", "--out", "R", "--zkey", "K"], "--zkey"),
        (["prove", "missing.toml", "--out", "R"], "missing.toml"),
        (["proof"], "prove"),
        (["verify", "missing.msgpack"], "missing.msgpack"),
        (["verify", "missing.msgpack", "--job", "12"], "hexadecimal"),
        (["export", "missing", "--out", "D"], "missing"),
        (["resume", "missing"], "no run at missing: no such folder"),
        (["resume", "folder"], "folder is not a run"),
        (["setup", "groth16", "--r1cs", "c.r1cs", "--out", "c.zkey"], "--ptau"),
        (["bench", "msm", "--group", "g3"], "--group"),
        (["bench", "ntt", "--curve", "p256", "--backend", "cpu"], "p256"),
        (["bench", "ntt", "--sizes", "x", "--backend", "cpu"], "x"),
        (["bench", "groth16", "--zkey", "K"], "--wtns"),
    ],
)
def test_bad_usage_exits_2_and_says_what(
    args: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("folder", "old-run"):
        Path(folder).mkdir()
    Path("old-run/job.json").touch()
    Path("other.bin").write_bytes(b"another kind of file")
    assert says in why_refused(run(*args))


def test_an_unknown_key_of_a_job_file_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('system = "groth16"\nzkey = "c.zkey"\nwitneses = ["w/*.wtns"]\n')
    assert "`witnesses`" in why_refused(run("prove", job, "--out", tmp_path / "run"))


def test_errors_are_json_too_when_json_is_asked_for(tmp_path: Path) -> None:
    done = run("verify", tmp_path / "no.msgpack", "--json")
    assert done.exit_code == 2
    error = json.loads(done.stdout)
    assert error["status"] == "error"
    assert error["error"]["type"] == "InputError"
    assert "no.msgpack" in done.stderr


@pytest.mark.parametrize(
    ("argument", "says"), [(b"in\xff.json", "is not UTF-8"), (b"in\x1b.json", "has characters that act on a terminal")]
)
def test_an_argument_that_cannot_be_shown_is_refused_for_what_it_is(argument: bytes, says: str) -> None:
    command: list[bytes | str] = [sys.executable, "-m", "distprove", "verify", argument]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert says in done.stderr
    assert "name its folder" in done.stderr


@pytest.mark.parametrize(
    ("command", "faults"),
    [
        (("groth16",), ["no --zkey: the proving key", "no --out: the run folder"]),
        (("groth16", "--zkey", "nope.zkey", "--wtns", "none"), ["none: no file matches", "no --out"]),
        (("nope.toml",), ["nope.toml: No such file", "no --out"]),
        (("stark", "fibonacci"), ["no --out: the run folder"]),
        (("stark", "file-root", "--partitions", "0"), ["Missing option '--file'", "Invalid value for '--partitions'"]),
        (("groth16", "--threads", "x", "--gpus", "y"), ["for '--threads'", "for '--gpus'"]),
    ],
)
def test_one_missing_or_wrong_option_hides_no_other_fault(
    command: tuple[str, ...], faults: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("prove", *command)
    assert done.exit_code == 2
    assert [fault for fault in faults if fault not in done.output] == []
    assert list(tmp_path.iterdir()) == []


def test_one_wrong_option_is_said_once() -> None:
    done = run("prove", "groth16", "--threads", "x", "--out", "r")
    assert done.output.count("Invalid value") == 1


def test_an_argument_in_utf8_is_refused_where_python_reads_another_encoding() -> None:
    """The file's name is right, so the message names the setting, and not the file."""
    ascii = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command: list[bytes | str] = [sys.executable, "-m", "distprove", "verify", "ä.json".encode()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **ascii})
    assert done.returncode == 2
    assert "is UTF-8, and Python reads it as ascii" in done.stderr
    assert "LC_ALL=C.UTF-8" in done.stderr
    assert "rename" not in done.stderr


def test_names_that_are_not_utf8_are_shown_and_reported(small_job: SmallJob, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / os.fsdecode(b"good\xff.wtns")).symlink_to(small_job.witnesses / "member-0.wtns")
    (tmp_path / "w" / os.fsdecode(b"bad\xfe.wtns")).write_text("x")
    os.mkfifo(tmp_path / "w" / os.fsdecode(b"pipe\xfd.wtns"))
    done = run("prove", "groth16", "--zkey", small_job.zkey, "--wtns", tmp_path / "w", "--out", tmp_path / "run")
    assert done.exit_code == 2, done.output
    assert "good_" in done.stdout
    assert r"bad\udcfe.wtns: " in done.stderr
    assert r"left out: " in done.stderr
    assert run("report", tmp_path / "run", "--metrics", tmp_path / "m.prom").exit_code == 0
    assert rb"bad\udcfe.wtns" in (tmp_path / "run" / "report.html").read_bytes()


def test_help_shows_values_as_they_are_taken() -> None:
    stark = " ".join(run("prove", "stark", "fibonacci", "--help").output.split())
    for value in ("fri, or multilinear", "speed: larger", "keccak256, or poseidon2", "auto, cpu, cuda"):
        assert f" {value}" in stark
    assert " A name for the job" in stark
    assert "(default )" not in run("prove", "stark", "riscv", "--help").output
