"""What a process was at when it ended: a page of memory that whoever started it keeps.

A worker's process may serve several jobs, and one partition of one of them may be what it dies of. Whoever has that
tried again must know which it was, and news are told some times a second only.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading

SIZE = 4096


class LastWords:
    """One end; both ends map the page of the same descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, SIZE)
        self._lock = threading.Lock()
        self._said = ("", "")

    def say(self, job: str, partition: str) -> None:
        """The process begins to compute that partition of that job."""
        data = f"{job}\0{partition}\0".encode()
        with self._lock:
            self._said = (job, partition)
            self._page[: min(SIZE, len(data))] = data[:SIZE]

    def unsay(self, job: str, partition: str) -> None:
        """It has done with it, unless it has begun something else since."""
        with self._lock:
            if self._said == (job, partition):
                self._page[:2] = b"\0\0"

    def read(self) -> tuple[str, str] | None:
        """Job and partition; None if it was at none."""
        job, partition, *_ = bytes(self._page[:]).split(b"\0", 2)
        return (job.decode(errors="replace"), partition.decode(errors="replace")) if partition else None

    def close(self) -> None:
        """Let go of the page."""
        self._page.close()


def new_page() -> int:
    """A descriptor of an empty page."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("distprove-words")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, SIZE)
    return descriptor
