"""Goldilocks and its cubic extension in a circuit over BN254.

An element is a `Bounded` integer that is congruent to it modulo p. It is reduced to 64 bits when its bounds ask for it:
a product of extension elements takes 5 constraints, and the three reductions of a sum of products some 390.
A *reduced* element is below 2^64, and perhaps not below p; a *canonical* one is.
"""

from __future__ import annotations

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear
from distprove.circuits.wrap.division import Divide, wires_of_division
from distprove.circuits.wrap.integers import Bounded, assert_below, bits_of, decomposed
from distprove.errors import UsageError
from kernels.host.units import count_of
from kernels.maths.goldilocks import P

Extension = tuple[Bounded, Bounded, Bounded]
"""The element a + b x + c x^2 of F_p[x]/(x^3 - x - 1)."""

WORD = 64


def canonical(b: CircuitBuilder, value: Linear) -> Bounded:
    """A wire, asserted to be below p. It takes 65 constraints a lane."""
    bits = decomposed(b, value, WORD)
    assert_below(b, bits, P, "an element is below p")
    return Bounded(value, 0, P - 1)


def reduced(b: CircuitBuilder, x: Bounded) -> Bounded:
    """An element below 2^64 that is congruent to x modulo p. It takes a constraint for each bit that x may have, or
    one more. Raises UsageError for bounds too far apart."""
    offset, count = _quotients(b, x.low, x.high)
    lanes = x.value.lanes
    first, wires = b.new_wires(lanes * wires_of_division(count))
    b.add_step(Divide(first, count, x.value + offset))
    remainder, rest = wires[:lanes], wires[lanes:]
    bits_of(b, remainder, rest[: 63 * lanes], WORD)
    quotient = (x.value + offset - remainder) * pow(P, -1, b.field.modulus)
    bits_of(b, quotient, rest[63 * lanes :], count) if count > 1 else b.assert_boolean(quotient, "a quotient")
    return Bounded(remainder, 0, 2**WORD - 1)


def assert_zero(b: CircuitBuilder, x: Bounded, label: str) -> None:
    """Assert that an integer is a multiple of p. It takes a constraint for each bit that the quotient may have."""
    offset, count = _quotients(b, x.low, x.high)
    quotient = (x.value + offset) * pow(P, -1, b.field.modulus)
    decomposed(b, quotient, count, label)


def _quotients(b: CircuitBuilder, low: int, high: int) -> tuple[int, int]:
    """A multiple of p to add to an integer, so that it is not negative, and the bits of its quotient by p then."""
    offset = -(low // P) * P if low < 0 else 0
    count = max(1, ((high + offset) // P).bit_length())
    if (P << count) + 2**WORD > b.field.modulus:
        raise UsageError(
            f"an integer of {count_of((high + offset).bit_length(), 'bit')} cannot be reduced in this field"
        )
    return offset, count


def multiply(b: CircuitBuilder, x: Extension, y: Extension) -> Extension:
    """The product, not reduced, by 5 constraints a lane: the bits of both factors add up, and up to three more."""
    p = _products(b, x, y)
    low_and_high = _bounds(x, y)
    half = pow(2, -1, b.field.modulus)
    third = pow(3, -1, b.field.modulus)
    c_0, c_4 = p[0], p[4]
    c_2 = (p[1] + p[2]) * half - c_0 - c_4
    odd = (p[1] - p[2]) * half
    c_3 = ((p[3] - c_0 - c_2 * 4 - c_4 * 16) * half - odd) * third
    c_1 = odd - c_3
    values = (c_0 + c_3, c_1 + c_3 + c_4, c_2 + c_4)
    a, d, e = (Bounded(v, low, high) for v, (low, high) in zip(values, low_and_high, strict=True))
    _check_apart(b, (a, d, e))
    return a, d, e


def _products(b: CircuitBuilder, x: Extension, y: Extension) -> list[Linear]:
    """The products of both as polynomials at 0, 1, -1, 2 and infinity."""
    (a_0, a_1, a_2), (b_0, b_1, b_2) = (tuple(part.value for part in element) for element in (x, y))
    inner = [b.multiply(a_0 + a_1 * t + a_2 * t**2, b_0 + b_1 * t + b_2 * t**2) for t in (0, 1, -1, 2)]
    return [*inner, b.multiply(a_2, b_2)]


def _bounds(x: Extension, y: Extension) -> list[tuple[int, int]]:
    """The bounds of the three parts of a product."""
    parts = (
        ((0, 0), (1, 2), (2, 1)),
        ((0, 1), (1, 0), (1, 2), (2, 1), (2, 2)),
        ((0, 2), (1, 1), (2, 0), (2, 2)),
    )
    found = []
    for own in parts:
        each = [x[i].bounds_of_product(y[j]) for i, j in own]
        found.append((sum(low for low, _ in each), sum(high for _, high in each)))
    return found


def _check_apart(b: CircuitBuilder, x: Extension) -> None:
    if any(part.high - part.low >= b.field.modulus for part in x):
        raise UsageError("a product has more values than the circuit's field: reduce its factors")
