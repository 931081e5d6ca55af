"""The container that `.zkey`, `.wtns`, `.r1cs` and `.ptau` share (iden3's binary file format).

    magic, 4 ASCII bytes | version, u32 | number of sections, u32 | sections

A section is `identifier u32 | size u64 | size bytes`; sections come in any order; all integers are little-endian.

Reading is bounded and copies nothing: a file is mapped, or a byte array that is already in memory is used as it is
(keys arrive through an object store as read-only arrays), and sections are views of it. No allocation depends on a
number in the file before that number has been checked against the file's size.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Union

import numpy as np
from numpy.typing import NDArray

from distprove.errors import FormatError, InputError, UsageError, typed
from distprove.formats.files import open_given, replacing
from kernels.host.units import count_of
from kernels.maths.curves import Curve, Group

Bytes = NDArray[np.uint8]

Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Bytes]
"""A path or the content of a file; every reader takes either."""

_HEADER = struct.Struct("<4sII")
_SECTION = struct.Struct("<IQ")

MAX_SECTIONS = 64
"""Maximum number of sections, so that a header cannot make the section scan long. No known format has more than 16."""


def map_file(path: str | os.PathLike[str]) -> Bytes:
    """Map the file's content read-only, (size,) uint8. Raises InputError, or FormatError when the file is empty.

    Reading the map after someone else has truncated the file ends the process (SIGBUS).
    """
    name = os.fspath(path)
    try:
        descriptor = open_given(name)
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise InputError(f"{name}: not a regular file")
            if facts.st_size == 0:
                raise FormatError(f"{name}: the file is empty")
            return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), dtype=np.uint8)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise typed(error, name) from error
    except ValueError as error:  # a name with a zero byte
        raise InputError(f"{name}: cannot be read: {error}") from error


def load(source: Source, name: str | None = None) -> tuple[Bytes, str]:
    """The source's bytes as a read-only (size,) uint8 array, and the name that errors use for it."""
    if isinstance(source, (str, os.PathLike)):
        return map_file(source), name or os.fspath(source)
    data = np.frombuffer(source, dtype=np.uint8) if not isinstance(source, np.ndarray) else source
    if data.dtype != np.uint8 or data.ndim != 1:
        raise UsageError(f"a file's content is a (size,) uint8 array, not {data.shape} {data.dtype}")
    view = np.asarray(data).view()  # a plain array even for a memmap, whose slices are slower
    view.flags.writeable = False
    return view, name or "<bytes>"


class SectionReader:
    """A cursor over one section. Every read is checked against the section's end; FormatError names the position."""

    def __init__(self, file: BinFile, title: str, offset: int, size: int) -> None:
        self._file = file
        self._title = title
        self._start = self._position = offset
        self._end = offset + size

    @property
    def remaining(self) -> int:
        """Number of bytes from the cursor to the section's end."""
        return self._end - self._position

    def error(self, what: str, at: int | None = None) -> FormatError:
        """Make a FormatError for the cursor, or for byte `at` of the section. It tells the position in the file."""
        place = self._position if at is None else self._start + at
        return FormatError(f"{self._file.name}: {self._title}, byte {place}: {what}")

    def take(self, size: int) -> Bytes:
        """Read the next `size` bytes, as a view."""
        if size > self.remaining:
            raise self.error(f"needs {count_of(size, 'more byte')}, {count_of(self.remaining, 'is', 'are')} left")
        view = self._file.data[self._position : self._position + size]
        self._position += size
        return view

    def u8(self) -> int:
        return int(self.take(1)[0])

    def u32(self) -> int:
        return int.from_bytes(self.take(4).tobytes(), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8).tobytes(), "little")

    def integer(self, size: int) -> int:
        """Read an unsigned little-endian integer of `size` bytes."""
        return int.from_bytes(self.take(size).tobytes(), "little")

    def prime(self, title: str) -> tuple[int, int]:
        """Read a modulus, stored as its size in bytes and then the number: (size, modulus)."""
        size = self.u32()
        if size % 8 or not 8 <= size <= 256:
            raise self.error(f"the {title} has {count_of(size, 'byte')}, which no field has")
        return size, self.integer(size)

    def rows(self, count: int, row_size: int) -> Bytes:
        """Read the next `count` records of `row_size` bytes, as a view (count, row_size) uint8."""
        return self.take(count * row_size).reshape(count, row_size)

    def finish(self) -> None:
        """Raise FormatError unless the section has been read to its end."""
        if self.remaining:
            raise self.error(f"{count_of(self.remaining, 'byte')} too many")


