"""Canonical encoding: the subset of MessagePack, with one encoding per value, that proofs and run files are written in.

Allowed are nil, booleans, integers of 64 bits, UTF-8 strings, byte strings, arrays, and maps with string keys in
sorted order. There are no floats, no extension types and no references, so a file is data and nothing else. `decode`
accepts exactly what `encode` writes: duplicate keys, unsorted keys and longer forms of the same number are refused by
one pass over the bytes, before any object is made. Format: https://github.com/msgpack/msgpack/blob/master/spec.md.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import msgpack

from distprove.errors import FormatError

MAX_DEPTH = 16
MAX_ITEMS = 1 << 22
BYTES_PER_ITEM = 4
"""A file may hold `MAX_ITEMS` values, containers included, and one more for every so many bytes: a proof of a million
partitions has that many, and the time of the scan stays in proportion to the file."""
FREE_COST = 1 << 24
COST_PER_BYTE = 8
"""The decoded objects of a file may take `FREE_COST` bytes, plus `COST_PER_BYTE` for each byte of the file."""

_PLAIN = frozenset({bytes, str, bool, int, type(None)})
_TEXTS = frozenset({str})

_CONSTANT, _NUMBER, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP = range(7)
# Maximum bytes that a decoded object of each kind takes, and bytes for each unit of its length.
_COST = {_CONSTANT: 0, _NUMBER: 32, _NEGATIVE: 32, _BYTES: 48, _TEXT: 80, _ARRAY: 80, _MAP: 80}
_COST_EACH = {_CONSTANT: 0, _NUMBER: 0, _NEGATIVE: 0, _BYTES: 1, _TEXT: 4, _ARRAY: 8, _MAP: 104}


def _form(kind: int, width: int, count: int, least: int) -> tuple[int, int, int, int, int, int]:
    return kind, width, count, least, _COST[kind], _COST_EACH[kind]


# Tag -> kind; width in bytes of the number or length that follows; that number if the tag itself holds it; the least
# number that has no shorter form (a negative n counts as -1 - n); the two costs.
_FORMS = {tag: _form(_CONSTANT, 0, 0, 0) for tag in (*range(0x80), 0xC0, 0xC2, 0xC3)}
_FORMS |= {tag: _form(_NUMBER, 0, 0, 0) for tag in range(0xE0, 0x100)}  # -32 to -1: Python keeps only some of them
_FORMS |= {0x80 + n: _form(_MAP, 0, n, 0) for n in range(16)} | {0x90 + n: _form(_ARRAY, 0, n, 0) for n in range(16)}
_FORMS |= {0xA0 + n: _form(_TEXT, 0, n, 0) for n in range(32)}
_FORMS |= {0xCC + i: _form(_NUMBER, 1 << i, 0, least) for i, least in enumerate((1 << 7, 1 << 8, 1 << 16, 1 << 32))}
_FORMS |= {0xD0 + i: _form(_NEGATIVE, 1 << i, 0, least) for i, least in enumerate((1 << 5, 1 << 7, 1 << 15, 1 << 31))}
_FORMS |= {0xC4 + i: _form(_BYTES, 1 << i, 0, least) for i, least in enumerate((0, 1 << 8, 1 << 16))}
_FORMS |= {0xD9 + i: _form(_TEXT, 1 << i, 0, least) for i, least in enumerate((1 << 5, 1 << 8, 1 << 16))}
_FORMS |= {0xDC + i: _form(_ARRAY, 2 << i, 0, least) for i, least in enumerate((1 << 4, 1 << 16))}
_FORMS |= {0xDE + i: _form(_MAP, 2 << i, 0, least) for i, least in enumerate((1 << 4, 1 << 16))}
_FORM_OF = tuple(_FORMS.get(tag) for tag in range(256))
"""The form of each tag; None for one that is not allowed."""


def encode(value: Any) -> bytes:
    """The canonical bytes of `value`. Tuples count as arrays. Raises TypeError for a value that has no encoding."""
    normal = _normal(value, 0)
    try:
        packed: bytes = _packer.pack(normal)
    except OverflowError:
        raise TypeError("an integer beyond 64 bits; encode it as bytes") from None
    return packed


class _Packer(threading.local):
    """A packer for each thread: to make one for each value takes longer than most values do."""

    def __init__(self) -> None:
        self.pack = msgpack.Packer(use_bin_type=True, strict_types=True).pack


_packer = _Packer()


def decode(data: bytes, what: str) -> Any:
    """The value whose canonical encoding is `data`. `what` names the file in errors. Raises FormatError."""
    _scan(data, what)
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True)
    except ValueError as error:  # bad UTF-8
        raise FormatError(f"{what}: {error}") from None


def digest(domain: str, *values: Any) -> bytes:
    """SHA-256 of (domain, values) in canonical encoding, which is injective: different lists hash different bytes."""
    return hashlib.sha256(encode([domain, list(values)])).digest()


def _normal(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise TypeError(f"nested deeper than {MAX_DEPTH}")
    kind = type(value)
    if kind in _PLAIN:
        return value
    # Most values are plain ones in a container: they are passed on here, unless they are nested too deeply.
    plain = _PLAIN if depth < MAX_DEPTH else frozenset()
    if isinstance(value, (list, tuple)):
        if plain.issuperset(map(type, value)):
            return list(value)
        return [item if type(item) in plain else _normal(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if not _TEXTS.issuperset(map(type, value)):
            raise TypeError("a map key that is not a string")
        return {key: item if type(item := value[key]) in plain else _normal(item, depth + 1) for key in sorted(value)}
    raise TypeError(f"{kind.__name__} has no canonical encoding")


def _scan(data: bytes, what: str) -> None:
    """Check form, nesting, lengths and cost of `data` before anything is allocated. Raises FormatError.

    A decoder allocates what a header promises, and makes an object of 80 bytes from an empty map of one byte. This scan
    checks the number of promised values against the bytes that are left (each value takes at least one), and the cost
    of all values as objects against the file's size. It also checks that everything is in the one form that `encode`
    writes; only whether strings are UTF-8 is left to the decoder.
    """
    size, position, owed, cost = len(data), 0, 1, 0
    affordable, most = FREE_COST + COST_PER_BYTE * size, MAX_ITEMS + size // BYTES_PER_ITEM
    # State of the innermost container: how many values are still to come, whether it is a map, and its last key.
    left, in_map, last_key = 1, False, None
    outer: list[tuple[int, bool, bytes | None]] = []
    for _ in range(most + 1):  # the last iteration only finds that nothing is left
        if not left:
            while not left and outer:
                left, in_map, last_key = outer.pop()
            if not left:
                break
        if position >= size:
            raise FormatError(f"{what}: truncated at byte {size}")
        start, form = position, _FORM_OF[data[position]]
        if form is None:
            raise FormatError(
                f"{what}: a value of a kind that is not allowed (tag 0x{data[start]:02x} at byte {start})"
            )
        kind, width, count, least, object_cost, cost_each = form
        position += 1 + width
        left -= 1
        owed -= 1
        if width == 1 and kind != _NEGATIVE and position <= size:  # as below, for the most frequent ones
            count = data[start + 1]
        elif width:
            count = int.from_bytes(data[start + 1 : position], "big", signed=kind == _NEGATIVE)
            count = -1 - count if kind == _NEGATIVE else count
        children = 0
        if kind >= _ARRAY:  # or a map
            children = count if kind == _ARRAY else 2 * count
            owed += children
        elif kind >= _BYTES:  # or text
            position += count
            if count <= 1 and kind == _BYTES:
                object_cost = 0  # one that Python has already: it keeps them all
        if position + owed > size:
            raise FormatError(f"{what}: truncated, or a length that exceeds the file's {size} bytes")
        if width and count < least:
            raise FormatError(f"{what}: not in canonical form (a longer form of a value, at byte {start})")
        cost += object_cost + count * cost_each
        if cost > affordable:
            raise FormatError(f"{what}: more small values than a file of {size} bytes may hold")
        if in_map and left & 1:
            key = data[position - count : position]
            if kind != _TEXT:
                raise FormatError(f"{what}: a map key that is not a string, at byte {start}")
            if last_key is not None and key <= last_key:
                raise FormatError(f"{what}: not in canonical form (duplicate or unsorted keys, at byte {start})")
            last_key = key
        if children:
            outer.append((left, in_map, last_key))
            left, in_map, last_key = children, kind == _MAP, None
            if len(outer) > MAX_DEPTH:
                raise FormatError(f"{what}: nested deeper than {MAX_DEPTH}")
    else:
        raise FormatError(f"{what}: more than {most} values")
    if position != size:
        raise FormatError(f"{what}: {size - position} bytes after the end")
