"""An on-disk cache of compiled code, and of what was checked, in a folder that belongs to the user alone.

The files are code that will be run, or stand for a check that will be left out. So a file is trusted only if nobody
else could have written it, or replaced it or a folder on the path to it, and if its content has the digest that is in
its name. It is returned open, as it was checked. Nothing depends on the cache: an untrusted file is made again, a file
that cannot be written is not kept, and a folder that others can change is not used, with one warning. Several processes
may find, keep and evict at once: each file appears and disappears as a whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from kernels.host.private import NotPrivate, is_ours, require_private

_CHUNK = 1 << 18
_UNFINISHED = "new-*.tmp"
_ABANDONED = 3600.0
"""Seconds after which a file that is not complete is taken for one that nobody writes any more."""
_LOCK, _PATIENCE, _LOOK = ".lock", 120.0, 0.02
"""The suffix of a file that is locked while another one is made; seconds that others wait, and between two looks."""
_SEEN = ".seen"
"""The suffix of the file beside a large one that has the identity under which that one was digested."""


@dataclass(frozen=True)
class Bound:
    """The size of a folder beyond which its least recently used files are evicted."""

    bytes: int
    files: int


def user_cache_dir(name: str) -> Path:
    """Return `$XDG_CACHE_HOME/distprove/<name>`, by default under `~/.cache`.

    For a user without a home, as in some containers, it is a path at which no folder can be.
    """
    root = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(root) if root else Path.home() / ".cache") / "distprove" / name
    except RuntimeError:
        return Path(os.devnull) / "distprove" / name


def find(folder: Path, key: str, suffix: str, *, large: bool = False) -> IO[bytes] | None:
    """Return the file that `keep` made for `key`, open; None if it is absent, damaged, or may be someone else's.

    The file's `name` is its path. It may be loaded by that path too, because nobody else can change the folder. A
    `large` file is digested once: its content is not read again while its device, number, size and times are the same.
    """
    with contextlib.suppress(OSError):
        if not _may_use(folder, create=False):
            return None
        # Not `glob`, which takes ten times as long: a prover's kernels are looked up while others wait for the lock.
        for path in [folder / name for name in os.listdir(folder) if name.startswith(f"{key}-")]:
            if path.suffix != suffix:
                continue
            with contextlib.ExitStack() as opened:
                file = opened.enter_context(open(path, "rb", opener=_open_no_link))
                facts = os.fstat(file.fileno())
                if not is_ours(facts):
                    continue
                known = large and _is_seen(path, facts)
                if known or path.name == _name(key, file, suffix):
                    with contextlib.suppress(OSError):  # root's file, or on a disk that is mounted read-only
                        if large and not known:
                            _see(path, file, facts)
                        os.utime(_seen(path) if large else file.fileno())  # `_evict` goes by this time
                    opened.pop_all()
                    return file
            path.unlink()
            _seen(path).unlink(missing_ok=True)
    return None


def keep(
    folder: Path,
    key: str,
    suffix: str,
    fill: Callable[[IO[bytes]], object],
    bound: Bound | None = None,
    *,
    large: bool = False,
) -> IO[bytes] | None:
    """Make a cache file with what `fill` writes and return it open, as `find` does; None if the folder is not usable.

    `fill` writes to the file that it is given, or puts a file of its own at that one's path (`name`). The file appears
    under its name only when it is complete. Files beyond `bound` are evicted then. Exceptions of `fill` are passed on,
    except OSError.
    """
    with contextlib.suppress(OSError):
        if not _may_use(folder, create=True):
            return None
        for left in folder.glob(_UNFINISHED):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                if time.time() - left.lstat().st_mtime > _ABANDONED:  # by a process that was killed
                    left.unlink()
        with tempfile.NamedTemporaryFile(dir=folder, prefix="new-", suffix=".tmp", delete=False) as file:
            try:
                fill(file)
                file.flush()
                with open(file.name, "rb", opener=_open_no_link) as made:
                    facts, path = os.fstat(made.fileno()), folder / _name(key, made, suffix)
                    os.replace(file.name, path)
                    if large:
                        _see(path, made, facts)
            except BaseException:
                os.unlink(file.name)
                raise
        kept = find(folder, key, suffix, large=large)
        if bound is not None:
            _evict(folder, bound)
        return kept
    return None


def _evict(folder: Path, bound: Bound) -> None:
    """Remove the least recently used files of a folder until the others are within `bound`."""
    found = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # evicted by another process
                facts, used = path.lstat(), 0
                with contextlib.suppress(FileNotFoundError):
                    used = _seen(path).lstat().st_mtime_ns
                if stat.S_ISREG(facts.st_mode) and path.suffix not in (_LOCK, _SEEN) and not path.match(_UNFINISHED):
                    found.append((max(facts.st_mtime_ns, used), facts.st_size, path))
    total = 0
    for number, (_, size, path) in enumerate(sorted(found, reverse=True), start=1):
        total += size
        if total > bound.bytes or number > bound.files:
            with contextlib.suppress(OSError):
                path.unlink()
                _seen(path).unlink(missing_ok=True)


def _seen(path: Path) -> Path:
    return path.with_name(path.name + _SEEN)


def _identity(facts: os.stat_result) -> bytes:
    """What changes where a file is written or exchanged."""
    return repr((facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)).encode()


def _is_seen(path: Path, facts: os.stat_result) -> bool:
    """Whether a file with these facts was digested, and had the digest in its name."""
    try:
        with open(_seen(path), "rb", opener=_open_no_link) as file:
            return is_ours(os.fstat(file.fileno())) and file.read(1 << 10) == _identity(facts)
    except OSError:
        return False


def _see(path: Path, file: IO[bytes], before: os.stat_result) -> None:
    """Note that a file has the digest in its name, unless it was written since it had the facts `before`."""
    now = os.fstat(file.fileno())
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        return
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="new-", suffix=".tmp", delete=False) as noted:
        try:
            noted.write(_identity(now))
            noted.flush()
            os.replace(noted.name, _seen(path))
        except BaseException:
            os.unlink(noted.name)
            raise


@contextlib.contextmanager
def making(folder: Path, kind: str, patience: float | None = None) -> Iterator[None]:
    """Let one process, and one thread of it, make files of a kind in `folder` at a time: others find them then.

    Calls for one kind do not nest. One that waits for more than `patience` seconds, by default two minutes, or cannot
    use the folder, goes on without.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            if _may_use(folder, create=True):
                lock = held.enter_context(open(folder / f"{kind}{_LOCK}", "wb", opener=partial(os.open, mode=0o600)))
                end = time.monotonic() + (_PATIENCE if patience is None else patience)
                while not _locked(lock) and time.monotonic() < end:
                    time.sleep(_LOOK)
        yield


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _may_use(folder: Path, *, create: bool) -> bool:
    """Whether only this user can change `folder`; if not, warn about it, once per process and reason."""
    try:
        require_private(folder, create=create)
    except NotPrivate as error:
        # Quoted, because a folder's name may hold control sequences of a terminal.
        warnings.warn(f"the cache {str(folder)!r} is not used: {str(error)!r}", RuntimeWarning, stacklevel=1)
        return False
    return True


def _name(key: str, file: IO[bytes], suffix: str) -> str:
    """Return the file name for `key` and the digest of the content of `file`; leaves the file at its start."""
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    file.seek(0)
    return f"{key}-{digest.hexdigest()[:32]}{suffix}"


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
