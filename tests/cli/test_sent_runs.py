"""Run folders and proofs that somebody sent: what they name is not run, and what they link to is not touched."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import distprove
from distprove.errors import UsageError
from distprove.proof import Proof
from tests.cli.conftest import SmallJob, run, why_refused

LOCAL = ("--local", "--no-isolate", "--threads", "2", "--backend", "cpu")
EVIL = """
from pathlib import Path
Path({marker!r}).write_text("run by the victim")
from distprove.stark.programs.fibonacci import Fibonacci
class Evil(Fibonacci):
    name = "evil"
def backend(**_):
    from kernels.cpu.backend import CpuBackend
    return CpuBackend()
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands are run in the folder beside the run, and import nothing that an earlier test left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    modules = set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in ("run", "evil", "mine", "other"):
            del sys.modules[name]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a program that ships."""
    out = tmp_path_factory.mktemp("sent") / "run"
    done = run("prove", "stark", "fibonacci", "--rows", "8", "--out", out, *LOCAL)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def sent(finished: Path, tmp_path: Path) -> Path:
    """A run with a module in it, which leaves a mark when it is imported, and with something left to be proven."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "evil.py").write_text(EVIL.format(marker=str(tmp_path / "marker")))
    for path in (folder / "partitions").iterdir():
        path.unlink()
    return folder


def name_program(folder: Path, program: str) -> None:
    """Have the run's job and its proof say that they are of this program."""
    record = json.loads((folder / "job.json").read_text())
    record["job"]["options"]["program"] = program
    (folder / "job.json").write_text(json.dumps(record))
    proof = Proof.read(folder / "proof.msgpack")
    named = {**proof.verification_key, "program": "evil"}
    Proof(proof.system, proof.key_digest, named, proof.partitions).write(folder / "proof.msgpack")


def set_executor(folder: Path, **settings: object) -> None:
    record = json.loads((folder / "job.json").read_text())
    record["job"]["executor"].update(settings)
    (folder / "job.json").write_text(json.dumps(record))


@pytest.mark.parametrize("program", ["run.evil:Evil", "evil:Evil"])
@pytest.mark.parametrize("command", [("export", "--out", "E"), ("resume", *LOCAL)])
def test_a_program_that_a_run_names_is_not_imported(
    sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], program: str
) -> None:
    name_program(sent, program)
    folder = sent
    if program == "evil:Evil":  # importable where the command is run inside of the run
        monkeypatch.chdir(sent)
        folder = Path()
    done = run(command[0], folder, *command[1:])
    assert not (tmp_path / "marker").exists()
    if command[0] == "resume":
        assert "--program MODULE:CLASS" in why_refused(done)
        with pytest.raises(UsageError, match="does not choose what code"):
            distprove.resume(sent)


def test_a_backend_that_a_run_names_is_not_imported(sent: Path, tmp_path: Path) -> None:
    set_executor(sent, backend="run.evil:backend", local=True, isolate=False)
    sys.path.append(str(tmp_path))
    told = why_refused(run("resume", "run"))
    assert not (tmp_path / "marker").exists()
    assert "--backend" in told
    with pytest.raises(UsageError, match="does not choose what code"):
        distprove.resume(sent)
    assert run("resume", "run", "--backend", "cpu").exit_code == 0


