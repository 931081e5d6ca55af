"""Files that are either there in full or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from distprove.errors import FormatError, InputError


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write `data` at `path`. A reader sees the old content or the new; if `durable`, the new survives a power cut."""
    with replacing(path, durable=durable) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666, *, durable: bool = True) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends without an exception.

    It is written under a temporary name beside it and renamed; if `durable`, it is synced before that, and its folder
    after. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bounded(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises InputError or FormatError."""
    try:
        # Non-blocking, so that a named pipe in place of a file is an error and not a wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    with open(descriptor, "rb") as file:
        if not path.is_file():
            raise InputError(f"{path}: not a regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FormatError(f"{path}: larger than {limit} bytes")
    return data
