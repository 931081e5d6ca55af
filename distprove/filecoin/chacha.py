"""ChaCha's block function (RFC 8439 for 20 rounds), from which Filecoin draws parents and synthetic challenges."""

from __future__ import annotations

import struct

_CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")
_MASK = 0xFFFFFFFF
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
BLOCK = 64
"""Bytes of a block."""


def keystream(key: bytes, nonce: bytes, first: int, size: int, rounds: int) -> bytes:
    """`size` bytes of the keystream from byte `first` on.

    `key` has 32 bytes. `nonce` has 12 bytes beside a counter of 32 bits, as in the RFC, or 8 beside one of 64 bits.
    `rounds` is even.
    """
    start, end = first // BLOCK, -(-(first + size) // BLOCK)
    stream = b"".join(_block(key, nonce, counter, rounds) for counter in range(start, end))
    offset = first - start * BLOCK
    return stream[offset : offset + size]


def _block(key: bytes, nonce: bytes, counter: int, rounds: int) -> bytes:
    state = [
        *_CONSTANTS,
        *struct.unpack("<8I", key),
        *struct.unpack("<4I", counter.to_bytes(16 - len(nonce), "little") + nonce),
    ]
    x = list(state)
    for _ in range(rounds // 2):
        for a, b, c, d in (*_COLUMNS, *_DIAGONALS):
            x[a] = x[a] + x[b] & _MASK
            x[d] = _rotated(x[d] ^ x[a], 16)
            x[c] = x[c] + x[d] & _MASK
            x[b] = _rotated(x[b] ^ x[c], 12)
            x[a] = x[a] + x[b] & _MASK
            x[d] = _rotated(x[d] ^ x[a], 8)
            x[c] = x[c] + x[d] & _MASK
            x[b] = _rotated(x[b] ^ x[c], 7)
    return struct.pack("<16I", *(a + b & _MASK for a, b in zip(x, state, strict=True)))


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK
