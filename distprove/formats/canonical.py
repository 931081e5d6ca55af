"""Canonical encoding: the subset of MessagePack, with one encoding per value, that proofs and run files are written in.

Allowed are nil, booleans, integers of 64 bits, UTF-8 strings, byte strings, arrays, and maps with string keys in
sorted order. There are no floats, no extension types and no references, so a file is data and nothing else. `decode`
accepts exactly what `encode` writes: duplicate keys, unsorted keys and longer forms of the same number are refused by
one pass over the bytes, before any object is made. Format: https://github.com/msgpack/msgpack/blob/master/spec.md.
"""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING, Any

import msgpack

from distprove.errors import FormatError

if TYPE_CHECKING:
    from mmap import mmap

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


def encode(value: Any) -> bytes:
    """The canonical bytes of `value`. Tuples count as arrays. Raises TypeError for a value that has no encoding."""
    normal = _normal(value, 0)
    try:
        packed: bytes = _packer.pack(normal)
    except OverflowError:
        raise TypeError("an integer beyond 64 bits; encode it as bytes") from None
    return packed


def array_header(count: int) -> bytes:
    """What the canonical bytes of an array of so many values begin with; those of its values follow."""
    packed: bytes = _packer.array_header(count)
    return packed


def bytes_header(count: int) -> bytes:
    """What the canonical bytes of a byte string of so many bytes begin with; the string itself follows."""
    width = 1 if count < 1 << 8 else 2 if count < 1 << 16 else 4
    return bytes([0xC4 + width // 2]) + count.to_bytes(width, "big")  # bin 8, bin 16, bin 32


def entries(few: dict[str, Any]) -> bytes:
    """The canonical bytes of a map of at most 15 entries without its first byte, which is their number."""
    return encode(few)[1:]


class _Packer(threading.local):
    """A packer for each thread: to make one for each value takes longer than most values do."""

    def __init__(self) -> None:
        packer = msgpack.Packer(use_bin_type=True, strict_types=True)
        self.pack, self.array_header = packer.pack, packer.pack_array_header


_packer = _Packer()


def decode(data: bytes | mmap, what: str) -> Any:
    """The value whose canonical encoding is `data`, bytes or a mapped file. `what` names the file in errors. Raises
    FormatError.

    A decoder allocates what a header promises, and makes an object of 80 bytes from an empty map of one byte. So a scan
    comes first, which checks the number of promised values against the bytes that are left (each value takes at least
    one), and the cost of all values as objects against the file's size. It also checks that everything is in the one
    form that `encode` writes; only whether strings are UTF-8 is left to the decoder.
    """
    from kernels.host.native import native  # takes some of the start of commands that read nothing

    most, affordable = MAX_ITEMS + len(data) // BYTES_PER_ITEM, FREE_COST + COST_PER_BYTE * len(data)
    try:
        native.canonical_scan(data, most, affordable, MAX_DEPTH)
        return msgpack.unpackb(data, raw=False, strict_map_key=True)
    except ValueError as error:  # bad UTF-8, too
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
