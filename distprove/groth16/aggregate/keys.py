"""The folded commitment keys as values of polynomials in the ceremonies' secrets.

Folding v = (h, h^s, ..., h^(s^(n-1))) by the challenges x_0, ..., x_(l-1), the first of which joins the halves, ends in
h^f(s) with f(X) = prod_j (1 + x_(l-1-j) (shift X)^(2^j)), j = 0 to l - 1. So the verifier need not
fold: it checks an opening of f.
"""

from __future__ import annotations

from collections.abc import Sequence


def powers_of(base: int, count: int, modulus: int) -> list[int]:
    """The first `count` powers of `base`, from the 0th on."""
    out = [1]
    while len(out) < count:
        out.append(out[-1] * base % modulus)
    return out


def coefficients(challenges: Sequence[int], shift: int, modulus: int) -> list[int]:
    """The 2^len(challenges) coefficients of f, lowest first, for the challenges in the order of the rounds."""
    out = [1]
    power = shift
    for x in reversed(challenges):
        factor = x * power % modulus
        out += [c * factor % modulus for c in out]
        power = power * power % modulus
    return out


def evaluate(challenges: Sequence[int], shift: int, z: int, modulus: int) -> int:
    """f(z), in as many steps as there are challenges."""
    power, value = z * shift % modulus, 1
    for x in reversed(challenges):
        value = value * (1 + x * power) % modulus
        power = power * power % modulus
    return value


def quotient(polynomial: Sequence[int], z: int, modulus: int) -> list[int]:
    """The coefficients of (f(X) - f(z)) / (X - z), one fewer than those of f."""
    out: list[int] = []
    carry = 0
    for c in reversed(polynomial[1:]):
        carry = (c + z * carry) % modulus
        out.append(carry)
    return out[::-1]
