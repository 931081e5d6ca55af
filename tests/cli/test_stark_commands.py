"""STARK jobs from the command line: prove, resume, verify, from flags and from job files."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import distprove
from distprove.cli.prove import subject_first
from distprove.errors import InputError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.job import Job
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.stark.keyfile import read_key
from tests.cli.conftest import run, why_refused

LOCAL = ("--local", "--threads", "2", "--backend", "cpu")


@pytest.fixture(scope="module")
def fibonacci(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a job of two partitions of 16 rows."""
    out = tmp_path_factory.mktemp("stark") / "run"
    done = run("prove", "stark", "fibonacci", "--rows", "2^4", "--partitions", "2", "--out", out, *LOCAL, "--json")
    assert done.exit_code == 0, done.output
    return out


def test_the_report_says_what_was_proven_and_how_surely(fibonacci: Path) -> None:
    report = json.loads((fibonacci / "report.json").read_text())
    assert [p["status"] for p in report["partitions"]] == ["proved", "proved"]
    proven = report["proven"]
    assert proven["arguments"] == {"rows": 16}
    assert proven["says"]["after 32 steps"] == "2178309, 3524578 modulo p"
    assert proven["security"]["bits"] >= proven["security"]["target"] == 128
    assert {r["name"] for r in proven["security"]["rounds"]} >= {"DEEP", "batching", "FRI queries"}


def test_verify_needs_nothing_but_the_file(fibonacci: Path, tmp_path: Path) -> None:
    shutil.copy(fibonacci / "proof.msgpack", tmp_path)
    done = run("verify", tmp_path / "proof.msgpack")
    assert done.exit_code == 0, done.output
    for text in ("fibonacci(rows = 16", "2178309, 3524578", "bits, proven", "made from the program"):
        assert text in done.stdout
    assert done.stderr == ""
    facts = json.loads(run("verify", fibonacci, "--json").stdout)
    assert facts["partitions"][1]["named"] == {"start": ["987", "1597"], "end": ["2178309", "3524578"]}
    shown = run("verify", fibonacci, "--show-public").stdout
    assert "part-0000: start = 0, 1; end = 987, 1597" in shown
    assert facts["proven"]["security"]["queries"] > 0


def test_an_exit_code_is_asked_of_no_proof_that_states_none(fibonacci: Path) -> None:
    """Also 0, the default: the caller would take the proof for one of a guest that ended well."""
    for code in (0, 1):
        assert "states none" in why_refused(run("verify", fibonacci, "--exit-code", code))
    with pytest.raises(UsageError, match="states none"):
        distprove.verify(fibonacci, exit_code=0)


def test_a_job_file_is_the_same_job(fibonacci: Path, tmp_path: Path) -> None:
    text = 'system = "stark"\nprogram = "fibonacci"\npartitions = 2\n[arguments]\nrows = 16\n'
    (tmp_path / "job.toml").write_text(text)
    done = run("prove", tmp_path / "job.toml", "--out", tmp_path / "run", *LOCAL)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == (fibonacci / "proof.msgpack").read_bytes()
    record = json.loads((tmp_path / "run" / "job.json").read_text())["job"]
    assert Job.from_record(record).to_record() == record


def test_less_device_memory_is_the_same_proof(tmp_path: Path) -> None:
    wide = ("prove", "stark", "wide-fibonacci", "--width", "64", *LOCAL, "--rows")
    proofs, shown = [], []
    for name, limit in (("whole", ()), ("streamed", ("--device-memory", "1.2MiB"))):
        done = run(*wide, "2^10", "--out", tmp_path / name, *limit)
        assert done.exit_code == 0, done.output
        shown.append(next(line.strip() for line in done.stdout.splitlines() if line.strip().startswith("memory")))
        assert f"1 {name}; " in shown[-1]
        proofs.append((tmp_path / name / "proof.msgpack").read_bytes())
    assert proofs[0] == proofs[1]
    assert shown[0] != shown[1]
    (partition,) = json.loads((tmp_path / "streamed" / "report.json").read_text())["partitions"]
    assert 0 < partition["memory"]["predicted"] <= 1.2 * (1 << 20)
    refused = run(*wide, "2^12", "--out", tmp_path / "none", "--device-memory", "1.2MiB")
    assert refused.exit_code != 0
    assert "more partitions" in refused.output


