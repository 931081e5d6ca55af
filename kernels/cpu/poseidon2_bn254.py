"""The Poseidon2 permutation over the scalar field of BN254 of width 3 (eprint 2023/323), in native code.

It runs on every CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.host.native import native
from kernels.maths.poseidon2_bn254 import WIDTH, R

RATE, ELEMENT_BYTES = 2, 32


def permuted(state: Sequence[int]) -> list[int]:
    """The permutation of 3 field elements as numbers; these may be any natural ones. Raises SizeError."""
    if len(state) != WIDTH:
        raise SizeError(f"a state is {WIDTH} elements, not {len(state)}")
    words = to_words([x % R for x in state])
    native.poseidon2_bn254_permute(words)
    return to_numbers(words)


def to_words(numbers: Sequence[int]) -> NDArray[np.uint64]:
    """Numbers below 2^256 as four 64-bit words each, the lowest first."""
    data = b"".join(x.to_bytes(ELEMENT_BYTES, "little") for x in numbers)
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def to_numbers(words: NDArray[np.uint64]) -> list[int]:
    """The numbers of which `words` has four words each."""
    data = words.astype("<u8", copy=False).tobytes()
    return [int.from_bytes(data[i : i + ELEMENT_BYTES], "little") for i in range(0, len(data), ELEMENT_BYTES)]
