"""Poseidon2 over Goldilocks in plain Python integers, with its round constants made anew: an oracle for native code.

Follows "Poseidon2: A Faster Version of the Poseidon Hash Function" (eprint 2023/323). The constants come from the Grain
LFSR of the Poseidon paper (eprint 2019/458, appendix E) for x^7, 64 bits, width 16, 8 full and 22 partial rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

P = 2**64 - 2**32 + 1
WIDTH, FULL, PARTIAL, DIGEST = 16, 8, 22, 4

CIRCULANT = ((2, 3, 1, 1), (1, 2, 3, 1), (1, 1, 2, 3), (3, 1, 1, 2))
"""The 4 x 4 matrix of the external layer that our kernels use, as Plonky3 does."""
PAPER = ((5, 7, 1, 3), (4, 6, 1, 1), (1, 3, 5, 7), (1, 1, 4, 6))
"""The 4 x 4 matrix of the paper's appendix B, which pil2-proofman uses."""


def power_of_two(exponent: int) -> int:
    return pow(2, exponent, P)


DIAGONAL = tuple(
    x % P
    for x in (
        *(-2, 1, 2, power_of_two(-1), 3, 4, -power_of_two(-1), -3, -4),
        *(power_of_two(-3), power_of_two(-4), power_of_two(-5)),
        *(-power_of_two(-3), -power_of_two(-4), -power_of_two(-5), power_of_two(-32)),
    )
)
"""The diagonal of the internal layer less one, as Plonky3 has it: each product is a shift or a few additions."""


def grain_constants(modulus: int, width: int, full: int, partial: int) -> list[int]:
    """Return the round constants in the order of their rounds: `width` for a full round, one for a partial one."""
    size = modulus.bit_length()
    bits = _grain_bits(size, width, full, partial)
    found: list[int] = []
    while len(found) < width * full + partial:
        value = int("".join(str(next(bits)) for _ in range(size)), 2)
        if value < modulus:
            found.append(value)
    return found


def _grain_bits(size: int, width: int, full: int, partial: int) -> Iterator[int]:
    fields = ((1, 2), (0, 4), (size, 12), (width, 12), (full, 10), (partial, 10), (2**30 - 1, 30))
    state = [int(bit) for value, count in fields for bit in f"{value:0{count}b}"]

    def step() -> int:
        new = state[62] ^ state[51] ^ state[38] ^ state[23] ^ state[13] ^ state[0]
        state.append(new)
        del state[0]
        return new

    for _ in range(160):
        step()
    while True:
        chosen, bit = step(), step()
        if chosen:
            yield bit


CONSTANTS = grain_constants(P, WIDTH, FULL, PARTIAL)


def permute(
    state: Sequence[int], matrix: Sequence[Sequence[int]] = CIRCULANT, diagonal: Sequence[int] = DIAGONAL
) -> list[int]:
    """Return the permutation of 16 elements, under the external layer's 4 x 4 `matrix` and the internal `diagonal`."""
    s, constants = _external(list(state), matrix), iter(CONSTANTS)
    for number in range(FULL + PARTIAL):
        if FULL // 2 <= number < FULL // 2 + PARTIAL:
            s[0] = pow(s[0] + next(constants), 7, P)
            total = sum(s)
            s = [(d * x + total) % P for d, x in zip(diagonal, s, strict=True)]
        else:
            s = _external([pow(x + next(constants), 7, P) for x in s], matrix)
    return s


def sponge(words: Sequence[int]) -> list[int]:
    """Return the digest of `words`: the sponge of rate 12 that `GoldilocksKernels.commit` defines."""
    state = [0] * 12 + [1, len(words), 0, 0]
    for at in range(0, len(words), 12):
        block = list(words[at : at + 12])
        state = permute(block + [0] * (12 - len(block)) + state[12:])
    return state[:DIGEST]


def node(children: Sequence[Sequence[int]], tag: int) -> list[int]:
    """Return the digest of a node over two or four digests."""
    inputs = [x for child in children for x in child]
    if len(children) == 2:
        inputs += [tag, 0, 0, 0, 0, 0, 0, 0]
    return [(x + y) % P for x, y in zip(inputs[:DIGEST], permute(inputs), strict=False)]


def works(seed: Sequence[int], nonce: int, bits: int, tag: int) -> bool:
    """Whether a nonce does the work of `bits` bits for a seed of four elements."""
    return permute([*seed, nonce, 0, 0, 0, 0, 0, 0, 0, tag, 0, 0, 0])[0] % (1 << bits) == 0


def _external(s: list[int], matrix: Sequence[Sequence[int]]) -> list[int]:
    quads = [[sum(m * x for m, x in zip(row, s[i : i + 4], strict=True)) for row in matrix] for i in range(0, WIDTH, 4)]
    sums = [sum(quad[k] for quad in quads) for k in range(4)]
    return [(quad[k] + sums[k]) % P for quad in quads for k in range(4)]
