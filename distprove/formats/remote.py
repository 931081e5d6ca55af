"""Files that a job names by URL: fetched by fsspec into a cache of this user's, and from then on files like any other.

A file is kept under its URL and its version: what the server says of it (an ETag, a time of change, a checksum) and its
size. It is fetched again when the server says something else. Where it says nothing but a size, the file is fetched
each time, and its version is a digest of its content under a key that stays in this cache: versions are kept in runs,
where the bare digest of a witness would confirm a guess of it. What is fetched is data: the proof system that reads it
checks it as it checks any file. Protocols are those of a fixed list, none of which opens a file within another one or
runs a program.

fsspec's own cache (`filecache` with `check_files`) does not keep these promises. After a change that the ETag shows it
still gave the old file, it took an answer without an end to its last byte, and others may read what it keeps.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import platform
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from distprove.errors import InputError, UsageError, typed
from distprove.formats.files import is_temporary, temporary_name
from distprove.formats.folder import Folder
from kernels.host.cache import user_cache_dir
from kernels.host.units import count_of

PROTOCOLS = ("abfs", "abfss", "file", "gcs", "gs", "http", "https", "memory", "s3", "sftp")
LIMIT = 1 << 36
"""Bytes of a file that is fetched, at most."""
CHUNK = 1 << 22
ORIGIN = ".url"
"""Name of the file beside a fetched one that says where it is from: no fetched one's name begins with a dot."""
NEW = ".new"
"""Name of the folder of files that are being fetched."""
KEY, KEY_SIZE = ".key", 32
"""Name of the file with the key of contents' digests, and its bytes."""
FRESH = 60.0
"""Seconds for which a process that has looked at a URL does not look again: planning a job does, and its record."""
TRIES = 3
"""Times that a file is fetched which changes meanwhile."""
MOST = 4096
"""URLs of which that is remembered."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SAYS = (
    *("ETag", "etag", "md5Hash", "content_md5", "Content-MD5", "Digest"),
    *("mtime", "Last-Modified", "LastModified", "last_modified", "updated"),
)
"""Facts of a file by which a server tells one version from another."""


@dataclass(frozen=True)
class Fetched:
    """A file that is here."""

    path: Path
    version: str
    """What its version is known by."""


_known: dict[str, tuple[float, Fetched]] = {}
"""What was fetched last, and when, by URL."""
_remembering = threading.Lock()
"""Held to change that."""


def is_url(text: str) -> bool:
    """Whether a text in the place of a path is a URL."""
    return _URL.match(text) is not None


def check_url(url: str) -> None:
    """Raise UsageError for a URL that no file is fetched from."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # whose text is part of a password, where that has a "/" in it
    except ValueError:  # which quotes what may be secret
        raise UsageError(f"{shown(url)}: not a URL that can be read") from None
    if parts.scheme not in PROTOCOLS:
        raise UsageError(f"{shown(url)}: files are fetched by {', '.join(PROTOCOLS)}")
    if parts.password is not None or ("@" in parts.netloc and parts.scheme in ("http", "https")):
        raise UsageError(
            f"{shown(url)}: a URL is kept in the run, and holds no user of a site and no password: set those where "
            "fsspec reads them"
        )
    if not name_of(url) or "*" in parts.path:
        raise UsageError(f"{shown(url)}: the URL of one file is meant")
    if name_of(url).startswith("."):
        raise UsageError(f"{shown(url)}: a name that begins with a dot is not fetched")


def name_of(url: str) -> str:
    """The name of the file that a URL names; "" for none."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", urlsplit(url).path.rpartition("/")[2] or "")


def shown(url: str) -> str:
    """The URL in messages: without what may be secret in it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return f"{url.partition(':')[0]}://..."
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def fetch(url: str, limit: int = LIMIT, version: str | None = None) -> Fetched:
    """The file that a URL names, as it is now, in this user's cache on this machine. Where its server tells no version,
    it is kept as the `version` that is given, or else as one that follows from its content. Raises UsageError for a URL
    that is not one to fetch from, or where fsspec is missing, and InputError, which names the node, for what fails."""
    check_url(url)
    known = _known.get(url)
    if known is not None and known[0] > time.monotonic() - FRESH and known[1].path.exists():
        return known[1]
    try:
        from fsspec import get_filesystem_class
    except ImportError:
        raise UsageError(f"{shown(url)}: to fetch it needs fsspec (pip install 'distprove[remote]')") from None
    where = f"{shown(url)} on {platform.node()}"
    try:
        # Not by `url_to_fs`: that takes every "::", as in addresses of IPv6, for a chain of file systems.
        scheme, _, rest = url.partition(":")
        kind = get_filesystem_class(scheme.lower())
        located = f"{scheme.lower()}:{rest}"
        files, name = kind(**kind._get_kwargs_from_urls(located)), kind._strip_protocol(located)
    except Exception as error:  # of libraries of all kinds
        raise InputError(f"{where}: {_reason(error)}") from None
    facts = _facts_of(files, name, limit, where)
    for _ in range(TRIES):
        told = facts.version or version
        fetched = None if told is None else Fetched(kept_at(url, told), told)
        if fetched is not None and facts.version and fetched.path.exists():
            return _remember(url, fetched)
        with _downloading(name_of(url), where) as (temporary, file):
            digest = _download(files, name, file, facts.size, limit, where, keyed=told is None)
            before, facts = facts, _facts_of(files, name, limit, where)
            if facts == before:
                fetched = fetched or Fetched(kept_at(url, digest), digest)
                _keep(temporary, url, fetched.path)
                # What is kept as a version that somebody else has told is not remembered as the one that is there.
                return fetched if facts.version is None and version is not None else _remember(url, fetched)
    raise InputError(f"{where}: it changed while it was fetched, {TRIES} times")


