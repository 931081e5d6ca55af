"""Makes circom's witness programs faster, as WebAssembly, before they are compiled.

A program that circom 2 makes for a field of 256 bits begins with the same 81 functions, its field arithmetic, in which
most of a witness's time goes. In a program whose first functions are byte for byte these, those that matter get other
bodies. And where such a program copies constants one by one to neighbouring places, as it does with a table in each
component that uses it, it writes them at once. Any other program stays as it is.

What comes out is WebAssembly like what went in, and runs in the same sandbox within the same limits. A program that
imitates circom's without being one can get another meaning by this, which harms nobody but itself.
"""

from __future__ import annotations

import hashlib
import re

from distprove.groth16.wasm_field import field_bodies
from distprove.groth16.wasm_limits import CODE, DATA, FUNCTION, HEADER, IMPORT, TYPE, Reader, leb128
from kernels.maths.curves import BLS12_381, BN254

_COUNT = 81
"""Functions of circom's field arithmetic."""
_FIELDS = {
    "23cb7144f656ce115cd5b744fcf5c6be624295675304a9079b4993722cfc0788": BN254.fr,
    "63f66b52fd12911acad7a6629ad713d5322b057456d3169030802b81aab403ec": BLS12_381.fr,
}
"""The scalar field of a program, by the digest of its types, its imports and these functions."""

_SIZE = 40
"""Bytes of an element."""
_COPY = re.compile(
    rb"\x41(?P<index>[\x80-\xff]{0,4}[\x00-\x7f])\x41\x28\x6c\x20(?P<base>[\x00-\x7f])\x6a"  # to index * 40 + base
    rb"\x41(?P<source>[\x80-\xff]{0,4}[\x00-\x7f])\x10\x25"  # copy the element at source
)
_MIN_RUN = 4
_MEMORY_INIT = b"\xfc\x08"
_DATA_COUNT, _I32_CONST, _END = 12, 0x41, 0x0B


def with_fast_field(wasm: bytes) -> bytes:
    """The faster program; the same where it is not one of circom's. Raises FormatError for what is not WebAssembly."""
    sections = []
    program = Reader("program", wasm, len(HEADER), len(wasm))
    while program.at < program.end:
        sections.append((program.byte(), program.part().rest()))
    parts = {kind: Reader("program", part, 0, len(part)) for kind, part in sections}
    if not {TYPE, IMPORT, FUNCTION, CODE, DATA} <= parts.keys() or _DATA_COUNT in parts:
        return wasm
    count = parts[CODE].number()
    if count < _COUNT or parts[FUNCTION].number() != count:
        return wasm
    bodies = [parts[CODE].part().rest() for _ in range(count)]
    told = [parts[TYPE].rest(), parts[IMPORT].rest(), parts[FUNCTION].rest()[:_COUNT], *bodies[:_COUNT]]
    field = _FIELDS.get(hashlib.sha256(_joined(told)).hexdigest())
    constants = None if field is None else _Constants.of(parts[DATA])
    if field is None or constants is None:
        return wasm
    fast = field_bodies(field)
    bodies = [fast.get(place) or _with_block_copies(body, constants) for place, body in enumerate(bodies)]
    changed = {CODE: leb128(count) + _joined(bodies), DATA: constants.section()}
    out = [HEADER]
    for kind, part in sections:
        if kind == CODE:
            out.append(bytes([_DATA_COUNT]) + _joined([leb128(constants.count)]))
        out.append(bytes([kind]) + _joined([changed.get(kind, part)]))
    return b"".join(out)


def _joined(parts: list[bytes]) -> bytes:
    """The parts one after another, each with its length before it."""
    return b"".join(leb128(len(part)) + part for part in parts)


class _Constants:
    """A program's table of constants, and pieces of it to write at once, as passive data after its own."""

    def __init__(self, count: int, segments: bytes, start: int, table: bytes) -> None:
        self._count, self._segments = count, segments
        self._start, self._table = start, table
        self._pieces: dict[bytes, int] = {}

    @classmethod
    def of(cls, data: Reader) -> _Constants | None:
        """The constants in a program's data; None where the data are not all at fixed addresses, as circom's are."""
        count, start, table = data.number(), 0, b""
        segments = data.rest()
        for _ in range(count):
            if data.number() != 0 or data.byte() != _I32_CONST:
                return None
            start = data.signed()
            if data.byte() != _END:
                return None
            table = data.part().rest()  # the table comes last
        return cls(count, segments, start, table)

    def piece(self, sources: list[int]) -> int | None:
        """The place of the data that are the elements at `sources`; None where one is not in the table."""
        parts = []
        for source in sources:
            at = source - self._start
            part = self._table[at : at + _SIZE]
            if at < 0 or at % _SIZE or len(part) < _SIZE or not part[7] & 0x40:  # constants have Montgomery form
                return None
            parts.append(part)
        return self._pieces.setdefault(b"".join(parts), self._count + len(self._pieces))

    def section(self) -> bytes:
        pieces = b"".join(b"\x01" + _joined([piece]) for piece in self._pieces)
        return leb128(self.count) + self._segments + pieces

    @property
    def count(self) -> int:
        return self._count + len(self._pieces)


def _with_block_copies(body: bytes, constants: _Constants) -> bytes:
    """A function that writes at once what it copies from the table of constants to neighbouring elements."""
    out, copied, at = [], 0, 0
    while (first := _COPY.search(body, at)) is not None:
        run = [first]
        while (after := _COPY.match(body, run[-1].end())) is not None and _follows(run[-1], after):
            run.append(after)
        at = run[-1].end()
        if len(run) < _MIN_RUN:
            continue
        piece = constants.piece([_signed(copy["source"]) for copy in run])
        if piece is not None:
            to, length = body[copied : first.end("base") + 1], _signed_leb128(len(run) * _SIZE)
            out += [to, b"\x41\x00\x41", length, _MEMORY_INIT, leb128(piece), b"\x00"]
            copied = at
    return b"".join([*out, body[copied:]])


def _follows(one: re.Match[bytes], other: re.Match[bytes]) -> bool:
    return one["base"] == other["base"] and _signed(one["index"]) + 1 == _signed(other["index"])


def _signed(leb: bytes) -> int:
    value = sum((byte & 0x7F) << (7 * i) for i, byte in enumerate(leb))
    return value - (1 << (7 * len(leb))) if leb[-1] & 0x40 else value


def _signed_leb128(value: int) -> bytes:
    """A positive number as an instruction's constant: the highest of its bits must be 0."""
    out = leb128(value)
    return out if not out[-1] & 0x40 else out[:-1] + bytes([out[-1] | 0x80, 0])
