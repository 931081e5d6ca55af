"""Files that save the next process some work, in a folder of the user's own.

What is kept here is code that will be run, so a file is believed only if nobody else could have written it, or replaced
it or a folder on the way to it, and if its content has the digest that its name holds. It is handed out open, as it was
checked. Nothing depends on the cache: what cannot be believed is made again, what cannot be written is not kept, and a
folder that others can change is not used, which is said once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO

from kernels.private import NotPrivate, is_ours, require_private

_CHUNK = 1 << 18


def user_cache_dir(name: str) -> Path:
    """`$XDG_CACHE_HOME/distprove/<name>`, by default under `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "distprove" / name


def find(folder: Path, key: str, suffix: str) -> IO[bytes] | None:
    """What `keep` made for `key`, open; None if it is absent, damaged, or someone else could have put it there.

    Its `name` is its path, which is good for loading it by, too: the folder is known to be nobody else's.
    """
    with contextlib.suppress(OSError):
        if not _may_use(folder, create=False):
            return None
        for path in folder.glob(f"{key}-*{suffix}"):
            with contextlib.ExitStack() as opened:
                file = opened.enter_context(open(path, "rb", opener=_open_no_link))
                if not is_ours(os.fstat(file.fileno())):
                    continue
                if path.name == _name(key, file, suffix):
                    opened.pop_all()
                    return file
            path.unlink()
    return None


def keep(folder: Path, key: str, suffix: str, fill: Callable[[IO[bytes]], object]) -> IO[bytes] | None:
    """A new file of the cache with what `fill` writes, open as by `find`; None if the folder cannot be used.

    It appears under its name when it is whole. What `fill` raises is passed on, but for OSError.
    """
    with contextlib.suppress(OSError):
        if not _may_use(folder, create=True):
            return None
        with tempfile.NamedTemporaryFile(dir=folder, prefix="new-", suffix=".tmp", delete=False) as file:
            try:
                fill(file)
                file.seek(0)
                os.replace(file.name, folder / _name(key, file, suffix))
            except BaseException:
                os.unlink(file.name)
                raise
        return find(folder, key, suffix)
    return None


def _may_use(folder: Path, *, create: bool) -> bool:
    """Whether others have no hand in `folder`; where they have, a warning says so, once per process and reason."""
    try:
        require_private(folder, create=create)
    except NotPrivate as error:
        # Quoted: a folder's name may hold what acts on a terminal.
        warnings.warn(f"the cache {str(folder)!r} is not used: {str(error)!r}", RuntimeWarning, stacklevel=1)
        return False
    return True


def _name(key: str, file: IO[bytes], suffix: str) -> str:
    """The name that the content of `file` gives it; leaves the file at its start."""
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    file.seek(0)
    return f"{key}-{digest.hexdigest()[:32]}{suffix}"


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
