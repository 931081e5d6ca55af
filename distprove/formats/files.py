"""Files that are either there in full or not at all."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from distprove.errors import FormatError, InputError, ResourceError, UsageError, typed
from kernels.host.units import count_of

FILE, FOLDER = "a file", "a folder"

_allowed: ContextVar[Callable[[Path], object] | None] = ContextVar("allowed", default=None)


@contextlib.contextmanager
def opening_only(allowed: Callable[[Path], object]) -> Iterator[None]:
    """Inside the block `open_given` opens no file at whose place `allowed` raises. It is asked about the file that is
    open, wherever a path or a link led a moment before."""
    token = _allowed.set(allowed)
    try:
        yield
    finally:
        _allowed.reset(token)


def opens_all() -> bool:
    """Whether `open_given` opens what it is given wherever that lies: no `opening_only` is around."""
    return _allowed.get() is None


def open_given(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """A descriptor to read a file that a job names; an opener for `open`. Opening does not wait, be it a named pipe.
    Raises OSError, ValueError for a name with a zero byte, and what `opening_only` was given."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    allowed = _allowed.get()
    if allowed is not None:
        try:
            allowed(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` at `path`. A reader sees the old content or the new, and the new survives a power cut."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666, *, durable: bool = True) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends without an exception.

    It is written under a temporary name beside it and renamed; if `durable`, it is synced before that, and its folder
    after. Raises OSError.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with replacing_in(folder, path, mode, durable=durable) as file:
            yield file
    finally:
        os.close(folder)


@contextlib.contextmanager
def replacing_in(
    folder: int, path: Path, mode: int = 0o666, *, durable: bool = True, settled: bool = True
) -> Iterator[BinaryIO]:
    """Replace a file as `replacing` does, in the open `folder`, wherever that lies: of `path` only the name counts, and
    the message. Unless `settled`, the folder is for the caller to sync."""
    temporary = temporary_name(path.name)
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
    except FileNotFoundError:  # the folder is open
        raise ResourceError(f"{path.parent} is gone: it was removed, or its disk") from None
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename in (None, temporary):
            error.filename = str(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if durable and settled:
        os.fsync(folder)


def temporary_name(name: str) -> str:
    """A new name under which something is made that is to take this one."""
    return f".{name}.{secrets.token_hex(6)}.tmp"


def is_temporary(name: str) -> bool:
    """Whether a file of that name is what `replacing` left when its process was killed."""
    return re.fullmatch(r"\..+\.[0-9a-f]{12}\.tmp", name) is not None


def real(path: Path) -> Path:
    """Where a path leads, as far as it leads anywhere: `Path.resolve` raises RuntimeError for a loop of links. Raises
    InputError for a name with a zero byte."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        raise InputError("a name with a zero byte is that of no file") from None


def is_file(path: Path) -> bool:
    """Whether there is a regular file. There is none under a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


_KINDS = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def kind_at(path: str | os.PathLike[str]) -> str:
    """What a path leads to: `FILE`, `FOLDER`, or in words what is no file; empty for nothing. Raises OSError, but for a
    link that leads to nothing."""
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "a device")
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "a link to itself"
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise
        return "a link to nothing" if os.path.islink(path) else ""


Place = tuple[int, int, str]


def place_of(path: Path) -> Place:
    """The same for every name of a file, by links or in another case: device and inode; for what is not there those of
    the folder above it, and the names below that."""
    real, below = os.path.realpath(path), ""
    while True:
        try:
            facts = os.stat(real)
            return facts.st_dev, facts.st_ino, below
        except OSError:
            real, name = os.path.split(real)
            below = unicodedata.normalize("NFC", f"/{name}{below}".casefold())
            if not name:
                return 0, 0, below


def require_apart(written: Sequence[Path], read: Sequence[Path], owned: Sequence[Path] = ()) -> None:
    """Raise UsageError where two things would be `written` at one place, or over what is `read`. `owned` are folders
    that are written, and whose content is replaced."""
    place, owned = functools.cache(place_of), [path for path in owned if os.path.lexists(path)]
    if not written and not owned:
        return

    def above(path: Path) -> set[Place]:
        """The folders that hold a file, by its name and by where that leads."""
        return {place(up) for way in (os.path.abspath(path), os.path.realpath(path)) for up in Path(way).parents}

    places: dict[Place, Path] = {}
    for path in (*written, *owned):
        if (other := places.setdefault(place(path), path)) is not path:
            raise UsageError(f"{other} and {path} are one place, and both would be written")
    inputs = {place(path): path for path in read}
    for at, path in places.items():
        if at in inputs:
            raise UsageError(f"{inputs[at]} is read, and would be overwritten (as {path})")
    for path in read if owned else ():
        if around := above(path) & set(map(place, owned)):
            raise UsageError(f"{path} is read, and is in {places[around.pop()]}, which would be replaced")


def require_file(what: str, path: Path) -> None:
    """Raise InputError, which says `what` the file is for, unless there is a regular file at `path`."""
    if not is_file(path):
        with contextlib.suppress(OSError, ValueError):
            if kind := kind_at(path):
                raise InputError(f"{what}: {path} is {kind}, not a file")
        raise InputError(f"{what}: no file at {path}")


BEGIN = 64
"""Bytes at the beginning of a file that may tell its kind."""


_BEGINNINGS = {
    b"zkey": "as a .zkey",
    b"wtns": "as a .wtns",
    b"r1cs": "as an .r1cs",
    b"ptau": "as a .ptau",
    b"\x7fELF": "as an ELF file",
    b"\0asm": "as a .wasm",
    b"OVMKEY01": "as a key of OpenVM 2 (key.bin)",
    b"OVMTRC01": "as traces of OpenVM 2 (--traces)",
    b"\x03\0\0\0": "as a proof of OpenVM 2 (proof.bin)",
    b"{": "as JSON",
}
"""How files of other kinds begin, for messages."""


def read_bounded(
    path: Path,
    limit: int,
    descriptor: int | None = None,
    *,
    begins: bytes | tuple[bytes, ...] = b"",
    kind: str = "a file of its kind",
) -> bytes:
    """The content of a regular file of at most `limit` bytes, closed at the end if it was open under `descriptor`.

    A file that does not begin with `begins`, or with one of them, is refused before it is read, as none of this `kind`.
    Raises InputError or FormatError.
    """
    if descriptor is None:
        try:
            descriptor = open_given(path)
        except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
            raise typed(error, path) if isinstance(error, OSError) else InputError(f"{path}: {error}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: not a regular file")
    size = status.st_size
    with open(descriptor, "rb") as file:
        if size > limit:
            raise FormatError(f"{path}: larger than {count_of(limit, 'byte')}")
        if not (found := os.pread(descriptor, BEGIN, 0)).startswith(begins):
            seen = next((name for start, name in _BEGINNINGS.items() if found.startswith(start)), "with other bytes")
            raise FormatError(f"{path}: not {kind}: it begins {seen}")
        # Reading allocates what it asks for: the file's size, not the limit, and a byte more to see that it ends there.
        data = file.read(size + 1)
    if len(data) > size:
        raise InputError(f"{path}: grew while it was read")
    return data
