"""Keccak-f[1600] by the standard's text, to compare with."""

from __future__ import annotations

from collections.abc import Sequence


def keccak_f(state: Sequence[int]) -> list[int]:
    """The state, 25 lanes, after Keccak-f."""
    lanes, register = list(state), 1

    def turned(lane: int, by: int) -> int:
        return (lane << by | lane >> (64 - by)) % (1 << 64)

    for _ in range(24):
        parity = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
        lanes = [lane ^ parity[(i - 1) % 5] ^ turned(parity[(i + 1) % 5], 1) for i, lane in enumerate(lanes)]
        x, y, current = 1, 0, lanes[1]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            current, lanes[x + 5 * y] = lanes[x + 5 * y], turned(current, (step + 1) * (step + 2) // 2 % 64)
        for row in range(0, 25, 5):
            old = lanes[row : row + 5]
            lanes[row : row + 5] = [old[i] ^ (~old[(i + 1) % 5] & old[(i + 2) % 5]) for i in range(5)]
        for j in range(7):
            lanes[0] ^= (register & 1) << ((1 << j) - 1)
            register = (register << 1) ^ (0x171 if register >> 7 else 0)
    return [lane % (1 << 64) for lane in lanes]


def keccak_f_of_words(words: Sequence[int]) -> list[int]:
    """The state, 50 words of 32 bits, after Keccak-f."""
    lanes = keccak_f([low | high << 32 for low, high in zip(words[::2], words[1::2], strict=True)])
    return [half for lane in lanes for half in (lane % (1 << 32), lane >> 32)]
