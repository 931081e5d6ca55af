"""Programs of one's own: keys made from code, proofs verified with code, and faults in it."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import distprove
from cluster.service.requests import Limits, job_of
from cluster.service.views import JobRequest
from distprove.errors import CodeFault, InvalidProof, UsageError
from distprove.job import Job
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.stark.keyfile import read_key
from distprove.stark.program import Trace
from tests.cli.conftest import run, why_refused
from tests.support import ROOT
from tests.support.cheats import prove_job

LOCAL = ("--local", "--no-isolate", "--threads", "2", "--backend", "cpu")
SECRET = "correct horse battery staple"
MINE = f'''
from distprove.stark.programs.fibonacci import Fibonacci, FibonacciAir

MADE = []

class Mine(Fibonacci):
    name = "mine"

    def __init__(self, rows=8, first=0):
        MADE.append(rows)
        super().__init__(rows, first)

class Other(Mine):
    """The same name and arguments, and another constraint."""

    @property
    def tables(self):
        return (Looser(),)

class Looser(FibonacciAir):
    def define(self, t):
        t.transition(t.next.left - t.this.right)

class FaultyTrace(Mine):
    def trace(self, inputs, backend):
        raise ValueError("{SECRET}")

class FaultyInputs(Mine):
    def inputs(self, source):
        return {{"start": int("{SECRET}")}}

class OtherParameters(Mine):
    def trace(self, inputs, fixed, backend):
        return super().trace(inputs, backend)

class FaultyStatement(Mine):
    @property
    def statement(self):
        return self.no_such_attribute

class FaultyTables(Mine):
    @property
    def tables(self):
        return (FaultyAir(),)

class FaultyAir(FibonacciAir):
    def define(self, t):
        t.first(t.this.left.no_such_method())

class FaultyCut(Mine):
    def slices(self, partitions):
        return super().slices(2)

class SameNames(Mine):
    def slices(self, partitions):
        return [*super().slices(1), *super().slices(1)]

class NoArray(Mine):
    def inputs(self, source):
        return {{"start": [1, 2]}}
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that commands run in, with the module of the programs; nothing that is imported stays."""
    (tmp_path / "own_programs.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in ("own_factors", "own_programs", "evil", "run", "walk"):
            del sys.modules[name]


def prove(name: str, out: str, *more: str) -> Path:
    done = run("prove", "stark", f"own_programs:{name}", *more, "--out", out, *LOCAL)
    assert done.exit_code == 0, done.output
    return Path(out)


def test_a_key_from_code_is_that_of_a_run(folder: Path) -> None:
    out = prove("Mine", "run", "--with", "rows=2^4", "--partitions", "2")
    args = ("key", "own_programs:Mine", "--with", "rows=16", "--partitions", "2", "--out", "vk")
    made = run(*args, "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["key_digest"] == Proof.read(out / "proof.msgpack").key_digest.hex()
    assert (folder / "vk").read_bytes() == (out / "verifying_key.msgpack").read_bytes()
    assert run("verify", out, "--vk", "vk").exit_code == 0
    assert "--overwrite" in why_refused(run(*args))
    assert "mine(rows = 16)" in run(*args, "--overwrite").stdout
    shipped = run("key", "fibonacci", "--rows", "16", "--out", "vk2")
    assert shipped.exit_code == 0, shipped.output
    refused = run("verify", out, "--vk", "vk2")
    assert refused.exit_code == 1


def test_security_is_told_of_a_program_of_ones_own() -> None:
    done = run("security", "own_programs:Mine", "--with", "rows=16", "--partitions", "3", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["security"]["bits"] >= 128


def test_a_proof_is_verified_with_its_program(folder: Path) -> None:
    out = prove("Mine", "run", "--with", "rows=16", "--partitions", "2")
    own = ("--program", "own_programs:Mine", "--with", "rows=2^4")
    done = run("verify", out / "proof.msgpack", *own)
    assert done.exit_code == 0, done.output
    for text in ("that you named, own_programs:Mine", "mine(rows = 16", "after 32 steps", "2178309, 3524578"):
        assert text in done.stdout
    facts = json.loads(run("verify", out, *own, "--json").stdout)
    assert facts["own_program"] == "own_programs:Mine"
    assert facts["proven"]["known"] is True
    checked = distprove.verify(out, program="own_programs:Mine", arguments={"rows": 16})
    assert checked.own_program == "own_programs:Mine"
    assert "exclude" in why_refused(run("verify", out, *own, "--trust-own-key"))
    assert "--program" in why_refused(run("verify", out, "--with", "rows=16"))
    other = run("verify", out, "--program", "fibonacci")
    assert other.exit_code == 1
    assert "not of fibonacci(rows" in other.stderr
    assert "did you mean" in why_refused(run("verify", out, "--program", "fibonaci"))


def test_arguments_are_the_verifiers_and_not_the_proofs(folder: Path) -> None:
    """What a file names never reaches the constructor of a user's program, which may open what it is given."""
    out = prove("Mine", "run", "--with", "rows=64")
    sys.modules["own_programs"].MADE.clear()
    refused = run("verify", out, "--program", "own_programs:Mine")
    assert refused.exit_code == 1
    assert "mine(rows = 64)" in refused.stderr
    assert "mine(rows = 8)" in refused.stderr
    assert 64 not in sys.modules["own_programs"].MADE


def test_another_program_of_that_name_does_not_verify(folder: Path) -> None:
    """A looser program of the same name and arguments proves what the right one would refuse."""
    out = prove("Other", "run")
    assert run("verify", out, "--program", "own_programs:Other").exit_code == 0
    refused = run("verify", out, "--program", "own_programs:Mine")
    assert refused.exit_code == 1
    with pytest.raises(InvalidProof, match="not the one that its digest names"):
        distprove.verify(out, program="own_programs:Mine")


@pytest.mark.parametrize("name", ["evil:Evil", "run.evil:Evil"])
def test_a_verifier_imports_nothing_from_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    out = prove("Mine", "run").resolve()
    (out / "evil.py").write_text(f"open({str(folder / 'marker')!r}, 'w').close()\n{MINE}\nEvil = Mine\n")
    if name == "evil:Evil":
        monkeypatch.chdir(out)
    for proof in (out, out / "proof.msgpack"):
        assert why_refused(run("verify", proof, "--program", name))
        with pytest.raises(UsageError):
            distprove.verify(proof, program=name)
    assert not (folder / "marker").exists()


@pytest.mark.parametrize("given", [("--with", "rows=8"), ("--with=rows=8",)])
def test_a_program_that_ships_names_its_options_to_those_who_pass_with(given: tuple[str, ...]) -> None:
    for command in (("prove", "stark"), ("key",)):
        done = run(*command, "fibonacci", "--out", "x", *given)
        assert done.exit_code == 2
        told = " ".join(done.output.split())
        assert "--with is for programs of your own; the arguments of fibonacci are --rows, --first, --second" in told


def test_a_job_file_finds_the_program_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "job.toml").write_text('system = "stark"\nprogram = "own_programs:Mine"\n')
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    done = run("prove", folder / "job.toml", "--out", "run", *LOCAL)
    assert done.exit_code == 0, done.output
    assert json.loads(Path("run/job.json").read_text())["job"]["code_folder"] == str(folder)
    again = run("prove", folder / "job.toml", "--out", "run", "--resume", *LOCAL)
    assert again.exit_code == 0, again.output


def test_a_run_says_where_its_code_was_and_does_not_import_it_from_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder in a run's record is its sender's choice."""
    out = prove("Mine", "run").resolve()
    (out / "partitions" / "part-0000.msgpack").unlink()
    (folder / "theirs").mkdir()
    (folder / "own_programs.py").rename(folder / "theirs" / "own_programs.py")
    (folder / "elsewhere").mkdir()
    record = json.loads((out / "job.json").read_text())
    assert record["job"]["code_folder"] == str(folder)
    record["job"]["code_folder"] = str(folder / "theirs")
    (out / "job.json").write_text(json.dumps(record))
    monkeypatch.chdir(folder / "elsewhere")
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if entry != str(folder)])
    del sys.modules["own_programs"]
    told = why_refused(run("resume", out, "--program", "own_programs:Mine", *LOCAL))
    assert f"was in {folder / 'theirs'}" in " ".join(told.split())
    assert "own_programs" not in sys.modules


def test_a_service_lets_no_client_say_where_code_lies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)  # where the service was started
    request = JobRequest("one", {"system": "stark", "program": "own_programs:Mine"}, base=str(folder))
    job = job_of(request, ExecutorSettings(), Limits(allow_code=True), folder / "service")
    assert job.code == ["own_programs:Mine"]
    assert job.code_folder == ""
    own = Job.from_options("stark", program="own_programs:Mine", base=folder)
    assert own.code_folder == str(folder)
    assert Job.from_record(own.to_record(), program="own_programs:Mine").code_folder == ""


def test_a_service_refuses_a_program_that_it_does_not_find_when_it_is_submitted(tmp_path: Path) -> None:
    (tmp_path / "elsewhere_programs.py").write_text("raise SystemExit")  # which would be seen if it were imported
    request = JobRequest("one", {"system": "stark", "program": "elsewhere_programs:Mine"}, base=str(tmp_path))
    with pytest.raises(
        UsageError, match=r"no module of elsewhere_programs:Mine: it looks in the folder where `distprove"
    ):
        job_of(request, ExecutorSettings(), Limits(allow_code=True), tmp_path / "service")
    with pytest.raises(UsageError, match="up --allow-code"):
        job_of(request, ExecutorSettings(), Limits(), tmp_path / "service")


def where(text: str, function: str) -> bool:
    """Whether a message names a line of the module in that function."""
    return "own_programs.py:" in text and f"in {function}: " in text


@pytest.mark.parametrize(
    ("name", "function", "kind"),
    [("FaultyStatement", "statement", "AttributeError"), ("FaultyTables", "define", "AttributeError")],
)
def test_faults_in_a_program_are_shown_with_its_lines(name: str, function: str, kind: str) -> None:
    done = run("security", f"own_programs:{name}", "--partitions", "1")
    assert done.exit_code == 2
    text = " ".join(done.stderr.split())
    assert where(text, function)
    assert kind in text
    assert "no_such_" in text
    assert "fault in distprove" not in text
    assert "distprove/stark" not in text


@pytest.mark.parametrize(("name", "function"), [("FaultyTrace", "trace"), ("FaultyInputs", "inputs")])
def test_faults_where_inputs_are_at_hand_do_not_quote_them(folder: Path, name: str, function: str) -> None:
    text = MINE.replace(f'"{SECRET}"', "str(open('secret').read())")
    (folder / "own_programs.py").write_text(text)
    (folder / "secret").write_text(SECRET)
    done = run("prove", "stark", f"own_programs:{name}", "--out", "run", *LOCAL)
    assert done.exit_code == 2, done.output
    assert where(" ".join(done.output.split()), function)
    assert "ValueError" in done.output
    assert "`distprove air check` shows it" in " ".join(done.output.split())
    for told in (done.output, *(path.read_text(errors="replace") for path in (folder / "run").rglob("*.json*"))):
        assert SECRET not in told
    journal = [json.loads(line) for line in (folder / "run" / "journal.jsonl").read_text().splitlines()]
    assert not [event for event in journal if event["event"] == "fault"]  # no other worker would do better


def test_a_method_of_other_parameters_is_the_programs_fault(folder: Path) -> None:
    """No line of it has run, so that the error passed through lines of ours alone."""
    for command in (("prove", "stark"), ("air", "check")):
        more = ("--out", "run", *LOCAL) if command[0] == "prove" else ()
        done = run(*command, "own_programs:OtherParameters", *more)
        assert done.exit_code == 2, done.output
        told = " ".join(done.output.split())
        assert "OtherParameters.trace() missing 1 required positional argument: 'backend'" in told
        assert re.search(r"own_programs\.py:\d+, in trace", told)
        assert "fault in distprove" not in told


def test_names_and_arguments_that_a_module_lacks_are_said_with_what_there_is() -> None:
    assert "did you mean `Mine`?" in why_refused(run("security", "own_programs:Mime"))
    assert "beside the job file, or in this folder" in why_refused(run("security", "own_program:Mine"))
    assert "it takes rows, first" in why_refused(run("security", "own_programs:Mine", "--with", "row=8"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", "SyntaxError"),
        ("import no_such_library\n", "No module named 'no_such_library'"),
        ("raise KeyError('x')\n", "KeyError"),
    ],
)
def test_faults_of_importing_are_the_modules(folder: Path, text: str, told: str) -> None:
    (folder / "own_programs.py").write_text(text)
    done = run("security", "own_programs:Mine")
    assert done.exit_code == 2
    assert told in done.stderr
    assert "own_programs.py:1" in done.stderr
    assert "cannot import no_such:Mine" in why_refused(run("security", "no_such:Mine"))


@pytest.mark.parametrize(
    ("name", "partitions", "told"),
    [
        ("FaultyCut", 5, "slices(5) gave 2 partitions, and 5 are asked for"),
        ("SameNames", 2, "slices(2) gave 2 partitions the name 'part-0000'"),
        ("NoArray", 1, "inputs gave 'start' as a list, not an array"),
    ],
)
def test_what_a_program_returns_wrongly_is_said(name: str, partitions: int, told: str) -> None:
    target = f"own_programs:{name}"
    for command in (("prove", "stark", target, "--out", "run", *LOCAL), ("air", "check", target)):
        done = run(*command, "--partitions", str(partitions))
        assert done.exit_code == 2, done.output
        assert told in " ".join(done.output.split())


def test_results_are_shown_shortly(folder: Path) -> None:
    """However many columns, public values and partitions there are."""
    sys.path.append(str(folder))
    settings = distprove.ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu")
    result = distprove.prove(
        system="stark", program="keccak-f", arguments={"permutations": 1}, out="run", executor=settings
    )
    checked = distprove.verify("run")
    key = read_key(Path("run/verifying_key.msgpack"))
    for shown in (result, checked, result.proof, result.proof.partitions[0], key, key.tables[0]):
        assert len(repr(shown)) < 250
    assert repr(key.tables[0]) in repr(key.tables)
    assert "keccak-f" in repr(key)
    assert "public values" in repr(result.proof.partitions)


def test_faults_are_typed() -> None:
    sys.path.append(str(Path.cwd()))
    with pytest.raises(CodeFault, match="own_programs raised AttributeError"):
        distprove.prove(program="own_programs:FaultyStatement", system="stark", out="run")


GUIDE = (ROOT / "docs" / "airs.md").read_text()


def test_the_guides_program_is_checked_proven_and_verified(folder: Path) -> None:
    """docs/airs.md: the module as it stands there, and the commands beneath it."""
    (text,) = re.findall(r"```python\n(# walk\.py\n.*?)```", GUIDE, re.DOTALL)
    (folder / "walk.py").write_text(text)
    commands = re.findall(r"^    distprove (.* walk:Walk .*)$", GUIDE, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["air", "prove", "verify"]
    for command in commands:
        words = command.split()
        done = run(*words, *(LOCAL if words[0] == "prove" else ()))
        assert done.exit_code == 0, done.output
    assert "from 0, after 96 steps of at most 255 " in done.stdout
    assert "that you named, walk:Walk" in done.stdout


FACTORS = """
from distprove.circuits.builder import CircuitBuilder
from kernels.maths.curves import BN254

def factors():
    b = CircuitBuilder(BN254)
    left, right = b.private_input("left"), b.private_input("right")
    b.inverse(left - 1)  # which 0 does not have
    b.output("product", b.multiply(left, right))
    return b
"""


def test_the_way_on_from_a_bad_input_names_the_users_own_circuit(folder: Path) -> None:
    """A run folder chooses no code: `resume` without it is refused."""
    (folder / "own_factors.py").write_text(FACTORS)
    circuit, inputs = "own_factors:factors", folder / "in.json"
    made = run("setup", "groth16", "--circuit", circuit, "--insecure-dev", "--out", folder / "f.zkey")
    assert made.exit_code == 0, made.output
    inputs.write_text('{"left": 1, "right": 7}')
    given = ("--zkey", folder / "f.zkey", "--circuit", circuit, "--input", inputs, "--out", folder / "run")
    done = run("prove", "groth16", *given, *LOCAL)
    assert done.exit_code == 2
    (way,) = re.findall(r"mend what failed, and distprove (resume .* --program \S+)", " ".join(done.stderr.split()))
    inputs.write_text('{"left": 6, "right": 7}')
    again = run(*way.split())
    assert again.exit_code == 0, again.output


def test_walks_that_do_not_meet_are_refused(folder: Path) -> None:
    """The global bus and its boundary are all that ties the guide's partitions: each of these is a walk by itself."""
    (text,) = re.findall(r"```python\n(# walk\.py\n.*?)```", GUIDE, re.DOTALL)
    (folder / "walk.py").write_text(text)
    sys.path.append(str(folder))
    walk = importlib.import_module("walk")

    def moved(index: int, trace: Trace) -> Trace:
        main = trace.main[0].copy()
        main[0] += np.uint64(index == 1)
        return Trace([main, trace.main[1]], (*trace.public[:2], trace.public[2] + (index == 1)))

    def from_elsewhere(index: int, trace: Trace) -> Trace:
        main = trace.main[0].copy()
        main[0] += np.uint64(1)
        return Trace([main, trace.main[1]], (*trace.public[:2], trace.public[2] + 1))

    def unmarked(index: int, trace: Trace) -> Trace:
        main = trace.main[0].copy()
        main[0] += np.uint64(1)
        main[2:] = 0  # nothing is taken from before or handed on
        return Trace([main, trace.main[1]], (*trace.public[:2], trace.public[2] + 1))

    prove_job(walk.Walk(), 3).check()
    for tamper in (moved, from_elsewhere, unmarked):
        with pytest.raises(InvalidProof):
            prove_job(walk.Walk(), 3, tamper=tamper).check()
