"""The Poseidon2 permutation over the scalar field of BN254 of width 3 as a description: constants, and rounds over any
values.

eprint 2023/323, with x^5, 8 full and 56 partial rounds, and the paper's layers for width 3. The constants are those of
the Grain LFSR of eprint 2019/458, appendix E. `include/hash/poseidon2_bn254.h` computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kernels.maths.curves import BN254
from kernels.maths.grain import grain_elements

R = BN254.fr.modulus
"""The order of the group, the modulus of the scalar field."""
WIDTH, HALF_FULL, PARTIAL, ALPHA = 3, 4, 56, 5
SBOXES = 2 * HALF_FULL * WIDTH + PARTIAL
"""Number of powers that a permutation takes."""
DIAGONAL = (1, 1, 2)
"""The diagonal of the internal layer, less one."""


@cache
def round_constants() -> tuple[int, ...]:
    """The constants in the order of the powers: 3 for each full round, one for each partial one."""
    return grain_elements(R, WIDTH, 2 * HALF_FULL, PARTIAL)


Combine = Callable[[Any, Any], Any]


def rounds(state: Sequence[Any], power: Combine, add: Combine, scale: Combine) -> list[Any]:
    """The permutation of 3 values of any kind. `power(x, c)` gives (x + c)^5, c a number, and is called in the order of
    `round_constants`; `scale(x, c)` gives c x."""
    constants = iter(round_constants())

    def mixed(s: Sequence[Any], diagonal: Sequence[int]) -> list[Any]:
        total = add(add(s[0], s[1]), s[2])
        return [add(total, x if d == 1 else scale(x, d)) for x, d in zip(s, diagonal, strict=True)]

    def full(s: Sequence[Any]) -> list[Any]:
        return mixed([power(x, next(constants)) for x in s], (1, 1, 1))

    s = mixed(state, (1, 1, 1))
    for _ in range(HALF_FULL):
        s = full(s)
    for _ in range(PARTIAL):
        s = mixed([power(s[0], next(constants)), *s[1:]], DIAGONAL)
    for _ in range(HALF_FULL):
        s = full(s)
    return s
