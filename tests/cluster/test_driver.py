"""The driver over both executors: the same tests, the same behaviour."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors.prover import SWITCH_INTERVAL
from cluster.eventlog import harmless
from cluster.executor.local import LocalFleet
from cluster.record.journal import read_journal
from cluster.record.run import Run
from cluster.scheduler.jobs import Progress
from distprove.errors import CalledOff, FormatError, InvalidKey, InvalidProof, JobFailed, ResourceError, exit_code
from distprove.host.provenance import provenance
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.system import Partition, PartitionProof
from distprove.wanted import unless
from tests.support.toy_system import (
    SECRET,
    Faults,
    ToyProver,
    ToySynthesiser,
    ToySystem,
    toy_backend,
    until_called_off,
)

Make = Callable[..., Faults]
Prove = Callable[..., Proof]


def report(tmp_path: Path) -> dict[str, Any]:
    return json.loads((tmp_path / "run" / "report.json").read_text())


def events(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_journal(tmp_path / "run") if event["event"] == kind]


def last_session(tmp_path: Path) -> dict[str, Any]:
    return json.loads((tmp_path / "run" / "timeline.json").read_text())["sessions"][-1]


@pytest.mark.parametrize("barrier", [False, True])
def test_a_job_gives_one_proof(
    settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, barrier: bool
) -> None:
    seen: list[Progress] = []
    system = ToySystem(6, faults(), needs_barrier=barrier)
    proof = run_toy(system, settings, seen.append)
    assert [p.name for p in proof.partitions] == [f"p{i}" for i in range(6)]
    assert [p.public for p in proof.partitions] == [(i * i, 0) for i in range(6)]
    assert Proof.read(tmp_path / "run" / "proof.msgpack") == proof
    proof.verify(system)
    facts = report(tmp_path)
    assert facts["status"] == "proved"
    assert facts["made_by"] == json.loads((tmp_path / "run" / "job.json").read_text())["made_by"] == provenance()
    assert facts["job_digest"] == proof.job_digest.hex()
    assert {p["status"] for p in facts["partitions"]} == {"proved"}
    assert set(facts["counters"].values()) == {0}
    assert all(p["to_device"] == p["witness_bytes"] > 0 for p in facts["partitions"])
    assert (seen[-1].done, seen[-1].failed, seen[-1].total) == (6, 0, 6)
    spans = last_session(tmp_path)["spans"]
    stages = {"load", "check", "synthesise", "prove", "verify"}
    assert {s["stage"] for s in spans} == stages | ({"commit"} if barrier else set())
    assert all(s["on_device"]["by"] == "queue" for s in spans if s["stage"] == "commit")
    if barrier:
        proven = [s["start"] for s in spans if s["stage"] == "prove"]
        assert max(s["end"] for s in spans if s["stage"] == "commit") <= min(proven)
        challenges = {p.data["challenge"] for p in proof.partitions}
        assert len(challenges) == 1
        assert None not in challenges


@pytest.mark.parametrize("maps", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"cut"])
def test_a_proof_is_read_back_before_the_job_is_done(
    content: bytes | None,
    maps: bool,
    local: ExecutorSettings,
    faults: Make,
    run_toy: Prove,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENODEV, "this file system maps no file")

    system = ToySystem(2, faults())
    if not maps:
        monkeypatch.setattr("cluster.driver.mmap", refused)
    if content is None:
        run_toy(system, local).verify(system)
        return
    with monkeypatch.context() as patched:
        patched.setattr(Proof, "write_to", lambda proof, file: file.write(content))
        with pytest.raises(FormatError):
            run_toy(system, local)
    assert not (tmp_path / "run" / "proof.msgpack").exists()
    run_toy(system, local).verify(system)


@pytest.mark.parametrize("bad", [{"p1": 1, "p3": 1}, {"p3": 2}], ids=["two", "twice"])
def test_a_bad_proof_is_tried_again_and_counted(
    bad: dict[str, int], settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    """Two in all: three may follow each other, in whatever order verdicts come, and then the prover is retired."""
    system = ToySystem(4, faults(bad_proof=bad))
    run_toy(system, settings).verify(system)
    facts = report(tmp_path)
    assert facts["counters"]["bad_proofs"] == 2
    assert {p["name"]: p["bad_proofs"] for p in facts["partitions"] if p["bad_proofs"]} == bad
    assert facts["partitions"][3]["attempts"] == 1 + bad["p3"]
    assert len(events(tmp_path, "bad-proof")) == 2


def test_a_proof_that_is_always_bad_fails_its_partition_only(
    settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(4, faults(bad_proof={"p3": 99}))  # the last: what is not proven then has no prover any more
    with pytest.raises(JobFailed, match=r"1 of 4 partitions failed: p3: given up after 3 attempts"):
        run_toy(system, replace(settings, max_retries=2, in_flight=1))
    assert not (tmp_path / "run" / "proof.msgpack").exists()
    assert [p["status"] for p in report(tmp_path)["partitions"]] == ["proved", "proved", "proved", "failed"]


def test_faults_of_the_device_are_tried_again_and_never_quoted(
    settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(3, faults(fault={"p0": 1, "p2": 1}))
    run_toy(system, settings).verify(system)
    assert report(tmp_path)["counters"]["faults"] == 2
    assert {event["reason"].split()[0] for event in events(tmp_path, "fault")} == {"RuntimeError"}


def test_an_input_that_changes_after_it_was_planned_is_not_proven_about(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    """It has the same name and size, as on another node: what was proven about it passed for the driver's."""
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for index in range(3):
        (inputs / f"p{index}").write_text("1")

    def other(partition: Partition) -> None:
        (tmp_path / "other").write_text("2")
        (tmp_path / "other").replace(inputs / "p2")

    system = ToySystem(3, faults(), inputs=inputs, gate=other)
    with pytest.raises(JobFailed, match=r"1 of 3 partitions failed: p2: .*another content than where the driver is"):
        run_toy(system, replace(local, in_flight=1, parallel=1))


