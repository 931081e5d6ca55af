"""Batches where no thread can be started for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from cluster.scheduler import batches
from cluster.scheduler.batches import Batches


class NoThreads(batches._Idle):
    """Starts `left` threads more, and then none."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def run(self, call: Callable[[], None]) -> None:
        if not self.left:
            raise RuntimeError("can't start new thread")
        self.left -= 1
        super().run(call)


def stopped(found: Batches[int]) -> bool:
    """Whether `stop` comes to an end."""
    stopping = threading.Thread(target=found.stop, kwargs={"wait": True}, daemon=True)
    stopping.start()
    stopping.join(60)
    return not stopping.is_alive()


def test_items_that_no_thread_takes_are_the_callers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, taken, all_taken = NoThreads(0), list[int](), threading.Event()
    monkeypatch.setattr(batches, "_IDLE", threads)

    def take(items: list[int]) -> None:
        taken.extend(items)
        all_taken.set()

    found = Batches(take, 2)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        found.submit([1, 2])
    threads.left = 1
    found.submit([3], last=True)
    assert all_taken.wait(60)
    assert stopped(found)
    assert taken == [3]


@pytest.mark.parametrize("spread", [False, True])
def test_one_thread_takes_all_where_no_other_one_can_be_started(monkeypatch: pytest.MonkeyPatch, spread: bool) -> None:
    monkeypatch.setattr(batches, "_IDLE", NoThreads(1))
    begun, go_on, all_taken, taken = threading.Event(), threading.Event(), threading.Event(), list[int]()

    def take(items: list[int]) -> None:
        begun.set()
        go_on.wait(60)
        taken.extend(items)
        if len(taken) == 6:
            all_taken.set()

    found = Batches(take, 3, spread=spread)
    found.submit([1, 2, 3, 4], last=True)
    assert begun.wait(60)
    found.submit([5, 6], last=True)
    go_on.set()
    assert all_taken.wait(60)
    assert stopped(found)
    assert sorted(taken) == [1, 2, 3, 4, 5, 6]
