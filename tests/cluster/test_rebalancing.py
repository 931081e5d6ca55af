"""After the barrier: a worker with nothing left to do takes over what another one, which is slower, has not begun."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.worker import Worker as WorkerVerbs
from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import Run
from cluster.scheduler.workers import Worker
from distprove.settings import ExecutorSettings
from distprove.stark import system as stark
from distprove.stark.params import Parameters
from distprove.stark.programs import load_program
from distprove.stark.system import StarkProver, StarkSystem
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

PARTITIONS, IN_FLIGHT = 12, 2
SETTINGS = ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu", gpu_workers=2, in_flight=IN_FLIGHT)
PATIENCE = 120


def fibonacci() -> StarkSystem:
    params = Parameters(log_blowup=1, queries=20, grinding_bits=2, security_bits=1)
    return StarkSystem(load_program("fibonacci", {"rows": 16}), params, PARTITIONS)


class Stuck:
    """A prover that stops at its first proof until the other one has made all that it can be given."""

    def __init__(self) -> None:
        self.who: Any = None
        self.proven = 0
        self.others_did = threading.Event()
        self.alone = False
        """Whether it waited for that in vain."""
        self._lock = threading.Lock()

    @contextmanager
    def proving(self, who: Any) -> Iterator[None]:
        with self._lock:
            self.who = self.who or who
        if who is self.who:
            self.alone |= not self.others_did.wait(PATIENCE)
        yield
        with self._lock:
            self.proven += 1
            # What it has in flight stays with it.
            if self.proven >= PARTITIONS - IN_FLIGHT:
                self.others_did.set()


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Stuck:
    stuck, prove = Stuck(), StarkProver.prove_partition

    def proving(prover: StarkProver, *arguments: Any) -> Any:
        with stuck.proving(prover):
            return prove(prover, *arguments)

    monkeypatch.setattr(StarkProver, "prove_partition", proving)
    return stuck


def proves(path: Path, system: Any, settings: ExecutorSettings) -> None:
    with Run.create(path, system, system.plan()) as run, open_client(settings) as executor:
        drive(system, executor, run, settings).verify(system)


def test_what_is_not_held_is_taken_over_beside_the_same_device(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stark, "leaves_room", lambda *_, **__: False)
    proves(tmp_path / "run", fibonacci(), SETTINGS)
    assert not stuck.alone


def test_what_is_held_is_taken_over_by_another_device(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And given back there: no memory stays taken for what somebody else proves."""
    monkeypatch.setattr(Worker, "device", property(lambda worker: (worker.handle.id,)))
    provers: list[StarkProver] = []
    close = StarkProver.close

    def closed(prover: StarkProver) -> None:
        provers.append(prover)
        assert not prover._kept
        close(prover)

    monkeypatch.setattr(StarkProver, "close", closed)
    proves(tmp_path / "run", fibonacci(), SETTINGS)
    assert not stuck.alone
    assert len(provers) == 2


def test_a_proof_that_does_not_tell_its_commitment_is_taken_over_after_that(tmp_path: Path) -> None:
    """Whoever takes it over shows first that it commits to the same."""
    (tmp_path / "faults").mkdir()
    stuck = Stuck()
    provers = threading.local()

    def gate(_: Any) -> None:
        provers.me = getattr(provers, "me", threading.current_thread().name.rsplit("-", 2)[0])
        with stuck.proving(provers.me):
            pass

    system = ToySystem(PARTITIONS, Faults(tmp_path / "faults"), needs_barrier=True, gate=gate)
    proves(tmp_path / "run", system, replace(SETTINGS, backend=TOY_BACKEND))
    assert not stuck.alone


def test_witnesses_stay_where_they_are_while_fewer_may_be_made_than_there_are_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever has nothing left could not make another one before all of these are proven."""
    monkeypatch.setattr(Worker, "device", property(lambda worker: (worker.handle.id,)))
    asked: list[int] = []

    def give_back(worker: WorkerVerbs, count: int, *more: Any) -> None:
        asked.append(count)

    monkeypatch.setattr(WorkerVerbs, "give_back", give_back)
    commit, prove = StarkProver.commit, StarkProver.prove_partition
    committed: Counter[StarkProver] = Counter()
    proven: Counter[StarkProver] = Counter()
    changed = threading.Condition()

    def commits(prover: StarkProver, *arguments: Any) -> bytes:
        committed[prover] += 1
        return commit(prover, *arguments)

    def proving(prover: StarkProver, *arguments: Any) -> Any:
        """The one with the most waits until the other has nothing left."""
        if prover is committed.most_common(1)[0][0]:
            with changed:
                assert changed.wait_for(
                    lambda: proven.total() - proven[prover] >= PARTITIONS - committed[prover], PATIENCE
                )
        made = prove(prover, *arguments)
        with changed:
            proven[prover] += 1
            changed.notify_all()
        return made

    monkeypatch.setattr(StarkProver, "commit", commits)
    monkeypatch.setattr(StarkProver, "prove_partition", proving)
    proves(tmp_path / "run", fibonacci(), replace(SETTINGS, parallel=1))
    assert not asked
