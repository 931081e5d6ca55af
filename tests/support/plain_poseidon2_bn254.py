"""Poseidon2 over BN254's scalar field in plain Python integers, with its own constants: an oracle for native code.

Follows "Poseidon2: A Faster Version of the Poseidon Hash Function" (eprint 2023/323). The constants come from the Grain
LFSR of the Poseidon paper (eprint 2019/458, appendix E) for 254 bits, width 3, 8 full and 56 partial rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.plain_poseidon2 import P, grain_constants

R = 21888242871839275222246405745257275088548364400416034343698204186575808495617
WIDTH, FULL, PARTIAL = 3, 8, 56
INTERNAL = ((2, 1, 1), (1, 2, 1), (1, 1, 3))
EXTERNAL = ((2, 1, 1), (1, 2, 1), (1, 1, 2))


CONSTANTS = grain_constants(R, WIDTH, FULL, PARTIAL)


def permute(state: Sequence[int]) -> list[int]:
    """Return the permutation of 3 elements."""
    s, constants = _times(EXTERNAL, state), iter(CONSTANTS)
    for number in range(FULL + PARTIAL):
        if FULL // 2 <= number < FULL // 2 + PARTIAL:
            s = _times(INTERNAL, [pow(s[0] + next(constants), 5, R), s[1], s[2]])
        else:
            s = _times(EXTERNAL, [pow(x + next(constants), 5, R) for x in s])
    return s


def _times(matrix: Sequence[Sequence[int]], s: Sequence[int]) -> list[int]:
    return [sum(m * x for m, x in zip(row, s, strict=True)) % R for row in matrix]


def sponge(words: Sequence[int]) -> int:
    """Return the digest of 64-bit words: the sponge that `GoldilocksKernels.commit` defines."""
    state = [0, 0, 1 + 2**64 * len(words)]
    for at in range(0, len(words), 6):
        block = [*words[at : at + 6], 0, 0, 0, 0, 0, 0]
        low, high = (sum(block[k + i] << 64 * i for i in range(3)) for k in (0, 3))
        state = permute([low, high, state[2]])
    return state[0]


def node(children: Sequence[int], tag: int) -> int:
    """Return the digest of a node over two digests."""
    left, right = children
    return permute([left, right, tag])[0]


def works(seed: int, nonce: int, bits: int, tag: int) -> bool:
    """Whether a nonce does the work of `bits` bits for a seed."""
    return permute([seed, nonce, tag])[0] % 2**bits == 0


def digits(y: int) -> list[int] | None:
    """The three digits that a transcript draws from an element, or None for one that it passes over."""
    if y >= R // P**3 * P**3:
        return None
    return [y % P, y // P % P, y // P**2 % P]