def test_resume_proves_what_is_missing_under_the_same_challenge(fibonacci: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(fibonacci, out)
    (out / "partitions" / "part-0001.msgpack").unlink()
    (out / "proof.msgpack").unlink()
    done = run("resume", out, "--json")
    assert done.exit_code == 0, done.output
    assert [p["status"] for p in json.loads(done.stdout)["partitions"]] == ["resumed", "proved"]
    assert (out / "proof.msgpack").read_bytes() == (fibonacci / "proof.msgpack").read_bytes()


@pytest.mark.parametrize("part", ["commitments", "challenge"])
def test_a_changed_barrier_is_noticed_and_all_is_proven_again(fibonacci: Path, tmp_path: Path, part: str) -> None:
    out = tmp_path / "run"
    shutil.copytree(fibonacci, out)
    barrier = canonical.decode((out / "barrier.msgpack").read_bytes(), "barrier")
    if part == "challenge":
        barrier["challenge"] = bytes(32)
    else:
        barrier["commitments"]["part-0000"] = barrier["commitments"]["part-0001"]
    (out / "barrier.msgpack").write_bytes(canonical.encode(barrier))
    done = run("resume", out, "--json")
    assert [p["status"] for p in json.loads(done.stdout)["partitions"]] == ["proved", "proved"]
    assert (out / "proof.msgpack").read_bytes() == (fibonacci / "proof.msgpack").read_bytes()


def test_proofs_of_other_jobs_do_not_mix(fibonacci: Path, tmp_path: Path) -> None:
    """Each partition's proof holds by itself; together they are not one job."""
    proof = Proof.read(fibonacci / "proof.msgpack")
    cut = Proof(proof.system, proof.key_digest, proof.verification_key, proof.partitions[:1])
    with pytest.raises(InvalidProof, match="part of this job"):
        distprove.verify(cut)


def test_fewer_bits_than_asked_for_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    args = ("prove", "stark", "fibonacci", "--rows", "16", "--security", "60", "--grinding", "4", "--out", out)
    assert run(*args, *LOCAL).exit_code == 0
    refused = run("verify", out)
    assert refused.exit_code == 1
    assert "128 are asked for" in refused.stderr
    assert run("verify", out, "--security", "60").exit_code == 0


def test_a_proof_file_does_not_choose_what_code_is_run(fibonacci: Path) -> None:
    proof = Proof.read(fibonacci / "proof.msgpack")
    for name in ("os:system", "mine"):
        named = {**proof.verification_key, "program": name}
        with pytest.raises(InputError, match="--vk"):
            distprove.verify(Proof(proof.system, proof.key_digest, named, proof.partitions))
    other = {**proof.verification_key, "arguments": {"rows": 32}}
    with pytest.raises(InvalidProof, match="is not the one that its digest names"):
        distprove.verify(Proof(proof.system, proof.key_digest, other, proof.partitions))


def test_the_same_from_python(fibonacci: Path, tmp_path: Path) -> None:
    result = distprove.prove(
        system="stark",
        program="fibonacci",
        arguments={"rows": "2^4"},
        partitions=2,
        out=tmp_path / "run",
        executor=ExecutorSettings(local=True, threads=2, backend="cpu"),
    )
    assert result.proof == Proof.read(fibonacci / "proof.msgpack")
    assert distprove.verify(result.proof_path).proven == result.report["proven"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("stark fibonaci --out R", "did you mean `fibonacci`"),
        ("stark nothing --out R", "there is no program"),
        ("stark fibonacci", "--out"),
        ("stark fibonacci --out R --row 8", "--rows"),
        ("stark fibonacci --out R --rows many", "rows must be an integer"),
        ("stark fibonacci --out R --rows 2^40", "rows must be a power of two"),
        ("stark fibonacci --out R --blowup 3", "blowup must be 2, 4 or 8"),
        ("stark fibonacci --out R --security 129", "--security"),
        ("stark no_such:Thing --out R", "no_such"),
        ("stark no_such:Thing --out R --with a", "NAME=VALUE"),
        ("stark no_such:Thing --out R --with a=1 --with a=2", "each name once"),
    ],
)
def test_bad_usage(args: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in why_refused(run("prove", *args.split()))
    assert not (tmp_path / "R").exists()


def test_security_is_told_for_a_blowup_that_there_is() -> None:
    assert "blowup must be 2, 4 or 8, not 3" in why_refused(run("security", "fibonacci", "--blowup", "3"))


def test_help_tells_programs_and_their_options() -> None:
    assert "wide-fibonacci" in run("prove", "stark", "--help").stdout
    text = run("prove", "stark", "wide-fibonacci", "--help").stdout
    assert "--width" in text
    assert "2^16" in text
    assert "c[i+2]" in text


def test_what_is_proven_may_come_after_options() -> None:
    def first(text: str) -> str:
        return " ".join(subject_first(text.split(), ("groth16", "stark")))

    assert first("--out R groth16 --zkey K") == "groth16 --out R --zkey K"
    assert first("--local job.toml --out R") == "job.toml --local --out R"
    assert first("--out x.toml job.toml") == "job.toml --out x.toml"
    assert first("stark p --out R") == "stark p --out R"
    assert first("--help") == "--help"


@pytest.fixture
def own_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a program of one's own, which is where commands are run."""
    (tmp_path / "mine.py").write_text(
        "from distprove.stark.programs.fibonacci import Fibonacci\nclass Mine(Fibonacci):\n    name = 'mine'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    yield tmp_path
    sys.modules.pop("mine", None)


def test_a_program_of_ones_own_verifies_with_its_exported_key(own_program: Path) -> None:
    done = run("prove", "stark", "mine:Mine", "--with", "rows=2^3", "--with", "second=5", "--out", "R", *LOCAL)
    assert done.exit_code == 0, done.output
    assert "--vk" in why_refused(run("verify", "R"))
    exported = run("export", "R", "--out", "E")
    assert exported.exit_code == 0, exported.output
    assert "--vk E/verifying_key.msgpack" in exported.stdout
    verified = run("verify", "R/proof.msgpack", "--vk", "E/verifying_key.msgpack", "--json")
    assert verified.exit_code == 0, verified.output
    facts = json.loads(verified.stdout)
    assert facts["key_given"]
    assert facts["proven"]["program"] == "mine"
    assert facts["proven"]["says"] == {}


def test_an_exported_key_verifies_its_own_proofs_only(fibonacci: Path, tmp_path: Path) -> None:
    assert run("export", fibonacci / "proof.msgpack", "--out", tmp_path / "E").exit_code == 0
    assert {p.name for p in (tmp_path / "E").iterdir()} == {
        "verifying_key.msgpack",
        "proof.msgpack",
        "part-0000.msgpack",
        "part-0001.msgpack",
    }
    key = tmp_path / "E" / "verifying_key.msgpack"
    good = run("verify", fibonacci, "--vk", key)
    assert good.exit_code == 0
    assert "after 32 steps" in good.stdout
    other = tmp_path / "other"
    assert run("prove", "stark", "fibonacci", "--rows", 8, "--out", other, *LOCAL).exit_code == 0
    assert run("verify", other, "--vk", key).exit_code == 1
    key.write_bytes(key.read_bytes()[:-1])
    assert run("verify", fibonacci, "--vk", key).exit_code == 2


def test_security_is_told_before_anything_is_proven() -> None:
    args = ("security", "wide-fibonacci", "--rows", "2^21", "--width", "128", "--partitions", "4")
    record = json.loads(run(*args, "--blowup", "4", "--security", "100", "--json").stdout)["security"]
    assert (record["blowup"], record["target"], record["log_heights"]) == (4, 100, [21])
    assert record["bits"] >= 100
    people = run(*args).stdout
    assert "proximity gap" in people
    assert "queries at blow-up 2" in " ".join(people.split())


def test_the_key_of_a_job_that_ends_in_one_proof(tmp_path: Path) -> None:
    """It has parameters for circuits: without `--one-proof` it was another key, under which no such proof verifies."""
    options = ("--engine", "multilinear", "--hash", "poseidon2")
    command = ("key", "fibonacci", "--rows", "16", "--partitions", "2", *options)
    made = run(*command, "--one-proof", "--out", tmp_path / "vk", "--json")
    assert made.exit_code == 0, made.output
    job = Job.from_options(
        "stark",
        **{"program": "fibonacci", "partitions": 2, "arguments": {"rows": 16}, "one_proof": True},
        **{"engine": "multilinear", "hash": "poseidon2"},
    )
    assert json.loads(made.stdout)["key_digest"] == job.load().key_digest().hex()
    assert read_key(tmp_path / "vk").digest == job.load().key_digest()
    plain = json.loads(run(*command, "--out", tmp_path / "plain", "--json").stdout)
    assert plain["key_digest"] != json.loads(made.stdout)["key_digest"]
    refused = run("key", "fibonacci", "--rows", "16", "--one-proof", "--out", tmp_path / "none")
    assert "needs `engine` multilinear" in why_refused(refused)
