"""Poseidon2 (eprint 2023/323) over any prime field and of any width: round constants, and rounds over any values.

The constants are those of the Grain LFSR of eprint 2019/458, appendix E.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from kernels.maths.grain import grain_elements

Combine = Callable[[Any, Any], Any]
HALF_FULL = 4
"""Full rounds before the partial ones, and after them."""


@dataclass(frozen=True)
class Poseidon2:
    """A permutation as a description."""

    modulus: int
    partial: int
    """Number of partial rounds."""
    diagonal: tuple[int, ...]
    """The diagonal of the internal layer, less one: as many entries as the state has elements."""
    external: Callable[[Sequence[Any], Combine, Combine], list[Any]]
    """The external layer of a state, given sums of two values and products with a number."""

    @property
    def powers(self) -> int:
        """Number of powers that a permutation takes."""
        return 2 * HALF_FULL * len(self.diagonal) + self.partial

    @cached_property
    def round_constants(self) -> tuple[int, ...]:
        """The constants in the order of the powers: one for each element in a full round, one in a partial one."""
        return grain_elements(self.modulus, len(self.diagonal), 2 * HALF_FULL, self.partial)

    def rounds(self, state: Sequence[Any], power: Combine, add: Combine, scale: Combine) -> list[Any]:
        """The permutation of values of any kind. `power(x, c)` gives the power of x + c, c a number, and is called in
        the order of `round_constants`; `scale(x, c)` gives c x."""
        constants = iter(self.round_constants)
        s = self.external(state, add, scale)
        for partial in (False,) * HALF_FULL + (True,) * self.partial + (False,) * HALF_FULL:
            if partial:
                s = [power(s[0], next(constants)), *s[1:]]
                total = reduce(add, s)
                s = [add(total, scale(x, d)) for x, d in zip(s, self.diagonal, strict=True)]
            else:
                s = self.external([power(x, next(constants)) for x in s], add, scale)
        return s


def quads(s: Sequence[Any], add: Combine, scale: Combine) -> list[Any]:
    """The external layer circ(2 M, M, .. M) with M = circ(2, 3, 1, 1), of a state of four elements or a multiple."""
    mixed: list[Any] = []
    for q in range(0, len(s), 4):
        a, b, c, d = s[q : q + 4]
        total = add(add(a, b), add(c, d))
        mixed += [add(total, add(x, scale(y, 2))) for x, y in ((a, b), (b, c), (c, d), (d, a))]
    columns = [add(add(mixed[k], mixed[k + 4]), add(mixed[k + 8], mixed[k + 12])) for k in range(4)]
    return [add(x, columns[i % 4]) for i, x in enumerate(mixed)]


def plonky3_diagonal(modulus: int, exponents: Sequence[int]) -> tuple[int, ...]:
    """The diagonal of Plonky3's internal layer of width 16, less one: small factors, then inverses of powers of two. An
    exponent e stands for 1 / 2^e, and -e for -1 / 2^e."""
    half = pow(2, -1, modulus)
    inverses = (pow(2, -e, modulus) if e > 0 else -pow(2, e, modulus) for e in exponents)
    return tuple(x % modulus for x in (-2, 1, 2, half, 3, 4, -half, -3, -4, *inverses))
