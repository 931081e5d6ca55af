"""Witnesses that a synthesiser makes several of in a row, for one message."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors import patience
from actors.backends import BackendChoice
from actors.grants import Grant, MemoryCache, Ungoverned
from actors.inflight import attempted
from actors.messages import HostSpec, SentWitness, WorkerSpec
from actors.pace import MOST, ROW_BYTES, ROWS, Pace
from actors.processes import Served
from actors.protocol import Order, Outcome, Place, Timed, WitnessGone, WorkerDied, WorkKind
from actors.rooms import RoomsHere
from actors.synthesiser import DROPS, HeldWitness, SynthesiserServer, WitnessHere
from distprove.errors import ClusterError, WitnessGenerationError
from distprove.system import Partition, PartitionId
from kernels.host.arena import HostArena
from tests.support.toy_system import TOY_BACKEND, Faults, ToySynthesiser, ToySystem


def test_short_witnesses_of_short_proofs_are_made_in_rows() -> None:
    def row(making: float, proving: float | None, nbytes: int = 1 << 20) -> int:
        pace = Pace()
        if proving is not None:
            pace.proven(proving)
        pace.made(making, nbytes)
        assert pace.ahead == (ROWS * pace.in_a_row if pace.in_a_row > 1 else 0)
        return pace.in_a_row

    assert row(patience.ROW / 1000, patience.ROW / 1000) == MOST
    assert row(patience.ROW / 1000, None) == 1, "nothing was proven yet"
    assert row(patience.ROW, patience.ROW / 1000) == 1
    assert row(patience.ROW / 1000, patience.ROW * 10) == 1
    assert row(patience.ROW / 3, patience.ROW / 1000) == 2, "a power of two"
    assert row(patience.ROW / 1000, patience.ROW / 1000, ROW_BYTES // 4) == 4
    assert row(patience.ROW / 1000, patience.ROW / 1000, ROW_BYTES * 2) == 1


class Leases(Ungoverned):
    """Leases memory up to `most` bytes at a time, and counts what is leased."""

    def __init__(self, most: int = 1 << 40) -> None:
        self.most = most
        self.leased: dict[int, int] = {}
        self._count = 0

    def acquire(self, **wanted: Any) -> Grant:
        if wanted.get("memory", 0) > self.most:
            raise ClusterError("so much can never be had")
        self._count += 1
        if wanted.get("memory"):
            self.leased[self._count] = wanted["memory"]
        return Grant(self._count, wanted.get("threads", 0))

    def release(self, ticket: int) -> None:
        self.leased.pop(ticket, None)


def test_memory_of_a_row_is_in_use_until_its_last_witness_is_gone() -> None:
    governor = Leases()
    cache = MemoryCache(governor)
    memory = cache.take(3000)
    memory.holders = 3
    cache.put(memory)
    cache.put(memory)
    cache.give_back(0.0)
    assert list(governor.leased.values()) == [3000]
    assert cache.find(1000) is None
    cache.put(memory)
    assert cache.find(1000) is memory


class DyingSynthesiser:
    """Makes toy witnesses on the thread that asks; dies as often as `dies` says, at a row with that partition."""

    def __init__(self, system: ToySystem, dies: dict[str, int], bad: tuple[str, ...] = ()) -> None:
        self._synthesiser = ToySynthesiser(Faults(system.faults.folder, bad_input=bad), system.witness_bytes)
        self._dies = Counter(dies)
        self.rows: list[list[str]] = []
        self._reached = threading.Event()

    def gate(self, partition: Partition) -> None:
        """A gate of the prover, which is no faster than this: when the witness of p70 is made, others wait."""
        if partition.name == "p60":
            assert self._reached.wait(60)

    def load(self) -> Timed:
        return Timed({}, time.time(), time.time())

    def make(self, partitions: Sequence[Partition]) -> list[Timed]:
        names = [partition.name for partition in partitions]
        self.rows.append(names)
        if "p70" in names:
            self._reached.set()
        for name in names:
            if self._dies[name]:
                self._dies[name] -= 1
                raise WorkerDied("killed")
        return [attempted(lambda each=each: WitnessHere(self._synthesiser.synthesise(each))) for each in partitions]

    def tidy(self) -> None:
        pass

    def kill(self) -> None:
        pass

    def end(self) -> None:
        pass


class Quick(Pace):
    """Takes every witness and every proof for short, however busy the machine is."""

    def made(self, seconds: float, nbytes: int) -> None:
        super().made(patience.ROW / 1000, nbytes)

    def proven(self, seconds: float) -> None:
        super().proven(patience.ROW / 1000)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.worker.Pace", Quick)


@contextmanager
def worker(system: ToySystem, synthesiser: DyingSynthesiser, governor: Ungoverned) -> Iterator[Any]:
    """A worker on threads with this one synthesiser, loaded and permitted."""
    with HostArena() as arena:
        spec = HostSpec("prover-0", BackendChoice(TOY_BACKEND), 3)
        rooms = RoomsHere(spec, governor, arena)
        rooms._synthesisers = lambda _: {"synthesiser-0": synthesiser}  # type: ignore[method-assign]
        rooms.open(1, WorkerSpec("prover-0", system, ("synthesiser-0",), 1))
        rooms.worker(1).load(1, True)
        try:
            yield rooms._workers[1]
        finally:
            rooms.end()


def outcomes(worker: Any, partitions: Sequence[Partition], parallel: int | None = None) -> dict[str, Outcome]:
    """What comes of proving these."""
    worker.take(1, [Order(partition, WorkKind.PROVE) for partition in partitions], parallel)
    found: dict[str, Outcome] = {}
    while len(found) < len(partitions):
        found.update({outcome.id.name: outcome for outcome in worker.batch(10).outcomes})
    return found


@pytest.fixture
def system(tmp_path: Path) -> ToySystem:
    return ToySystem(100, Faults(tmp_path))


def test_a_synthesiser_that_dies_in_a_row_loses_one_partition(system: ToySystem) -> None:
    """The others of the row are made by themselves; the one that kills is then charged for it alone."""
    synthesiser = DyingSynthesiser(system, {"p70": 2})
    system.gate = synthesiser.gate
    with worker(system, synthesiser, Leases()) as made:
        found = outcomes(made, system.plan())
    died = [name for name, outcome in found.items() if outcome.error is not None]
    assert all(isinstance(found[name].error, WorkerDied) for name in died)
    first = next(row for row in synthesiser.rows if "p70" in row)
    assert len(first) > 1, "it was in a row"
    assert set(died) == {first[0], "p70"}
    others = {row[0] for row in synthesiser.rows if len(row) == 1}
    assert set(first[1:]) <= others
    assert len(found) == 100


def test_an_error_in_a_row_is_its_own_partition_s(system: ToySystem) -> None:
    synthesiser = DyingSynthesiser(system, {}, bad=("p70",))
    system.gate = synthesiser.gate
    with worker(system, synthesiser, Leases()) as made:
        found = outcomes(made, system.plan())
    assert any(len(row) > 1 and "p70" in row for row in synthesiser.rows)
    assert [name for name, outcome in found.items() if outcome.error is not None] == ["p70"]
    assert isinstance(found["p70"].error, WitnessGenerationError)


class WaitingSynthesiser(DyingSynthesiser):
    """Makes nothing before it may."""

    def __init__(self, system: ToySystem) -> None:
        super().__init__(system, {})
        self.begun, self.may = threading.Event(), threading.Event()

    def make(self, partitions: Sequence[Partition]) -> list[Timed]:
        self.begun.set()
        assert self.may.wait(60)
        return super().make(partitions)


def test_what_is_to_be_diagnosed_is_not_given_back(system: ToySystem) -> None:
    """A bad proof would else count against nobody, near the end of a job: another worker proves the partition anew."""
    synthesiser = WaitingSynthesiser(system)
    first, suspect, other = system.plan()[:3]
    with worker(system, synthesiser, Leases()) as made:
        made.take(1, [Order(first, WorkKind.PROVE)])
        assert synthesiser.begun.wait(60)
        made.take(1, [Order(other, WorkKind.PROVE), Order(suspect, WorkKind.DIAGNOSE)])
        made.give_back(2)
        returned, done = [], []
        synthesiser.may.set()
        while len(returned) + len(done) < 3:
            batch = made.batch(10)
            returned += batch.returned
            done += [(outcome.id, outcome.kind) for outcome in batch.outcomes]
    assert returned == [other.id]
    assert sorted(done) == [(first.id, WorkKind.PROVE), (suspect.id, WorkKind.DIAGNOSE)]


def test_the_order_with_the_lowest_place_goes_first_and_of_equal_ones_the_oldest(system: ToySystem) -> None:
    """Whatever its job, and whenever it came."""
    synthesiser, plan = WaitingSynthesiser(system), system.plan()[:5]
    places = [Place(1, 5), Place(1, 2), Place(0, 9), Place(1, 2)]
    with worker(system, synthesiser, Leases()) as made:
        made.take(1, [Order(plan[0], WorkKind.PROVE)])
        assert synthesiser.begun.wait(60)
        for partition, place in zip(plan[1:], places, strict=True):
            of_another = replace(partition, job=f"job-{partition.index % 2}")
            made.take(1, [Order(of_another, WorkKind.PROVE, place=place)])
        synthesiser.may.set()
        done: list[str] = []
        while len(done) < len(plan):
            done += [outcome.id.name for outcome in made.batch(10).outcomes]
    assert [name for row in synthesiser.rows for name in row] == ["p0", "p3", "p2", "p4", "p1"]
    assert sorted(done) == sorted(partition.name for partition in plan)


def test_only_the_commitments_of_what_goes_back_are_dropped(system: ToySystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prover would commit again to what stays."""
    plan = system.plan()[:3]
    dropped: SimpleQueue[tuple[str | None, set[PartitionId]]] = SimpleQueue()
    with worker(system, DyingSynthesiser(system, {}), Leases()) as made:
        monkeypatch.setattr(made.prover, "holds", lambda partition: True)
        monkeypatch.setattr(made.prover, "drop", lambda job, partitions=None: dropped.put((job, partitions)))
        made.take(1, [Order(partition, WorkKind.COMMIT) for partition in plan])
        committed = 0
        while committed < len(plan):
            committed += len(made.batch(10).outcomes)
        made._permitted = False  # so that none of them is begun
        made.take(1, [Order(partition, WorkKind.PROVE) for partition in plan])
        made.give_back(3)
        made.give_back(1, committed=True)
        assert made.batch(10).returned == [plan[2].id]
        assert dropped.get(timeout=60) == (None, {plan[2].id})


