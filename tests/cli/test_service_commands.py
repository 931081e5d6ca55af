"""The commands of the standing service, as people and scripts use them, with a service of its own process."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from cluster.service.client import Client
from cluster.service.contact import Contact, contact_in, holder_of
from cluster.service.views import JobState, JobView, Priority
from distprove.cli import prove as prove_module
from distprove.cli import up
from distprove.cli.app import app
from distprove.cli.jobs import _code
from distprove.cli.through_service import table_of
from distprove.errors import DistproveError, InputError
from distprove.job import Job
from distprove.settings import ExecutorSettings
from tests.support import ROOT

RUN = [sys.executable, "-c", "from distprove.cli import main; main()"]
JOB = 'system = "stark"\nprogram = "fibonacci"\narguments = { rows = 64 }\npartitions = 2\ntitle = "two\\u001b[2J"\n'
LONG = 'system = "stark"\nprogram = "fibonacci"\narguments = { rows = 1048576 }\npartitions = 200\n'


@pytest.mark.parametrize(
    ("state", "told", "code"),
    [
        ("proved", 256, 0),
        ("failed", 0, 1),
        ("failed", 256, 1),
        ("failed", 1 << 90, 1),
        ("failed", 4, 4),
        ("cancelled", None, 1),
    ],
)
def test_no_job_that_is_not_proved_exits_as_if_it_were(state: str, told: int | None, code: int) -> None:
    """A service that said 0, or 256, of a job that failed had `await` end as for one that is proved."""
    view = JobView("a", JobState(state), Priority.LOW, "toy", "", "r", exit_code=told)
    assert _code(view) == code


@pytest.mark.parametrize(
    ("says", "asked", "port", "told"),
    [
        ("runs", None, 5000, True),
        ("runs", None, up.PORT, False),
        ("runs", 5000, 5000, False),
        ("runs already", None, 5000, False),
    ],
)
def test_another_port_than_the_usual_one_is_explained(
    says: str,
    asked: int | None,
    port: int,
    told: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(up, "_workers", lambda contact: "1")
    up._show(Contact(f"http://127.0.0.1:{port}", "tokens"), Path("service"), False, says, asked)
    assert ("is taken" in capsys.readouterr().err) == told


@pytest.mark.parametrize("state", ["failed", "cancelled", "running"])
def test_no_job_that_is_not_proved_is_shown_as_if_it_were(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`prove` through a service that tells no error of a job ended with 0."""
    monkeypatch.setattr(prove_module, "_show", lambda *shown: None)
    monkeypatch.setattr("cluster.record.story.read_report", lambda run: {})
    view = JobView("a", JobState(state), Priority.LOW, "toy", "", str(tmp_path))
    with pytest.raises(DistproveError, match=f"the service says that it is {state}"):
        prove_module._show_ended(view, tmp_path, False)


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


class Shell:
    """Runs commands in a folder, with a state folder of their own: `up` in a process, what asks in this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.service = folder / "state" / "distprove" / "service"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}

    def __call__(self, *words: str, code: int = 0) -> Done:
        if words[0] == "up":
            reading, writing = os.pipe()  # as a shell leaves it to its children
            process = subprocess.run(
                [*RUN, *words],
                capture_output=True,
                text=True,
                timeout=250,
                cwd=self.folder,
                env=self.environment,
                pass_fds=[writing],
            )
            os.close(writing)
            assert select.select([reading], [], [], 60)[0], "the service holds what its caller opened"
            os.close(reading)
            done = Done(process.returncode, process.stdout, process.stderr)
        else:
            before = Path.cwd()
            os.chdir(self.folder)
            try:
                result = CliRunner().invoke(app, words, env={"XDG_STATE_HOME": self.environment["XDG_STATE_HOME"]})
            finally:
                os.chdir(before)
            done = Done(result.exit_code, result.stdout, result.stderr)
        assert done.code == code, f"{words}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell whose user's service runs."""
    found = Shell(tmp_path_factory.mktemp("service"))
    (found.folder / "job.toml").write_text(JOB)
    (found.folder / "long.toml").write_text(LONG)
    found.json("up", "--local", "--port", "0")
    try:
        yield found
    finally:
        if holder_of(found.service) is not None:
            os.kill(json.loads((found.service / "contact.json").read_text())["pid"], signal.SIGKILL)


def test_a_job_from_its_submission_to_its_proof(shell: Shell) -> None:
    assert shell("submit", "job.toml", "--id", "one").stdout == "one\n"
    assert shell.json("await", "one")[0]["state"] == "proved"
    shown = shell("status", "one").stdout
    assert "proved" in shown
    assert "two\\x1b[2J" in shown
    assert "\x1b" not in shown + shell("list").stdout
    assert [view["id"] for view in shell.json("list", "--state", "proved")] == ["one"]
    assert json.loads(shell("logs", "one").stdout.splitlines()[0])["event"] == "session"
    assert json.loads(shell("logs", "one", "--follow").stdout.splitlines()[0])["event"] == "session"
    assert "error:" in shell("submit", "long.toml", "--id", "one", code=2).stderr
    assert shell.json("submit", "job.toml", "--wait", "--title", "mine")[0]["title"] == "mine"
    assert "no job" in shell("cancel", "other", code=2).stderr
    assert "proved" in shell("submit", "job.toml", "--wait", "--priority", "urgent").stdout
    assert shell.json("status")["counts"]["proved"] == 3


