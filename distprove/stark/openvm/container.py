"""The files in which keys and traces of OpenVM come: a JSON header, and arrays of 32-bit words behind it.

`tests/interop/openvm-judge/FORMAT.md` describes them.
"""

from __future__ import annotations

import bisect
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from distprove.errors import FormatError
from distprove.formats.files import read_bounded
from distprove.formats.jsontext import loads_file
from kernels.host.units import count_of
from kernels.maths.babybear import Elements, P
from kernels.maths.poseidon2_babybear import DIGEST

KEY_MAGIC, TRACES_MAGIC = b"OVMKEY01", b"OVMTRC01"
VERSION = 1
ALIGNMENT = 64
MAX_BYTES = 1 << 34
_FRONT = struct.Struct("<8sQ")


class Container:
    """A file's header and arrays. Each array is read once: no two may overlap, and together they end the file. So the
    work on a file is bounded by its size."""

    def __init__(self, data: bytes | memoryview, magic: bytes, name: str, what: str) -> None:
        """Parse a file that begins with `magic`, whose header names its format `name`. Arrays lie in `data`, if they
        may. Raises FormatError."""
        self.what = what
        if len(data) < _FRONT.size or data[:8] != magic:
            raise FormatError(f"{what}: does not begin with {magic.decode()}")
        size = int(_FRONT.unpack_from(data)[1])
        end = _FRONT.size + size
        if end > len(data):
            raise FormatError(f"{what}: ends in its header")
        begin = -(-end // ALIGNMENT) * ALIGNMENT
        if len(data) < begin or any(data[end:begin]):
            raise FormatError(f"{what}: no zeros up to the next {ALIGNMENT} bytes behind the header")
        header = loads_file(bytes(data[_FRONT.size : end]), what)
        if not isinstance(header, dict) or header.get("format") != name or type(header.get("version")) is not int:
            raise FormatError(f"{what}: the header is not of the format {name}")
        if header["version"] != VERSION:
            raise FormatError(f"{what}: version {header['version']} of the format, not {VERSION}")
        self.header = {key: value for key, value in header.items() if key not in ("format", "version")}
        self._body = memoryview(data)[begin:]
        self._taken: list[tuple[int, int]] = []
        """Beginnings and ends of the arrays that were read, ascending."""

    @classmethod
    def read(cls, path: Path, magic: bytes, name: str) -> Container:
        """Read a file. Raises InputError or FormatError."""
        return cls(
            read_bounded(path, MAX_BYTES, begins=magic, kind=f"a file of the format {name}"), magic, name, str(path)
        )

    def array(self, named: Any, *shape: int | None) -> Elements:
        """The array that the header names, whose shape must be `shape`; None for an axis of any length.

        Raises FormatError.
        """
        named = fields(named, {"offset": int, "shape": list}, f"{self.what}: an array")
        offset, lengths = named["offset"], integers(named["shape"], 1 << 32, f"{self.what}: an array's shape")
        if len(lengths) != len(shape) or any(n not in (None, m) for n, m in zip(shape, lengths, strict=True)):
            raise FormatError(f"{self.what}: an array of the shape {lengths}, not {shape}")
        size = 4 * math.prod(lengths)
        if offset < 0 or offset % ALIGNMENT or offset + size > len(self._body):
            raise FormatError(f"{self.what}: an array outside of the file, or not aligned")
        self._take(offset, offset + size)
        words: Elements = np.frombuffer(self._body[offset : offset + size], dtype="<u4").astype(np.uint32, copy=False)
        return words.reshape(lengths)

    def elements(self, named: Any, *shape: int | None) -> Elements:
        """The same, of canonical field elements."""
        found = self.array(named, *shape)
        if found.size and int(found.max()) >= P:
            raise FormatError(f"{self.what}: an element that is not below {P}")
        return found

    def _take(self, start: int, stop: int) -> None:
        """Note the place of an array. Raises FormatError if it overlaps another one."""
        at = bisect.bisect(self._taken, (start, stop))
        if (at and self._taken[at - 1][1] > start) or (at < len(self._taken) and self._taken[at][0] < stop):
            raise FormatError(f"{self.what}: arrays overlap")
        self._taken.insert(at, (start, stop))

    def end(self) -> None:
        """Raise FormatError unless the last one of the arrays that were taken ends the file."""
        last = self._taken[-1][1] if self._taken else 0
        if last != len(self._body):
            raise FormatError(f"{self.what}: {count_of(len(self._body) - last, 'byte')} behind its last array")


class Writer:
    """Collects the arrays of a file that is written."""

    def __init__(self) -> None:
        self._arrays: list[Elements] = []
        self._end = 0

    def add(self, array: Elements) -> dict[str, Any]:
        """Append an array of two axes. Returns its place, as the header names it."""
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._end = offset + 4 * array.size
        self._arrays.append(array)
        return {"offset": offset, "shape": list(array.shape)}

    def assembled(self, magic: bytes, name: str, header: Mapping[str, Any]) -> bytes:
        """Return the file: its header of the format `name`, and the arrays behind it."""
        whole = {**header, "format": name, "version": VERSION}
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        data = bytearray(_FRONT.pack(magic, len(text)) + text)
        for array in self._arrays:
            data += bytes(-len(data) % ALIGNMENT)
            data += array.astype("<u4").tobytes()
        return bytes(data)


def fields(value: Any, kinds: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return an object of a header that has exactly these keys, whose values have these types. A bool is no int.

    Raises FormatError.
    """
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        found = value.keys() if isinstance(value, dict) else set()
        faults = {"is without": kinds.keys() - found, "has unknown keys:": found - kinds.keys()}
        told = [f"{fault} {', '.join(sorted(map(repr, keys)))}" for fault, keys in faults.items() if keys]
        raise FormatError(f"{what} {' and '.join(told)}" if isinstance(value, dict) else f"{what} is no object of JSON")
    for key, kind in kinds.items():
        if not isinstance(value[key], kind) or (isinstance(value[key], bool) and kind is not bool):
            raise FormatError(f"{what}: {key} is of another type")
    return value


def digest(value: Any, what: str) -> Elements:
    """Return a digest of a header, (8,). Raises FormatError."""
    return np.array(integers(value, P, what, DIGEST), dtype=np.uint32)


def integers(value: Any, below: int, what: str, count: int | None = None) -> tuple[int, ...]:
    """Return a list of integers from 0 to `below` - 1, `count` of them if given. Raises FormatError."""
    if not isinstance(value, list) or (count is not None and len(value) != count):
        raise FormatError(f"{what}: not a list{'' if count is None else ' of ' + count_of(count, 'integer')}")
    if not all(type(each) is int and 0 <= each < below for each in value):
        raise FormatError(f"{what}: not integers from 0 to {below - 1}")
    return tuple(value)
