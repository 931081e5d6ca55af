"""The Poseidon2 permutation over Goldilocks of width 16 (eprint 2023/323), in native code. It runs on every CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.host.native import native

WIDTH, RATE, DIGEST = 16, 12, 4
INSTRUCTION_SET: str = native.gl_instruction_sets()[-1]
"""The widest vectors of this CPU, for functions that permute many states."""


def permute(state: NDArray[np.uint64]) -> None:
    """Permute `state`, a contiguous array of 16 field elements, in place. Raises SizeError."""
    if state.shape != (WIDTH,) or state.dtype != np.uint64:
        raise SizeError(f"a state is {WIDTH} words, not an array {state.shape} of {state.dtype}")
    native.poseidon2_permute(state)


def permuted(state: Sequence[int]) -> list[int]:
    """The permutation of 16 field elements as numbers. Raises SizeError."""
    words = np.array(state, dtype=np.uint64)
    permute(words)
    numbers: list[int] = words.tolist()
    return numbers
