"""Work beside the caller's."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from distprove.host.beside import QUEUED, in_order


@pytest.mark.parametrize("threads", [1, 2])
def test_items_are_taken_in_order_by_one_thread(threads: int) -> None:
    taken: list[int] = []
    by: set[int] = set()

    def take(item: int) -> None:
        taken.append(item)
        by.add(threading.get_ident())

    with in_order(threads, take) as give:
        for item in range(10 * QUEUED):
            give(item)
    assert taken == list(range(10 * QUEUED))
    assert (by == {threading.get_ident()}) == (threads == 1)
    assert len(by) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_is_raised_by_the_block(threads: int) -> None:
    """And nobody waits for room in the queue for ever."""
    taken: list[int] = []

    def take(item: int) -> None:
        taken.append(item)
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"), in_order(threads, take) as give:  # noqa: PT012
        for item in range(10 * QUEUED):
            give(item)
    assert taken == [0]


INTERRUPTED = """
import threading
from distprove.host.beside import QUEUED, in_order

block = threading.Event()
gives = in_order(2, lambda item: block.wait())
give = gives.__enter__()
for item in range(QUEUED + 1):
    give(item)
print("ends")
"""


def test_a_process_ends_whose_block_was_interrupted() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=250)
    assert (ended.returncode, ended.stdout) == (0, "ends\n")


def test_what_was_given_is_taken_where_the_block_raises() -> None:
    taken: list[int] = []
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="a fault"), in_order(2, taken.append) as give:  # noqa: PT012
        give(1)
        raise ValueError("a fault")
    assert taken == [1]
    assert set(threading.enumerate()) <= before