@dataclass(frozen=True)
class BinFile:
    """A container whose section table has been checked."""

    name: str
    """The path, or the caller's name for the bytes. Errors begin with it."""
    version: int
    data: Bytes = field(repr=False)
    sections: dict[int, tuple[int, int]]
    """Maps a section's identifier to the offset and size of its content, in bytes."""

    @classmethod
    def read(cls, source: Source, magic: str, versions: tuple[int, ...], *, name: str | None = None) -> BinFile:
        """Open a container and check its header and section table. Raises FormatError or InputError."""
        data, name = load(source, name)
        size = data.shape[0]
        if size < _HEADER.size:
            raise FormatError(f"{name}: {count_of(size, 'byte')}, too few for a .{magic} file")
        found, version, count = _HEADER.unpack(data[: _HEADER.size].tobytes())
        if found != magic.encode():
            raise FormatError(f"{name}: not a .{magic} file")
        if version not in versions:
            raise FormatError(f"{name}: .{magic} version {version} is not supported (only {versions[-1]})")
        if count > MAX_SECTIONS:
            raise FormatError(
                f"{name}: the header announces {count_of(count, 'section')}, more than the {MAX_SECTIONS} allowed"
            )
        sections: dict[int, tuple[int, int]] = {}
        position = _HEADER.size
        for number in range(1, count + 1):
            if position + _SECTION.size > size:
                raise FormatError(f"{name}: truncated at byte {size}, before section {number} of {count}")
            ident, length = _SECTION.unpack(data[position : position + _SECTION.size].tobytes())
            position += _SECTION.size
            if length > size - position:
                raise FormatError(
                    f"{name}: the file ends too early, as one that was not copied in full: section {ident} at byte "
                    f"{position} has {count_of(length, 'byte')}, of which "
                    f"{count_of(size - position, 'is', 'are')} there"
                )
            if ident in sections:
                raise FormatError(f"{name}: section {ident} occurs twice, the second time at byte {position}")
            sections[ident] = (position, length)
            position += length
        if position != size:
            raise FormatError(
                f"{name}: {count_of(size - position, 'byte follows', 'bytes follow')} the last section, at "
                f"byte {position}"
            )
        return cls(name, version, data, sections)

    def section(self, ident: int, title: str) -> SectionReader:
        """A reader of section `ident`, which errors call `title`. Raises FormatError when the section is missing."""
        if ident not in self.sections:
            raise FormatError(f"{self.name}: section {ident} ({title}) is missing")
        offset, size = self.sections[ident]
        return SectionReader(self, f"section {ident} ({title})", offset, size)

    def points(self, ident: int, title: str, curve: Curve, group: Group, count: int) -> Bytes:
        """The points that section `ident` consists of, as a view (count, 8 * point_limbs). Raises FormatError."""
        section = self.section(ident, title)
        points = section.rows(count, 8 * curve.point_limbs(group))
        section.finish()
        return points


class BinFileWriter:
    """Writes a container as a stream, section by section, under a temporary name until it is complete.

    with BinFileWriter(path, "wtns", version=2, sections=2) as out:
        with out.section(1):
            out.u32(32)
    """

    def __init__(
        self, path: str | os.PathLike[str], magic: str, *, version: int, sections: int, mode: int = 0o666
    ) -> None:
        self._stack = contextlib.ExitStack()
        self._path, self._mode = path, mode
        self._header = _HEADER.pack(magic.encode(), version, sections)
        self._announced, self._written = sections, 0
        self._file: BinaryIO

    def __enter__(self) -> BinFileWriter:
        try:
            self._file = self._stack.enter_context(replacing(Path(self._path), self._mode))
        except OSError as error:
            raise typed(error, self._path) from error
        self._file.write(self._header)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._written != self._announced:
            mismatch = ValueError(f"{count_of(self._written, 'section')} written, {self._announced} announced")
            self._stack.__exit__(type(mismatch), mismatch, None)
            raise mismatch
        self._stack.__exit__(kind, error, trace)

    @contextlib.contextmanager
    def section(self, ident: int) -> Iterator[None]:
        """Context manager whose block writes the content of section `ident`; the size is filled in at the end."""
        self._file.write(_SECTION.pack(ident, 0))
        start = self._file.tell()
        yield
        end = self._file.tell()
        self._file.seek(start - _SECTION.size)
        self._file.write(_SECTION.pack(ident, end - start))
        self._file.seek(end)
        self._written += 1

    def write(self, data: bytes | NDArray[np.generic]) -> None:
        """Write bytes, or an array's memory as it is (C order, little-endian)."""
        self._file.write(data if isinstance(data, bytes) else np.ascontiguousarray(data).data)

    def u32(self, value: int) -> None:
        self._file.write(struct.pack("<I", value))

    def u64(self, value: int) -> None:
        self._file.write(struct.pack("<Q", value))

    def prime(self, modulus: int, size: int) -> None:
        """Write a modulus in the form that `SectionReader.prime` reads."""
        self.u32(size)
        self._file.write(modulus.to_bytes(size, "little"))
