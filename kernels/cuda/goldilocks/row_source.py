"""Runs row functions in C++ on one GPU: compiled by NVRTC, one thread per row."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from kernels.cuda.device import ByValue, Device
from kernels.interface.arrays import Array
from kernels.interface.row_source import FUNCTION, RowSource
from kernels.source import KernelSource


class CudaRowSources:
    """Runs row functions on one device's compute stream."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def generate(self, source: RowSource, inputs: Mapping[str, Array], rows: int, *, out: Array | None = None) -> Array:
        """See `GoldilocksKernels.generate`."""
        shape = source.output_shape(rows, out)
        words = source.inputs_struct(rows, inputs, self._device.address)
        made = self._device.empty(shape, np.uint64) if out is None else out
        self._device.kernel(cuda_source(source), FUNCTION).launch_items(rows, (made, ByValue(words)))
        return made


def cuda_source(source: RowSource) -> KernelSource:
    """Return the kernel source of a row function."""
    text = source.whole("trace/device.h", "DP_TRACE_KERNEL")
    return KernelSource(f"trace_{hashlib.sha256(text.encode()).hexdigest()[:12]}", text=text)
