"""The Goldilocks field and its cubic extension as data; the same numbers stand in `include/field/goldilocks.h`."""

from __future__ import annotations

P = 2**64 - 2**32 + 1
GENERATOR = 7
"""Of the multiplicative group; also the shift of every low-degree extension."""
TWO_ADICITY = 32

Ext = tuple[int, int, int]
"""a + b x + c x^2, canonical."""


def root_of_unity(log_n: int) -> int:
    """Primitive 2^log_n-th root of unity: 7^((p-1)/2^log_n). Raises ValueError beyond 2^32."""
    if not 0 <= log_n <= TWO_ADICITY:
        raise ValueError(f"Goldilocks has no 2^{log_n}-th root of unity (at most 2^{TWO_ADICITY})")
    return pow(GENERATOR, (P - 1) >> log_n, P)
