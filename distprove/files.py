"""Files that are either there in full or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from distprove.errors import FormatError, InputError


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` at `path`: a temporary name beside it, fsync, rename, fsync of the folder.

    A reader sees the old content or the new, and after this returns the new content survives a power cut.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
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
