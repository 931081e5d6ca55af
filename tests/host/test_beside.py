"""Work beside the caller's."""

from __future__ import annotations

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


def test_what_was_given_is_taken_where_the_block_raises() -> None:
    taken: list[int] = []
    before = threading.active_count()
    with pytest.raises(ValueError, match="a fault"), in_order(2, taken.append) as give:  # noqa: PT012
        give(1)
        raise ValueError("a fault")
    assert taken == [1]
    assert threading.active_count() == before
