"""What a prover prepares while it has nothing to prove, and never while it has; and how many partitions it is given."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from actors import patience
from actors.backends import BackendChoice
from actors.prover import Device, ProverWorker
from actors.worker import ProverThreads


class Idle:
    """A prover that prepares so many pieces."""

    def __init__(self, pieces: int, error: Exception | None = None) -> None:
        self.pieces, self.error = pieces, error
        self.asked = 0

    def prove_partition(self, *_: Any) -> Any:
        raise AssertionError("these tests give it nothing to prove")

    def close(self) -> None:
        """Nothing is open."""

    def prepare_more(self) -> bool:
        self.asked += 1
        if self.error is not None and self.asked == self.pieces:
            raise self.error
        return self.asked < self.pieces


def worker_of(prover: Any) -> ProverWorker:
    """One that has loaded its key."""
    system: Any = SimpleNamespace(prover=lambda shared, backend: prover)
    made = ProverWorker(system, Device(BackendChoice("cpu")))
    made.load({})
    return made


class Line:
    """A worker with orders for its prover, for `ProverThreads`."""

    def __init__(self, prover: Any) -> None:
        self.prover = prover
        self.ready: list[Any] = []
        self.begun, self.goes_on = threading.Semaphore(0), threading.Semaphore(0)

    def next_ready(self) -> Any:
        return self.ready[0] if self.ready else None

    def take_ready(self, *, shared: bool) -> tuple[Any, Any]:
        return self.ready.pop(0), None

    def compute(self, order: Any, turn: Any) -> None:
        self.begun.release()
        assert self.goes_on.acquire(timeout=60)

    def order(self, threads: ProverThreads, rank: int = 2) -> None:
        with threads.lock:
            self.ready.append(SimpleNamespace(position=(rank, 0, 0), rank=rank))
            self.ready.sort(key=lambda order: order.rank)
            threads.provable.notify()


def joined(prover: Any, count: int = 2) -> tuple[ProverThreads, Any]:
    threads, line = ProverThreads("test", count), Line(prover)
    worker: Any = line
    threads.join(worker)
    return threads, line


def test_an_idle_prover_prepares_until_nothing_is_left() -> None:
    prover = Idle(3)
    worker = worker_of(prover)
    assert worker.prepares
    threads, line = joined(worker)
    while worker.prepares:
        threading.Event().wait(patience.IDLE)
    assert prover.asked == 3
    line.order(threads)
    assert line.begun.acquire(timeout=60)
    line.goes_on.release()
    threads.end()
    threads.wait()
    assert prover.asked == 3


def test_nothing_is_prepared_beside_a_partition() -> None:
    """Also by the thread that waits for the next one. Afterwards it goes on."""
    asked, allowed = threading.Semaphore(0), threading.Event()
    prover = SimpleNamespace(prepares=True)

    def prepare_more() -> None:
        assert allowed.is_set()
        prover.prepares = False
        asked.release()

    prover.prepare_more = prepare_more
    threads = ProverThreads("test", 2)
    worker: Any = Line(prover)
    worker.ready.append(SimpleNamespace(position=(2, 0, 0), rank=2))
    threads.join(worker)
    assert worker.begun.acquire(timeout=60)
    threading.Event().wait(10 * patience.IDLE)
    allowed.set()
    worker.goes_on.release()
    assert asked.acquire(timeout=60)
    threads.end()
    threads.wait()


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("the device is lost")])
def test_what_fails_is_left_to_the_proof_that_needs_it(error: Exception) -> None:
    prover = Idle(2, error)
    worker = worker_of(prover)
    worker.prepare_more()
    assert worker.prepares
    worker.prepare_more()
    assert not worker.prepares
    assert prover.asked == 2


def test_a_closed_prover_prepares_nothing() -> None:
    prover = Idle(9)
    worker = worker_of(prover)
    worker.close()
    assert not worker.prepares
    worker.prepare_more()
    assert prover.asked == 0


def test_other_provers_prepare_nothing() -> None:
    worker = worker_of(SimpleNamespace(prove_partition=None, close=lambda: None))
    assert not worker.prepares


def test_less_urgent_ones_in_flight_take_no_place_from_an_order() -> None:
    threads, line = joined(worker_of(Idle(0)), 2)
    for rank in (2, 1):
        for _ in range(3):
            line.order(threads, rank)
        for _ in range(2):
            assert line.begun.acquire(timeout=60)
        assert not line.begun.acquire(timeout=0.1)  # two of this rank, or a more urgent one, are there
    assert [order.rank for order in line.ready] == [1, 2]
    for _ in range(6):
        line.goes_on.release()
    for _ in range(2):
        assert line.begun.acquire(timeout=60)
    threads.end()
    threads.wait()
