"""Small building blocks of circuits."""

from __future__ import annotations

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear


def select(b: CircuitBuilder, condition: Linear, if_one: Linear, if_zero: Linear) -> Linear:
    """`if_one` where the boolean `condition` is 1, else `if_zero`. One constraint a lane."""
    return b.multiply(condition, if_one - if_zero) + if_zero


def swap(b: CircuitBuilder, condition: Linear, left: Linear, right: Linear) -> tuple[Linear, Linear]:
    """(right, left) where the boolean `condition` is 1, else (left, right). One constraint a lane."""
    moved = b.multiply(condition, right - left)
    return left + moved, right - moved


def logical_and(b: CircuitBuilder, x: Linear, y: Linear) -> Linear:
    """x and y, for booleans."""
    return b.multiply(x, y)


def logical_or(b: CircuitBuilder, x: Linear, y: Linear) -> Linear:
    """x or y, for booleans."""
    return x + y - b.multiply(x, y)


def logical_xor(b: CircuitBuilder, x: Linear, y: Linear) -> Linear:
    """x xor y, for booleans."""
    return x + y - b.multiply(x, y) * 2


def less_than(b: CircuitBuilder, x: Linear, y: Linear, bits: int) -> Linear:
    """1 where x < y, else 0, for x and y known to be below 2^bits. bits + 2 constraints a lane."""
    # x - y + 2^bits lies in (0, 2^(bits + 1)); its top bit is clear exactly when x < y
    return 1 - b.bits(x - y + (1 << bits), bits + 1)[bits]
