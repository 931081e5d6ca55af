"""Round constants and MDS matrices of Poseidon with x^5, from the Grain LFSR of its paper.

Grassi, Khovratovich, Rechberger, Roy, Schofnegger: "Poseidon: A New Hash Function for Zero-Knowledge Proof Systems"
(USENIX Security 2021), Appendix F, and its reference script generate_parameters_grain. For BN254 these are circomlib's
numbers.

neptune's parameters, which Filecoin uses, differ in the rounds, in the seed of the round constants and in the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kernels.maths.curves import Field

FULL_ROUNDS = 8

PARTIAL_ROUNDS = (56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65, 70, 60, 64, 68)
"""Partial rounds for widths 2 to 17 at 128 bits of security, as in circomlib. They depend on the prime only through
min(128, log2 p), so they hold for every 254- and 255-bit prime."""

NEPTUNE_PARTIAL_ROUNDS = {3: 55, 5: 56, 9: 57, 12: 57}
"""neptune's partial rounds at 128 bits of security, by width."""

_CLOCKS = 16
"""Clocks of the LFSR at a time: even, a divisor of 160, and at most 80 - 62."""


@dataclass(frozen=True)
class PoseidonParameters:
    """The Poseidon permutation with x^5 on `width` elements: 4 full, `partial_rounds` partial, 4 full rounds."""

    field: Field
    width: int
    partial_rounds: int
    constants: tuple[tuple[int, ...], ...]
    """Round constants, a tuple of `width` for each round."""
    matrix: tuple[tuple[int, ...], ...]

    @property
    def rounds(self) -> int:
        return FULL_ROUNDS + self.partial_rounds

    def is_full(self, number: int) -> bool:
        return not FULL_ROUNDS // 2 <= number < FULL_ROUNDS // 2 + self.partial_rounds


class _Grain:
    """The self-shrinking 80-bit Grain LFSR, seeded with the parameters of a Poseidon instance."""

    def __init__(self, bits: int, width: int, partial_rounds: int, sbox: int = 0) -> None:
        self.bits = bits
        # (value, bits): prime field, S-box, field size, width, full and partial rounds, then ones
        rounds = ((FULL_ROUNDS, 10), (partial_rounds, 10))
        seed = ((1, 2), (sbox, 4), (bits, 12), (width, 12), *rounds, ((1 << 30) - 1, 30))
        digits = "".join(f"{value:0{size}b}" for value, size in seed)
        self._state = int(digits[::-1], 2)  # bit i is the one that leaves after i others
        self._stream = self._shrunk()
        for _ in range(160 // _CLOCKS):
            self._clock()

    def _clock(self) -> int:
        """Clock _CLOCKS times: the new bits, the first one lowest. None of them depends on another."""
        s = self._state
        new = (s >> 62 ^ s >> 51 ^ s >> 38 ^ s >> 23 ^ s >> 13 ^ s) & (1 << _CLOCKS) - 1
        self._state = s >> _CLOCKS | new << 80 - _CLOCKS
        return new

    def _shrunk(self) -> Iterator[int]:
        """Of each pair of bits the second, where the first is 1."""
        while True:
            pairs = self._clock()
            for _ in range(_CLOCKS // 2):
                if pairs & 1:
                    yield pairs >> 1 & 1
                pairs >>= 2

    def integer(self) -> int:
        """Draw an integer of `bits` bits, most significant bit first."""
        value = 0
        for _ in range(self.bits):
            value = value << 1 | next(self._stream)
        return value

    def element(self, modulus: int) -> int:
        """Draw a uniform field element by rejection sampling."""
        while (value := self.integer()) >= modulus:
            pass
        return value


@lru_cache(maxsize=8)
def poseidon_parameters(field: Field, width: int) -> PoseidonParameters:
    """The parameters of the permutation of `width` elements of `field`. Raises ValueError."""
    if not 2 <= width <= 17:
        raise ValueError(f"Poseidon here has 2 to 17 elements, not {width}")
    if field.bits not in (254, 255) or (field.modulus - 1) % 5 == 0:
        raise ValueError(f"Poseidon with x^5 takes a 254- or 255-bit prime p, 5 not dividing p - 1: {field.name}")
    partial = PARTIAL_ROUNDS[width - 2]
    grain = _Grain(field.bits, width, partial)
    constants = _constants(grain, field.modulus, width, partial)
    return PoseidonParameters(field, width, partial, constants, _cauchy(grain, field.modulus, width))


@lru_cache(maxsize=8)
def neptune_parameters(field: Field, width: int) -> PoseidonParameters:
    """neptune's parameters of the permutation of 3, 5, 9 or 12 elements. Raises ValueError for another width."""
    if width not in NEPTUNE_PARTIAL_ROUNDS:
        raise ValueError(f"Filecoin's Poseidon has 3, 5, 9 or 12 elements, not {width}")
    partial = NEPTUNE_PARTIAL_ROUNDS[width]
    constants = _constants(_Grain(field.bits, width, partial, sbox=1), field.modulus, width, partial)
    matrix = tuple(tuple(pow(i + width + j, -1, field.modulus) for j in range(width)) for i in range(width))
    return PoseidonParameters(field, width, partial, constants, matrix)


def _constants(grain: _Grain, modulus: int, width: int, partial: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(grain.element(modulus) for _ in range(width)) for _ in range(FULL_ROUNDS + partial))


def _cauchy(grain: _Grain, modulus: int, width: int) -> tuple[tuple[int, ...], ...]:
    """The Cauchy matrix 1 / (x_i + y_j) for distinct x and y drawn from `grain`, drawn again while a sum is zero."""
    while True:
        drawn = [grain.integer() % modulus for _ in range(2 * width)]
        xs, ys = drawn[:width], drawn[width:]
        sums = [[(x + y) % modulus for y in ys] for x in xs]
        if len(set(drawn)) == 2 * width and all(s for row in sums for s in row):
            return tuple(tuple(pow(s, -1, modulus) for s in row) for row in sums)