def log(tmp_path: Path, kind: str = "") -> list[str]:
    """The steps of a kind that staging provers took, in order."""
    return [line for line in (tmp_path / "faults" / "log").read_text().split("\n") if line and line.startswith(kind)]


@pytest.mark.parametrize("barrier", [False, True])
def test_the_next_partition_is_staged_while_one_computes(
    settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, barrier: bool
) -> None:
    names = [f"p{i}" for i in range(6)]
    # Over a connection p1 may come before p0, so it is not waited for there.
    pace: dict[str, Any] = (
        {"waits": {"p0": "stage p1"}} if settings.isolate is False else {"slow": dict.fromkeys(names, 0.1)}
    )
    system = ToySystem(6, faults(**pace), needs_barrier=barrier, stages=True)
    run_toy(system, settings).verify(system)
    steps = log(tmp_path)
    started = [step.split()[1] for step in log(tmp_path, "start ")]
    if settings.isolate is False:  # calls to another process that are sent at the same moment may overtake each other
        assert started == names
    assert sorted(started) == names
    assert sorted(log(tmp_path, "release")) == [f"release {name}" for name in names]
    ahead = [b for a, b in pairwise(started) if steps.index(f"stage {b}") < steps.index(f"started {a}")]
    assert ahead, "none was staged while the one before computed"
    running = [step.split() for step in steps if step.startswith("start")]
    assert all(a[1] == b[1] for a, b in zip(running[::2], running[1::2], strict=True)), "two computed at a time"
    spans = last_session(tmp_path)["spans"]
    proven = sorted((s["start"], s["end"]) for s in spans if s["stage"] == "prove")
    assert all(before[1] <= after[0] for before, after in pairwise(proven))


