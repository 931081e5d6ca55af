"""Files that save the next process some work, in a folder of the user's own.

What is kept here is code that will be run, so a file is believed only if nobody else could have written it, and if its
content has the digest that its name holds. Nothing depends on the cache: what cannot be believed is made again, what
cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CHUNK = 1 << 18


def user_cache_dir(name: str) -> Path:
    """`$XDG_CACHE_HOME/distprove/<name>`, by default under `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "distprove" / name


def find(folder: Path, key: str, suffix: str) -> Path | None:
    """The file that `keep` made for `key`; None if it is absent, damaged, or someone else could have put it there."""
    with contextlib.suppress(OSError):
        if not _is_ours(folder.stat()):
            return None
        for path in folder.glob(f"{key}-*{suffix}"):
            with open(path, "rb", opener=_open_no_link) as file:
                if not _is_ours(os.fstat(file.fileno())):
                    continue
                if path.name == _name(key, file, suffix):
                    return path
            path.unlink()
    return None


def keep(folder: Path, key: str, suffix: str, fill: Callable[[IO[bytes]], object]) -> Path | None:
    """A new file of the cache with what `fill` writes; None if the folder cannot be written.

    It appears under its name when it is whole. What `fill` raises is passed on, but for OSError.
    """
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="new-", suffix=".tmp", delete=False) as file:
            try:
                fill(file)
                file.seek(0)
                path = folder / _name(key, file, suffix)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
        return path
    return None


def _name(key: str, file: IO[bytes], suffix: str) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return f"{key}-{digest.hexdigest()[:32]}{suffix}"


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def _is_ours(facts: os.stat_result) -> bool:
    """Whether only this user, or root, can write it."""
    return facts.st_uid in (os.geteuid(), 0) and not facts.st_mode & _OTHERS_MAY_WRITE
