"""BabyBear on the GPU: the Montgomery form, Poseidon2's constants, and proofs of work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from kernels.cuda.device import ByValue, Device
from kernels.errors import SizeError
from kernels.maths.babybear import Elements, P, elements, mul
from kernels.maths.poseidon2_babybear import PERMUTATION, WIDTH
from kernels.source import KernelSource

SOURCE = KernelSource("babybear", (("HASH_THREADS", "256"),))

RADIX = np.uint32((1 << 32) % P)
"""Factor of the Montgomery form."""
MIN_LOG_WITNESSES, MAX_LOG_WITNESSES = 12, 26
"""Bounds on log2 of the witnesses of one launch."""


@cache
def poseidon2_constants() -> Elements:
    """`struct Constants` in hash/poseidon2_babybear.h."""
    return mul(elements((*PERMUTATION.round_constants, *PERMUTATION.diagonal)), RADIX)


@cache
def poseidon2_argument() -> ByValue:
    """The constants as a kernel's argument: all threads read the same word, which is in the bank of constants."""
    return ByValue(poseidon2_constants())


def least_witness(device: Device, state: Sequence[int], position: int, bits: int) -> int:
    """Search for a proof of work, as `OpenVmKernels.least_witness`."""
    if len(state) != WIDTH:
        raise SizeError(f"a state is {WIDTH} elements, not {len(state)}")
    kernel, begin = device.kernel(SOURCE, "babybear_grind"), device.upload(elements(state))
    best, mask = device.upload(np.array([P], dtype=np.uint32)), np.uint32((1 << bits) - 1)
    # Four times the witnesses that one hit needs on average: a second launch is rare.
    most = 1 << min(max(bits + 2, MIN_LOG_WITNESSES), MAX_LOG_WITNESSES)
    for first in range(0, P, most):
        count = min(most, P - first)
        sizes = np.uint32(position), np.uint32(first), np.uint32(count), mask
        kernel.launch_items(count, (poseidon2_argument(), begin, *sizes, best))
        found = int(device.download(best)[0])
        if found != P:
            return found
    raise ValueError(f"no element does the work of {bits} bits")
