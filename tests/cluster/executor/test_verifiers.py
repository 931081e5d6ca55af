"""Processes that verify: who may verify what, and what becomes of those that die or hang."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from actors.protocol import WorkerDied
from actors.server import VerifierServer
from cluster.executor.verifiers import LIVES, Verifier, Verifiers, beside_driver
from distprove.proof import fingerprint
from distprove.settings import ExecutorSettings
from distprove.system import PartitionProof
from tests.support.toy_system import Faults, ToySystem

Make = Callable[..., Faults]
SOON = ExecutorSettings(hang_timeout=0.05)


class MadeUp:
    """A verifier whose first lives go as they are told to: "die", "hang", "lie" or "not come up"."""

    def __init__(self, system: ToySystem, *fates: str) -> None:
        self._system = system
        self._fates = list(fates)
        self._killed = threading.Event()
        self.asked: list[str] = []
        self.ended = False
        self.started = 0

    def start(self) -> None:
        self.started += 1
        self._killed = threading.Event()
        if self._fate("not come up"):
            raise WorkerDied

    def call(self, verb: Callable[..., Any], *arguments: Any) -> Any:
        if verb is VerifierServer.load:
            return None
        (proof,) = arguments
        self.asked.append(proof.name)
        if self._fate("die"):
            raise WorkerDied
        if self._fate("lie"):
            return True, bytes(32)
        if self._fate("hang"):
            self._killed.wait()
            return True, fingerprint(proof)  # too late
        return self._system.verify(proof), fingerprint(proof)

    def kill(self) -> None:
        self._killed.set()

    def end(self) -> None:
        self.ended = True
        self.kill()

    def _fate(self, what: str) -> bool:
        happens = self._fates[:1] == [what]
        del self._fates[: int(happens)]
        return happens


@pytest.fixture
def system(faults: Make) -> ToySystem:
    return ToySystem(3, faults())


def proofs_of(system: ToySystem) -> tuple[PartitionProof, PartitionProof]:
    """A good one, and a bad one."""
    partition = system.plan()[0]
    good = PartitionProof("p0", partition.digest, (4,), {"tag": system.tag("p0", (4,), None), "challenge": None})
    return good, PartitionProof("p0", partition.digest, (5,), good.data)


@contextmanager
def opened(verifiers: Verifiers) -> Iterator[Verifiers]:
    try:
        yield verifiers
    finally:
        verifiers.close()


def test_a_node_does_not_verify_what_it_proved(system: ToySystem) -> None:
    good, bad = proofs_of(system)
    here, there = MadeUp(system), MadeUp(system)
    with opened(Verifiers(system, [Verifier("here", here), Verifier("there", there)], ExecutorSettings())) as both:
        both.made_on("here", [good, bad])
        assert [both.verify(proof) for proof in (good, bad, good)] == [True, False, True]
        assert (here.asked, there.asked) == ([], ["p0"] * 3)
        both.made_on("there", [good, bad])
        assert both.verify(bad) is False
        assert (here.asked, there.asked) == (["p0"], ["p0"] * 3)
        both.made_on(None, [good, bad])
        assert both.verify(bad) is False
        assert (here.asked, there.asked) == (["p0"], ["p0"] * 3), (
            "who knows where it was proven; verified by the driver"
        )
    assert here.ended
    assert there.ended
    with pytest.raises(WorkerDied):
        both.verify(good)


@pytest.mark.parametrize("fate", ["die", "hang", "lie"])
def test_one_that_fails_is_replaced_and_gives_no_verdict(system: ToySystem, fate: str) -> None:
    """A single verifier that fails is started again and asked again; answers that come after it was given up are not
    read."""
    good, bad = proofs_of(system)
    there = MadeUp(system, fate)
    with opened(Verifiers(system, [Verifier("there", there)], SOON)) as one:
        one.made_on("here", [good, bad])
        assert [one.verify(proof) for proof in (bad, good, bad)] == [False, True, False]
    assert there.started >= 2


def test_the_driver_verifies_what_nobody_else_can(system: ToySystem) -> None:
    good, bad = proofs_of(system)
    lost, dying = MadeUp(system, *["not come up"] * LIVES), MadeUp(system, *["die"] * 2)
    with opened(Verifiers(system, [Verifier("there", lost), Verifier("far", dying)], SOON)) as two:
        two.made_on("here", [good, bad])
        assert two.verify(bad) is False, "asked twice in vain"
        two.made_on("far", [good, bad])
        assert [two.verify(proof) for proof in (bad, good)] == [False, True]
    assert lost.asked == []
    assert lost.started == LIVES


def test_nobody_waits_for_a_node_that_is_silent(system: ToySystem) -> None:
    """Its verifier died, and what starts it again does not come to an end before Ray gives the node up."""
    silent, up = threading.Event(), threading.Event()

    class CutOff(MadeUp):
        def start(self) -> None:
            if self.started:
                up.wait()
            super().start()

        def call(self, verb: Callable[..., Any], *arguments: Any) -> Any:
            if verb is not VerifierServer.load:
                silent.set()
                raise WorkerDied("its node does not answer")

    good, bad = proofs_of(system)
    far = Verifier("there", CutOff(system), silent=silent.is_set)
    with opened(Verifiers(system, [far], ExecutorSettings())) as one:
        one.made_on("here", [good, bad])
        assert [one.verify(proof) for proof in (good, bad)] == [True, False]
        up.set()


def test_a_process_that_is_killed_or_hangs_is_replaced(faults: Make) -> None:
    given = faults(kill_verifier={"p0": 1}, stop_verifier={"p0": 1})
    system = ToySystem(1, given, verifies_in_python=True)
    good, bad = proofs_of(system)
    verifiers = beside_driver(system, 1, ExecutorSettings(hang_timeout=1.0))
    assert verifiers is not None
    with opened(verifiers):
        stopped: list[str] = []
        while not stopped:
            assert [verifiers.verify(proof) for proof in (bad, good, bad)] == [False, True, False]
            stopped = re.findall("stopped ([0-9]+)", (given.folder / "log").read_text())
        late = time.monotonic() + 60
        while psutil.pid_exists(int(stopped[0])) and time.monotonic() < late:
            time.sleep(0.05)
        assert not psutil.pid_exists(int(stopped[0]))


def test_threads_do_for_what_does_not_hold_the_interpreter(system: ToySystem) -> None:
    assert beside_driver(system, 4, ExecutorSettings()) is None


def test_a_process_that_hangs_after_a_verdict_is_ended_and_replaced(faults: Make) -> None:
    given = faults(stop_verifier={"p1": 1})
    system = ToySystem(2, given, verifies_in_python=True)
    settings = ExecutorSettings(hang_timeout=3.0, start_timeout=600.0)
    first, second = (proof_of(system, index) for index in range(2))
    verifiers = beside_driver(system, 1, settings)
    assert verifiers is not None
    with opened(verifiers):
        assert verifiers.verify(first)
        done: list[bool] = []
        thread = threading.Thread(target=lambda: done.append(verifiers.verify(second)), daemon=True)
        thread.start()
        thread.join(200)
        assert done == [True]
        (stopped,) = re.findall("stopped ([0-9]+)", (given.folder / "log").read_text())
        late = time.monotonic() + 60
        while psutil.pid_exists(int(stopped)) and time.monotonic() < late:
            time.sleep(0.05)
        assert not psutil.pid_exists(int(stopped))


def proof_of(system: ToySystem, index: int) -> PartitionProof:
    """A good proof of a partition."""
    partition, public = system.plan()[index], (index**2, 0)
    data = {"tag": system.tag(partition.name, public, None), "challenge": None}
    return PartitionProof(partition.name, partition.digest, public, data)
