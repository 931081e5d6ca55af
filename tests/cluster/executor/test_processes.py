"""Workers in processes of this machine: calls between processes, witnesses in shared memory, what dies with whom."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from actors.channel import Channel, ChannelClosed, RemoteError
from actors.grants import Ungoverned
from actors.messages import Kept, SynthesiserSpec, VerifierSpec, pickled
from actors.processes import Started, start_process
from actors.protocol import Order, WitnessGone, WorkerDied, WorkKind
from actors.standby import STANDBY
from actors.synthesiser import SynthesiserProcess
from actors.worker import Worker
from cluster.executor.local import LocalFleet, ProcessFleet, local_fleet
from cluster.governor.local import LocalGovernor
from cluster.governor.state import Budget, Request
from cluster.scheduler.events import KeyLoaded, News
from distprove.errors import ClusterError, InvalidKey, UsageError
from distprove.settings import ExecutorSettings
from distprove.system import Witness
from kernels.host import shared_arrays
from kernels.host.arena import LARGE, HostArena
from kernels.host.shared_arrays import Receiver, SharedArray, share
from tests.support import ROOT
from tests.support.one_key import OneKey
from tests.support.own_module import give
from tests.support.toy_system import TOY_BACKEND, Faults, SharingSystem, ToySystem

Make = Callable[..., Faults]


class Unsendable(Exception):
    """Takes two arguments, and keeps neither where pickle looks."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__()


class Calls:
    """What both ends of a channel serve."""

    def __init__(self) -> None:
        self._told: list[int] = []

    def add(self, a: int, b: int) -> int:
        return a + b

    def fail(self) -> None:
        raise InvalidKey("point 3 is not on the curve")

    def odd(self) -> None:
        raise Unsendable(1, 2)

    def lock(self) -> object:
        return threading.Lock()

    def tell(self, number: int) -> None:
        self._told.append(number)

    def told(self) -> list[int]:
        return list(self._told)

    def wait(self) -> None:
        time.sleep(60)


