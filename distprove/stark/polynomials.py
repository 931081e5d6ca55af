"""Polynomials' helpers over any field that `FieldOperations` describes, on numbers or symbols."""

from __future__ import annotations

from collections.abc import Sequence

from distprove.stark.field_operations import E, FieldOperations


def between(f: FieldOperations[E], a: E, b: E, x: E) -> E:
    """The value at x of the line through a at 0 and b at 1."""
    return f.add(a, f.mul(x, f.sub(b, a)))


def squares(f: FieldOperations[E], x: E, count: int) -> list[E]:
    """The `count` elements x, x^2, x^4, ..."""
    found = [x]
    while len(found) < count:
        found.append(f.mul(found[-1], found[-1]))
    return found[:count]


def evaluate(f: FieldOperations[E], coefficients: Sequence[E], x: E) -> E:
    """The value at x of a polynomial with these coefficients, the constant first."""
    total = f.zero
    for c in reversed(coefficients):
        total = f.add(f.mul(total, x), c)
    return total
