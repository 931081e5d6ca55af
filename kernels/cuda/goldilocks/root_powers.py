"""Powers of roots of unity in device memory."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.device import Device
from kernels.interface.arrays import Array
from kernels.maths.goldilocks import P, root_of_unity


class RootPowers:
    """Tables of powers on one device, each kept from its first use."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._tables: dict[tuple[int, int, bool], tuple[Array, np.uint32]] = {}

    def of(self, log_order: int, *, first: int = 1, inverse: bool = False) -> tuple[Array, np.uint32]:
        """Return, as a kernel takes them, the powers of the 2^log_order-th root of unity w, or its inverse, times
        `first`: a table in two levels of first * w^i for every i below 2^log_order, and the number of bits of i that
        the lower one takes."""
        key = log_order, first, inverse
        if key not in self._tables:
            root = root_of_unity(log_order)
            root = pow(root, -1, P) if inverse else root
            log_low = (log_order + 1) // 2
            low = powers(root, 1 << log_low)
            high = powers(pow(root, 1 << log_low, P), 1 << (log_order - log_low), first=first)
            self._tables[key] = self._device.upload(np.concatenate([low, high])), np.uint32(log_low)
        return self._tables[key]


def powers(base: int, count: int, *, first: int = 1) -> NDArray[np.uint64]:
    """Return first * base^i for i < count, on the host."""
    values = itertools.accumulate(range(count - 1), lambda value, _: value * base % P, initial=first)
    return np.fromiter(values, dtype=np.uint64, count=count)


def log2(n: int) -> int:
    """log2 of a power of two."""
    return n.bit_length() - 1
