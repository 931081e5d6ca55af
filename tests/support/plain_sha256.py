"""SHA-256's message schedule and compression, as FIPS 180-4 writes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

M32 = 0xFFFFFFFF
PRIMES = [n for n in range(2, 20) if all(n % k for k in range(2, isqrt(n) + 1))]
CONSTANTS = [
    int(word, 16)
    for word in [
        "428a2f98",
        "71374491",
        "b5c0fbcf",
        "e9b5dba5",
        "3956c25b",
        "59f111f1",
        "923f82a4",
        "ab1c5ed5",
        "d807aa98",
        "12835b01",
        "243185be",
        "550c7dc3",
        "72be5d74",
        "80deb1fe",
        "9bdc06a7",
        "c19bf174",
        "e49b69c1",
        "efbe4786",
        "0fc19dc6",
        "240ca1cc",
        "2de92c6f",
        "4a7484aa",
        "5cb0a9dc",
        "76f988da",
        "983e5152",
        "a831c66d",
        "b00327c8",
        "bf597fc7",
        "c6e00bf3",
        "d5a79147",
        "06ca6351",
        "14292967",
        "27b70a85",
        "2e1b2138",
        "4d2c6dfc",
        "53380d13",
        "650a7354",
        "766a0abb",
        "81c2c92e",
        "92722c85",
        "a2bfe8a1",
        "a81a664b",
        "c24b8b70",
        "c76c51a3",
        "d192e819",
        "d6990624",
        "f40e3585",
        "106aa070",
        "19a4c116",
        "1e376c08",
        "2748774c",
        "34b0bcb5",
        "391c0cb3",
        "4ed8aa4a",
        "5b9cca4f",
        "682e6ff3",
        "748f82ee",
        "78a5636f",
        "84c87814",
        "8cc70208",
        "90befffa",
        "a4506ceb",
        "bef9a3f7",
        "c67178f2",
    ]
]
INITIAL = [isqrt(prime << 64) & M32 for prime in PRIMES]


def rotated(x: int, by: int) -> int:
    """To the right."""
    return (x >> by | x << 32 - by) & M32


def extended(words: Sequence[int]) -> list[int]:
    """The schedule of 64 words from the first 16."""
    w = list(words)
    for t in range(16, 64):
        first = rotated(w[t - 2], 17) ^ rotated(w[t - 2], 19) ^ w[t - 2] >> 10
        second = rotated(w[t - 15], 7) ^ rotated(w[t - 15], 18) ^ w[t - 15] >> 3
        w.append(first + w[t - 7] + second + w[t - 16] & M32)
    return w


def compressed(state: Sequence[int], schedule: Sequence[int]) -> list[int]:
    """The state after the 64 rounds over a schedule."""
    a, b, c, d, e, f, g, h = state
    for constant, word in zip(CONSTANTS, schedule, strict=True):
        t1 = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + (e & f ^ ~e & M32 & g) + constant + word
        t2 = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + (a & b ^ a & c ^ b & c)
        h, g, f, e, d, c, b, a = g, f, e, d + t1 & M32, c, b, a, t1 + t2 & M32
    return [x + y & M32 for x, y in zip(state, (a, b, c, d, e, f, g, h), strict=True)]
