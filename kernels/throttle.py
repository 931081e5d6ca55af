"""A word in shared memory by which loops on the host yield to work that needs the memory bus.

The word is 64 bits in a small mapped file: how many critical phases run (16 bits), and until when that may be
believed (48 bits, milliseconds of the system's monotonic clock). One process writes it and renews the time; any number
read it, native loops among them (kernels/cpu/throttle.h). A writer that dies is believed for `LIFE` and no longer, so
nobody waits for ever.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from pathlib import Path
from types import TracebackType

LIFE = 2.0
"""Seconds for which a word is believed after it was written."""
SLICE = 0.0005
"""Seconds between looks at the word while one waits for it."""


class Throttle:
    """The word, with the file it is in. Made by the one who writes it."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is where the file stands until `close`; None is the system's folder for temporary files."""
        handle, name = tempfile.mkstemp(prefix="distprove-throttle-", dir=folder)
        try:
            os.ftruncate(handle, 8)
            self._map = mmap.mmap(handle, 8)
        except BaseException:
            os.unlink(name)
            raise
        finally:
            os.close(handle)
        self._word = memoryview(self._map).cast("Q")
        self.path = Path(name)

    def write(self, count: int) -> None:
        """Say that `count` critical phases run. Must be repeated within `LIFE` for as long as some do."""
        self._word[0] = encode(count, time.monotonic() + LIFE) if count else 0

    def close(self) -> None:
        """Lower the word and remove the file; who has it mapped sees it lowered."""
        if not self._map.closed:
            self._word[0] = 0
            self._word.release()
            self._map.close()
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Throttle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Brake:
    """The word as seen by one who yields. Raises OSError for a file that cannot be mapped."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
        self._word = memoryview(self._map).cast("Q")

    @property
    def raised(self) -> bool:
        """Whether a critical phase runs, and its word is still to be believed."""
        return believed(self._word[0], time.monotonic())

    def wait(self, longest: float) -> float:
        """Wait while the word is raised, at most `longest` seconds; the seconds waited."""
        begin = time.monotonic()
        while self.raised and (waited := time.monotonic() - begin) < longest:
            time.sleep(min(SLICE, longest - waited))
        return time.monotonic() - begin

    def close(self) -> None:
        if not self._map.closed:
            self._word.release()
            self._map.close()


def encode(count: int, until: float) -> int:
    """The word for `count` critical phases, to be believed until `until` on the monotonic clock."""
    return int(until * 1000) << 16 | min(count, 0xFFFF)


def believed(word: int, now: float) -> bool:
    """Whether the word says, at `now`, that a critical phase runs."""
    return bool(word & 0xFFFF) and now * 1000 < word >> 16
