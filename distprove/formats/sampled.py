"""Tells files apart by their size and a digest of a little of their content: of a short one all, of a longer one its
beginning, its end and some blocks between them. Another file that differs in few places may be taken for the same."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from distprove.formats.files import open_given

HEAD = 1 << 14
"""Bytes at the beginning of a long file that are digested: 509 public values of 32 bytes, or the header of a key."""
BLOCK, BLOCKS = 1 << 12, 8
"""Bytes in a block of a long file that is digested, and number of the blocks."""
WHOLE = 1 << 20
"""Bytes up to which `sample` digests a file whole, which takes a millisecond."""
PUBLIC = b"distprove sample"
"""Key of the digests of files that are not secret."""


def digest(key: bytes, size: int, whole: int, read: Callable[[int, int], memoryview | bytes]) -> bytes:
    """The digest under a key of a file's content, of which `read` gives so many bytes from a position on. A file of up
    to `whole` bytes is digested whole. The blocks of longer ones are at positions that follow from the key."""
    parts = [(0, size)] if size <= whole else _parts(key, size)
    # At once: after each call that lets go of the interpreter a busy service's other threads have it for milliseconds.
    return hmac.digest(
        key, b"".join([size.to_bytes(8, "little"), *(read(start, count) for start, count in parts)]), "sha256"
    )


def sample(content: memoryview) -> bytes:
    """The digest of a public file's content, which is mapped."""
    return digest(PUBLIC, len(content), WHOLE, lambda start, count: content[start : start + count])


def sample_at(path: Path, size: int) -> bytes:
    """The digest of the public file of that size at `path`. Raises OSError."""
    descriptor = open_given(path)
    try:
        return digest(PUBLIC, size, WHOLE, lambda start, count: os.pread(descriptor, count, start))
    finally:
        os.close(descriptor)


def _parts(key: bytes, size: int) -> Iterable[tuple[int, int]]:
    """Position and length of what is digested of a long file."""
    yield 0, min(HEAD, size)
    yield max(0, size - BLOCK), min(BLOCK, size)
    drawn = hmac.digest(key, b"positions" + size.to_bytes(8, "little"), "sha512")
    for place in range(BLOCKS - 1):
        yield int.from_bytes(drawn[8 * place : 8 * place + 8], "little") % max(1, size - BLOCK), BLOCK
