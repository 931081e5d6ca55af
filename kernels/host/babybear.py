"""The permutation of one BabyBear state in native code, for transcripts of any backend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from kernels.errors import SizeError
from kernels.maths.babybear import Elements, elements
from kernels.maths.poseidon2_babybear import DIAGONAL, WIDTH, round_constants


@cache
def permutation_constants() -> Elements:
    """What native hashes are given: the rounds' constants, then the diagonal of the internal layer, (157,)."""
    return elements((*round_constants(), *DIAGONAL))


def permuted(native: Any, pool: Any, state: Sequence[int]) -> list[int]:
    """Return the permutation of a state of 16 elements by a build of the extension, with a pool of it.

    Raises SizeError.
    """
    if len(state) != WIDTH:
        raise SizeError(f"a state is {WIDTH} elements, not {len(state)}")
    words = elements(state)
    out = np.empty_like(words)
    native.bb_permute(pool, permutation_constants(), words, out)
    found: list[int] = out.tolist()
    return found
