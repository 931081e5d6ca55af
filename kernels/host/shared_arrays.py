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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.host.arena import LARGE, HostArena

MAPS = 64
"""Most blocks that a receiver keeps mapped: senders use the same ones again and again."""


class SharedArray(NamedTuple):
    """Location of an array in another process. Plain data; the sender must keep the array until it is read."""

    process: int
    descriptor: int
    inode: int
    """Inode of the memory, because numbers of processes and descriptors are reused."""
    token: bytes
    """Name of the memory, which no other memory ever has: a receiver that has mapped it once need not open it again."""
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
    descriptor, offset, token = place
    inode = os.fstat(descriptor).st_ino
    return SharedArray(os.getpid(), descriptor, inode, token, offset, array.shape, array.dtype.str), array


class Receiver:
    """Maps the arrays that other processes sent. Thread-safe."""

    def __init__(self) -> None:
        self._maps: OrderedDict[bytes, mmap.mmap] = OrderedDict()
        """Mapped blocks by their tokens, the longest unused first."""
        self._lock = threading.Lock()

    def array(self, sent: Sent) -> NDArray[Any]:
        """Return the array that was sent, a read-only view if it is large. Raises OSError if the sender is gone, unless
        its memory is mapped here."""
        if not isinstance(sent, SharedArray):
            return sent
        with self._lock:
            memory = self._map(sent)
        return np.frombuffer(memory, sent.dtype, math.prod(sent.shape), sent.offset).reshape(sent.shape)

    def _map(self, sent: SharedArray) -> mmap.mmap:
        memory = self._maps.get(sent.token)
        if memory is not None:  # no system call: beside a prover each waits for the interpreter afterwards
            self._maps.move_to_end(sent.token)
            return memory
        descriptor = os.open(_path(sent.process, sent.descriptor), os.O_RDONLY)
        try:
            status = os.fstat(descriptor)
            if status.st_ino != sent.inode:
                raise FileNotFoundError("the array's memory is gone")
            memory = self._maps[sent.token] = mmap.mmap(descriptor, status.st_size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        while len(self._maps) > MAPS:
            self._maps.popitem(last=False)  # unmapped with the last view of it
        return memory


def _path(process: int, descriptor: int) -> str:
    return f"/proc/{process}/fd/{descriptor}"
