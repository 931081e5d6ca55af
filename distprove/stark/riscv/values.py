"""Typed input and output of guests: Python values as the bytes that a guest of `distprove new guest` reads and writes.

    @dataclass
    class Order:
        customer: str
        cents: U64

    Path("input.bin").write_bytes(encode(list[Order], [Order("ada", 250)]))
    report = decode(Report, output, padded=True)

The encoding is postcard's wire format, version 1, which serde gives Rust; `values.h` of a project in C has it too.
Types: the integers below, `bool`, `float` (Rust's f64), `str`, `bytes`, `list[T]`, `dict[K, V]`, `tuple[A, B]`,
`T | None`, dataclasses (fields in their order), and `enum.Enum` (variants without fields, by position). A value has no
names or types in it: both sides must declare the same.
"""

from __future__ import annotations

import enum
import struct
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar, overload

from distprove.errors import FormatError, UsageError
from kernels.host.units import count_of

T = TypeVar("T")


@dataclass(frozen=True)
class Width:
    """Bits and sign of an integer."""

    bits: int
    signed: bool = False

    @property
    def bounds(self) -> tuple[int, int]:
        """Least and largest value."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.signed else (0, (1 << self.bits) - 1)


U8, U16, U32 = Annotated[int, Width(8)], Annotated[int, Width(16)], Annotated[int, Width(32)]
U64, U128 = Annotated[int, Width(64)], Annotated[int, Width(128)]
I8, I16, I32 = Annotated[int, Width(8, True)], Annotated[int, Width(16, True)], Annotated[int, Width(32, True)]
I64, I128 = Annotated[int, Width(64, True)], Annotated[int, Width(128, True)]

DEEPEST = 64
"""Values within values: a type may hold itself."""
PADDING = 3
"""Zeros that a host call may add behind a value, as the output has whole words."""
_LENGTH = Width(32)
_DOUBLE = struct.Struct("<d")
_OF_TYPES = ("typing", "types")
"""Modules whose objects annotate, such as `typing.Any`, and are no classes."""


def encode(kind: Any, value: object) -> bytes:
    """The bytes of a value of the type `kind`. Raises UsageError for a value of another type, which names its place by
    fields and positions, or for an unknown type."""
    out = bytearray()
    try:
        _write(kind, value, out, 0)
    except _Misfit as error:
        raise UsageError(f"{error.place}{error}") from None
    return bytes(out)


@overload
def decode(kind: type[T], data: bytes, *, padded: bool = False) -> T: ...
@overload
def decode(kind: Any, data: bytes, *, padded: bool = False) -> Any: ...
def decode(kind: Any, data: bytes, *, padded: bool = False) -> Any:
    """The value of the type `kind` in `data`; with `padded`, up to three zeros may follow it, as they do in an output.

    Raises FormatError for bytes that are no such value, UsageError for an unknown type.
    """
    reader = _Reader(data)
    value = _read(kind, reader, 0)
    rest = data[reader.place :]
    if rest and not (padded and len(rest) <= PADDING and not any(rest)):
        raise FormatError(
            f"{count_of(len(rest), 'byte follows', 'bytes follow')} the value of {_shown(kind)}, which ends at "
            f"byte {reader.place}"
        )
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self.place = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self.place

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise FormatError(f"the bytes end at {len(self._data)}, within a value")
        self.place += size
        return self._data[self.place - size : self.place]

    def varint(self, bits: int) -> int:
        """An integer in groups of seven bits, the lowest first."""
        value = 0
        for shift in range(0, bits, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    break
                return value
        raise FormatError(f"an integer of more than {count_of(bits, 'bit')} before byte {self.place}")

    def length(self) -> int:
        """A count of parts. Each takes a byte at least, so that no count allocates more than the bytes do."""
        count = self.varint(_LENGTH.bits)
        if count > self.left:
            raise FormatError(f"a length of {count} at byte {self.place}, with {count_of(self.left, 'byte')} left")
        return count


def _write_varint(value: int, out: bytearray) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class _Misfit(UsageError):
    """A part of a value that is not of its type."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str | int] = []
        """Fields and positions that lead to the part, the innermost first."""

    @property
    def place(self) -> str:
        """The path in Python's notation, from `value` on, and a colon; empty for the value as a whole."""
        steps = [f".{step}" if isinstance(step, str) else f"[{step}]" for step in reversed(self.path)]
        return f"value{''.join(steps)}: " if steps else ""


def _write_part(kind: Any, value: Any, out: bytearray, depth: int, step: str | int) -> None:
    try:
        _write(kind, value, out, depth + 1)
    except _Misfit as error:
        error.path.append(step)
        raise


