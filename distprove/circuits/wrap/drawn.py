"""What a transcript draws from an element of BN254's scalar field, as a circuit.

docs/multilinear-protocol.md, section 2, says what is drawn. A transcript passes over one element in 2^61 for a
challenge, and none for indices. Here such an element has no witness: the proof must be made again, with another
nonce or salt. In exchange what is drawn is unique by a test of 62 bits.
"""

from __future__ import annotations

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear, weighted_sum
from distprove.circuits.wrap.division import Digits
from distprove.circuits.wrap.goldilocks import WORD, Extension
from distprove.circuits.wrap.integers import Bounded, assert_below, bits_of, decomposed
from kernels.maths.goldilocks import P

LOW = 192
"""Bits of an element below those that `element_bits` tests."""


def challenge(b: CircuitBuilder, element: Linear) -> Extension:
    """The extension element that a transcript draws from an element, canonical. It takes 271 constraints a lane.

    The digits d_0, d_1, d_2 below p and a quotient e below r / p^3, rounded down, make an integer below r. It is
    congruent to the element, which therefore has no other such digits.
    """
    lanes, quotients = element.lanes, b.field.modulus // P**3
    first, wires = b.new_wires(3 * WORD * lanes)
    b.add_step(Digits(first, element))
    found: list[Bounded] = []
    for k in range(3):
        digit, at = wires[k * lanes : (k + 1) * lanes], (3 + 63 * k) * lanes
        bits = bits_of(b, digit, wires[at : at + 63 * lanes], WORD)
        assert_below(b, bits, P, "a digit is below p")
        found.append(Bounded(digit, 0, P - 1))
    digits = weighted_sum([1, P, P**2], [digit.value for digit in found])
    quotient = (element - digits) * pow(P, -3, b.field.modulus)
    bits = decomposed(b, quotient, quotients.bit_length())
    assert_below(b, bits, quotients, "the element is one that a transcript takes")
    return found[0], found[1], found[2]


def element_bits(b: CircuitBuilder, element: Linear) -> list[Linear]:
    """The bits of an element as a number below r, the lowest first. It takes 268 constraints a lane.

    The upper 62 bits are asserted to be below those of r, so that the number is below r: the bits of an integer that is
    congruent to the element modulo r and not below r are refused.
    """
    bits = decomposed(b, element, b.field.bits)
    assert_below(b, bits[LOW:], b.field.modulus >> LOW, "the element has one decomposition")
    return bits
