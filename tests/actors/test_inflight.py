"""Partitions in flight on one prover, with a prover whose every step waits for the test to let it go on."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from actors.inflight import InFlight, Line
from distprove.errors import WitnessMismatch
from distprove.system import Partition, PartitionProof, StepTimes, Witness
from kernels.errors import OutOfMemory

PATIENCE = 120.0
"""Seconds after which something that should have happened has not."""


class GatedProver:
    """Notes each step; a step whose gate was asked for waits until the test opens it."""

    def __init__(self, room: int = 2) -> None:
        self.events: list[str] = []
        self.room = room
        self.size: dict[str, int] = {}
        """Room that a partition takes, where it is not 1."""
        self.held = 0
        self.most_held = 0
        self.faults: dict[str, BaseException] = {}
        self._gates: dict[str, threading.Event] = {}
        self._changed = threading.Condition()

    def gate(self, step: str) -> threading.Event:
        return self._gates.setdefault(step, threading.Event())

    def pass_through(self, step: str) -> None:
        with self._changed:
            self.events.append(step)
            self._changed.notify_all()
        if step in self._gates:
            assert self._gates[step].wait(PATIENCE)
        if step in self.faults:
            raise self.faults.pop(step)

    def saw(self, step: str) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: step in self.events, PATIENCE)

    def hold(self, change: int) -> None:
        with self._changed:
            self.held += change
            self.most_held = max(self.most_held, self.held)

    def prove_partition(self, partition: Partition, work: Witness, challenge: bytes | None = None) -> Any:
        raise AssertionError("a prover that stages is not asked for the whole at once")

    def commit(self, partition: Partition, work: Witness) -> bytes | None:
        return None

    def stage(self, partition: Partition, work: Witness) -> GatedPartition:
        self.pass_through(f"stage {partition.name}")
        if self.held + self.size.get(partition.name, 1) > self.room:
            raise OutOfMemory("no room")
        return GatedPartition(self, partition.name)

    def close(self) -> None:
        return


class GatedPartition:
    def __init__(self, prover: GatedProver, name: str) -> None:
        self.prover, self.name, self.released = prover, name, False
        self.size = prover.size.get(name, 1)
        prover.hold(self.size)

    def start(self, challenge: bytes | None = None) -> GatedPartition:
        self.prover.pass_through(f"start {self.name}")
        return self

    def wait(self) -> None:
        self.prover.pass_through(f"wait {self.name}")

    def result(self) -> tuple[PartitionProof, StepTimes]:
        self.prover.pass_through(f"result {self.name}")
        return PartitionProof(self.name, b"", (), {}), StepTimes({"upload": 0.0, "wait": 10.0})

    def release(self) -> None:
        if not self.released:
            self.released = True
            self.prover.hold(-self.size)


@pytest.fixture
def submit() -> Any:
    """`submit(in_flight, prover, name)` proves on a thread of its own and comes back once it stands in line."""
    with ThreadPoolExecutor(8) as threads:

        def submit_one(in_flight: InFlight, prover: GatedProver, name: str, rank: int | None = None) -> Future[Any]:
            turn = in_flight.line.join(rank)
            partition, work = Partition(0, name, b"", {}), Witness(name, {"witness": np.zeros(1, np.uint64)})
            return threads.submit(lambda: in_flight.staged(prover, partition, work, None, turn))

        yield submit_one


Submit = Callable[..., "Future[Any]"]
"""Of `InFlight`, `GatedProver`, name and perhaps rank."""


def starts(prover: GatedProver) -> list[str]:
    return [event.removeprefix("start ") for event in prover.events if event.startswith("start ")]


def test_an_urgent_one_goes_before_those_that_are_staged_or_wait(submit: Submit) -> None:
    prover, in_flight = GatedProver(room=3), InFlight()
    computing = prover.gate("start a")
    waiting = [submit(in_flight, prover, name, 2) for name in "abc"]
    assert prover.saw("start a")
    assert prover.saw("stage b")
    urgent = [submit(in_flight, prover, name, 0) for name in "xy"]
    assert prover.saw("stage x")
    computing.set()
    for future in (*waiting, *urgent):
        future.result(PATIENCE)
    assert starts(prover) == ["a", "x", "y", "b", "c"]
    assert prover.most_held == 3
    assert prover.held == 0


def test_an_urgent_one_without_memory_goes_behind_those_that_are_staged(submit: Submit) -> None:
    prover, in_flight = GatedProver(room=2), InFlight()
    computing = prover.gate("start a")
    waiting = [submit(in_flight, prover, name, 2) for name in "abc"]
    assert prover.saw("start a")
    assert prover.saw("stage b")
    urgent = submit(in_flight, prover, "x", 0)
    assert prover.saw("stage x")  # and found no room
    computing.set()
    for future in (*waiting, urgent):
        future.result(PATIENCE)
    assert starts(prover) == ["a", "b", "x", "c"]
    assert prover.held == 0


def test_after_an_urgent_one_ran_out_of_memory_none_goes_before_those_that_are_staged(submit: Submit) -> None:
    prover, in_flight = GatedProver(room=3), InFlight()
    prover.faults["start x"] = OutOfMemory("scratch")
    for last in "xy":
        computing = prover.gate(f"start {last}0")
        waiting = [submit(in_flight, prover, f"{last}{number}", 2) for number in range(3)]
        assert prover.saw(f"start {last}0")
        assert prover.saw(f"stage {last}1")
        urgent = submit(in_flight, prover, last, 0)
        if last == "x":
            assert prover.saw("stage x")
        computing.set()
        for future in waiting:
            future.result(PATIENCE)
        if last == "x":
            with pytest.raises(OutOfMemory, match="scratch"):
                urgent.result(PATIENCE)
        else:
            urgent.result(PATIENCE)
    assert starts(prover) == ["x0", "x", "x1", "x2", "y0", "y1", "y", "y2"]
    assert prover.held == 0


def test_an_urgent_one_without_memory_goes_behind_one_that_is_staged_meanwhile(submit: Submit) -> None:
    """b waited for nothing but the lock of staging when x went before it, and takes the memory while x waits for a."""
    prover, in_flight, ready = GatedProver(room=2), InFlight(), threading.Event()
    prover.size["x"] = 2
    computing = prover.gate("start a")
    a = submit(in_flight, prover, "a", 2)
    assert prover.saw("start a")
    with ThreadPoolExecutor(1) as thread:
        turn, passed = in_flight.line.join(2), threading.Event()
        wait_to_stage = turn.wait_to_stage

        def wait() -> None:
            wait_to_stage()
            passed.set()
            assert ready.wait(PATIENCE)

        turn.wait_to_stage = wait  # type: ignore[method-assign]
        b = thread.submit(in_flight.staged, prover, Partition(0, "b", b"", {}), Witness("b", {}), None, turn)
        assert passed.wait(PATIENCE)
        x = submit(in_flight, prover, "x", 0)
        assert prover.saw("stage x")  # and found no room
        ready.set()
        assert prover.saw("stage b")
        computing.set()
        for future in (a, b, x):
            future.result(PATIENCE)
    assert starts(prover) == ["a", "b", "x"]
    assert prover.held == 0


def test_an_urgent_one_without_memory_does_not_wait_for_a_load_behind_it(submit: Submit) -> None:
    """What needs the prover alone, such as the load of a key, holds no memory before it begins."""
    prover, in_flight, seen = GatedProver(room=1), InFlight(), []
    computing = prover.gate("start a")
    a = submit(in_flight, prover, "a", 2)
    assert prover.saw("start a")
    passing, x_line = prover.gate("stage x"), in_flight.line
    x = submit(in_flight, prover, "x", 0)
    assert prover.saw("stage x")
    with ThreadPoolExecutor(1) as thread:
        turn = x_line.join()
        load = thread.submit(lambda: in_flight.alone(lambda: seen.append(starts(prover)), turn))
        x_line._wait(lambda: turn.is_staged)
        passing.set()  # and finds no room
        computing.set()
        for future in (a, x, load):
            future.result(PATIENCE)
    assert seen == [["a", "x"]]


def test_nobody_goes_before_what_has_no_rank(submit: Submit) -> None:
    prover, in_flight, seen = GatedProver(), InFlight(), []
    computing = prover.gate("start a")
    a = submit(in_flight, prover, "a", 2)
    assert prover.saw("start a")
    with ThreadPoolExecutor(1) as thread:
        turn = in_flight.line.join()
        alone = thread.submit(lambda: in_flight.alone(lambda: seen.append(starts(prover)), turn))
        urgent = submit(in_flight, prover, "x", 0)
        computing.set()
        for future in (alone, urgent, a):
            future.result(PATIENCE)
    assert seen == [["a"]]


def test_the_next_is_staged_while_one_starts_and_starts_while_one_is_put_together(submit: Submit) -> None:
    prover, in_flight = GatedProver(), InFlight()
    starting, finishing = prover.gate("start a"), prover.gate("result a")
    a = submit(in_flight, prover, "a")
    assert prover.saw("start a")
    b = submit(in_flight, prover, "b")
    assert prover.saw("stage b")  # beside the start of a
    time.sleep(0.02)
    assert "start b" not in prover.events  # which has the device to itself
    starting.set()
    assert prover.saw("result b")  # beside the end of a
    finishing.set()
    assert [f.result(PATIENCE).value[0].name for f in (a, b)] == ["a", "b"]
    assert prover.held == 0


def test_never_more_than_two_are_staged_and_all_start_in_order(submit: Submit) -> None:
    prover, in_flight = GatedProver(room=8), InFlight()
    names = [f"p{i}" for i in range(8)]
    first = prover.gate("start p0")
    done = [submit(in_flight, prover, name) for name in names]
    assert prover.saw("stage p1")
    first.set()
    assert [f.result(PATIENCE).value[0].name for f in done] == names
    assert [e for e in prover.events if e.startswith("start")] == [f"start {name}" for name in names]
    assert prover.most_held == 2
    assert prover.held == 0


@pytest.mark.parametrize("step", ["stage", "start", "wait", "result"])
def test_a_failure_keeps_its_type_gives_memory_back_and_lets_the_next_pass(submit: Submit, step: str) -> None:
    prover, in_flight = GatedProver(), InFlight()
    prover.faults[f"{step} b"] = WitnessMismatch("b has a wire too many")
    a, b, c = (submit(in_flight, prover, name) for name in "abc")
    with pytest.raises(WitnessMismatch, match="a wire too many"):
        b.result(PATIENCE)
    assert a.result(PATIENCE).value[0].name == "a"
    assert c.result(PATIENCE).value[0].name == "c"
    assert prover.held == 0


def test_without_room_the_next_waits_until_the_first_is_over(submit: Submit) -> None:
    prover, in_flight = GatedProver(room=1), InFlight()
    finishing = prover.gate("wait a")
    a = submit(in_flight, prover, "a")
    assert prover.saw("wait a")
    b = submit(in_flight, prover, "b")
    assert prover.saw("stage b")  # in vain
    time.sleep(0.02)
    assert prover.events.count("stage b") == 1
    finishing.set()
    assert [f.result(PATIENCE).value[0].name for f in (a, b)] == ["a", "b"]
    assert prover.events.count("stage b") == 2


def test_what_does_not_fit_even_alone_is_out_of_memory(submit: Submit) -> None:
    prover, in_flight = GatedProver(room=0), InFlight()
    with pytest.raises(OutOfMemory, match="no room"):
        submit(in_flight, prover, "a").result(PATIENCE)


def test_after_a_proof_ran_out_of_memory_nothing_is_staged_beside_one(submit: Submit) -> None:
    prover, in_flight = GatedProver(), InFlight()
    prover.faults["start a"] = OutOfMemory("scratch")
    with pytest.raises(OutOfMemory, match="scratch"):
        submit(in_flight, prover, "a").result(PATIENCE)
    for name in "bcd":
        submit(in_flight, prover, name)
    assert submit(in_flight, prover, "e").result(PATIENCE).value[0].name == "e"
    assert prover.most_held == 1


def test_what_is_put_together_on_the_host_is_in_nobodys_way(submit: Submit) -> None:
    prover, in_flight = GatedProver(room=1), InFlight()
    finishing = prover.gate("result a")
    a, b = submit(in_flight, prover, "a"), submit(in_flight, prover, "b")
    assert b.result(PATIENCE).value[0].name == "b"
    with in_flight.line.join() as place:
        place.wait_for_room(0)
    finishing.set()
    assert a.result(PATIENCE).value[0].name == "a"


def test_one_whose_thread_is_faster_does_not_take_the_memory_of_the_one_in_front(submit: Submit) -> None:
    """It was staged first, and the one at the head had no room though nothing computed."""
    prover, in_flight = GatedProver(room=1), InFlight()
    with in_flight.line.join() as first:
        b = submit(in_flight, prover, "b")
        time.sleep(0.02)
        assert prover.events == []
        a = in_flight.staged(prover, Partition(0, "a", b"", {}), Witness("a", {}), None, first)
    assert [a.value[0].name, b.result(PATIENCE).value[0].name] == ["a", "b"]
    assert [e for e in prover.events if e.startswith("start")] == ["start a", "start b"]


def test_what_needs_the_prover_alone_waits_and_is_waited_for(submit: Submit) -> None:
    prover, in_flight = GatedProver(), InFlight()
    finishing, seen = prover.gate("wait a"), []
    a = submit(in_flight, prover, "a")
    assert prover.saw("wait a")
    with ThreadPoolExecutor(1) as thread:
        turn = in_flight.line.join()
        alone = thread.submit(lambda: in_flight.alone(lambda: seen.append(list(prover.events)), turn))
        b = submit(in_flight, prover, "b")
        time.sleep(0.02)
        assert not seen
        finishing.set()
        alone.result(PATIENCE)
    assert "start b" not in seen[0]
    assert a.result(PATIENCE).value[0].name == "a"
    assert b.result(PATIENCE).value[0].name == "b"


def test_times_count_every_second_once(submit: Submit) -> None:
    """What passes behind the partition before is not counted again, neither in the span nor in the steps."""
    prover, in_flight = GatedProver(), InFlight()
    finishing = prover.gate("wait a")
    a = submit(in_flight, prover, "a")
    assert prover.saw("wait a")
    b = submit(in_flight, prover, "b")
    assert prover.saw("result b")
    time.sleep(0.05)
    finishing.set()
    first, second = a.result(PATIENCE), b.result(PATIENCE)
    spans = sorted((t.started, t.ended) for t in (first, second))
    assert spans[0][1] <= spans[1][0]
    for timed in (first, second):
        assert timed.started <= timed.ended
        assert all(seconds >= 0 for seconds in timed.value[1].seconds.values())


def test_hidden_time_is_taken_from_the_first_steps() -> None:
    """b's turn came at 10 and a ended at 14; b was staged from 4 to 7 and started at 11."""
    in_flight = InFlight()
    in_flight._ended = 14.0
    times = StepTimes({"upload": 3.0, "launch": 2.0, "wait": 5.0})
    timed = in_flight._told(PartitionProof("b", b"", (), {}), times, 10.0, (4.0, 7.0), 11.0)
    assert timed.started == 14.0
    assert times.seconds == {"upload": 0.0, "launch": 0.0, "wait": 4.0}