def test_rows_are_as_long_as_their_memory_can_be_had_for(system: ToySystem) -> None:
    size = system.synthesis_bytes(system.plan()[0])
    synthesiser, governor = DyingSynthesiser(system, {}), Leases(most=size)
    with worker(system, synthesiser, governor) as made:
        found = outcomes(made, system.plan())
    assert all(outcome.error is None for outcome in found.values())
    assert {len(row) for row in synthesiser.rows} == {1}
    assert not governor.leased


def test_rows_keep_to_what_a_job_may_have_in_the_making(system: ToySystem) -> None:
    synthesiser = DyingSynthesiser(system, {})
    with worker(system, synthesiser, Leases()) as made:
        outcomes(made, system.plan(), parallel=2)
    assert max(len(row) for row in synthesiser.rows) <= 2


class Child:
    """Stands for a synthesiser's process: what it is told to drop."""

    def __init__(self) -> None:
        self.unused: deque[int] = deque()
        self.told: list[int] = []
        self.ended = False
        self.channel = self

    def take_unused(self) -> list[int]:
        taken = list(self.unused)
        self.unused.clear()
        return taken

    def tell(self, told: Any, slot: None, verb: Any, arguments: tuple[list[int]], named: Any) -> None:
        assert (told, verb) == (Served.tell, SynthesiserServer.drop)
        self.told += arguments[0]


def test_large_witnesses_are_dropped_at_once_and_small_ones_together() -> None:
    child = Child()

    def held(number: int, nbytes: int) -> HeldWitness:
        return HeldWitness(SentWitness("p", 0.0, nbytes, number, {}), cast(Any, child))

    small = [held(number, DROPS // 4) for number in range(4)]
    for witness in small[:3]:
        witness.release()
        witness.release()
    assert child.told == []
    assert list(child.unused) == [0, 1, 2]
    small[3].release()
    assert child.told == [0, 1, 2, 3]
    held(9, DROPS).release()
    assert child.told[-1] == 9


def test_a_witness_of_a_process_that_ended_is_gone() -> None:
    child = SimpleNamespace(ended=True, unused=deque(), drop_unused=lambda: None)
    with pytest.raises(WitnessGone):
        HeldWitness(SentWitness("p", 0.0, 1, 1, {}), cast(Any, child)).read()
