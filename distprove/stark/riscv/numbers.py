"""Constraints on long numbers within a row: their words, their order, and equations over the integers.

A number is limbs of 16 bits that the table looks up, or words of 32, the lowest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distprove.stark.air import Expression, Table, total
from distprove.stark.air.definition import Value
from distprove.stark.riscv.buses import word

_WORD = 1 << 32


def product_of(x: Sequence[Expression], y: Sequence[Expression]) -> list[Expression]:
    """The coefficients of x y at the powers of 2^16, of two numbers of as many limbs."""
    limbs = len(x)
    return [total([x[i] * y[k - i] for i in range(limbs) if 0 <= k - i < limbs]) for k in range(2 * limbs - 1)]


def square_of(x: Sequence[Expression]) -> list[Expression]:
    """The coefficients of x x, with half as many products."""
    limbs = len(x)
    return [
        total([(1 + (i != k - i)) * x[i] * x[k - i] for i in range(limbs) if i <= k - i < limbs])
        for k in range(2 * limbs - 1)
    ]


def constrain_zero(
    t: Table,
    at: Sequence[Expression],
    beside: Callable[[int], Value],
    carries: tuple[Sequence[Expression], Sequence[Expression]],
    carry_bits: int,
    on: Expression,
    name: str,
) -> None:
    """Constrain the sum of `at[k]` 2^(16 k) and of `beside(k)` 2^(32 k) to 0, as an integer.

    The coefficients at 2^(32 k) and 2^(32 k + 16) are joined, with the carry from below, and come to 2^32 times the
    carry to the next. `carries` are bits 0 to 15 of each carry, and those
    above, of carry + 2^(carry_bits - 1); the table looks up that they have so many. The author shows that no side of an
    equation comes round p.
    """
    low, high = carries
    half = 1 << (carry_bits - 1)
    carry: Value = 0
    for k in range(len(low) + 1):
        more = beside(k)
        value = at[2 * k] + carry + more
        if 2 * k + 1 < len(at):
            value = value + (1 << 16) * at[2 * k + 1]
        carry = low[k] + (1 << 16) * high[k] - half * on if k < len(low) else 0
        t.always(value - _WORD * carry, f"{name} {k}")


def order_columns(words: int) -> dict[str, int]:
    """The columns by which `constrain_below` orders two numbers of so many words, a multiple of four."""
    return {
        "four": words // 4,  # marks the four words with the highest one in which the numbers differ
        "place": 2,  # bits of its place among these
        "gap": 2,  # by how much they differ there, less 1
    }


def constrain_below(
    t: Table,
    number: Sequence[Expression],
    bound: Sequence[Value],
    columns: tuple[Sequence[Expression], Sequence[Expression], Sequence[Expression]],
    on: Expression,
    without: Value = 0,
    name: str = "",
) -> None:
    """Constrain `number` to be below `bound` where `on` less `without` is 1.

    Both are words below 2^32. `columns` are those of `order_columns`; the table looks up that the limbs of the gap have
    16 bits. The highest word that differs is marked, and is larger in `bound`. `name` begins the constraints' names.
    """
    four, place, gap = columns
    for flag in (*four, *place):
        t.boolean(flag)
    t.always(total(list(four)) + without - on, f"{name}one word differs")
    low, high = place
    places = [(1 - high) * (1 - low), (1 - high) * low, high * (1 - low), high * low]
    # Of degree 3: at degree 4, twice as many interactions share a column as at a lower one.
    differs = [flag * at for flag in four for at in places]
    for k in range(1, len(bound)):
        t.always(total(differs[:k]) * (bound[k] - number[k]), f"{name}equal above, {k}")
    difference = total([flag * (m - r) for flag, m, r in zip(differs, bound, number, strict=True)])
    t.always(difference - (on - without) * (1 + word((gap[0], gap[1]))), f"{name}below the modulus")