def drop(url: str, version: str) -> None:
    """Forget a version of a file that is kept here: the next `fetch` downloads it."""
    with _remembering:
        _known.pop(url, None)
    with suppress(OSError):
        kept_at(url, version).unlink()


def kept_at(url: str, version: str) -> Path:
    """The path at which this machine keeps a version of a file, if it does."""
    return user_cache_dir("remote") / hashlib.sha256(repr((url, version)).encode()).hexdigest() / name_of(url)


def origin_of(path: Path) -> str | None:
    """The URL that a file of the cache is from; None for any other file."""
    if path.absolute().parent.parent != user_cache_dir("remote").absolute():
        return None
    with suppress(OSError, UnicodeError):
        return (path.parent / ORIGIN).read_text(encoding="utf-8")
    return None


@dataclass(frozen=True)
class _Facts:
    """What a server says of a file."""

    size: int | None
    version: str | None
    """A digest of all by which it tells versions; None where it tells none."""


def _facts_of(files: Any, name: str, limit: int, where: str) -> _Facts:
    """Raises InputError for what is no file to fetch."""
    try:
        facts = files.info(name)
        size, says = facts.get("size"), sorted((key, str(facts[key])) for key in _SAYS if facts.get(key))
    except Exception as error:  # of libraries of all kinds
        raise InputError(f"{where}: {_reason(error)}") from None
    if facts.get("type") in ("directory", "other"):  # a pipe, say, which would be read for ever
        raise InputError(f"{where}: not a regular file")
    if size is not None and size > limit:
        raise InputError(f"{where}: {count_of(size, 'byte')}, and at most {limit} are fetched")
    return _Facts(size, hashlib.sha256(repr((size, says)).encode()).hexdigest() if says else None)


def _remember(url: str, fetched: Fetched) -> Fetched:
    with _remembering:
        _known[url] = time.monotonic(), fetched
        while len(_known) > MOST:
            _known.pop(next(iter(_known)), None)
    return fetched


def _remove_abandoned(folder: Folder) -> None:
    """Remove what downloads that were killed left: whoever writes a file holds its lock until it has its name."""
    for name in filter(is_temporary, folder.names()):
        with suppress(OSError, InputError), open(folder.path / name, "r+b") as left:
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder.remove(name)


@contextmanager
def _downloading(name: str, where: str) -> Iterator[tuple[Path, IO[bytes]]]:
    """A new file in the cache to fetch into, and its path, which is free at the end. Raises InputError."""
    try:
        with Folder.make(user_cache_dir("remote") / NEW) as folder:
            _remove_abandoned(folder)
            while True:
                temporary = folder.path / temporary_name(name)
                with open(temporary, "xb") as file:
                    try:
                        os.fchmod(file.fileno(), 0o600)
                        with suppress(OSError):  # where nobody can lock, nothing is taken for abandoned
                            fcntl.flock(file, fcntl.LOCK_EX)
                        if os.fstat(file.fileno()).st_nlink:
                            yield temporary, file
                            return
                    finally:
                        temporary.unlink(missing_ok=True)
    except OSError as error:
        raise typed(error, where) from None


def _download(files: Any, name: str, file: IO[bytes], size: int | None, limit: int, where: str, *, keyed: bool) -> str:
    """Fetch a file into a new one. Returns the digest of its content under the cache's key, "" unless `keyed`."""
    digest = hmac.new(_key(), digestmod="sha256") if keyed else None
    count = _copy(files, name, file, digest, limit if size is None else size, where)
    file.flush()
    if size is not None and count != size:
        raise InputError(f"{where}: cut off after {count} of {count_of(size, 'byte')}")
    return digest.hexdigest() if digest is not None else ""


def _keep(temporary: Path, url: str, path: Path) -> None:
    """Give a file that was fetched its name: what is there under it is whole, and has its origin beside it."""
    with Folder.make(path.parent) as folder:
        folder.write(ORIGIN, url.encode(), durable=False)
        os.replace(temporary, path)


def _key() -> bytes:
    """The key of contents' digests, made where there is none. It never leaves this user's cache."""
    with Folder.make(user_cache_dir("remote")) as folder, open(folder.open_in_place(KEY), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        key = file.read(KEY_SIZE)
        if len(key) < KEY_SIZE:
            key = secrets.token_bytes(KEY_SIZE)
            file.seek(0)
            file.write(key)
            file.flush()
        return key


def _copy(files: Any, name: str, file: IO[bytes], digest: hmac.HMAC | None, limit: int, where: str) -> int:
    """Copy what a file system has under that name, into `digest` as well, and return its bytes. Raises InputError, and
    OSError of `file`."""
    count = 0
    try:
        source = files.open(name, "rb", block_size=CHUNK)
    except Exception as error:
        raise InputError(f"{where}: {_reason(error)}") from None
    with source:
        while True:
            try:
                data = source.read(CHUNK)
            except Exception as error:
                raise InputError(f"{where}: after {count_of(count, 'byte')}: {_reason(error)}") from None
            if not data:
                return count
            count += len(data)
            if count > limit:
                raise InputError(f"{where}: more than {count_of(limit, 'byte')}")
            file.write(data)
            if digest is not None:
                digest.update(data)


def _reason(error: Exception) -> str:
    """Why it failed, in words of ours: what a library says may quote the whole URL."""
    if isinstance(error, FileNotFoundError):
        return "no such file there"
    if isinstance(error, PermissionError):
        return "it may not be read"
    if isinstance(error, ImportError):
        return "this protocol needs another package beside fsspec"
    status = getattr(error, "status", None)
    return f"{type(error).__name__}, status {status}" if isinstance(status, int) else type(error).__name__
