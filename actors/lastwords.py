"""The crash marker: a page of memory that names the partition a process computes, and that its parent keeps.

A worker's process may serve several jobs, and one partition of one of them may be what it dies of. Its news come some
times a second only, and do not say which partition that was.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading

from distprove.system import PartitionId

SIZE = 4096


class CrashMarker:
    """One end; both ends map the page of the same descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, SIZE)
        self._lock = threading.Lock()
        self._written: PartitionId | None = None

    def write(self, partition: PartitionId) -> None:
        """The process begins to compute that partition."""
        data = f"{partition.job}\0{partition.name}\0".encode()
        with self._lock:
            self._written = partition
            self._page[: min(SIZE, len(data))] = data[:SIZE]

    def clear(self, partition: PartitionId) -> None:
        """The process has done with that partition, unless it has begun another one since."""
        with self._lock:
            if self._written == partition:
                self._page[:2] = b"\0\0"

    def read(self) -> PartitionId | None:
        """The partition that the process computes; None if it computes none."""
        job, name, *_ = bytes(self._page[:]).split(b"\0", 2)
        return PartitionId(job.decode(errors="replace"), name.decode(errors="replace")) if name else None

    def close(self) -> None:
        """Let go of the page."""
        self._page.close()


def new_page() -> int:
    """A descriptor of an empty page."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("distprove-marker")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, SIZE)
    return descriptor