def test_prove_uses_the_service_and_looks_the_same(shell: Shell) -> None:
    done = shell("prove", "job.toml", "--out", "through", "--json")
    assert "--no-service" in done.stderr
    report = json.loads(done.stdout)
    assert (report["status"], report["proof"]) == ("proved", "through/proof.msgpack")
    shell("verify", "through/proof.msgpack")
    shell("prove", "stark", "fibonacci", "--rows", "64", "--out", "flags")
    assert shell.json("list")[0]["run"] == str(shell.folder / "flags")
    own = shell("prove", "job.toml", "--out", "own", "--local")
    other = shell("prove", "job.toml", "--out", "other", "--no-service", "--threads", "1", "--local")
    assert "--no-service" not in own.stderr + other.stderr
    assert "already holds a run" in shell("prove", "job.toml", "--out", "own", code=2).stderr


def test_a_guest_that_is_proven_by_the_service_has_its_output(shell: Shell, tmp_path: Path) -> None:
    """In the run, and downloaded beside the proof; a job without an output has none to download."""
    (shell.folder / "message").write_bytes(b"abc")
    guest = ("--elf", str(ROOT / "tests" / "stark" / "riscv" / "guests" / "sha256.elf"), "--input", "message")
    shell("prove", "stark", "riscv", *guest, "--out", "guest")
    id, content = shell.json("list")[0]["id"], hashlib.sha256(b"abc").digest()
    assert (shell.folder / "guest" / "output.bin").read_bytes() == content
    with Client(contact_in(shell.service)) as client:
        client.proof(id, tmp_path / "proof.msgpack")
        shell("verify", str(tmp_path / "proof.msgpack"), code=1)
        assert client.output(id, tmp_path / "output.bin").read_bytes() == content
        shell("verify", str(tmp_path / "proof.msgpack"))
        without = shell.json("submit", "job.toml", "--wait")[0]["id"]
        with pytest.raises(InputError, match="has no output"):
            client.output(without, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_second_service_is_not_started_beside_the_first(shell: Shell) -> None:
    assert "runs already" in shell("up", "--local").stdout
    assert "runs already" in shell("up", "--port", "0", "--host", "127.0.0.1").stdout
    told = " ".join(shell("up", "--local", "--allow-code", "--root", ".", "--gpus", "2", code=2).stderr.split())
    ignored = told.partition("which change nothing now: ")[2].partition("; `distprove down` ends it")[0]
    assert sorted(ignored.split(", ")) == ["--allow-code", "--gpus", "--root"]
    assert "a service runs in" in shell("up", "--local", "--foreground", code=3).stderr


def test_a_cancelled_job_ends_as_interrupted_commands_do(shell: Shell) -> None:
    shell("submit", "long.toml", "--id", "cancelled")
    told = shell("cancel", "mistyped", "cancelled", code=2)
    assert "no job mistyped; the others are cancelled, or were over" in " ".join(told.stderr.split())
    assert "cancelled" in told.stdout
    assert shell.json("await", "cancelled", code=130)[0]["state"] == "cancelled"


def test_await_names_an_unknown_job_before_it_waits_for_others(shell: Shell) -> None:
    shell("submit", "long.toml", "--id", "at-work")
    assert "no job mistyped" in shell("await", "at-work", "mistyped", code=2).stderr
    assert shell.json("status", "at-work")["state"] in ("queued", "running")
    shell("cancel", "at-work")


def test_a_killed_service_is_told_and_goes_on_when_it_is_started_again(shell: Shell) -> None:
    shell("submit", "long.toml", "--id", "kept")
    assert "is not over" in shell("await", "kept", "--timeout", "0.1", code=3).stderr
    process = shell.json("up", "--local")["pid"]
    os.kill(process, signal.SIGKILL)
    while holder_of(shell.service) is not None:
        time.sleep(0.05)
    for words in (["status"], ["list"], ["submit", "job.toml"]):
        assert "has died" in shell(*words, code=3).stderr
    assert "--no-service" not in shell("prove", "job.toml", "--out", "alone", "--threads", "1", "--local").stderr
    assert shell.json("up", "--local")["pid"] != process
    assert shell.json("status", "kept")["state"] in ("queued", "running")
    assert "1 job waits" in shell("down", "--now").stdout
    assert "no service runs" in shell("status", code=3).stderr
    shell("up", "--local")
    shell("cancel", "kept")
    assert "0 jobs wait" in shell("down").stdout


def test_a_service_in_the_foreground_ends_at_a_signal(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    process = subprocess.Popen(
        [*RUN, "up", "--foreground", "--local", "--folder", "service", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=shell.environment,
    )
    assert process.stdout is not None
    told = ""
    while not told.rstrip().endswith("}"):
        told += process.stdout.readline()
    contact = json.loads(told)
    shell("status", "--service", "service")
    shell("status", "--service", contact["url"], "--token-file", contact["token_file"])
    process.send_signal(signal.SIGTERM)
    assert process.wait(250) == 0
    process.stdout.close()
    assert not (tmp_path / "service" / "contact.json").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "not encrypted"),
        (["--tls-cert", "job.toml"], "go together"),
        (["--folder", "/tmp"], "private"),
        (["--local", "--address", "auto"], "exclude each other"),
    ],
)
def test_what_keeps_a_service_from_starting_is_told_at_once(tmp_path: Path, options: list[str], said: str) -> None:
    assert said in Shell(tmp_path)("up", *options, code=2).stderr


def test_a_job_is_the_same_job_at_the_service(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    job = Job.from_toml(tmp_path / "job.toml")
    table = table_of(job)
    json.dumps(table)
    assert Job.from_options(**table, executor=ExecutorSettings()) == job


def test_commands_without_a_service_say_how_to_start_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for words in (["status"], ["list"], ["down"], ["await", "x"], ["cancel", "x"], ["logs", "x"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 3
        assert "distprove up" in " ".join(done.output.split())
