"""Steps of a witness program that divide integers by Goldilocks' p, by operations on vectors of either backend."""

from __future__ import annotations

from dataclasses import dataclass

from distprove.circuits.linear import Linear, Span
from distprove.circuits.program import Step, Wires
from distprove.circuits.wrap.integers import write_higher_bits
from kernels.interface.arrays import Array
from kernels.maths.encoding import field_from_ints
from kernels.maths.goldilocks import P

_AT_ONCE = 1 << 12
"""Values whose bits are there at a time, 8 KiB each."""


@dataclass(frozen=True)
class Divide(Step):
    """The step that divides value, an integer below the field's order, by p.

    It writes for each lane the remainder; then bits 1 .. 63 of the remainders, then bits 1 .. of the quotients, of
    `quotient_bits`.
    """

    first: int
    quotient_bits: int
    value: Linear

    def run(self, wires: Wires) -> None:
        remainder, quotient = divided(wires, wires.evaluate(self.value))
        lanes = self.value.lanes
        wires.store(self.first, remainder)
        write_higher_bits(wires, self.first + lanes, 64, remainder)
        write_higher_bits(wires, self.first + 64 * lanes, self.quotient_bits, quotient)

    def reads(self) -> list[Span]:
        return self.value.spans(self.value.lanes)

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, self.value.lanes * wires_of_division(self.quotient_bits))]


def wires_of_division(quotient_bits: int) -> int:
    """Wires a lane that `Divide` writes."""
    return 64 + quotient_bits - 1


@dataclass(frozen=True)
class Digits(Step):
    """The step that writes for each lane the three lowest digits of value to the base p, then bits 1 .. 63 of each."""

    first: int
    value: Linear

    def run(self, wires: Wires) -> None:
        rest, lanes, digits = wires.evaluate(self.value), self.value.lanes, []
        for _ in range(3):
            digit, rest = divided(wires, rest)
            digits.append(digit)
        for k, digit in enumerate(digits):
            wires.store(self.first + k * lanes, digit)
            write_higher_bits(wires, self.first + (3 + 63 * k) * lanes, 64, digit)

    def reads(self) -> list[Span]:
        return self.value.spans(self.value.lanes)

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, 3 * 64 * self.value.lanes)]


def divided(wires: Wires, values: Array) -> tuple[Array, Array]:
    """Remainders and quotients of integers below the field's order by p, for values (n, limbs)."""
    vectors, field = wires.backend.vectors, wires.field
    remainders = wires.backend.empty(values.shape)
    for start in range(0, len(values), _AT_ONCE):
        remainders[start : start + _AT_ONCE] = _remainders(wires, values[start : start + _AT_ONCE])
    inverse = _constant(wires, pow(P, -1, field.modulus), values)
    return remainders, vectors.mul(field, vectors.sub(field, values, remainders), inverse)


def _remainders(wires: Wires, values: Array) -> Array:
    vectors, field = wires.backend.vectors, wires.field
    # Each bit stands for its power of two modulo p: what they sum up to is below 2^72.
    small = _from_bits(wires, values, [pow(2, k, P) for k in range(field.bits)])
    # The upper 8 bits count 2^64, which is p + 2^32 - 1: below 2 p.
    small = _from_bits(wires, small, [1 << k if k < 64 else (1 << k - 64) * (2**32 - 1) for k in range(72)])
    shifted = vectors.add(field, small, _constant(wires, 2**65 - P, small))
    reaches = vectors.bits(field, shifted, 66)[65]
    return vectors.sub(field, small, vectors.mul(field, reaches, _constant(wires, P, small)))


def _from_bits(wires: Wires, values: Array, weights: list[int]) -> Array:
    """The sums of the weights of those bits that values have."""
    vectors, field = wires.backend.vectors, wires.field
    bits = vectors.bits(field, values, len(weights))
    factors = wires.backend.empty(bits.shape)
    factors[...] = wires.backend.to_device(field_from_ints(field, weights))[:, None]
    terms, count = vectors.mul(field, bits, factors, out=bits), len(weights)
    while count > 1:
        half = count // 2
        vectors.add(field, terms[:half], terms[half : 2 * half], out=terms[:half])
        if count % 2:
            terms[half] = terms[count - 1]
        count = half + count % 2
    return terms[0]


def _constant(wires: Wires, value: int, like: Array) -> Array:
    made = wires.backend.empty(like.shape)
    made[...] = wires.backend.to_device(field_from_ints(wires.field, [value]))
    return made
