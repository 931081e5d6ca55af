"""Checks in forks of a process: what they say, what they leave to the caller, and that none is left."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import psutil
import pytest

from distprove.errors import InvalidProof
from distprove.host import forks
from distprove.proof import NAMED, Proof
from distprove.system import PartitionProof
from tests.test_proof import Judge, bound, make

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux alone")


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The forks that a test makes. Other children of this process are not its own, and may end when they like."""
    made: list[int] = []
    fork = forks._fork

    def noted(check: Callable[[int], bool], indices: Sequence[int], others: Sequence[int]) -> tuple[int, int]:
        pid, line = fork(check, indices, others)
        made.append(pid)
        return pid, line

    monkeypatch.setattr(forks, "_fork", noted)
    return made


def are_children(pids: list[int]) -> bool:
    """Whether one of them is a child of this process yet, be it a zombie."""
    return bool({child.pid for child in psutil.Process().children()} & set(pids))


@pytest.mark.parametrize("processes", [1, 3, 20])
def test_every_verdict_comes_from_a_fork(processes: int, forked: list[int]) -> None:
    here = os.getpid()
    found = forks.verdicts(lambda index: index % 3 == 0 and os.getpid() != here, range(5, 17), processes)
    assert found == {index: index % 3 == 0 for index in range(5, 17)}
    assert len(forked) == processes
    assert not are_children(forked)


def test_what_comes_to_no_verdict_is_left_to_the_caller(forked: list[int]) -> None:
    def check(index: int) -> bool:
        if index == 3:
            raise ValueError("no verdict")
        if index == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        if index == 7:
            raise KeyboardInterrupt
        return True

    assert forks.verdicts(check, range(10), 2) == dict.fromkeys([0, 1, 2, 5], True)
    assert len(forked) == 2
    assert not are_children(forked)


def test_the_end_of_another_child_is_none_of_theirs(forked: list[int]) -> None:
    """A child of the test session that had just ended made this fail at a load of 30."""
    other = os.fork()
    if not other:
        os._exit(0)
    try:
        late = time.monotonic() + 60.0
        while psutil.Process(other).status() != psutil.STATUS_ZOMBIE and time.monotonic() < late:
            time.sleep(0.01)
        assert forks.verdicts(lambda index: True, range(4), 2) == dict.fromkeys(range(4), True)
        assert not are_children(forked)
        assert are_children([other]), "nor is it reaped by them"
    finally:
        os.waitpid(other, 0)


def test_more_verdicts_than_a_pipe_holds() -> None:
    assert len(forks.verdicts(lambda index: True, range(150_000), 2)) == 150_000


class Slow(Judge):
    """A verifier in Python that notes, in this process, what it was asked."""

    verifies_in_python = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def verify(self, proof: PartitionProof) -> bool:
        self.asked.append(proof.name)
        if proof.data.get("says") == "crash":
            raise RuntimeError(f"at {proof.name}")
        return super().verify(proof)


def job(bad: dict[int, dict[str, object]], count: int = 40) -> Proof:
    proof = make(*(bound(index, f"p{index}", (index,)) for index in range(count)))
    kept = [replace(p, data=bad.get(index, p.data)) for index, p in enumerate(proof.partitions)]
    return replace(proof, partitions=tuple(kept))


@pytest.mark.parametrize(
    "bad", [[], [0], [39], [7, 3], range(NAMED), range(5, 39)], ids=["none", "first", "last", "two", "few", "many"]
)
def test_any_number_of_processes_says_the_same(bad: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The invalid ones are named in their order, malformed ones with them."""
    monkeypatch.setattr("distprove.proof.FORKS_PAY", -1.0)
    monkeypatch.setattr(forks, "can_fork", lambda: True)
    proof = job({index: {"malformed": True} if index % 2 else {"says": "bad"} for index in bad})
    said = set()
    for processes in (1, 2, 5):
        verifier = Slow()
        try:
            proof.verify(verifier, processes=processes)
            said.add("")
        except InvalidProof as error:
            said.add(str(error))
        if processes > 1:
            assert verifier.asked == ["p0"], "the others were asked for elsewhere"
    assert len(said) == 1
    assert said != {""} or not bad


def test_what_a_verifier_raises_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distprove.proof.FORKS_PAY", -1.0)
    monkeypatch.setattr(forks, "can_fork", lambda: True)
    with pytest.raises(RuntimeError, match="at p9"):
        job({9: {"says": "crash"}, 20: {"says": "crash"}}).verify(Slow(), processes=4)


def test_little_work_needs_no_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "verdicts", lambda *_: pytest.fail("a fork costs more"))
    monkeypatch.setattr("distprove.proof.FORKS_PAY", 1e9)
    verifier = Slow()
    job({}).verify(verifier, processes=4)
    assert len(verifier.asked) == 40
    monkeypatch.setattr("distprove.proof.FORKS_PAY", -1.0)
    monkeypatch.setattr(forks, "can_fork", lambda: False)
    job({}).verify(verifier, processes=4)
