"""Computes the Merkle tree over a file that `file-root` proves: that of RFC 6962 (section 2.1) over chunks of 128
bytes, with the hash Keccak-256.

    leaf i = keccak256(0x00 || chunk i)      the last chunk may be shorter; an empty file has one empty chunk
    node   = keccak256(0x01 || left || right)

The n leaves are level 0. Node i of a level has the children 2 i and 2 i + 1 of the level below; if the second is
missing, the node equals the first, without a hash. So the root of n leaves is on every level from log2 n on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InputError, typed
from distprove.formats.files import open_given
from kernels.cpu.keccak import keccak256, keccak256_rows
from kernels.host.units import count_of

CHUNK = 128
LEAF, NODE = 0, 1
"""First bytes of the hashed messages of leaves and nodes."""
READ_CHUNKS = 1 << 13
"""Maximum number of chunks read at a time, 1 MiB."""

Digests = NDArray[np.uint8]
"""Digests of shape (n, 32)."""


def leaf_count(length: int) -> int:
    return max(1, -(-length // CHUNK))


def leaves_of(data: bytes) -> Digests:
    """The leaves of a part of a file that starts at a chunk. All its chunks but the last must be full."""
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
    """All levels from `lowest` up to the level of one node."""
    levels = [lowest]
    while len(levels[-1]) > 1:
        levels.append(level_above(levels[-1]))
    return levels


class FileTree:
    """The part of a file's tree that a job needs: all levels from some level on, and the last nodes of those below."""

    def __init__(self, path: Path, least_level: int = 0) -> None:
        """Read the file once, 1 MiB at a time. Keeps the levels from `least_level` on: 64 bytes / 2^level per chunk.

        Raises InputError unless it is a regular file that does not change meanwhile.
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
                # The last block read leaves the file's own edge.
                self._edge[height] = bytes(level[-1])
                level = level_above(level)
            found.append(level)
        self._levels = levels_of(np.concatenate(found))

    @property
    def root(self) -> bytes:
        return bytes(self._levels[-1][0])

    def node(self, level: int, index: int) -> bytes:
        """The node `index` of a level from `least_level` on; below that, the last node of the level."""
        if level < self.least_level:
            return self._edge[level]
        height = level - self.least_level
        return bytes(self._levels[height][index]) if height < len(self._levels) else self.root


def file_length(path: Path) -> int:
    """Length of a file in bytes. Raises InputError unless it is a visible regular file."""
    try:
        if not path.is_file():
            raise InputError(f"{path}: not a regular file" if path.exists() else f"{path}: no such file")
        return path.stat().st_size
    except OSError as error:
        raise typed(error, path) from None


def read_slice(path: Path, start: int, size: int, length: int, chunks: int = READ_CHUNKS) -> Iterator[bytes]:
    """Yield `size` bytes from `start` on, `chunks` chunks at a time; at least one piece, which may be empty.

    Raises InputError when the file is not `length` bytes long any more, or ends earlier.
    """
    if file_length(path) != length:
        raise InputError(
            f"{path}: the file was {count_of(length, 'byte')} long, and is not now; it must not change during a job"
        )
    try:
        with open(path, "rb", opener=open_given) as file:
            file.seek(start)
            yield _exactly(file, min(size, chunks * CHUNK), path)
            for done in range(chunks * CHUNK, size, chunks * CHUNK):
                yield _exactly(file, min(size - done, chunks * CHUNK), path)
    except OSError as error:
        raise typed(error, path) from None


def _exactly(file: BinaryIO, size: int, path: Path) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise InputError(f"{path}: the file ends earlier than it did when the job began")
    return data