@pytest.mark.parametrize("named", ["evil.example:6379", "auto"])
def test_a_ray_cluster_that_a_run_names_is_not_joined(
    named: str, sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What workers send to a driver is unpickled: whoever runs the cluster runs code in the driver. And "auto" is any
    process of the machine, whoever's it is, that looks like Ray's: it was given the user's token.
    """
    joined: list[object] = []
    monkeypatch.setattr("cluster.session.open_client", lambda settings, *_: joined.append(settings.address))
    set_executor(sent, local=False, isolate=None, address=named)
    told = why_refused(run("resume", "run"))
    assert joined == []
    assert "--address" in told
    assert "--local" in told
    run("resume", "run", "--address", "mine.example:6379")
    assert joined == ["mine.example:6379"]


@pytest.mark.parametrize("name", ["run.evil:Evil", "evil:Evil"])
def test_code_inside_the_run_is_refused_even_when_it_is_named(
    sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    name_program(sent, name)
    if name == "evil:Evil":
        monkeypatch.chdir(sent)
    told = why_refused(run("resume", sent, "--program", name, *LOCAL))
    assert not (tmp_path / "marker").exists()
    assert "outside" in told


def test_a_run_is_not_resumed_while_python_imports_from_it(sent: Path, tmp_path: Path) -> None:
    """`python -m distprove resume .` in the run would import whatever the run calls `ray` or `numpy`."""
    sys.path.insert(0, str(sent))
    assert "a folder outside of it" in why_refused(run("resume", sent, *LOCAL))


def test_a_folder_beside_a_command_does_not_take_the_place_of_a_library(tmp_path: Path) -> None:
    """A run that was sent may be called `ray`, and hold an `__init__.py`."""
    from distprove.cli.programs import import_from_here

    import_from_here()
    assert sys.path.index(str(tmp_path)) == len(sys.path) - 1


@pytest.fixture
def own_run(tmp_path: Path) -> Path:
    """A run of a program of one's own, whose module has gone to another folder since."""
    (tmp_path / "mine.py").write_text(EVIL.format(marker=str(tmp_path / "imported")).replace("Evil", "Mine"))
    done = run("prove", "stark", "mine:Mine", "--with", "rows=2^3", "--out", "run", *LOCAL)
    assert done.exit_code == 0, done.output
    (tmp_path / "imported").unlink()
    (tmp_path / "lib").mkdir()
    (tmp_path / "mine.py").rename(tmp_path / "lib" / "mine.py")
    del sys.modules["mine"]
    return tmp_path / "run"


def test_export_of_ones_own_program_runs_no_code(own_run: Path, tmp_path: Path) -> None:
    exported = run("export", own_run, "--out", "E")
    assert exported.exit_code == 0, exported.output
    assert not (tmp_path / "imported").exists()
    assert run("verify", own_run, "--vk", "E/verifying_key.msgpack").exit_code == 0
    alone = run("export", own_run / "proof.msgpack", "--out", "F")
    assert "run folder" in why_refused(alone)


def test_an_exported_key_is_said_to_be_the_senders(own_run: Path, finished: Path, proven: Path) -> None:
    for number, (folder, told) in enumerate(((own_run, True), (proven, True), (finished, False))):
        done = run("export", folder, "--out", f"E{number}")
        assert done.exit_code == 0, done.output
        assert ("compare it with the one that you trust" in done.stdout) == told


def test_a_key_in_the_run_that_is_not_the_proofs_is_not_exported(own_run: Path, finished: Path) -> None:
    shutil.copy(finished / "verifying_key.msgpack", own_run)
    refused = run("export", own_run, "--out", "E")
    assert refused.exit_code == 1
    assert "not that of the proof" in refused.stderr
    (own_run / "verifying_key.msgpack").unlink()
    assert "verifying_key.msgpack: No such file" in why_refused(run("export", own_run, "--out", "E"))


def test_a_run_of_ones_own_program_resumes_when_it_is_named_again(
    own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (own_run / "proof.msgpack").read_bytes()
    (own_run / "partitions" / "part-0000.msgpack").unlink()
    (own_run / "verifying_key.msgpack").unlink()  # as in runs of earlier versions
    monkeypatch.chdir(tmp_path / "lib")
    text = (tmp_path / "lib" / "mine.py").read_text()
    (tmp_path / "lib" / "other.py").write_text(text + "\nMine.name = 'other'\n")
    assert "not the one that this run began with" in why_refused(
        run("resume", own_run, "--program", "other:Mine", *LOCAL)
    )
    assert not (own_run / "verifying_key.msgpack").exists()
    done = run("resume", own_run, "--program", "mine:Mine", *LOCAL)
    assert done.exit_code == 0, done.output
    assert (own_run / "proof.msgpack").read_bytes() == before
    assert run("export", own_run, "--out", tmp_path / "E").exit_code == 0
    assert "is not one of your own" in why_refused(run("resume", own_run, "--program", "fibonacci", *LOCAL))


STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m"


def test_what_a_run_says_does_not_steer_the_terminal(sent: Path) -> None:
    """Escape sequences could hide lines, or answer for the user."""
    status = json.loads((sent / "status.json").read_text())
    status["status"] = status["error"] = STEERING
    status["workers"][0]["id"] = STEERING
    (sent / "status.json").write_text(json.dumps(status))
    journal = {"time": 1.0, "event": "failed", "partition": STEERING, "reason": STEERING}
    (sent / "journal.jsonl").write_text(json.dumps(journal) + "\n")
    shown = [run("top", sent, "--once")]
    name_program(sent, f"a:{STEERING}")
    shown.append(run("resume", sent))
    record = json.loads((sent / "job.json").read_text())
    record["job"]["options"] = {**record["job"]["options"], "program": "fibonacci", STEERING: 1}
    (sent / "job.json").write_text(json.dumps(record))
    shown.append(run("resume", sent))
    assert [done.exit_code for done in shown] == [0, 2, 2]
    for done in shown:
        assert "owned" in done.output
        assert not set("\x1b\x07\x9b") & set(done.output)


def test_a_program_is_not_named_for_a_run_of_one_that_ships(sent: Path) -> None:
    assert "ships" in why_refused(run("resume", sent, "--program", "mine:Mine", *LOCAL))


def test_resuming_by_job_is_of_that_job_only(sent: Path, small_job: SmallJob) -> None:
    """A run that somebody put at `--out` would choose another statement, and its own inputs."""
    other = run("prove", "stark", "fibonacci", "--rows", "16", "--out", sent, "--resume", *LOCAL)
    assert "another job" in why_refused(other)
    told = why_refused(run(*small_job.prove(sent, "--resume")))
    assert f"another job: `distprove resume {sent}` continues that one, --overwrite replaces it" in told
    same = run("prove", "stark", "fibonacci", "--rows", "8", "--out", sent, "--resume", *LOCAL)
    assert same.exit_code == 0, same.output
