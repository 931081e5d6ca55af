"""Work beside the caller's, for native code that lets go of the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Value = TypeVar("Value")


def begin(threads: int, call: Callable[[], Value]) -> Callable[[], Value]:
    """Begin `call` on a thread of its own, where there are several `threads`. What is returned waits for it, gives its
    value, and raises what it raises."""
    if threads < 2:
        return call
    executor = ThreadPoolExecutor(1, thread_name_prefix="distprove-beside")
    future = executor.submit(call)
    executor.shutdown(wait=False)
    return future.result