def test_faults_while_one_is_staged_cost_the_others_nothing(
    settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(5, faults(fault={"p1": 1}, bad_proof={"p2": 1}, slow={"p1": 0.1}), stages=True)
    run_toy(system, settings).verify(system)
    facts = report(tmp_path)
    assert (facts["counters"]["faults"], facts["counters"]["bad_proofs"]) == (1, 1)
    assert [p["attempts"] for p in facts["partitions"]] == [1, 2, 2, 1, 1]
    assert len(log(tmp_path, "stage")) == len(log(tmp_path, "release")) == 7


def test_a_prover_that_dies_with_the_next_one_staged(
    isolated: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    """Only the partition at work is charged: with no retries left to it, one that was just staged is still proven."""
    system = ToySystem(4, faults(kill_prover={"p1": 1}, waits={"p1": "stage p2"}), stages=True)
    run_toy(system, replace(isolated, max_retries=1)).verify(system)
    facts = report(tmp_path)
    assert facts["counters"]["deaths"] == 1
    steps = log(tmp_path)
    assert steps.index("stage p2") < len(steps) - 1 - steps[::-1].index("start p1"), "p2 was not staged at the death"
    assert steps.count("stage p2") == 2


@pytest.mark.parametrize(
    ("fault", "killed"),
    [({"kill_prover": {"p1": 1}}, "prover-0"), ({"kill_synthesiser": {"p3": 1}}, "synthesiser-0")],
    ids=["worker", "synthesiser"],
)
def test_killed_workers_come_back_and_cost_nothing_but_time(
    fault: dict[str, Any], killed: str, isolated: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    """Each in a job of its own: a worker that is killed takes its synthesisers with it, dead or not."""
    system = ToySystem(5, faults(**fault))
    run_toy(system, isolated).verify(system)
    facts = report(tmp_path)
    assert facts["counters"]["deaths"] == 1
    assert {p["status"] for p in facts["partitions"]} == {"proved"}
    assert [w["id"] for w in facts["workers"] if w["deaths"]] == [killed]
    assert all(g["peak_memory"] <= g["memory"] for g in facts["governors"])
    # One more: the verifier's thread is not counted with those of synthesis.
    assert all(g["peak_threads"] <= g["threads"] + 1 for g in facts["governors"])


@pytest.mark.parametrize(
    ("fault", "hanging"),
    [({"stop_prover": {"p1": 1}}, {"prover-0"}), ({"stop_synthesiser": {"p3": 1}}, {"synthesiser-0", "prover-0"})],
    ids=["worker", "synthesiser"],
)
def test_workers_that_hang_are_ended_and_come_back(
    fault: dict[str, Any],
    hanging: set[str],
    isolated: ExecutorSettings,
    faults: Make,
    run_toy: Prove,
    tmp_path: Path,
) -> None:
    """A worker is silent; a synthesiser takes far longer than it did before, and its worker says so, unless that has
    been silent for too long itself, on a busy machine. Each in a job of its own: a worker that is ended takes a
    synthesiser that has stopped with it."""
    system = ToySystem(5, faults(**fault))
    settings = replace(isolated, hang_timeout=3.0, in_flight=1, synthesisers=1, gpu_workers=1, max_retries=9)
    run_toy(system, settings).verify(system)
    hung = [event["worker"] for event in events(tmp_path, "hung")]
    assert hung
    assert hung[0] in hanging
    assert report(tmp_path)["counters"]["deaths"] >= 1
    log = (tmp_path / "faults" / "log").read_text().split()
    stopped = []
    for pid in log[1::2]:
        with suppress(psutil.NoSuchProcess):
            stopped.append(psutil.Process(int(pid)))
    assert not psutil.wait_procs(stopped, timeout=60)[1]


def test_a_prover_that_is_never_good_is_retired(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.executor.local.local_devices", lambda settings: [0, 1])
    monkeypatch.setattr("actors.prover.make_backend", lambda choice, *_: toy_backend(choice.device))
    system = ToySystem(8, faults(bad_first_prover=True, bad_before_good=3))
    run_toy(system, replace(local, max_retries=4)).verify(system)
    facts = report(tmp_path)
    bad, good = sorted((w for w in facts["workers"] if w["role"] == "prover"), key=lambda w: w["partitions"])
    assert (bad["status"], bad["partitions"], good["partitions"]) == ("retired", 0, 8)
    assert bad["reason"] == "3 bad proofs or faults in a row, the last: the proof does not verify"
    assert facts["counters"]["retired"] == 1


def test_with_no_prover_left_what_is_done_is_kept(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(5, faults(fault={f"p{i}": 99 for i in range(1, 5)}))
    with pytest.raises(JobFailed, match=r"no prover is left \(3 bad proofs or faults in a row"):
        run_toy(system, replace(local, max_retries=50, in_flight=1))
    assert [p["status"] for p in report(tmp_path)["partitions"]] == ["proved"] + ["failed"] * 4


def test_unsatisfied_witnesses_cost_no_prover(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(6, faults(unsatisfied=("p0", "p1", "p2", "p3")))
    with pytest.raises(JobFailed, match="4 of 6"):
        run_toy(system, local)
    facts = report(tmp_path)
    assert [p["status"] for p in facts["partitions"]] == ["failed"] * 4 + ["proved"] * 2
    assert set(facts["counters"].values()) == {0}


def test_nothing_secret_is_written(settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path) -> None:
    seen: list[Progress] = []
    system = ToySystem(3, faults(fault={"p0": 1}, bad_proof={"p1": 1}))
    run_toy(system, settings, seen.append)
    text = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()) + repr(seen).encode()
    for value in range(SECRET, SECRET + 3):
        assert str(value).encode() not in text
        assert (value % 2**32).to_bytes(8, "little") not in text


def test_an_input_at_fault_fails_at_once_with_its_message(
    settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(5, faults(bad_input=("p1",), unsatisfied=("p3",)))
    with pytest.raises(JobFailed, match="2 of 5 partitions failed: p1: p1: signal `x` is missing"):
        run_toy(system, settings)
    entries = report(tmp_path)["partitions"]
    assert [p["status"] for p in entries] == ["proved", "failed", "proved", "failed", "proved"]
    assert [p["attempts"] for p in entries] == [1, 0, 1, 1, 1]
    assert entries[3]["error_kind"] == "UnsatisfiedWitness"
    assert report(tmp_path)["counters"]["retries"] == 0


def test_a_key_at_fault_fails_the_job(settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path) -> None:
    with pytest.raises(InvalidKey, match="point 3 is not on the curve"):
        run_toy(ToySystem(2, faults(bad_key=True)), settings)
    assert report(tmp_path)["status"] == "failed"


def test_a_slow_partition_does_not_hold_up_the_order(local: ExecutorSettings, faults: Make, run_toy: Prove) -> None:
    proof = run_toy(ToySystem(4, faults(slow={"p0": 0.5})), local)
    assert [p.name for p in proof.partitions] == ["p0", "p1", "p2", "p3"]


def test_a_proof_that_cannot_be_read_back_is_not_published(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(content: bytes, what: str = "", written: Proof | None = None) -> Proof:
        raise InvalidProof("the content does not match its binding")

    with monkeypatch.context() as patch:
        patch.setattr(Proof, "from_bytes", staticmethod(refused))
        with pytest.raises(InvalidProof):
            run_toy(ToySystem(2, faults()), local)
    assert report(tmp_path)["status"] == "failed"
    assert not (tmp_path / "run" / "proof.msgpack").exists()
    run_toy(ToySystem(2, faults()), local).verify(ToySystem(2, faults()))


def test_after_the_barrier_a_commitment_must_be_reproduced(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(3, faults(bad_proof={"p1": 1}), needs_barrier=True)
    run_toy(system, local).verify(system)
    assert all(p["commit_seconds"] > 0 for p in report(tmp_path)["partitions"])
    assert report(tmp_path)["counters"]["bad_proofs"] == 1


def test_a_commitment_that_changes_after_the_barrier_is_refused(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(3, faults(bad_proof={"p1": 1}, unreproducible=True), needs_barrier=True)
    with pytest.raises(JobFailed, match="the commitment differs"):
        run_toy(system, replace(local, max_retries=1))


@pytest.mark.parametrize("barrier", [False, True])
def test_resume_does_only_what_is_missing(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, barrier: bool
) -> None:
    system = ToySystem(6, faults(bad_proof={"p4": 1}), needs_barrier=barrier)
    with pytest.raises(JobFailed):
        run_toy(system, replace(local, max_retries=0))
    first = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "partitions").iterdir()}
    assert len(first) == 5
    run_toy(system, local).verify(system)
    entries = report(tmp_path)["partitions"]
    assert [p["status"] for p in entries] == ["resumed"] * 4 + ["proved", "resumed"]
    again = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "partitions").iterdir()}
    assert {name: again[name] for name in first} == first


def test_a_session_that_ended_without_a_word_is_told_by_the_next_one(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(2, faults())
    with Run.create(tmp_path / "run", system, system.plan()) as run:
        assert not run.ended_without_a_word(), "there was none"
        run.note("session", executor="ray", partitions=2)
    for _ in range(2):
        run_toy(system, local).verify(system)
    (told,) = events(tmp_path, "driver-died")
    assert told["reason"] == "the last session ended without a word: it has no report"


def test_resume_of_a_finished_run_starts_no_worker(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(2, faults())
    proof = run_toy(system, local)
    assert run_toy(system, local) == proof
    assert report(tmp_path)["workers"] == []


class JoiningToySystem(ToySystem):
    """A toy that draws the challenge itself and looks at all proofs together."""

    joined = True

    def draw_challenge(self, commitments: Sequence[bytes]) -> bytes:
        return hashlib.sha256(b"".join(commitments)).digest()

    def made_under(self, proof: PartitionProof) -> tuple[bytes, bytes]:
        work = next(p for p in self.plan() if p.name == proof.name)
        words = ToySynthesiser(self.faults).synthesise(work)
        return ToyProver(self, self.key, False).commit(work, words) or b"", proof.data["challenge"]

    def verify_job(self, proofs: Sequence[PartitionProof]) -> None:
        if not self.joined or [p.name for p in proofs] != [p.name for p in self.plan()]:
            raise InvalidProof("the buses do not balance")

    def explain(self, proofs: Sequence[PartitionProof]) -> dict[str, Any]:
        return {"squares": len(proofs)}


def test_a_system_may_draw_the_challenge_itself(
    settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = JoiningToySystem(3, faults(), needs_barrier=True)
    proof = run_toy(system, settings)
    commitments = [system.made_under(p)[0] for p in proof.partitions]
    assert {p.data["challenge"] for p in proof.partitions} == {system.draw_challenge(commitments)}
    assert report(tmp_path)["proven"] == {"squares": 3}


def test_proofs_that_hold_alone_and_not_together_fail_the_job(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = JoiningToySystem(2, faults(), needs_barrier=True)
    system.joined = False
    with pytest.raises(JobFailed, match="not together: the buses do not balance"):
        run_toy(system, local)
    assert not (tmp_path / "run" / "proof.msgpack").exists()
    system.joined = True
    proof = run_toy(system, local)
    system.joined = False
    with pytest.raises(InvalidProof, match="the buses"):
        proof.verify(system)


def test_a_proof_under_another_challenge_is_a_bad_proof(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, strayed = ToyProver.prove_partition, []

    def prove(self: ToyProver, partition: Partition, work: Any, challenge: bytes | None = None) -> Any:
        if not strayed:
            strayed.append(partition.name)
            challenge = bytes(32)
        return honest(self, partition, work, challenge)

    monkeypatch.setattr(ToyProver, "prove_partition", prove)
    system = JoiningToySystem(3, faults(), needs_barrier=True)
    run_toy(system, local).verify(system)
    assert report(tmp_path)["counters"]["bad_proofs"] == 1


def test_every_session_of_a_run_stays_in_its_timeline(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    path = tmp_path / "run" / "timeline.json"
    with pytest.raises(JobFailed):
        run_toy(ToySystem(3, faults(bad_proof={"p1": 99})), replace(local, max_retries=1, in_flight=1))
    system = ToySystem(3, Faults(tmp_path / "faults"))
    run_toy(system, local)
    first, second = json.loads(path.read_text())["sessions"]
    assert (first["status"], second["status"]) == ("failed", "proved")
    assert first["began"] + first["wall_seconds"] <= second["began"]
    tries = [(s["attempt"], s["outcome"]) for s in first["spans"] if (s["stage"], s["partition"]) == ("verify", "p1")]
    assert tries == [(1, "bad proof"), (2, "bad proof")]
    assert {s["partition"] for s in second["spans"] if s["stage"] == "prove"} == {"p1"}
    assert {w["id"]: w["kind"] for w in second["workers"]} == {"prover-0": "cpu", "synthesiser-0": "cpu"}
    path.write_text("damaged")
    (tmp_path / "run" / "proof.msgpack").unlink()
    run_toy(system, local)
    assert len(json.loads(path.read_text())["sessions"]) == 1


def test_a_slow_disk_holds_up_no_prover(
    local: ExecutorSettings, faults: Make, run_toy: Prove, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No proof is kept before the last one is made: a loop that waited for the disk would never get there."""
    made = threading.Event()
    store = Run.store

    def slow(run: Run, proofs: Sequence[PartitionProof]) -> None:
        assert made.wait(60), "the loop waits for the disk"
        store(run, proofs)

    def progress(event: Progress) -> None:
        stages = event.stages or {}
        if stages.get("verifying", 0) + stages.get("keeping", 0) == 10:
            made.set()

    monkeypatch.setattr(Run, "store", slow)
    system = ToySystem(10, faults())
    run_toy(system, local, progress).verify(system)


class Enough(Exception):
    """An error of the caller's own."""


def test_what_the_callers_progress_raises_ends_the_job_and_is_raised(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    """It was swallowed, and the callback not called again."""
    system = ToySystem(6, faults())

    def progress(event: Progress) -> None:
        if event.done >= 2:
            raise Enough("two will do")

    with pytest.raises(Enough, match="two will do"):
        run_toy(system, replace(local, in_flight=1), progress)
    facts = report(tmp_path)
    assert (facts["status"], facts["error"]) == ("interrupted", "`progress` raised Enough; the run can be resumed")
    kept = [partition["name"] for partition in facts["partitions"] if partition["status"] == "proved"]
    assert len(kept) >= 2
    run_toy(system, local).verify(system)
    assert set(kept) <= {p["name"] for p in report(tmp_path)["partitions"] if p["status"] == "resumed"}


def test_a_display_that_fails_does_not_end_a_job(local: ExecutorSettings, faults: Make, run_toy: Prove) -> None:
    shown: list[Progress] = []

    def progress(event: Progress) -> None:
        shown.append(event)
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    system = ToySystem(3, faults())
    run_toy(system, local, harmless(progress)).verify(system)
    assert len(shown) == 1


def test_a_job_that_is_cancelled_ends_and_can_be_resumed(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    cancel = threading.Event()

    def gate(partition: Partition) -> None:
        if partition.index >= 4:
            until_called_off(partition)

    system = ToySystem(8, faults(), gate=gate)

    def progress(event: Progress) -> None:
        if event.done >= 2:
            cancel.set()

    with unless(cancel.is_set), pytest.raises(CalledOff):
        run_toy(system, replace(local, in_flight=1), progress)
    facts = report(tmp_path)
    assert facts["status"] == "interrupted"
    assert 2 <= sum(partition["status"] == "proved" for partition in facts["partitions"]) <= 4
    whole = ToySystem(8, faults())
    run_toy(whole, local).verify(whole)


def test_a_proof_that_cannot_be_kept_ends_the_session(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Run.store

    def full(run: Run, proofs: Sequence[PartitionProof]) -> None:
        if "p2" in {proof.name for proof in proofs}:
            raise OSError(errno.ENOSPC, "No space left on device")
        store(run, proofs)

    system = ToySystem(4, faults())
    monkeypatch.setattr(Run, "store", full)
    with pytest.raises(ResourceError, match="No space left"):
        run_toy(system, local)
    assert report(tmp_path)["status"] == "failed"
    assert "No space left on device; make room there" in report(tmp_path)["error"]
    assert "proved" not in {p["status"] for p in report(tmp_path)["partitions"] if p["name"] == "p2"}
    monkeypatch.setattr(Run, "store", store)
    run_toy(system, local).verify(system)


@pytest.mark.parametrize("roomy", [True, False], ids=["elsewhere", "nowhere"])
def test_a_full_disk_leaves_a_report_where_there_is_room(
    roomy: bool, local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, opened = threading.Event(), os.open

    def open_file(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        descriptor = opened(path, flags, *rest, **named)
        if full.is_set() and flags & os.O_CREAT:
            where = os.readlink(f"/proc/self/fd/{descriptor}")
            if where.startswith(str(tmp_path / "run")) or not roomy:
                os.close(descriptor)
                os.unlink(where)
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return descriptor

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("cluster.driver.temporary_root", lambda: tmp_path / "elsewhere")
    monkeypatch.setattr("os.open", open_file)
    system = ToySystem(4, faults())
    with pytest.raises(ResourceError, match=r"No space left on device; make room there") as raised:
        run_toy(system, local, lambda event: full.set() if event.event == "worker-ready" else None)
    assert exit_code(raised.value) == 3
    assert str(tmp_path / "run" / "partitions") in str(raised.value)
    full.clear()
    left = list((tmp_path / "elsewhere").glob("*/report.json"))
    assert len(left) == roomy
    for path in left:
        assert json.loads(path.read_text())["status"] == "failed"
        assert str(path.parent) in str(raised.value)
        assert path.parent.stat().st_mode & 0o077 == 0
    run_toy(system, local).verify(system)


def test_threads_take_turns_quickly_while_provers_are_threads(
    local: ExecutorSettings, faults: Make, run_toy: Prove
) -> None:
    before, during = sys.getswitchinterval(), []
    run_toy(
        ToySystem(1, faults()),
        local,
        lambda event: event.event == "chosen" or during.append(sys.getswitchinterval()),
    )
    assert during == pytest.approx([SWITCH_INTERVAL] * len(during))
    assert sys.getswitchinterval() == before > SWITCH_INTERVAL


def test_fleets_that_overlap_leave_the_interpreter_as_it_was(local: ExecutorSettings) -> None:
    """The one that began last and ended last left the interval of the first."""
    before = sys.getswitchinterval()
    first, second = LocalFleet(local), LocalFleet(local)
    first.open(None, lambda _: None)
    third = LocalFleet(local)
    for fleet in (second, third):
        fleet.open(None, lambda _: None)
    for fleet in (first, second, third):
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
        fleet.close()
    assert sys.getswitchinterval() == before