def test_a_line_serves_in_order_whoever_leaves_early() -> None:
    line, order = Line(), []
    turns = [line.join() for _ in range(6)]
    with turns[2]:
        pass

    def serve(number: int) -> None:
        with turns[number] as turn:
            turn.wait_for_head()
            order.append(number)

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(serve, number) for number in (5, 4, 3, 1, 0)]:
            done.result(PATIENCE)
    assert order == [0, 1, 3, 4, 5]


def test_a_prover_that_cannot_stage_proves_one_at_a_time() -> None:
    class Plain:
        busy = 0

        def commit(self, partition: Partition, work: Witness) -> bytes | None:
            return None

        def prove_partition(self, partition: Partition, work: Witness, challenge: bytes | None = None) -> Any:
            self.busy += 1
            assert self.busy == 1
            time.sleep(0.002)
            self.busy -= 1
            return PartitionProof(partition.name, b"", (), {}), StepTimes({"all": 0.002})

        def close(self) -> None:
            return

    prover, in_flight = Plain(), InFlight()

    def prove(index: int) -> Any:
        return in_flight.staged(prover, Partition(index, str(index), b"", {}), Witness("", {}))

    with ThreadPoolExecutor(4) as threads:
        timed = sorted(threads.map(prove, range(8)), key=lambda t: t.started)
    assert all(before.ended <= after.started for before, after in itertools.pairwise(timed))
