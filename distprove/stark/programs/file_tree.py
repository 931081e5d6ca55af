"""The Merkle tree over a file that `file-root` proves, computed plainly: that of RFC 6962 (section 2.1) over chunks of
128 bytes, with Keccak-256 for its hash.

    leaf i = keccak256(0x00 || chunk i)      the last chunk may be shorter; that of an empty file is empty
    node   = keccak256(0x01 || left || right)

Level 0 are the n leaves. Node i of the level above has children 2 i and 2 i + 1 below; where the second is missing, it
is the first one itself, not hashed again. So the root of n leaves stands on every level from log2 n on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InputError
from kernels.keccak import keccak256, keccak256_rows

CHUNK = 128
LEAF, NODE = 0, 1
"""First byte of what is hashed."""
READ_CHUNKS = 1 << 13
"""Chunks read at a time, at most: 1 MiB."""

Digests = NDArray[np.uint8]
"""(n, 32)"""


def leaf_count(length: int) -> int:
    return max(1, -(-length // CHUNK))


def leaves_of(data: bytes) -> Digests:
    """The leaves of a part of a file that starts at a chunk. All chunks but the last of them are full."""
    full = len(data) // CHUNK
    rows = np.zeros((full, CHUNK + 1), dtype=np.uint8)
    rows[:, 1:] = np.frombuffer(data, dtype=np.uint8, count=full * CHUNK).reshape(full, CHUNK)
    digests = keccak256_rows(rows) if full else np.zeros((0, 32), dtype=np.uint8)
    rest = data[full * CHUNK :]
    if rest or not data:
        last = np.frombuffer(keccak256(bytes([LEAF]) + rest), dtype=np.uint8)
        digests = np.concatenate((digests, last[None]))
    return digests


def level_above(below: Digests) -> Digests:
    pairs = len(below) // 2
    rows = np.full((pairs, 65), NODE, dtype=np.uint8)
    rows[:, 1:] = below[: 2 * pairs].reshape(pairs, 64)
    above = keccak256_rows(rows) if pairs else below[:0]
    return np.concatenate((above, below[2 * pairs :]))


def levels_of(lowest: Digests) -> list[Digests]:
    """All levels from `lowest` up to one node."""
    levels = [lowest]
    while len(levels[-1]) > 1:
        levels.append(level_above(levels[-1]))
    return levels


class FileTree:
    """What a job needs to know of a whole file: its levels from some height on, and the right edge below."""

    def __init__(self, path: Path, least_level: int = 0) -> None:
        """Reads the file once, 1 MiB at a time. Keeps the levels from `least_level` on: 64 bytes / 2^level per chunk.

        Raises InputError for what is not a regular file, or changes meanwhile.
        """
        self.length = file_length(path)
        self.leaves = leaf_count(self.length)
        self.least_level = least_level
        block = 1 << least_level
        reads = max(READ_CHUNKS // block, 1) * block
        found = []
        self._edge: dict[int, bytes] = {}
        for data in read_slice(path, 0, self.length, self.length, reads):
            level = leaves_of(data)
            for height in range(least_level):
                # That of the last block read is the file's.
                self._edge[height] = bytes(level[-1])
                level = level_above(level)
            found.append(level)
        self._levels = levels_of(np.concatenate(found))

    @property
    def root(self) -> bytes:
        return bytes(self._levels[-1][0])

    def node(self, level: int, index: int) -> bytes:
        """Any node from `least_level` on; below it, the last one of a level."""
        if level < self.least_level:
            return self._edge[level]
        height = level - self.least_level
        return bytes(self._levels[height][index]) if height < len(self._levels) else self.root


def file_length(path: Path) -> int:
    """Raises InputError for what is not a regular file that can be seen."""
    try:
        if not path.is_file():
            raise InputError(f"{path}: not a regular file" if path.exists() else f"{path}: no such file")
        return path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def read_slice(path: Path, start: int, size: int, length: int, chunks: int = READ_CHUNKS) -> Iterator[bytes]:
    """`size` bytes from `start` on, `chunks` chunks at a time; at least one piece, be it empty.

    Raises InputError when the file is not `length` bytes long any more, or ends before.
    """
    if file_length(path) != length:
        raise InputError(f"{path}: the file was {length} bytes long, and is not now; it must not change during a job")
    try:
        with open(path, "rb") as file:
            file.seek(start)
            yield _exactly(file, min(size, chunks * CHUNK), path)
            for done in range(chunks * CHUNK, size, chunks * CHUNK):
                yield _exactly(file, min(size - done, chunks * CHUNK), path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _exactly(file: BinaryIO, size: int, path: Path) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise InputError(f"{path}: the file ends earlier than it did when the job began")
    return data
