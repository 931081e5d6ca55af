"""Tables of multilinear polynomials over BabyBear's extension, as the prover holds them: NumPy arrays.

A table over n variables has 2^n entries; bit i of an entry's number is the value of variable i. Binding the first
variable therefore joins neighbouring entries.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from kernels.cpu.openvm.tables import eq_table as eq_table
from kernels.host.babybear import ext_powers
from kernels.maths.babybear import Elements, P, mul, powers, root_of_unity, total


def lagrange(log_skip: int, at: Elements) -> Elements:
    """Return eq_D(at, w^z) for all z, (2^log_skip, 4): the weights that give a polynomial's value at `at` from its
    values on D."""
    powers_of_x = ext_powers(at, 1 << log_skip)
    return total(mul(_inverse_roots(log_skip)[..., None], powers_of_x), 1)


@cache
def _inverse_roots(log_n: int) -> Elements:
    """Row z, item k: w^(-z k) divided by n. eq_D(x, w^z) is the mean over k < n of (x / w^z)^k."""
    n = 1 << log_n
    exponents = -np.outer(np.arange(n), np.arange(n)) % n
    return mul(roots(log_n)[exponents], np.asarray(pow(n, -1, P), dtype=np.uint32))


def roots(log_n: int) -> Elements:
    """Return the (2^log_n,) points of the subgroup."""
    return powers(root_of_unity(log_n), 1 << log_n)
