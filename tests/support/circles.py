"""Counts what is left for Python's collector of circles."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def circles() -> Iterator[Callable[[], int]]:
    """Keep the collector from looking within the block; number of objects that it finds to be garbage at the end."""
    found = list[int]()
    gc.collect()
    gc.disable()
    try:
        yield lambda: found[0]
        found.append(gc.collect())
    finally:
        gc.enable()
