"""One encoding per value: the part of MessagePack that proofs and run files are written in.

Allowed are nil, booleans, integers of 64 bits, UTF-8 strings, byte strings, arrays, and maps with string keys in
sorted order. There are no floats, no extension types and no references, so a file is data and nothing else. `decode`
accepts exactly what `encode` writes: it encodes again and compares, which refuses duplicate keys, unsorted keys and
longer forms of the same number alike. Format: https://github.com/msgpack/msgpack/blob/master/spec.md.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack

from distprove.errors import FormatError

MAX_DEPTH = 16
MAX_ITEMS = 1 << 22
"""Values in one file, containers included: bounds the time of the scan to a few seconds."""

_PLAIN = frozenset({bytes, str, bool, type(None)})
# Tag -> bytes of payload that follow, for values of fixed size.
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
# Tag -> bytes of the length field: byte strings and strings; arrays and maps (and children per counted element).
_COUNTED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_NESTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def encode(value: Any) -> bytes:
    """The canonical bytes of `value`. Tuples count as arrays. Raises TypeError for what has no encoding."""
    packed: bytes = msgpack.packb(_normal(value, 0), use_bin_type=True, strict_types=True)
    return packed


def decode(data: bytes, what: str) -> Any:
    """The value that `encode` wrote as `data`. `what` names the file in errors. Raises FormatError."""
    _scan(data, what)
    try:
        value = msgpack.unpackb(data, raw=False, strict_map_key=True)
        again = encode(value)
    except (ValueError, TypeError) as error:  # bad UTF-8, a key that is not a string
        raise FormatError(f"{what}: {error}") from None
    if again != data:
        raise FormatError(f"{what}: not in canonical form (duplicate or unsorted keys, or a longer form of a value)")
    return value


def digest(domain: str, *values: Any) -> bytes:
    """SHA-256 over (domain, values) in canonical encoding, which is injective: no two different lists meet."""
    return hashlib.sha256(encode([domain, list(values)])).digest()


def _normal(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise TypeError(f"nested deeper than {MAX_DEPTH}")
    kind = type(value)
    if kind is bytes or kind is str or kind is bool or value is None:
        return value
    if kind is int:
        if not -(1 << 63) <= value < 1 << 64:
            raise TypeError("an integer beyond 64 bits; encode it as bytes")
        return value
    # Most values are plain ones in a container: they are passed on here, unless they are nested too deeply.
    plain = _PLAIN if depth < MAX_DEPTH else ()
    if isinstance(value, (list, tuple)):
        return [item if type(item) in plain else _normal(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a map key that is not a string")
        return {
            key: value[key] if type(value[key]) in plain else _normal(value[key], depth + 1) for key in sorted(value)
        }
    raise TypeError(f"{kind.__name__} has no canonical encoding")


def _scan(data: bytes, what: str) -> None:
    """Check nesting and lengths before anything is allocated.

    A decoder allocates what a header promises. Here every promised value is checked against the bytes that are left
    (each takes at least one), so that decoding needs no more memory than a small multiple of the file's size.
    """
    size, position, owed = len(data), 0, 1
    stack = [1]  # values still to come at each level
    for _ in range(MAX_ITEMS):
        while stack and stack[-1] == 0:
            stack.pop()
        if not stack:
            break
        if position >= size:
            raise FormatError(f"{what}: truncated at byte {size}")
        stack[-1] -= 1
        owed -= 1
        tag = data[position]
        position += 1
        children = 0
        if tag <= 0x7F or tag >= 0xE0:
            continue
        if tag <= 0x8F:
            children = 2 * (tag & 0x0F)
        elif tag <= 0x9F:
            children = tag & 0x0F
        elif tag <= 0xBF:
            position += tag & 0x1F
        elif tag in _FIXED:
            position += _FIXED[tag]
        elif tag in _COUNTED:
            width = _COUNTED[tag]
            position += width + int.from_bytes(data[position : position + width], "big")
        elif tag in _NESTED:
            width, each = _NESTED[tag]
            children = each * int.from_bytes(data[position : position + width], "big")
            position += width
        else:
            raise FormatError(f"{what}: a value of a kind that is not allowed (tag 0x{tag:02x} at byte {position - 1})")
        owed += children
        if position + owed > size:
            raise FormatError(f"{what}: truncated, or a length that exceeds the file's {size} bytes")
        if children:
            stack.append(children)
            if len(stack) > MAX_DEPTH + 2:
                raise FormatError(f"{what}: nested deeper than {MAX_DEPTH}")
    else:
        raise FormatError(f"{what}: more than {MAX_ITEMS} values")
    if position != size:
        raise FormatError(f"{what}: {size - position} bytes after the end")
