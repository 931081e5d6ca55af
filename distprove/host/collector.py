"""Python's collector beside work that makes objects by the million, next to none of them in circles.

To look at them all took a tenth of a driver's time, and two fifths of the recording of a large circuit.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Inside the block the collector looks for circles a thirtieth as often.

    Several threads of a process may be inside: the first one changes what holds for the process, the last one restores
    it.
    """
    global _inside, _threshold
    with _collector:
        _inside += 1
        if _inside == 1:
            _threshold = gc.get_threshold()
            if _threshold[0]:  # it looks at all
                gc.set_threshold(max(_threshold[0], 20_000), *_threshold[1:])
    try:
        yield
    finally:
        with _collector:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_threshold)


_collector = threading.Lock()
_inside, _threshold = 0, gc.get_threshold()
"""Number of threads inside of `collecting_seldom`, and what held before the first of them."""
