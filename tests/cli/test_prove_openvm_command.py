"""`distprove prove stark --openvm-key`: the proof that stark-backend's own prover gives, written and verified."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import run, why_refused
from tests.support.openvm_golden import GOLDEN, key_path, proof_bytes

NAME = "fibonacci"
GIVEN = ("--openvm-key", key_path(NAME), "--traces", GOLDEN / NAME / "traces.bin")


def test_writes_the_proof_that_their_prover_writes(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run("prove", "stark", *GIVEN, "--out", out, "--threads", 1)
    assert done.exit_code == 0, done.output
    assert "proved and verified" in done.output
    assert "5.2 bits of security" in " ".join(done.output.split()), "a key of toy parameters is pointed out"
    assert (out / "proof.bin").read_bytes() == proof_bytes(NAME)
    verified = run("verify", out / "proof.bin", *GIVEN[:2], "--security", 5)
    assert verified.exit_code == 0, verified.output
    assert "--overwrite" in why_refused(run("prove", "stark", *GIVEN, "--out", out))


def test_options_may_come_first_and_facts_as_json(tmp_path: Path) -> None:
    done = run("prove", "--out", tmp_path, "stark", *GIVEN, "--threads", 1, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["status"], told["system"], told["bytes"]) == ("proved", "openvm", len(proof_bytes(NAME)))
    assert told["seconds"].keys() > {"main_stack", "buses", "constraints", "reduction", "opening", "verify"}


@pytest.mark.parametrize(
    ("at", "message"), [(0, "the traces violate the key: AIR 0, Fibonacci: constraint "), (-8, "not below")]
)
def test_traces_that_are_wrong_leave_no_proof(at: int, message: str, tmp_path: Path) -> None:
    data = bytearray((GOLDEN / NAME / "traces.bin").read_bytes())
    if at:
        data[at : at + 4] = b"\xff" * 4  # no element
    else:
        data[-4] ^= 1
    (tmp_path / "traces.bin").write_bytes(data)
    done = run("prove", "stark", *GIVEN[:3], tmp_path / "traces.bin", "--out", tmp_path / "run", "--threads", 1)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


def test_both_files_are_needed(tmp_path: Path) -> None:
    done = run("prove", "stark", *GIVEN[:2], "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert "--traces" in done.output
    done = run("prove", "stark", *GIVEN[2:], "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert "--openvm-key" in done.output


def test_help_of_the_stark_names_the_command() -> None:
    assert "--openvm-key KEY --traces FILE" in " ".join(run("prove", "stark", "--help").output.split())


def test_traces_that_do_not_balance_name_the_message(tmp_path: Path) -> None:
    """The prover itself refuses them. A changed multiplicity is the last word of the arrays here."""
    data = bytearray((GOLDEN / "interactions" / "traces.bin").read_bytes())
    data[-4] ^= 1
    (tmp_path / "traces.bin").write_bytes(data)
    key = ("--openvm-key", key_path("interactions"), "--traces", tmp_path / "traces.bin")
    told = why_refused(run("prove", "stark", *key, "--out", tmp_path / "run", "--threads", 1))
    assert "does not balance: the message of AIR " in told
    assert not (tmp_path / "run").exists()


def test_several_files_of_traces_give_a_proof_each(tmp_path: Path) -> None:
    traces = GIVEN[-1]
    other = tmp_path / "other.bin"
    other.write_bytes(Path(traces).read_bytes())
    given = ("prove", "stark", *GIVEN, other, "--out", tmp_path / "run", "--backend", "cpu", "--threads", 1)
    done = run(*given, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [Path(each["proof"]).name for each in told["proofs"]] == ["proof-0.bin", "proof-1.bin"]
    assert [(tmp_path / "run" / f"proof-{i}.bin").read_bytes() for i in range(2)] == [proof_bytes(NAME)] * 2
    assert "one by one" in why_refused(run("verify", tmp_path / "run", *GIVEN[:2], "--security", 5))
    assert run("verify", tmp_path / "run" / "proof-1.bin", *GIVEN[:2], "--security", 5).exit_code == 0
    assert "proof-0.bin is there already" in why_refused(run(*given))
    shown = run(*given, "--overwrite")
    assert "2 proofs of OpenVM 2" in shown.output


def test_the_file_whose_traces_are_wrong_is_named(tmp_path: Path) -> None:
    data = bytearray((GOLDEN / "interactions" / "traces.bin").read_bytes())
    data[-4] ^= 1
    (tmp_path / "wrong.bin").write_bytes(data)
    given = ("--openvm-key", key_path("interactions"), "--traces", GOLDEN / "interactions" / "traces.bin")
    done = run("prove", "stark", *given, tmp_path / "wrong.bin", "--out", tmp_path / "run", "--backend", "cpu")
    assert done.exit_code == 2, done.output
    assert (
        "wrong.bin: the traces violate the key: bus" in " ".join(done.output.split())
        or "does not balance" in done.output
    )
