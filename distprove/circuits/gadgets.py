"""Small building blocks of circuits."""

from __future__ import annotations

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear


def select(b: CircuitBuilder, condition: Linear, if_one: Linear, if_zero: Linear) -> Linear:
    """`if_one` where the boolean `condition` is 1, else `if_zero`. Takes one constraint a lane."""
    return b.multiply(condition, if_one - if_zero) + if_zero


def swap(b: CircuitBuilder, condition: Linear, left: Linear, right: Linear) -> tuple[Linear, Linear]:
    """(right, left) where the boolean `condition` is 1, else (left, right). Takes one constraint a lane."""
    moved = b.multiply(condition, right - left)
    return left + moved, right - moved


def logical_and(b: CircuitBuilder, x: Linear, y: Linear) -> Linear:
    """The logical and of the booleans x and y."""
    return b.multiply(x, y)


def logical_or(b: CircuitBuilder, x: Linear, y: Linear) -> Linear:
    """The logical or of the booleans x and y."""
    return x + y - b.multiply(x, y)


def logical_xor(b: CircuitBuilder, x: Linear, y: Linear) -> Linear:
    """The exclusive or of the booleans x and y."""
    return x + y - b.multiply(x, y) * 2


def less_than(b: CircuitBuilder, x: Linear, y: Linear, bits: int) -> Linear:
    """1 where x < y, else 0, if x and y are known to be below 2^bits. Takes bits + 2 constraints a lane."""
    # x - y + 2^bits lies in (0, 2^(bits + 1)); its top bit is clear exactly when x < y
    return 1 - b.bits(x - y + (1 << bits), bits + 1)[bits]
