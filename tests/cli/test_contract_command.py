"""`prove --contract` and `verify --wrap-vk` without a list of partitions: from a guest to what a contract reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import distprove
from cluster.record.run import StoredRun
from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.wrap.verifier import stated_values
from distprove.errors import InvalidProof, UsageError
from distprove.groth16.r1cs import read_r1cs
from distprove.groth16.snarkjs import format_public, read_public, write_verification_key
from distprove.stark.export import WRAP_FOLDER
from distprove.stark.multilinear.places import READ
from distprove.stark.options import StarkOptions
from distprove.stark.recursion.plan import WRAP
from distprove.stark.riscv.program import RiscV
from distprove.stark.wrap import files, prover, system
from distprove.stark.wrap.contract_system import ContractSystem
from distprove.stark.wrap.files import Wrap
from distprove.stark.wrap.partition import GROTH16
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
HEIGHTS = "cpu=6,host=5,touched=5,words=5"
SECRET = trapdoor(BN254, 5)


def guest(path: Path, code: int = 7, cycles: int = 64, words: Sequence[int] = (0x11223344, 0x55667788)) -> Path:
    """A guest that writes two words, counts down and leaves."""
    written = [word for value in words for word in (*li(10, value), *call(2))]
    loop = [*li(7, cycles), imm("addi", 7, 7, -1), imm("addi", 6, 6, 3), branch("bne", 7, 0, -8)]
    path.write_bytes(code_file([*written, *loop, *leave(code)]))
    return path


def arguments(elf: Path, *more: str) -> tuple[str | Path, ...]:
    return ("riscv", "--elf", elf, "--segment", "64", *more, *FEW, "--contract")


def prove(elf: Path, out: Path, *more: str, heights: str | None = HEIGHTS) -> Any:
    declared = () if heights is None else ("--heights", heights)
    return command(
        "prove", "stark", *arguments(elf, *declared, *more), "--insecure-dev", "--local", "--no-isolate", "--out", out
    )


@contextmanager
def simulated() -> Iterator[None]:
    """The Groth16 proof is simulated with a trapdoor. What it states is the job's."""

    def wrap(key: Any, second: PartitionProof, salt: bytes | None, *_: Any) -> Wrap:
        assert salt is None
        public = stated_values(second.public, salt)
        return Wrap(SECRET.key, SECRET.prove(list(public), seed=1), public)

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(prover, "wrap", wrap)
        changed.setattr(prover.WrappedProver, "_open", lambda *_, **__: None)
        changed.setattr(system.WrappedSystem, "check", lambda *_: None)
        yield


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

    @property
    def public(self) -> tuple[int, ...]:
        return read_public(self.folder / files.PUBLIC, BN254)


def made_from(elf: Path, run: Path, folder: Path) -> Made:
    folder.mkdir()
    for name in (files.PROOF, files.PUBLIC, files.KEY, PROGRAM):
        shutil.copy(run / name, folder)
    return Made(elf, folder, run)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("contract")
    elf, run = guest(folder / "guest.elf"), folder / "run"
    with simulated():
        shown = prove(elf, run)
    assert shown.exit_code == 0, shown.output
    return made_from(elf, run, folder / "wrap")