def _write(kind: Any, value: Any, out: bytearray, depth: int) -> None:
    if depth > DEEPEST:
        raise UsageError(f"values lie in one another more than {DEEPEST} deep")
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    inner = _optional(kind)
    if inner is not None:
        out.append(value is not None)
        if value is not None:
            _write(inner, value, out, depth + 1)
    elif isinstance(width := _width(kind), Width):
        least, largest = width.bounds
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= largest:
            raise _wrong(kind, value)
        if width.bits == 8:
            out.append(value & 0xFF)
        else:
            _write_varint((value << 1) ^ (value >> width.bits - 1) if width.signed else value, out)
    elif kind is bool and isinstance(value, bool):
        out.append(value)
    elif kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            out += _DOUBLE.pack(float(value))
        except OverflowError:
            raise _wrong(kind, value) from None
    elif (kind is str and isinstance(value, str)) or (kind is bytes and isinstance(value, (bytes, bytearray))):
        try:
            raw = value.encode("utf-8") if isinstance(value, str) else bytes(value)
        except UnicodeEncodeError:  # half of a pair, such as os.fsdecode makes; the error would quote the text
            raise _wrong(kind, value) from None
        _write_varint(len(raw), out)
        out += raw
    elif origin is list and isinstance(value, (list, tuple)):
        _write_varint(len(value), out)
        for position, each in enumerate(value):
            _write_part(arguments[0], each, out, depth, position)
    elif origin is dict and isinstance(value, dict):
        _write_varint(len(value), out)
        for position, (key, each) in enumerate(value.items()):  # a key may be as secret as a value
            _write_part(arguments[0], key, out, depth, position)
            _write_part(arguments[1], each, out, depth, position)
    elif origin is tuple and isinstance(value, (list, tuple)) and len(value) == len(arguments):
        for position, (inner_kind, each) in enumerate(zip(arguments, value, strict=True)):
            _write_part(inner_kind, each, out, depth, position)
    elif _is_enum(kind) and isinstance(value, kind):
        _write_varint(list(kind).index(value), out)
    elif is_dataclass(kind) and isinstance(kind, type) and isinstance(value, kind):
        for name, inner_kind in _fields(kind):
            _write_part(inner_kind, getattr(value, name), out, depth, name)
    else:
        _require_known(kind)
        raise _wrong(kind, value)


def _read(kind: Any, reader: _Reader, depth: int) -> Any:
    if depth > DEEPEST:
        raise FormatError(f"values lie in one another more than {DEEPEST} deep")
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    inner = _optional(kind)
    if inner is not None:
        return _read(inner, reader, depth + 1) if _flag(reader) else None
    if isinstance(width := _width(kind), Width):
        return _integer(width, reader)
    if kind is bool:
        return _flag(reader)
    if kind is float:
        return _DOUBLE.unpack(reader.take(8))[0]
    if kind in (str, bytes):
        raw = reader.take(reader.length())
        return raw if kind is bytes else _text(raw)
    read: Callable[[Any], Any] = lambda inner_kind: _read(inner_kind, reader, depth + 1)  # noqa: E731
    if origin is list:
        return [read(arguments[0]) for _ in range(reader.length())]
    if origin is dict:
        return {_key(kind, read(arguments[0])): read(arguments[1]) for _ in range(reader.length())}
    if origin is tuple:
        return tuple(read(each) for each in arguments)
    if _is_enum(kind):
        variants, number = list(kind), reader.varint(32)
        if number >= len(variants):
            raise FormatError(f"variant {number} of {_shown(kind)}, which has {len(variants)}")
        return variants[number]
    _require_known(kind)
    return kind(**{name: read(inner_kind) for name, inner_kind in _fields(kind)})


def _key(kind: Any, key: Any) -> Any:
    """A key that was read for a dict of type `kind`. Raises UsageError for one that has no hash."""
    try:
        hash(key)
    except TypeError:  # of a list or dict, of a dataclass that is not frozen, or of what holds one of these
        raise UsageError(f"{_shown(kind)} has keys that no dict of Python can have") from None
    return key


def _integer(width: Width, reader: _Reader) -> int:
    if width.bits == 8:
        return int.from_bytes(reader.take(1), "little", signed=width.signed)
    value = reader.varint(width.bits)
    return (value >> 1) ^ -(value & 1) if width.signed else value


def _flag(reader: _Reader) -> bool:
    byte = reader.take(1)[0]
    if byte > 1:
        raise FormatError(f"{byte} at byte {reader.place - 1}, where 0 or 1 is expected")
    return bool(byte)


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"a text is not UTF-8: {error.reason}") from None


def _width(kind: Any) -> object:
    return next(iter(typing.get_args(kind)[1:]), None) if typing.get_origin(kind) is Annotated else None


def _optional(kind: Any) -> Any:
    """T of `T | None`; None of another type."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:
        return arguments[arguments[0] is type(None)]
    return None


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _fields(kind: Any) -> list[tuple[str, Any]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return [(each.name, hints[each.name]) for each in fields(kind)]


def _require_known(kind: Any) -> None:
    """Raise UsageError for a type that has no encoding, and for a value in a type's place, which may be a secret."""
    if not isinstance(kind, type) and typing.get_origin(kind) is None and type(kind).__module__ not in _OF_TYPES:
        raise UsageError(f"the first argument, and each annotation, is a type, not a value of {type(kind).__name__}")
    known = kind in (bool, float, str, bytes) or typing.get_origin(kind) in (list, dict, tuple)
    if not (known or _is_enum(kind) or (isinstance(kind, type) and is_dataclass(kind) and fields(kind))):
        hint = "; give an integer its width, such as U32" if kind is int else ""
        raise UsageError(f"{_shown(kind)} has no encoding{hint}")


def _wrong(kind: Any, value: object) -> _Misfit:
    """Names types alone: the value may be a secret."""
    return _Misfit(f"a value of type {type(value).__name__} is no {_shown(kind)}, or is out of its range")


def _shown(kind: Any) -> str:
    if isinstance(width := _width(kind), Width):
        return f"{'I' if width.signed else 'U'}{width.bits}"
    return getattr(kind, "__name__", str(kind)) if not typing.get_args(kind) else str(kind)
