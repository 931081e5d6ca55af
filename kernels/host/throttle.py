"""A word in shared memory that makes loops on the host yield to work that needs the memory bus.

The word is 64 bits in a small mapped file: how many critical phases run (16 bits), and until when to believe that
(48 bits, milliseconds of the system's monotonic clock). One process writes it and renews the time; any number of
processes read it, native loops among them (kernels/cpu/src/throttle.h). A writer that dies is believed for `LIFE`
seconds and no longer, so nobody waits forever.

The writer holds a lock on its file. A file without one was left by a writer that was killed, and the next writer
removes it. (A lock, not a process's number: containers that share a folder do not share those.)

Results do not depend on the word, so nobody fails for want of one: where it cannot stand safely, or what is at its path
is not the file of this user that a writer makes, governors and workers do without it.
"""

from __future__ import annotations

import mmap
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from kernels.host.private import is_ours, temporary_root

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is cleaned up
    fcntl = None  # type: ignore[assignment]

PREFIX = "distprove-throttle-"
SIZE = 8
"""Bytes of the file."""
LIFE = 2.0
"""Seconds for which a word is believed after it was written."""
SLICE = 0.0005
"""Seconds between two looks at the word while a reader waits."""


class Throttle:
    """The word and the file that holds it. Created by the process that writes it."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is where the file stands until `close`; None is the folder for temporary files, if others cannot
        replace it there. What killed writers left there is removed. Raises NotPrivate, OSError."""
        folder = temporary_root() if folder is None else folder
        _clean(folder)
        self._handle, self.path = _locked_file(folder)
        try:
            os.ftruncate(self._handle, SIZE)
            self._map = mmap.mmap(self._handle, SIZE)
        except BaseException:
            self.path.unlink(missing_ok=True)
            os.close(self._handle)
            raise
        self._word = memoryview(self._map).cast("Q")

    def write(self, count: int) -> None:
        """Announce that `count` critical phases run. Must be repeated within `LIFE` seconds as long as some run."""
        self._word[0] = encode(count, time.monotonic() + LIFE) if count else 0

    def close(self) -> None:
        """Lower the word and remove the file; readers that have it mapped see it lowered."""
        if not self._map.closed:
            self._word[0] = 0
            self._word.release()
            self._map.close()
            self.path.unlink(missing_ok=True)
            os.close(self._handle)

    def __enter__(self) -> Throttle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Brake:
    """The word as seen by one who yields. Raises OSError for what is no file of a writer."""

    def __init__(self, path: Path) -> None:
        with open_word(path) as handle:
            self._map = mmap.mmap(handle, SIZE, access=mmap.ACCESS_READ)
        self._word = memoryview(self._map).cast("Q")

    @property
    def raised(self) -> bool:
        """Whether a critical phase runs and the word is still to be believed."""
        return believed(self._word[0], time.monotonic())

    def wait(self, longest: float) -> float:
        """Wait while the word is raised, at most `longest` seconds. Returns the seconds waited."""
        begin = time.monotonic()
        while self.raised and (waited := time.monotonic() - begin) < longest:
            time.sleep(min(SLICE, longest - waited))
        return time.monotonic() - begin

    def close(self) -> None:
        if not self._map.closed:
            self._word.release()
            self._map.close()


@contextmanager
def open_word(path: Path) -> Iterator[int]:
    """A descriptor of a writer's file for the length of the block, to map the word from. Never waits.

    Raises OSError for anything but a plain file of the right size that only this user can write: what others could
    shorten would end the process that has it mapped.
    """
    with _opened(path, os.O_RDONLY) as handle:
        if os.fstat(handle).st_size != SIZE:
            raise OSError(f"{path} has not the size of a throttle word")
        yield handle


def _locked_file(folder: Path) -> tuple[int, Path]:
    """A new file, open and locked for as long as it is open."""
    while True:
        handle, name = tempfile.mkstemp(prefix=PREFIX, dir=folder)
        if fcntl is None:
            return handle, Path(name)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # another writer found it before it was locked, and removed it


def _clean(folder: Path) -> None:
    """Remove this user's throttle files in `folder` whose writers are gone."""
    if fcntl is None:
        return
    for path in folder.glob(f"{PREFIX}*"):
        # An error says that its writer lives, or that it is not ours to remove.
        with suppress(OSError), _opened(path, os.O_RDWR) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


@contextmanager
def _opened(path: Path, access: int) -> Iterator[int]:
    """A descriptor of a plain file that only this user can write. Raises OSError for what is none."""
    handle = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or not is_ours(facts):
            raise OSError(f"{path} is not a file that only this user can write")
        yield handle
    finally:
        os.close(handle)


def encode(count: int, until: float) -> int:
    """Return the word for `count` critical phases, to be believed until `until`, seconds of the monotonic clock."""
    return int(until * 1000) << 16 | min(count, 0xFFFF)


def believed(word: int, now: float) -> bool:
    """Whether the word says that a critical phase runs at `now`, seconds of the monotonic clock."""
    return bool(word & 0xFFFF) and now * 1000 < word >> 16
