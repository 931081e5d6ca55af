"""The Poseidon2 permutation over Goldilocks of width 16 as a description: constants, and rounds over any values.

eprint 2023/323, with x^7, 8 full and 22 partial rounds. The constants are those of the Grain LFSR of eprint 2019/458,
appendix E. `include/hash/poseidon2.h` computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kernels.maths.goldilocks import P
from kernels.maths.grain import grain_elements

WIDTH, HALF_FULL, PARTIAL, ALPHA = 16, 4, 22, 7
SBOXES = 2 * HALF_FULL * WIDTH + PARTIAL
"""Number of powers that a permutation takes."""


def _inverse_of_two(exponent: int) -> int:
    return pow(2, -exponent, P)


DIAGONAL = tuple(
    x % P
    for x in (
        *(-2, 1, 2, _inverse_of_two(1), 3, 4, -_inverse_of_two(1), -3, -4),
        *(_inverse_of_two(k) for k in (3, 4, 5)),
        *(-_inverse_of_two(k) for k in (3, 4, 5)),
        _inverse_of_two(32),
    )
)
"""The diagonal of the internal layer, less one."""


@cache
def round_constants() -> tuple[int, ...]:
    """The constants in the order of the powers: 16 for each full round, one for each partial one."""
    return grain_elements(P, WIDTH, 2 * HALF_FULL, PARTIAL)


Combine = Callable[[Any, Any], Any]


def rounds(state: Sequence[Any], power: Combine, add: Combine, scale: Combine) -> list[Any]:
    """The permutation of 16 values of any kind. `power(x, c)` gives (x + c)^7, c a number, and is called in the order
    of `round_constants`; `scale(x, c)` gives c x."""
    constants = iter(round_constants())

    def raised(x: Any) -> Any:
        return power(x, next(constants))

    def external(s: Sequence[Any]) -> list[Any]:
        mixed: list[Any] = []
        for q in range(0, WIDTH, 4):
            a, b, c, d = s[q : q + 4]
            total = add(add(a, b), add(c, d))
            mixed += [
                add(total, add(a, scale(b, 2))),
                add(total, add(b, scale(c, 2))),
                add(total, add(c, scale(d, 2))),
                add(total, add(d, scale(a, 2))),
            ]
        columns = [add(add(mixed[k], mixed[k + 4]), add(mixed[k + 8], mixed[k + 12])) for k in range(4)]
        return [add(x, columns[i % 4]) for i, x in enumerate(mixed)]

    def internal(s: Sequence[Any]) -> list[Any]:
        total = s[0]
        for x in s[1:]:
            total = add(total, x)
        return [add(total, scale(x, d)) for x, d in zip(s, DIAGONAL, strict=True)]

    s = external(state)
    for _ in range(HALF_FULL):
        s = external([raised(x) for x in s])
    for _ in range(PARTIAL):
        s = internal([raised(s[0]), *s[1:]])
    for _ in range(HALF_FULL):
        s = external([raised(x) for x in s])
    return s