class Others:
    """What neither end serves."""

    def double(self) -> int:
        return 7


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    """Two ends that know the same calls, in one process."""
    one, two = Pipe()
    channels = Channel(one, Calls()), Channel(two, Calls())
    yield channels
    # Not closed from here: a thread that still reads would go on with whatever gets the same descriptor next.
    with suppress(OSError), socket.socket(fileno=os.dup(one.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
    late = time.monotonic() + 60
    while not all(channel.ended for channel in channels):
        assert time.monotonic() < late, "an end still reads"
        time.sleep(0.001)


def test_calls_go_both_ways_at_once(ends: tuple[Channel, Channel]) -> None:
    results: list[int] = []

    def calls(end: Channel, base: int) -> None:
        results.extend(end.call(Calls.add, base, i) for i in range(200))

    threads = [threading.Thread(target=calls, args=(end, base)) for end in ends for base in (0, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted([*range(200), *range(1000, 1200)] * 2)


def test_errors_come_back(ends: tuple[Channel, Channel]) -> None:
    with pytest.raises(InvalidKey, match="point 3 is not on the curve"):
        ends[0].call(Calls.fail)
    with pytest.raises(RemoteError, match="Unsendable"):
        ends[0].call(Calls.odd)
    with pytest.raises(TypeError, match="pickle"):  # of a value
        ends[0].call(Calls.lock)
    assert ends[0].call(Calls.add, 1, 2) == 3


def test_a_verb_of_another_class_is_refused(ends: tuple[Channel, Channel]) -> None:
    with pytest.raises(TypeError, match=r"Others\.double is no verb of Calls"):
        ends[0].call(Others.double)


def test_what_is_told_arrives_in_order_and_before_the_next_call(ends: tuple[Channel, Channel]) -> None:
    for number in range(100):
        ends[0].tell(Calls.tell, number)
    assert ends[0].call(Calls.told) == list(range(100))


def test_whoever_waits_for_an_end_that_is_gone_is_told() -> None:
    one, two = Pipe()
    gone = threading.Event()
    end = Channel(one, None, gone.set)
    thread = threading.Timer(0.05, two.close)
    thread.start()
    with pytest.raises(ChannelClosed):
        end.call(Calls.wait)
    assert gone.wait(60)
    assert end.ended
    with pytest.raises(ChannelClosed):
        end.call(Calls.wait)
    with pytest.raises(ChannelClosed):
        end.tell(Calls.wait)


def test_arrays_are_read_where_they_lie() -> None:
    with HostArena(shared=True) as arena:
        made = arena.empty((LARGE // 32, 4))
        made[:] = np.arange(made.size).reshape(made.shape)
        part = made[3:]
        elsewhere = np.arange(LARGE // 8, dtype=np.uint64)
        small = np.arange(5, dtype=np.uint64)
        receiver = Receiver()
        for array, copied in ((made, False), (part, part.nbytes < LARGE), (elsewhere, True), (small, False)):
            sent, kept = share(array, arena)
            assert isinstance(sent, SharedArray) == (array.nbytes >= LARGE)
            assert (kept is not array) == (copied and array.nbytes >= LARGE)
            seen = receiver.array(sent)
            assert np.array_equal(seen, array)
            assert seen.dtype == array.dtype
            if isinstance(sent, SharedArray):
                kept.flat[0] = 77
                assert seen.flat[0] == 77, "a copy"
                with pytest.raises(ValueError, match="read-only"):
                    seen.flat[0] = 1


def test_an_array_whose_memory_is_gone_is_not_mistaken() -> None:
    arena = HostArena(keep=0, shared=True)
    sent, kept = share(np.ones(LARGE, np.uint8), arena)
    assert isinstance(sent, SharedArray)
    del kept
    arena.settle()
    arena.close()
    other = os.memfd_create("another", 0)  # perhaps under the same number
    try:
        os.ftruncate(other, LARGE)
        with pytest.raises(OSError, match=r"gone|No such file"):
            Receiver().array(sent)
    finally:
        os.close(other)


def test_memory_that_is_mapped_is_not_mistaken_for_other_memory_under_its_numbers() -> None:
    """Numbers of processes, descriptors and inodes are used again: the first array's map is there, another array claims
    the same numbers."""
    with HostArena(shared=True) as arena, HostArena(shared=True) as another:
        first, kept = share(np.full(LARGE, 1, np.uint8), arena)
        second, other = share(np.full(LARGE, 2, np.uint8), another)
        assert isinstance(first, SharedArray)
        assert isinstance(second, SharedArray)
        assert first.token != second.token
        receiver = Receiver()
        assert (receiver.array(first) == kept).all()
        again = second._replace(process=first.process, inode=first.inode)
        with pytest.raises(OSError, match="gone"):
            receiver.array(again)
        assert (receiver.array(second) == other).all()


def test_memory_that_is_mapped_is_not_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with HostArena(shared=True) as arena:
        receiver = Receiver()
        sent, kept = share(np.full(LARGE, 1, np.uint8), arena)
        assert receiver.array(sent).all()
        give(monkeypatch, shared_arrays, "os", open=lambda *_: pytest.fail("opened"))
        kept[:] = 5
        assert (receiver.array(sent) == 5).all()


def test_a_kept_witness_is_wiped_when_it_is_dropped() -> None:
    with HostArena(shared=True) as arena:
        kept = Kept(arena)
        sent = kept.send(Witness("p0", {"wires": np.full(LARGE, 7, np.uint8)}, 0.5))
        assert (sent.nbytes, sent.seconds, sent.name) == (LARGE, 0.5, "p0")
        assert "7" not in repr(sent).replace(str(sent.nbytes), "")
        seen = Receiver().array(sent.arrays["wires"])
        assert (seen == 7).all()
        kept.drop([sent.number])
        kept.drop([sent.number])
        arena.settle()
        assert not seen.any()


def test_witnesses_that_were_released_are_wiped_with_the_next_order_or_when_their_worker_tidies_up(
    faults: Make,
) -> None:
    system = ToySystem(4, faults(), witness_bytes=LARGE)
    first, second, *others = system.plan()
    synthesiser = SynthesiserProcess("s", SynthesiserSpec(system, 1), Ungoverned())
    try:
        synthesiser.load()
        witnesses = [timed.value for timed in synthesiser.make([first, second])]
        seen = [witness.read().arrays["witness"] for witness in witnesses]
        assert all(array.any() for array in seen)
        witnesses[0].release()
        synthesiser.tidy()
        wait_for(lambda: not seen[0].any())
        assert seen[1][1] == second.index == 1
        witnesses[1].release()
        synthesiser.make(others)
        wait_for(lambda: seen[1][1] != second.index)  # wiped, and perhaps used again
    finally:
        synthesiser.end()


def wait_for(holds: Callable[[], bool]) -> None:
    late = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < late
        time.sleep(0.01)


def has_ended(process: psutil.Process) -> bool:
    """Whether a process is gone, but for its exit code."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def test_leases_of_a_holder_that_is_gone_are_taken_back() -> None:
    governor = LocalGovernor(Budget(threads=2, memory=1 << 20))
    gone, lives = (11, 1.0), (12, 1.0)
    governor.hold(Request(gone, threads=2))
    errors: list[BaseException] = []

    def waits() -> None:
        try:
            governor.hold(Request(gone, threads=1))
        except ClusterError as error:
            errors.append(error)

    thread = threading.Thread(target=waits)
    thread.start()
    while not governor._state.waiting:
        time.sleep(0.001)
    governor.reclaim(gone)
    thread.join(60)
    assert [str(error) for error in errors] == ["the holder that asked is gone"]
    assert governor.hold(Request(lives, threads=2)).threads == 2


@pytest.fixture
def apart() -> ExecutorSettings:
    return ExecutorSettings(local=True, isolate=True, threads=2, synthesisers=1, backend=TOY_BACKEND)


def test_a_witness_is_lost_with_the_process_that_made_it(faults: Make, apart: ExecutorSettings) -> None:
    system = ToySystem(1, faults(), witness_bytes=LARGE, needs_barrier=True)
    (partition,) = system.plan()
    with OneKey(ProcessFleet(apart), system) as key:
        loaded = key.loaded()
        outcome = key.asked(partition, WorkKind.COMMIT)
        assert outcome.witness_bytes >= LARGE
        synthesiser = psutil.Process(loaded.synthesisers["synthesiser-0"].value["pid"])
        synthesiser.kill()
        psutil.wait_procs([synthesiser], timeout=60)
        assert isinstance(key.asked(partition).error, WitnessGone)


@pytest.mark.skipif(sys.platform != "linux", reason="fork servers are of Linux")
@pytest.mark.parametrize("bereft", [False, True], ids=["with its fork server", "without"])
def test_a_synthesiser_that_died_is_there_again(faults: Make, apart: ExecutorSettings, bereft: bool) -> None:
    """Forked again; where its fork server has died too, it imports what it needs."""
    system = ToySystem(2, faults(kill_synthesiser={"p0": 1}), witness_bytes=LARGE)
    dies, works = system.plan()
    with OneKey(ProcessFleet(apart), system) as key:
        loaded = key.loaded()
        process = psutil.Process(loaded.prover.value["pid"])
        before = {child.cmdline()[0]: child for child in process.children()}
        assert set(before) == {"distprove-fork-server", "distprove-synthesiser-0"}
        assert before["distprove-synthesiser-0"].pid == loaded.synthesisers["synthesiser-0"].value["pid"]
        if bereft:
            before["distprove-fork-server"].kill()
            wait_for(lambda: has_ended(before["distprove-fork-server"]))
        assert isinstance(key.asked(dies).error, WorkerDied)
        assert key.asked(works).error is None
        (again,) = named("distprove-synthesiser-0", process)
        assert (again.cmdline()[0] == "distprove-synthesiser-0") is not bereft


def test_a_worker_that_is_loaded_again_is_the_same(faults: Make, apart: ExecutorSettings) -> None:
    system = ToySystem(1, faults(bad_first_prover=True))
    (partition,) = system.plan()
    with OneKey(ProcessFleet(apart), system) as key:
        key.loaded()
        for _ in range(2):
            assert not system.verify(key.asked(partition).value), "another prover"
            key.loaded()


def test_orders_of_an_earlier_life_are_dropped(faults: Make, apart: ExecutorSettings) -> None:
    """They may reach an actor that was started again; whoever gave them has given them to somebody else."""
    system = ToySystem(2, faults())
    old, new = system.plan()
    with OneKey(ProcessFleet(apart), system) as key:
        key.loaded()
        key.slot().tell(Worker.take, 0, [Order(old, WorkKind.PROVE)], None)
        assert key.asked(new).id == new.id


def test_a_loading_that_was_asked_for_again_changes_nothing_when_it_comes_about(
    faults: Make, local: ExecutorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The orders of the last load would be forgotten, and the job would wait for ever."""
    system = ToySystem(1, faults())
    (partition,) = system.plan()
    with OneKey(local_fleet(local), system) as key:
        slot = key.slot()
        ask, go, over = slot.call, threading.Event(), threading.Event()

        def call(verb: Callable[..., Any], *arguments: Any) -> Any:
            if verb is not Worker.load or arguments[0] != 1:
                return ask(verb, *arguments)
            assert go.wait(60)
            try:
                return ask(verb, *arguments)
            finally:
                over.set()

        monkeypatch.setattr(slot, "call", call)
        key.load()
        key.load()
        assert key.next(KeyLoaded).epoch == 2
        go.set()
        assert over.wait(60)
        assert key.asked(partition).error is None


def test_what_has_not_begun_is_given_back(faults: Make, apart: ExecutorSettings) -> None:
    names = [f"p{i}" for i in range(20)]
    given = faults(waits=dict.fromkeys(names, "go on"))
    system = ToySystem(20, given)
    with OneKey(ProcessFleet(apart), system) as key:
        key.loaded()
        key.hand(*system.plan())
        key.slot().tell(Worker.give_back, 5)
        returned: list[str] = []
        proven: list[str] = []
        while len(returned) + len(proven) < 20:
            batch = key.next(News).batch
            if batch.returned:
                given.log("go on")
            returned += [id.name for id in batch.returned]
            proven += [outcome.id.name for outcome in batch.outcomes]
        assert returned == names[:-6:-1]
        assert sorted(proven) == sorted(names[:-5])


@pytest.mark.parametrize("now", [False, True])
def test_no_process_outlives_its_fleet(faults: Make, apart: ExecutorSettings, now: bool) -> None:
    system = ToySystem(1, faults(slow={"p0": 60.0 if now else 0.0}), verifies_in_python=True)
    (partition,) = system.plan()
    before = set(psutil.Process().children(recursive=True))
    key = OneKey(ProcessFleet(apart), system)
    key.loaded()
    if now:
        key.hand(partition)
    else:
        assert key.asked(partition).error is None
    ours = set(psutil.Process().children(recursive=True)) - before
    assert len(ours) >= 3
    key.close(now=now)
    _, alive = psutil.wait_procs(ours, timeout=60)  # a synthesiser ends when it sees its worker's end
    assert not alive


def script(tmp_path: Path, body: str) -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(body)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))}
    return subprocess.Popen([sys.executable, path], env=environment, stdout=subprocess.PIPE, text=True)


def test_no_process_outlives_a_killed_driver(tmp_path: Path) -> None:
    body = f"""
import time
from pathlib import Path
from tests.support.one_key import OneKey
from tests.support.toy_system import Faults, ToySystem
from cluster.executor.local import ProcessFleet
from distprove.settings import ExecutorSettings
fleet = ProcessFleet(ExecutorSettings(local=True, isolate=True, threads=2, backend={TOY_BACKEND!r}))
loaded = OneKey(fleet, ToySystem(1, Faults(Path({str(tmp_path)!r})))).loaded()
print(loaded.prover.value["pid"], loaded.synthesisers["synthesiser-0"].value["pid"], flush=True)
time.sleep(600)
"""
    with script(tmp_path, body) as driver:
        assert driver.stdout is not None
        processes = [psutil.Process(int(pid)) for pid in driver.stdout.readline().split()]
        assert len(processes) == 2
        driver.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive


def test_what_a_script_defines_for_itself_goes_by_value(tmp_path: Path) -> None:
    """Its module is not to be had in a worker's process, and must not be run again there."""
    body = f"""
from pathlib import Path
from tests.support.toy_system import Faults, ToySystem
from actors.messages import VerifierSpec, pickled
class Mine(ToySystem):
    def synthesis_bytes(self, partition):
        return 4096
print(pickled(VerifierSpec('v', Mine(2, Faults(Path({str(tmp_path)!r}))))).hex())
"""
    with script(tmp_path, body) as driver:
        output, _ = driver.communicate(timeout=120)
    assert driver.returncode == 0
    system = pickle.loads(bytes.fromhex(output)).system
    assert (type(system).__name__, system.count, system.synthesis_bytes(None)) == ("Mine", 2, 4096)
    assert b"cloudpickle" not in pickled(VerifierSpec("v", ToySystem(2, Faults(tmp_path))))


def named(word: str, parent: psutil.Process | None = None) -> list[psutil.Process]:
    """The children, of this process by default, whose command line has the word; one that has just been started has
    none yet, and one that has ended has none any more."""
    found = []
    for child in (parent or psutil.Process()).children():
        with suppress(psutil.Error):
            if word in " ".join(child.cmdline()):
                found.append(child)
    return found


def test_an_answer_holds_though_the_other_side_ends_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    class Late:
        """A lock whose second owner is slow to go on."""

        def __init__(self) -> None:
            self._lock, self._owned = threading.Lock(), False

        def acquire(self) -> None:
            self._lock.acquire()
            if self._owned:
                over.wait(60)
            self._owned = True

        def release(self) -> None:
            self._lock.release()

    def answered(self: Any) -> None:
        self.ready, self.value, self.error = Late(), None, None
        self.ready.acquire()

    monkeypatch.setattr("actors.channel._Answer.__init__", answered)
    ours, theirs = Pipe()
    channel = Channel(ours, None, over.set)

    def other_side() -> None:
        _, number, name, _ = pickle.loads(theirs.recv_bytes())
        theirs.send_bytes(pickle.dumps(("answer", number, name, (7, None))))
        theirs.close()

    threading.Thread(target=other_side).start()
    assert channel.call(Others.double) == 7
    assert over.is_set()


def test_who_gets_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ExecutorSettings(local=True)
    assert type(local_fleet(settings)) is LocalFleet
    assert type(local_fleet(ExecutorSettings(local=True, isolate=True))) is ProcessFleet
    monkeypatch.setattr("cluster.executor.local.local_devices", lambda settings: [0])
    assert type(local_fleet(settings)) is ProcessFleet
    assert type(local_fleet(ExecutorSettings(local=True, isolate=False))) is LocalFleet
    monkeypatch.setattr("cluster.executor.local.available", lambda: False)
    assert type(local_fleet(settings)) is LocalFleet
    with pytest.raises(ClusterError, match="Linux"):
        local_fleet(ExecutorSettings(local=True, isolate=True))
    with pytest.raises(UsageError, match="isolate is for local"):
        ExecutorSettings(local=False, isolate=True)


def children_here() -> set[psutil.Process]:
    """The children of this process without the standby, which a machine under load may have begun by then."""
    children = psutil.Process().children()
    standby = STANDBY.server  # after the look: one that it found is known by now
    return {child for child in children if standby is None or child.pid != standby._pid}


def test_workers_start_before_it_is_known_what_they_prove(faults: Make, apart: ExecutorSettings) -> None:
    before = children_here()
    fleet = ProcessFleet(apart)
    (early,) = children_here() - before
    with OneKey(fleet, ToySystem(1, faults())) as key:
        assert key.loaded().prover.value["pid"] == early.pid
    fleet = ProcessFleet(replace(apart, gpu_workers=2))  # and end with one that is not used
    assert len(unused := children_here() - before) == 2
    fleet.close()
    assert not any(process.is_running() for process in unused)


def test_provers_that_share_a_device_all_open_it_ahead(
    faults: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one of each device used to open it when it loaded its key, half a second after the first."""
    monkeypatch.setenv("TOY_AHEAD", str(tmp_path))
    monkeypatch.setattr("cluster.executor.local._device_memory", lambda *asked: 1)
    settings = ExecutorSettings(local=True, threads=16, synthesisers=2, backend="tests.support.toy_system:TOY_SHARED")
    with OneKey(local_fleet(settings), SharingSystem(2, faults())) as key:
        loaded = [key.loaded(worker).prover.value["pid"] for worker in key.fleet.sites]
    assert len(loaded) == 2
    assert sorted(loaded) == sorted(map(int, (tmp_path / "opened").read_text().split()))


@pytest.mark.parametrize("used", [1, 2])
def test_provers_that_likely_share_a_device_start_before_the_job_is_loaded(
    used: int, faults: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one of them ends where the job then has one for each device."""
    monkeypatch.setenv("TOY_AHEAD", str(tmp_path))
    monkeypatch.setattr("cluster.executor.local._device_memory", lambda *asked: used - 1)
    settings = ExecutorSettings(local=True, threads=16, synthesisers=2, backend="tests.support.toy_system:TOY_SHARED")
    before = children_here()
    fleet = local_fleet(settings, 2)
    assert len(early := children_here() - before) == 2
    with OneKey(fleet, SharingSystem(2, faults())) as key:
        loaded = {key.loaded(worker).prover.value["pid"] for worker in key.fleet.sites}
        assert len(loaded) == used
        assert loaded <= {process.pid for process in early}
        assert len(children_here() - before) == used
    assert not any(process.is_running() for process in early)


def test_no_prover_is_started_ahead_for_which_there_are_no_threads(
    faults: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the others' threads to import, open a device, and be ended."""
    monkeypatch.setenv("TOY_AHEAD", str(tmp_path))
    monkeypatch.setattr("cluster.executor.local._device_memory", lambda *asked: 1)
    begun: list[str] = []

    def started_ahead(name: str, **how: Any) -> Started:
        begun.append(name)
        return start_process(name, **how)

    monkeypatch.setattr("cluster.executor.local.start_process", started_ahead)
    settings = ExecutorSettings(local=True, threads=3, synthesisers=1, backend="tests.support.toy_system:TOY_SHARED")
    with OneKey(local_fleet(settings), SharingSystem(2, faults())) as key:
        assert len(key.fleet.sites) == 1
    assert begun == ["prover-0"]


def test_devices_are_opened_ahead_while_they_are_counted(
    faults: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_AHEAD", str(tmp_path))
    settings = ExecutorSettings(local=True, threads=2, synthesisers=1, backend="tests.support.toy_system:TOY_DEVICES")
    before = children_here()
    fleet = local_fleet(settings)
    assert isinstance(fleet, ProcessFleet)
    early = children_here() - before
    assert len(early) == 2
    with OneKey(fleet, ToySystem(1, faults())) as key:
        loaded = key.loaded()
        (used,) = (process for process in early if process.is_running())  # one was too many
        assert loaded.prover.value["pid"] == used.pid == int((tmp_path / "0").read_text())
        assert used.pid == int((tmp_path / "early-0").read_text())
    with pytest.raises(ClusterError, match="2 Toy devices asked for, 1 usable here"):
        local_fleet(replace(settings, gpus=2))
    assert not children_here() - before
