"""Fq2 = Fq[u] / (u^2 + 1) on Python integers, for single values outside of kernels. (c0, c1) is c0 + c1 u."""

from __future__ import annotations

Fq2 = tuple[int, int]


def product(a: Fq2, b: Fq2, p: int) -> Fq2:
    """Return a * b in Fq2 over the prime p."""
    return (a[0] * b[0] - a[1] * b[1]) % p, (a[0] * b[1] + a[1] * b[0]) % p


def square_root(a: Fq2, p: int) -> Fq2 | None:
    """Return a square root of `a` for p = 3 mod 4 (complex method), or None if there is none."""
    c0, c1 = a
    norm = (c0 * c0 + c1 * c1) % p
    root = pow(norm, (p + 1) // 4, p)
    if root * root % p != norm:
        return None
    for candidate in (root, -root):
        half = (c0 + candidate) * pow(2, -1, p) % p
        x0 = pow(half, (p + 1) // 4, p)
        if x0 * x0 % p != half:
            continue
        x1 = c1 * pow(2 * x0, -1, p) % p if x0 else pow(-c0 % p, (p + 1) // 4, p)
        if product((x0, x1), (x0, x1), p) == (c0, c1):
            return x0, x1
    return None
