"""`prove --contract` and `verify --wrap-vk` without a list of partitions: from a guest to what a contract reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from distprove.circuits.wrap.verifier import stated_values
from distprove.errors import UsageError
from distprove.groth16.r1cs import read_r1cs
from distprove.groth16.snarkjs import format_public, read_public, write_verification_key
from distprove.stark.options import StarkOptions
from distprove.stark.riscv.program import RiscV
from distprove.stark.wrap import files, prover, system
from distprove.stark.wrap.contract_system import ContractSystem
from distprove.stark.wrap.files import Wrap
from distprove.stark.wrap.program_file import PROGRAM, ProgramFile
from distprove.system import PartitionProof
from kernels.maths.curves import BN254
from tests.cli.conftest import run as command
from tests.support import LONG
from tests.support.riscv_asm import branch, call, imm, leave, li
from tests.support.riscv_elf import code_file
from tests.support.simulated_proofs import trapdoor

FEW = ("--security", "1", "--grinding", "0", "--engine", "multilinear", "--hash", "poseidon2")
OPTIONS = StarkOptions(
    *("riscv", {}),
    engine="multilinear",
    hash="poseidon2",
    security=1,
    grinding=0,
    one_proof=True,
    wrap=True,
    contract=True,
    insecure_dev=True,
)
OUTPUT = bytes.fromhex("4433221188776655")
SECRET = trapdoor(BN254, 5)


def guest(path: Path, code: int = 7, cycles: int = 64, words: Sequence[int] = (0x11223344, 0x55667788)) -> Path:
    """A guest that writes two words, counts down and leaves."""
    written = [word for value in words for word in (*li(10, value), *call(2))]
    loop = [*li(7, cycles), imm("addi", 7, 7, -1), imm("addi", 6, 6, 3), branch("bne", 7, 0, -8)]
    path.write_bytes(code_file([*written, *loop, *leave(code)]))
    return path


def arguments(elf: Path, *more: str) -> tuple[str | Path, ...]:
    return ("riscv", "--elf", elf, "--segment", "64", *more, *FEW, "--contract")


def prove(elf: Path, out: Path, *more: str) -> Any:
    return command("prove", "stark", *arguments(elf, *more), "--insecure-dev", "--local", "--no-isolate", "--out", out)


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The Groth16 proof is simulated with a trapdoor, but in the long test. What it states is the job's."""
    if "whole" in request.node.name:
        return

    def wrap(key: Any, second: PartitionProof, salt: bytes | None, *_: Any) -> Wrap:
        assert salt is None
        public = stated_values(key, second.public, salt)
        return Wrap(SECRET.key, SECRET.prove(list(public), seed=1), public)

    monkeypatch.setattr(prover, "wrap", wrap)
    monkeypatch.setattr(prover.WrappedProver, "_open", lambda *_, **__: None)
    monkeypatch.setattr(system.WrappedSystem, "check", lambda *_: None)


@dataclass(frozen=True)
class Made:
    """A wrap in a folder, without the run that it came from."""

    elf: Path
    folder: Path
    run: Path

    def verify(self, *more: str | Path, elf: Path | None = None, vk: Path | None = None) -> Any:
        given = ("--wrap-vk", vk or self.folder / files.KEY, "--program", "riscv", "--with", f"elf={elf or self.elf}")
        return command("verify", self.folder / files.PROOF, *given, "--security", "1", *more)

    def changed(self, to: Path, name: str, content: bytes) -> Made:
        shutil.copytree(self.folder, to)
        (to / name).write_bytes(content)
        return replace(self, folder=to)


def made_from(elf: Path, run: Path, folder: Path) -> Made:
    folder.mkdir()
    for name in (files.PROOF, files.PUBLIC, files.KEY, PROGRAM):
        shutil.copy(run / name, folder)
    return Made(elf, folder, run)


