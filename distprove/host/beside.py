"""Work beside the caller's, for what lets go of the interpreter's lock: native code, hashing, the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from queue import Queue
from typing import TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")
QUEUED = 8
"""Items that wait for `in_order`, at most: they may be long."""


def begin(threads: int, call: Callable[[], Value]) -> Callable[[], Value]:
    """Begin `call` on a thread of its own, where there are several `threads`. What is returned waits for it, gives its
    value, and raises what it raises."""
    return call if threads < 2 else in_background(call, daemon=False).result


def in_background(call: Callable[[], Value], name: str = "distprove-beside", *, daemon: bool = True) -> Future[Value]:
    """Begin `call` on a thread of its own: no end of this process waits for a `daemon`. What is returned has the value,
    or the error, which is nobody's where it is not asked for."""
    future: Future[Value] = Future()
    # Not one of a pool, which takes no work once the main thread has ended, though others may still prove.
    threading.Thread(target=_run, args=(call, future), name=name, daemon=daemon).start()
    return future


def at_once(call: Callable[[Item], object], items: Iterable[Item], seconds: float, name: str) -> None:
    """Call `call` for each item, each on a thread of its own, and wait so many seconds at most. Errors are ignored."""
    wait([in_background(partial(call, item), name) for item in items], seconds)


@contextmanager
def in_order(threads: int, take: Callable[[Item], object]) -> Iterator[Callable[[Item], object]]:
    """Give the block a function that has `take` called with what it is given, in this order, on a thread of its own
    where there are several `threads`. All of it is taken when the block ends, which raises what `take` raised first."""
    if threads < 2:
        yield take
        return
    queue: Queue[Item | None] = Queue(QUEUED)

    def take_all() -> None:
        failed: BaseException | None = None
        while (item := queue.get()) is not None:
            if failed is None:
                try:
                    take(item)
                except BaseException as error:  # the queue is emptied all the same: somebody may wait for its room
                    failed = error
        if failed is not None:
            raise failed

    done = in_background(take_all)  # no end of this process waits for it: the block's end may have been interrupted
    try:
        yield queue.put
    finally:
        queue.put(None)
        done.result()


def _run(call: Callable[[], Value], future: Future[Value]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future  # or it would be in a circle with the error