def test_a_contract_reads_program_exit_code_and_output(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """It verifies from proof.json, public.json, the program and its heights."""
    monkeypatch.setenv("COLUMNS", "200")
    assert made.public[2:] == (int.from_bytes(OUTPUT, "little"), 0, 7 + (len(OUTPUT) << 32))
    done = made.verify("--exit-code", "7", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["exit_code"], told["output"]) == (7, OUTPUT.hex())
    assert told["contract_program"] == [str(half) for half in made.public[:2]]
    assert told["weakness"] is None
    words = " ".join(made.verify("--exit-code", "7").output.split())
    assert "verified: a job of this program, by a wrap that a contract reads" in words
    assert f"exit code 7 output 8 bytes: {OUTPUT.hex()}" in words
    assert "the report beside the proof is missing" in words
    assert f"by the rules {told['second_root']['rules']}" in words
    beside = command("verify", made.run, "--wrap-vk", made.run / files.KEY, "--exit-code", "7", *FEW[:2])
    assert beside.exit_code == 0, beside.output
    assert "insecure wrap" in beside.output
    # The run also holds as a job that ends in one proof.
    assert command("verify", made.run, "--exit-code", "7", *FEW[:2]).exit_code == 0


def test_an_export_has_the_wrap_without_the_list(made: Made, tmp_path: Path) -> None:
    assert command("export", made.run, "--out", tmp_path / "files").exit_code == 0
    folder = tmp_path / "files" / WRAP_FOLDER
    assert {path.name for path in folder.iterdir()} == {*(path.name for path in made.folder.iterdir()), files.CALLDATA}
    assert replace(made, folder=folder).verify("--exit-code", "7").exit_code == 0


def test_the_same_from_python(made: Made) -> None:
    given: dict[str, Any] = {"wrap_vk": made.folder / files.KEY, "least_security": 1.0}
    held = {"program": "riscv", "arguments": {"elf": str(made.elf)}}
    found = distprove.verify_contract(made.folder, **given, **held, exit_code=7, output=OUTPUT)
    assert (found.program, found.read.exit_code, found.read.output) == (made.public[:2], 7, OUTPUT)
    with pytest.raises(UsageError, match="verify it with verify_contract"):
        distprove.verify(made.run, wrap_vk=made.folder / files.KEY)
    for wrong in ({"exit_code": 0}, {"exit_code": 7, "output": OUTPUT[:4]}, {"exit_code": 7, "least_security": 128.0}):
        with pytest.raises(InvalidProof, match="the wrap holds"):
            distprove.verify_contract(made.folder, **{**given, **wrong})
    with pytest.raises(UsageError, match="verify_contract"):
        distprove.verify(made.run, wrap_vk=made.folder / files.KEY, exit_code=7, least_security=1.0)


def test_who_relies_on_a_contract_computes_the_digest(made: Made, tmp_path: Path) -> None:
    key = command("key", *arguments(made.elf), "--out", tmp_path / "key.msgpack", "--json")
    assert key.exit_code == 0, key.output
    named, digest = json.loads(key.stdout), [str(half) for half in made.public[:2]]
    assert (named["contract_program"], named["heights"]) == (digest, HEIGHTS)
    told = json.loads(made.verify("--exit-code", "7", "--json").stdout)
    assert named["second_root"] == told["second_root"]
    again = ("key", *arguments(made.elf, "--heights", named["heights"]), "--out", tmp_path / "again.msgpack", "--json")
    assert json.loads(command(*again).stdout)["contract_program"] == digest
    wrap_vk = ("--wrap-vk", made.folder / files.KEY)
    held = command("verify", made.folder, *wrap_vk, "--vk", tmp_path / "key.msgpack", *FEW[:2])
    assert "exit code 7; 0 is expected" in " ".join(held.output.split())


def test_another_claim_is_refused(made: Made, tmp_path: Path) -> None:
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
        values = [value + (k == place) for k, value in enumerate(made.public)]
        changed = made.changed(tmp_path / f"public {place}", files.PUBLIC, format_public(values).encode())
        assert changed.verify("--exit-code", str(values[4] % 2**32)).exit_code == 1


def test_another_program_file_is_refused(made: Made, tmp_path: Path) -> None:
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
    low = made.changed(tmp_path / "low", PROGRAM, replace(file, log_heights=(1,)).to_bytes())
    assert "not the heights of a segment" in " ".join(low.verify("--exit-code", "7").output.split())
    public = ("--with", f"public={made.elf}")
    more = (("--with", "heights=cpu=9"), ("--public-input", made.elf), ("--job", "00" * 32), public)
    for given in (*more, ("--show-public",), ("--public", made.elf), ("--threads", "2"), ("--proof-type", "any")):
        assert made.verify("--exit-code", "7", *given).exit_code == 2
    wrap_vk = ("--wrap-vk", made.folder / files.KEY)
    for name in ("proof.msgpack", PROGRAM, "none.json"):
        refused = command("verify", made.folder / name, *wrap_vk, *FEW[:2])
        assert "name the folder or its proof.json" in " ".join(refused.output.split())


def test_a_key_of_fewer_places_is_refused(made: Made, tmp_path: Path) -> None:
    """Its bits would be those of fewer segments than the job may have."""
    file = ProgramFile.read(made.folder / PROGRAM)
    fewer = replace(file, named={**file.named, "params": {**file.named["params"], "places": 1}})
    refused = made.changed(tmp_path / "one", PROGRAM, fewer.to_bytes()).verify("--exit-code", "7")
    assert refused.exit_code == 1
    assert "a key of 1 place; the circuit that a contract reads has 32" in " ".join(refused.output.split())


def test_the_driver_takes_nothing_else(made: Made) -> None:
    """Proofs of another exit code, output or kind, or with a salt, count as bad ones."""
    job = ContractSystem.from_options(
        replace(OPTIONS, arguments={"elf": str(made.elf), "segment": 64, "heights": HEIGHTS})
    )
    plan, stored = {part.name: part for part in job.plan()}, StoredRun.read(made.run)
    proofs = {name: proof for name, part in plan.items() if (proof := stored.load(part)) is not None}
    assert proofs.keys() == plan.keys()

    def taken(name: str, proof: PartitionProof, output: bytes = OUTPUT) -> bool:
        part = replace(plan[name], source={**plan[name].source, "output": output})
        return job.made_of(part, proof, [proofs[each] for each in part.needs])

    second, last, leaf = proofs[WRAP], proofs[GROTH16], proofs["leaf-00000"]
    assert job.verify(second)
    assert taken(WRAP, second)
    assert taken(GROTH16, last)
    assert not taken(WRAP, second, OUTPUT[:4])
    assert not taken(WRAP, leaf)
    assert not taken(GROTH16, second)
    for place in range(len(second.public)):
        changed = replace(second, public=tuple(v + (k == place) for k, v in enumerate(second.public)))
        assert not taken(WRAP, changed)
        assert not job.verify(changed)
    for place in range(len(last.public)):
        assert not taken(GROTH16, replace(last, public=tuple(v + (k == place) for k, v in enumerate(last.public))))
    assert not job.verify(replace(last, data={**last.data, "salt": bytes(32)}))
    assert not job.verify(replace(second, public=second.public[:-1]))
    assert not job.verify(replace(second, data={**second.data, "kind": leaf.data["kind"]}))
    partitions, whole = job.bind_whole([proofs[name] for name in plan])
    assert (len(partitions), whole.keys()) == (4, {"proof", "sum"})


def refuse(key: Any) -> None:
    raise InvalidProof("no contract reads this")


def test_the_circuit_for_a_ceremony(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of the second root's key. Here a small one stands for it."""
    asked: list[Any] = []

    def circuit(key: Any) -> CircuitBuilder:
        asked.append(key)
        b = CircuitBuilder(BN254)
        x = b.private_input("x")
        b.output("statement", b.multiply(x, x))
        return b

    monkeypatch.setattr("distprove.stark.wrap.kept.wrap_circuit", circuit)
    setup = ("setup", "wrap", made.run, "--json", "--out")
    done = command(*setup, tmp_path / "wrap.r1cs", "--security", "1")
    assert done.exit_code == 0, done.output
    assert [key.statement.public for key in asked] == [READ]
    told, verified = json.loads(done.stdout), json.loads(made.verify("--exit-code", "7", "--json").stdout)
    assert told["second_root"] == verified["second_root"]
    assert told["bits"] == verified["security"]["bits"]  # with a segment in each place
    with pytest.MonkeyPatch.context() as changed:  # what no circuit checks is checked of the key
        changed.setattr("distprove.stark.recursion.contract.check_readable", refuse)
        refused = command(*setup, tmp_path / "refused.r1cs", "--security", "1")
    assert (refused.exit_code, "no contract reads this" in refused.output) == (1, True)


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


def test_a_program_does_not_follow_from_private_input(tmp_path: Path) -> None:
    """Runs of other lengths have other heights. A job with a public program does not take them from its run."""
    elf, programs, needed = tmp_path / "guest.elf", set(), set()
    elf.write_bytes(
        code_file(
            [*call(3), *call(3), imm("addi", 7, 10, 0), imm("addi", 7, 7, -1), branch("bne", 7, 0, -4), *leave(0)]
        )
    )
    for number, count in enumerate((3, 300)):
        held = tmp_path / f"input{number}"
        held.write_bytes(count.to_bytes(4, "little"))
        given = {"elf": str(elf), "input": str(held), "segment": 1024}
        asked = ("riscv", *(part for name, value in given.items() for part in (f"--{name}", value)), *FEW, "--contract")
        shown = command("key", *asked, "--out", tmp_path / f"key{number}", "--json")
        needed.add(json.loads(shown.stdout)["contract_program"][0])
        with pytest.raises(UsageError, match="the heights of a run may tell of its private input"):
            ContractSystem.from_options(replace(OPTIONS, arguments=given))
        with pytest.raises(UsageError, match="declare them"):
            ContractSystem.check_job(replace(OPTIONS, arguments=given))
        declared = {**given, "heights": "cpu=10,host=5,touched=5,words=5"}
        made = ContractSystem.from_options(replace(OPTIONS, arguments=declared))
        programs.add((made.key_digest(), made._form.to_bytes()))
    assert (len(needed), len(programs)) == (2, 1)


def test_a_key_of_so_many_queries(tmp_path: Path) -> None:
    """The guest runs, or its heights are declared: the number of queries alone does not tell them."""
    elf = guest(tmp_path / "guest.elf")
    asked = ("riscv", "--elf", elf, *FEW, "--queries", "40", "--contract")
    digests = [
        json.loads(command("key", *asked, *more, "--out", tmp_path / f"key{number}", "--json").stdout)
        for number, more in enumerate(((), ("--heights", HEIGHTS), ("--segment", "64")))
    ]
    assert digests[1]["contract_program"] == digests[2]["contract_program"] != digests[0]["contract_program"]


def test_jobs_that_no_contract_reads(tmp_path: Path) -> None:
    long = guest(tmp_path / "long.elf", words=range(9))
    odd = command(
        "prove", "stark", "fibonacci", "--rows", "16", *FEW, "--contract", "--insecure-dev", "--out", tmp_path / "d"
    )
    for done, words in (
        (prove(long, tmp_path / "a"), "8 at most. Write a digest of a longer one"),
        (prove(guest(tmp_path / "many.elf", cycles=2000), tmp_path / "b"), "at most 32 segments, and this one has"),
        (prove(long, tmp_path / "c", heights="cpu=6"), "table host is missing"),
        (prove(long, tmp_path / "c", heights=None), "`distprove key` of the program with --contract prints those"),
        (odd, "no contract reads its jobs, whose heights are not declared"),
    ):
        assert done.exit_code == 2, done.output
        assert words in " ".join(done.output.split())
    assert not any((tmp_path / name).exists() for name in "abcd")


@LONG
@pytest.mark.timeout(3000)
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