def test_a_job_that_a_contract_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    elf, run = guest(tmp_path / "guest.elf"), tmp_path / "run"
    shown = prove(elf, run)
    assert shown.exit_code == 0, shown.output
    made = made_from(elf, run, tmp_path / "wrap")
    public = read_public(run / files.PUBLIC, BN254)
    assert public[2:] == (int.from_bytes(OUTPUT, "little"), 0, 7 + (len(OUTPUT) << 32))

    # It verifies from proof.json, public.json, the program and its heights.
    done = made.verify("--exit-code", "7", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["exit_code"], told["output"]) == (7, OUTPUT.hex())
    assert told["contract_program"] == [str(half) for half in public[:2]]
    words = " ".join(made.verify("--exit-code", "7").output.split())
    assert "verified: a job of this program, by a wrap that a contract reads" in words
    assert f"exit code 7 output 8 bytes: {OUTPUT.hex()}" in words
    assert "the report beside the proof is missing" in words
    assert "insecure wrap" in command("verify", run, "--wrap-vk", run / files.KEY, "--exit-code", "7", *FEW[:2]).output

    # The program's digest is computed by who relies on the contract.
    key = command("key", *arguments(elf), "--out", tmp_path / "key.msgpack", "--json")
    assert key.exit_code == 0, key.output
    named = json.loads(key.stdout)
    assert named["contract_program"] == told["contract_program"]
    again = ("key", *arguments(elf, "--heights", named["heights"]), "--out", tmp_path / "again.msgpack", "--json")
    assert json.loads(command(*again).stdout)["contract_program"] == told["contract_program"]
    held = command(
        "verify", made.folder, "--wrap-vk", made.folder / files.KEY, "--vk", tmp_path / "key.msgpack", *FEW[:2]
    )
    assert "exit code 7; 0 is expected" in held.output

    # Nothing else verifies.
    for more in ((), ("--exit-code", "8"), ("--exit-code", "7", "--security", "128")):
        assert made.verify(*more).exit_code == 1
    (tmp_path / "other.bin").write_bytes(OUTPUT[:4])
    assert made.verify("--exit-code", "7", "--output", tmp_path / "other.bin").exit_code == 1
    other = guest(tmp_path / "other.elf", words=(0x11223344, 0x55667789))
    refused = made.verify("--exit-code", "7", elf=other)
    assert refused.exit_code == 1
    assert "the proof is of riscv(guest" in " ".join(refused.output.split())
    write_verification_key(tmp_path / "other.json", trapdoor(BN254, 5, seed=3).key)
    assert made.verify("--exit-code", "7", vk=tmp_path / "other.json").exit_code == 1
    for place in range(5):
        values = [value + (k == place) for k, value in enumerate(public)]
        changed = made.changed(tmp_path / f"public {place}", files.PUBLIC, format_public(values).encode())
        assert changed.verify("--exit-code", str(values[4] % 2**32)).exit_code == 1
    file = ProgramFile.read(made.folder / PROGRAM)
    taller = tuple(None if h is None else h + (k == 0) for k, h in enumerate(file.log_heights))
    for number, wrong in enumerate((replace(file, log_heights=taller), replace(file, name_length=14))):
        changed = made.changed(tmp_path / f"heights {number}", PROGRAM, wrong.to_bytes())
        refused = changed.verify("--exit-code", "7")
        assert "the wrap is of another program, or of segments of other heights" in " ".join(refused.output.split())
    params = {**file.named["params"], "queries": [1] * 8}
    fewer = replace(file, named={**file.named, "params": params})
    assert made.changed(tmp_path / "queries", PROGRAM, fewer.to_bytes()).verify("--exit-code", "7").exit_code == 1
    places = {name: value for name, value in file.named["params"].items() if name != "places"}
    plain = replace(file, named={**file.named, "params": places})
    refused = made.changed(tmp_path / "places", PROGRAM, plain.to_bytes()).verify("--exit-code", "7")
    assert "an exit code and an output alone" in " ".join(refused.output.split())
    assert made.changed(tmp_path / "no file", PROGRAM, b"{}").verify("--exit-code", "7").exit_code == 2
    for more in (
        ("--with", "heights=cpu=9"),
        ("--public-input", elf),
        ("--job", "00" * 32),
        ("--with", f"public={elf}"),
    ):
        assert made.verify("--exit-code", "7", *more).exit_code == 2

    # The run also holds as a job that ends in one proof.
    assert command("verify", run, "--exit-code", "7", *FEW[:2]).exit_code == 0


def test_declared_heights_give_other_runs_the_same_program(tmp_path: Path) -> None:
    """One segment or several: the program is the same, and the number of segments is nowhere."""
    elf = guest(tmp_path / "guest.elf", cycles=30)
    key = ("key", *arguments(elf, "--segment", "128"), "--out", tmp_path / "key.msgpack", "--json")
    found = json.loads(command(*key).stdout)
    counts = set()
    for segment in (64, 128):
        given = {"elf": str(elf), "segment": segment, "heights": found["heights"]}
        made = ContractSystem.from_options(replace(OPTIONS, arguments=given))
        counts.add(made.partitions)
        assert made.key_digest().hex() == found["key_digest"]
        assert RiscV(elf=str(elf)).declares(made._form.log_heights) == found["heights"]
    assert len(counts) == 2
    lower = ",".join(item if "cpu" not in item else "cpu=5" for item in found["heights"].split(","))
    with pytest.raises(UsageError, match=r"the run needs 2\^\d+ rows of cpu, and 2\^5 rows"):
        ContractSystem.from_options(replace(OPTIONS, arguments={**given, "heights": lower}))


def test_jobs_that_no_contract_reads(tmp_path: Path) -> None:
    long = guest(tmp_path / "long.elf", words=range(9))
    odd = command(
        "prove", "stark", "fibonacci", "--rows", "16", *FEW, "--contract", "--insecure-dev", "--out", tmp_path / "d"
    )
    for done, words in (
        (prove(long, tmp_path / "a"), "8 at most. Write a digest of a longer one"),
        (prove(guest(tmp_path / "many.elf", cycles=2000), tmp_path / "b"), "at most 32 segments, and this one has"),
        (prove(long, tmp_path / "c", "--heights", "cpu=6"), "table host is missing"),
        (odd, "its jobs have no output, which a contract reads"),
    ):
        assert done.exit_code == 2, done.output
        assert words in " ".join(done.output.split())
    assert not any((tmp_path / name).exists() for name in "abcd")


@LONG
def test_a_whole_job_with_a_real_proof(tmp_path: Path) -> None:
    """All of it, for a second root of 1 bit, and the contract's circuit: minutes and 4 GB."""
    elf, run = guest(tmp_path / "guest.elf"), tmp_path / "run"
    shown = prove(elf, run)
    assert shown.exit_code == 0, shown.output
    made = made_from(elf, run, tmp_path / "wrap")
    done = made.verify("--exit-code", "7")
    assert done.exit_code == 0, done.output
    public = read_public(run / files.PUBLIC, BN254)
    for place in range(5):
        values = [value + (k == place) for k, value in enumerate(public)]
        changed = made.changed(tmp_path / f"public {place}", files.PUBLIC, format_public(values).encode())
        assert changed.verify("--exit-code", str(values[4] % 2**32)).exit_code == 1
    r1cs = tmp_path / "contract.r1cs"
    assert command("setup", "wrap", run, "--out", r1cs, "--security", "1").exit_code == 0
    assert read_r1cs(r1cs).n_public == 5
