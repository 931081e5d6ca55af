"""What a witness program may hold, found by a look at its sections before anything compiles it.

A compiler's time and memory go by functions and their local variables, and ten bytes of WebAssembly declare a function
with 50,000 of these. circom's programs have some hundreds of functions with 35 locals at most, so the limits are far
from any of them. What else is wrong with a program is for the compiler to say.
"""

from __future__ import annotations

from distprove.errors import FormatError

MAX_BYTES = 256 << 20
MAX_FUNCTIONS = 100_000
MAX_FUNCTION_LOCALS = 2_000
"""Parameters, results and local variables of one function."""
MAX_LOCALS = 2_000_000
"""The same of all functions together."""

HEADER = b"\0asm\1\0\0\0"
TYPE, IMPORT, FUNCTION, CODE, DATA = 1, 2, 3, 10, 11
"""Sections."""
_FUNCTION_TYPE = 0x60
_VALUE_TYPES = frozenset((0x7F, 0x7E, 0x7D, 0x7C, 0x7B, 0x70, 0x6F))
"""The types of values that are encoded in one byte. Others, of proposals that circom does not use, are refused: their
lengths are not known here."""


def check_limits(name: str, wasm: bytes) -> None:
    """Raises FormatError, which says what and how much, when the program is larger than any that is worth compiling."""
    _limit(name, "bytes", len(wasm), MAX_BYTES)
    if not wasm.startswith(HEADER):
        raise FormatError(f"{name}: not a WebAssembly module: its first bytes are not those of version 1")
    program = Reader(name, wasm, len(HEADER), len(wasm))
    signatures: list[int] = []
    taken: list[int] = []
    total = 0
    while program.at < program.end:
        section, part = program.byte(), program.part()
        if section == TYPE:
            for _ in range(_limit(name, "types", part.number(), MAX_FUNCTIONS)):
                if part.byte() != _FUNCTION_TYPE:
                    raise FormatError(f"{name}: the program declares a type that is not a function's")
                signatures.append(part.values() + part.values())
        elif section == FUNCTION:
            for _ in range(_limit(name, "functions", part.number(), MAX_FUNCTIONS)):
                index = part.number()
                taken.append(signatures[index] if index < len(signatures) else 0)
        elif section == CODE:
            for function in range(_limit(name, "functions", part.number(), MAX_FUNCTIONS)):
                body = part.part()
                held = taken[function] if function < len(taken) else 0
                for _ in range(_limit(name, "groups of locals in one function", body.number(), MAX_FUNCTION_LOCALS)):
                    held += body.number()
                    body.value()
                total += _limit(name, "locals in one function", held, MAX_FUNCTION_LOCALS)
                _limit(name, "locals", total, MAX_LOCALS)


class Reader:
    """Reads a stretch of a program, and never beyond."""

    def __init__(self, name: str, data: bytes, at: int, end: int) -> None:
        self._name, self._data, self.at, self.end = name, data, at, end

    def byte(self) -> int:
        if self.at >= self.end:
            raise FormatError(f"{self._name}: not a WebAssembly module: it ends in the middle of a section")
        self.at += 1
        return self._data[self.at - 1]

    def number(self) -> int:
        """An unsigned number of at most 32 bits, seven a byte."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise FormatError(f"{self._name}: not a WebAssembly module: a number has more than five bytes")

    def signed(self) -> int:
        """A signed number of at most 32 bits."""
        start, value = self.at, self.number()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def part(self) -> Reader:
        """A reader of the part whose length stands here; this reader goes on behind that part."""
        size = self.number()
        part = Reader(self._name, self._data, self.at, self.at + size)
        if part.end > self.end:
            raise FormatError(f"{self._name}: not a WebAssembly module: it ends in the middle of a section")
        self.at = part.end
        return part

    def rest(self) -> bytes:
        """The bytes that are not read yet."""
        return self._data[self.at : self.end]

    def value(self) -> None:
        """Pass the type of a value."""
        if self.byte() not in _VALUE_TYPES:
            raise FormatError(f"{self._name}: the program uses a type of value that circom's programs do not have")

    def values(self) -> int:
        """Pass a list of types of values; returns how many."""
        count = _limit(self._name, "values in one type", self.number(), MAX_FUNCTION_LOCALS)
        for _ in range(count):
            self.value()
        return count


def leb128(value: int) -> bytes:
    """An unsigned number as `Reader.number` reads it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _limit(name: str, what: str, count: int, limit: int) -> int:
    if count > limit:
        raise FormatError(f"{name}: the program has {count} {what}, the limit is {limit}")
    return count
