"""Integers in a circuit: combinations of wires that stand for integers within known bounds.

An element of the circuit's field stands for one integer between two bounds that are less than the field's order apart.
So equations between elements are equations between integers, as long as both sides stay within such bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear, Span, weighted_sum
from distprove.circuits.program import Step, Wires


@dataclass(frozen=True)
class Bounded:
    """An integer in `low` .. `high` in every satisfying witness, as an element of the field."""

    value: Linear
    low: int
    high: int

    def __add__(self, other: Bounded) -> Bounded:
        return Bounded(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounded) -> Bounded:
        return Bounded(self.value - other.value, self.low - other.high, self.high - other.low)

    def times(self, factor: int) -> Bounded:
        """The product with a constant."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Bounded(self.value * factor, low, high)

    def bounds_of_product(self, other: Bounded) -> tuple[int, int]:
        """The bounds of the product of both."""
        corners = [x * y for x in (self.low, self.high) for y in (other.low, other.high)]
        return min(corners), max(corners)


def constant(b: CircuitBuilder, value: int) -> Bounded:
    """An integer that is known."""
    return Bounded(b.constant(value), value, value)


def bits_of(
    b: CircuitBuilder, value: Linear, higher: Linear, count: int, label: str = "a value fits its bits"
) -> list[Linear]:
    """The `count` bits of a value, the lowest first, of which wires have all but the lowest: bit k of all lanes from
    lane (k - 1) * lanes of `higher` on.

    It takes `count` constraints a lane: the lowest bit is what the others leave of the value.
    """
    bits = higher.pieces(value.lanes)
    lowest = value - weighted_sum([2 << k for k in range(count - 1)], bits) if bits else value
    if bits:
        b.constrain(higher, higher, higher)
    b.assert_boolean(lowest, label)
    return [lowest, *bits]


def decomposed(b: CircuitBuilder, value: Linear, count: int, label: str = "a value fits its bits") -> list[Linear]:
    """The `count` bits of a value, the lowest first, by `count` constraints a lane.

    With as many bits as the field's order has a value can have two decompositions; `assert_below` then chooses one.
    """
    if count == 1:
        b.assert_boolean(value, label)
        return [value]
    first, higher = b.new_wires(value.lanes * (count - 1))
    b.add_step(HigherBits(first, count, value))
    return bits_of(b, value, higher, count, label)


def assert_below(b: CircuitBuilder, bits: Sequence[Linear], bound: int, label: str) -> None:
    """Assert that the number of these bits is below `bound`, by one constraint for each run of zeros of `bound` - 1.

    Seen from the top, let D count the places above a run of zeros where `bound` - 1 has a one and the number has none.
    If D is zero, the number is so far that of `bound` - 1, and its bits in the run must be zero too. If D is not zero,
    the number is already less. So the constraint is D w = the sum of the run's bits, for any w.
    """
    most, missing, k = bound - 1, b.constant(0, bits[0].lanes), len(bits) - 1
    ones = list[Linear]()
    while k >= 0:
        if most >> k & 1:
            ones.append(bits[k])
            k -= 1
            continue
        if ones:
            missing = missing + len(ones) - weighted_sum([1] * len(ones), ones)
            ones = []
        run = [bits[k]]
        while k and not most >> k - 1 & 1:
            k -= 1
            run.append(bits[k])
        k -= 1
        total = weighted_sum([1] * len(run), run)
        first, ratio = b.new_wires(total.lanes)
        b.add_step(Ratio(first, total, missing))
        b.assert_product(missing, ratio, total, label)


@dataclass(frozen=True)
class HigherBits(Step):
    """The step that writes all `count` low bits of value but the lowest: bit k of lane i to wire
    first + (k - 1) * lanes + i."""

    first: int
    count: int
    value: Linear

    def run(self, wires: Wires) -> None:
        write_higher_bits(wires, self.first, self.count, wires.evaluate(self.value))

    def reads(self) -> list[Span]:
        return self.value.spans(self.value.lanes)

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, (self.count - 1) * self.value.lanes)]


def write_higher_bits(wires: Wires, first: int, count: int, values: object) -> None:
    """Write the bits 1 .. count - 1 of values, (lanes * batch, limbs), to the wires from `first` on."""
    bits = wires.backend.vectors.bits(wires.field, values, count)
    wires.store(first, bits[1:].reshape(-1, wires.field.limbs))


@dataclass(frozen=True)
class Ratio(Step):
    """The step wire = a / b, and zero where b is."""

    first: int
    a: Linear
    b: Linear

    def run(self, wires: Wires) -> None:
        vectors, lanes = wires.backend.vectors, self.a.lanes
        inverse = vectors.batch_inverse(wires.field, wires.evaluate(self.b, lanes))
        wires.store(self.first, vectors.mul(wires.field, wires.evaluate(self.a), inverse))

    def reads(self) -> list[Span]:
        return [span for value in (self.a, self.b) for span in value.spans(self.a.lanes)]

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, self.a.lanes)]
