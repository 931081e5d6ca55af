"""BLAKE2b (RFC 7693) of 64 bytes from a state that somebody saved, which hashlib cannot resume.

A `.ptau` file has the state of each response's hash before the contributor's public key. snarkjs saves it in 216 bytes
(misc.js: toPartialHash): the buffer of 128 bytes, the chain value as 8 words of 64 bits, the number of bytes before the
buffer, and that of bytes in it. All numbers are little-endian.
"""

from __future__ import annotations

import struct

from kernels.host.units import count_of

STATE_BYTES = 216
_BLOCK = 128
_MASK = 2**64 - 1
_IV = (
    *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
    *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
)
_SIGMA = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def resumed_digest(state: bytes, rest: bytes) -> bytes:
    """The 64-byte digest of all that a saved state has hashed, followed by `rest`.

    Raises ValueError for a state of another size, or one with more than a block in its buffer.
    """
    if len(state) != STATE_BYTES:
        raise ValueError(f"a saved state has {STATE_BYTES} bytes, not {len(state)}")
    *chain, done, filled = struct.unpack("<8QQQ", state[_BLOCK : _BLOCK + 80])
    if filled > _BLOCK:
        raise ValueError(f"{count_of(filled, 'byte')} in a buffer of {_BLOCK}")
    data = state[:filled] + rest
    while len(data) > _BLOCK:
        done += _BLOCK
        chain = _compressed(chain, data[:_BLOCK], done, last=False)
        data = data[_BLOCK:]
    chain = _compressed(chain, data.ljust(_BLOCK, b"\0"), done + len(data), last=True)
    return struct.pack("<8Q", *chain)


def _compressed(chain: list[int], block: bytes, count: int, *, last: bool) -> list[int]:
    """The next chain value. `count` bytes have been hashed with this block."""
    m = struct.unpack("<16Q", block)
    v = [*chain, *_IV]
    v[12] ^= count & _MASK
    v[13] ^= count >> 64 & _MASK
    if last:
        v[14] ^= _MASK
    for round_number in range(12):
        order = _SIGMA[round_number % 10]
        for i, (a, b, c, d) in enumerate((*_COLUMNS, *_DIAGONALS)):
            for word, turn_d, turn_b in ((m[order[2 * i]], 32, 24), (m[order[2 * i + 1]], 16, 63)):
                v[a] = (v[a] + v[b] + word) & _MASK
                v[d] = _turned(v[d] ^ v[a], turn_d)
                v[c] = (v[c] + v[d]) & _MASK
                v[b] = _turned(v[b] ^ v[c], turn_b)
    return [h ^ v[i] ^ v[i + 8] for i, h in enumerate(chain)]


def _turned(word: int, bits: int) -> int:
    return (word >> bits | word << (64 - bits)) & _MASK
