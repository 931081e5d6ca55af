"""Work beside the caller's, for what lets go of the interpreter's lock: native code, hashing, the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Value = TypeVar("Value")


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


def _run(call: Callable[[], Value], future: Future[Value]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future  # or it would be in a circle with the error
