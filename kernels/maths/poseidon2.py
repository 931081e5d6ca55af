"""The Poseidon2 permutation over Goldilocks of width 16 as a description: constants, and rounds over any values.

eprint 2023/323, with x^7, 8 full and 22 partial rounds. The constants are those of the Grain LFSR of eprint 2019/458,
appendix E. `include/hash/poseidon2.h` computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from kernels.maths.goldilocks import P

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
    bits = _grain_bits()
    found: list[int] = []
    while len(found) < SBOXES:
        value = 0
        for _ in range(64):
            value = 2 * value + next(bits)
        if value < P:
            found.append(value)
    return tuple(found)


def _grain_bits() -> Iterator[int]:
    """The bits of the LFSR, of which every other one chooses whether the next is taken."""
    # A prime field (1), the power x^alpha (0), then bits of the field, width, and full and partial rounds.
    sizes = ((1, 2), (0, 4), (64, 12), (WIDTH, 12), (2 * HALF_FULL, 10), (PARTIAL, 10), (2**30 - 1, 30))
    state = [int(bit) for value, size in sizes for bit in f"{value:0{size}b}"]

    def step() -> int:
        state.append(state[62] ^ state[51] ^ state[38] ^ state[23] ^ state[13] ^ state[0])
        del state[0]
        return state[-1]

    for _ in range(160):
        step()
    while True:
        chosen, bit = step(), step()
        if chosen:
            yield bit


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
