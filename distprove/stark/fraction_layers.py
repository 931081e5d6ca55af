"""The layers of LogUp-GKR, over any field: a fraction is the sum of two of the layer below.

p / q = p_0 / q_0 + p_1 / q_1 has the numerator p_0 q_1 + p_1 q_0 and the denominator q_0 q_1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from distprove.stark.field_operations import E, FieldOperations
from distprove.stark.polynomials import between


@dataclass(frozen=True)
class LeafClaim(Generic[E]):
    """The claimed values of a layer's numerators and denominators at a point, at the end those of the leaves."""

    numerator: E
    denominator: E
    point: tuple[E, ...]
    """The lowest variable first."""


def added(f: FieldOperations[E], children: Sequence[E]) -> tuple[E, E]:
    """Return numerator and denominator of the sum of two fractions (p_0, p_1, q_0, q_1)."""
    p_0, p_1, q_0, q_1 = children
    return f.add(f.mul(p_0, q_1), f.mul(p_1, q_0)), f.mul(q_0, q_1)


def claim_below(f: FieldOperations[E], children: Sequence[E], mu: E, drawn: Sequence[E]) -> LeafClaim[E]:
    """Return the claim about the layer below, at `mu` in its lowest variable, which tells the children
    (p_0, p_1, q_0, q_1) apart, and at the points drawn in the layer's rounds."""
    p_0, p_1, q_0, q_1 = children
    return LeafClaim(between(f, p_0, p_1, mu), between(f, q_0, q_1, mu), (mu, *drawn))
