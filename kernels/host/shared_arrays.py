"""Passes arrays from one process of a machine to another without a copy: only their location goes over the wire.

The sender has them in a shared `HostArena`, whose memory has a descriptor; the receiver opens that descriptor through
the sender's process id and maps it. No file has a name, so nothing of a witness is left behind when processes are
killed, and only processes of the same user can open it. Linux only: `available` says whether it works here.
"""

from __future__ import annotations

import math
import mmap
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.host.arena import LARGE, HostArena

MAPS = 64
"""Most blocks that a receiver keeps mapped: senders use the same ones again and again."""


@dataclass(frozen=True)
class SharedArray:
    """Location of an array in another process. Plain data; the sender must keep the array until it is read."""

    process: int
    descriptor: int
    inode: int
    """Inode of the memory, because numbers of processes and descriptors are reused."""
    offset: int
    """Offset of the array in the memory, in bytes."""
    shape: tuple[int, ...]
    dtype: str


Sent = SharedArray | NDArray[Any]
"""An array as it is sent: a large one by its location, a small one as it is."""


def available() -> bool:
    """Whether processes can open each other's memory here."""
    if not hasattr(os, "memfd_create"):
        return False
    descriptor = os.memfd_create("distprove-probe", os.MFD_CLOEXEC)
    try:
        os.close(os.open(_path(os.getpid(), descriptor), os.O_RDONLY))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def share(array: NDArray[Any], arena: HostArena) -> tuple[Sent, NDArray[Any]]:
    """Return what to send for `array`, and the array that must live until it has been read: a copy if `array` is large
    and not in the shared `arena`. Raises OutOfMemory."""
    array = np.asarray(array)  # a memmap would be copied into the message
    if array.nbytes < LARGE:
        return array, array
    place = arena.locate(array)
    if place is None:
        copy = arena.empty(array.shape, array.dtype)
        np.copyto(copy, array)
        array, place = copy, arena.locate(copy)
        assert place is not None, "the arena is shared"
    descriptor, offset = place
    inode = os.fstat(descriptor).st_ino
    return SharedArray(os.getpid(), descriptor, inode, offset, array.shape, array.dtype.str), array


class Receiver:
    """Maps the arrays that other processes sent. Thread-safe."""

    def __init__(self) -> None:
        self._maps: OrderedDict[tuple[int, int], mmap.mmap] = OrderedDict()
        """Mapped blocks by (process, inode), the longest unused first."""
        self._lock = threading.Lock()

    def array(self, sent: Sent) -> NDArray[Any]:
        """Return the array that was sent, a read-only view if it is large. Raises OSError if the sender is gone."""
        if not isinstance(sent, SharedArray):
            return sent
        with self._lock:
            memory = self._map(sent)
        return np.frombuffer(memory, sent.dtype, math.prod(sent.shape), sent.offset).reshape(sent.shape)

    def _map(self, sent: SharedArray) -> mmap.mmap:
        known = (sent.process, sent.inode)
        descriptor = os.open(_path(sent.process, sent.descriptor), os.O_RDONLY)
        try:
            status = os.fstat(descriptor)
            if status.st_ino != sent.inode:
                raise FileNotFoundError("the array's memory is gone")
            if known not in self._maps:
                self._maps[known] = mmap.mmap(descriptor, status.st_size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self._maps.move_to_end(known)
        while len(self._maps) > MAPS:
            self._maps.popitem(last=False)  # unmapped with the last view of it
        return self._maps[known]


def _path(process: int, descriptor: int) -> str:
    return f"/proc/{process}/fd/{descriptor}"
