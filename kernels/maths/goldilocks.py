"""The Goldilocks field and its cubic extension as data. `include/field/goldilocks.h` holds the same numbers."""

from __future__ import annotations

P = 2**64 - 2**32 + 1
GENERATOR = 7
"""Generator of the multiplicative group; also the shift of every low-degree extension."""
TWO_ADICITY = 32

Ext = tuple[int, int, int]
"""Extension element a + b x + c x^2 as (a, b, c), canonical."""


def root_of_unity(log_n: int) -> int:
    """Return the primitive 2^log_n-th root of unity 7^((p-1)/2^log_n). Raises ValueError beyond 2^32."""
    if not 0 <= log_n <= TWO_ADICITY:
        raise ValueError(f"Goldilocks has no 2^{log_n}-th root of unity (at most 2^{TWO_ADICITY})")
    return pow(GENERATOR, (P - 1) >> log_n, P)
