"""`distprove bench versus`: another prover's command, its proofs checked as strictly as ours."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import JobFailed
from distprove.measure import versus as versus_module
from distprove.measure.versus import PeerCommand
from tests.cli.conftest import SmallJob, run, why_refused
from tests.support.own_module import give

PEER = """
import sys
from distprove.groth16.prover import prove
from distprove.groth16.resident import load_key
from distprove.groth16.snarkjs import format_proof, format_public
from distprove.groth16.wtns import read_wtns
from distprove.groth16.zkey import read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.maths.encoding import unpack
from pathlib import Path

zkey, wtns, proof, public, fault = sys.argv[1:]
key, witness = read_zkey(zkey), read_wtns(wtns).values
with CpuBackend() as backend:
    made, _ = prove(load_key(key, backend), witness)
values = unpack(witness[1 : key.n_public + 1])
if fault == "exit":
    sys.exit(7)
if fault == "public":
    values[0] += 1
Path(public).write_text(format_public(values))
if fault == "proof":
    Path(proof).write_text("{}")
elif fault != "nothing":
    Path(proof).write_text(format_proof(made))
"""


@pytest.fixture
def peer(tmp_path: Path) -> str:
    """A prover whose last argument says what it does wrong."""
    (tmp_path / "peer.py").write_text(PEER)
    return (
        f"{shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / 'peer.py'))} {{zkey}} {{wtns}} {{proof}} {{public}}"
    )


def versus(job: SmallJob, command: str, *more: object, name: str = "other", witness: Path | None = None) -> Any:
    files = ("--zkey", job.zkey, "--wtns", witness or job.witnesses / "member-0.wtns")
    settings = ("--name", name, "--backend", "cpu", "--threads", 1, "--repeats", 2)
    return run("bench", "versus", command, *files, *settings, *more)


def test_both_are_timed_and_the_document_renders(small_job: SmallJob, peer: str) -> None:
    from distprove.measure.performance_page import render

    done = versus(small_job, f"{peer} none", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["bench"] == "peers"
    assert document["contenders"] == ["distprove", "other"]
    (row,) = document["rows"]
    assert {name: len(times) for name, times in row["samples"].items()} == {"distprove": 2, "other": 2}
    assert row["seconds"].keys() == row["cpu_seconds"].keys() == {"distprove", "other"}
    assert f"| {row['what']} |" in render([("x.json", document)])


def test_the_table_names_both(small_job: SmallJob, peer: str) -> None:
    done = versus(small_job, f"{peer} none")
    assert done.exit_code == 0, done.output
    assert "distprove" in done.stdout
    assert "other" in done.stdout


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("exit", "other ended with exit code 7"),
        ("public", "error: other states other public values"),
        ("proof", "other: .*proof.json: lacks"),
        ("nothing", "other: .*proof.json"),
    ],
)
def test_a_prover_that_fails_is_told(small_job: SmallJob, peer: str, fault: str, message: str) -> None:
    done = versus(small_job, f"{peer} {fault}")
    assert done.exit_code == 1

    assert re.search(message, " ".join(done.stderr.split()))


def test_a_witness_that_proves_nothing_is_no_result(small_job: SmallJob, peer: str) -> None:
    done = versus(small_job, f"{peer} none", witness=small_job.bad_witness)
    assert done.exit_code == 1
    assert "does not verify" in done.stderr


@pytest.mark.parametrize(
    ("command", "name", "message"),
    [
        ("prover {zkey} {wtns} {proof}", "other", "{public}"),
        ("'prover {zkey}", "other", "cannot be split"),
        ("/nonexistent {zkey} {wtns} {proof} {public}", "other", "cannot run /nonexistent"),
        ("p {zkey} {wtns} {proof} {public}", "distprove", "name of its own"),
    ],
)
def test_commands_that_cannot_be_used(small_job: SmallJob, command: str, name: str, message: str) -> None:
    assert message in why_refused(versus(small_job, command, name=name))


def test_each_key_has_its_witness(small_job: SmallJob) -> None:
    done = run("bench", "versus", "p", "--zkey", small_job.zkey, "--zkey", small_job.zkey, "--wtns", small_job.zkey)
    assert "2 keys and 1 witness:" in why_refused(done)


def test_the_end_of_the_other_prover_is_waited_for_and_not_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    def polled(*_: object, **__: object) -> None:
        raise AssertionError("a poll")

    class Unpolled(subprocess.Popen[bytes]):
        wait = poll = polled

    asked: list[int] = []

    def wait(kind: int, process: int, options: int) -> object:
        asked.append(options)
        return os.waitid(kind, process, options)

    give(monkeypatch, versus_module, "subprocess", Popen=Unpolled)
    give(monkeypatch, versus_module, "time", sleep=polled)
    give(monkeypatch, versus_module, "os", waitid=wait)
    taken = PeerCommand("other", ("sleep", "0.01")).run({})
    assert asked == [os.WEXITED | os.WNOWAIT]  # without WNOHANG: it returns when the process ends
    assert taken.wall >= 0.01
    assert taken.cpu > 0


def test_what_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    reader = os.open(started, os.O_RDONLY | os.O_NONBLOCK)
    command = ("sh", "-c", f"sleep 600 > {shlex.quote(str(started))} & wait")
    with pytest.raises(JobFailed, match=r"other took more than 0.5 s"):
        PeerCommand("other", command).run({}, limit=0.5)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # at its end only once no process holds it open any more
    os.close(reader)
