"""The CUDA implementation of `kernels.interface.multilinear.MultilinearKernels`. The kernels are in
`cuda/src/multilinear_steps.cu`, those of codewords in `goldilocks_lde.cu`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels.cuda.device import ByValue, Device, grid_for
from kernels.cuda.goldilocks.lde import MAX_LOG_BLOWUP, MAX_LOG_N, Extended, LdeEngine
from kernels.errors import SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array
from kernels.interface.multilinear import SETS, MultilinearKernels, Words
from kernels.source import KernelSource

STEPS = KernelSource("multilinear_steps")
THREADS = 256
"""Threads of a block. Must equal that in multilinear_steps.cu."""
MAX_BLOCKS_PER_SM = 4
"""Most blocks of a step with sums for each multiprocessor: the last one to end adds up those of all."""


class CudaMultilinear(MultilinearKernels):
    """The multilinear kernels of one device, on its compute stream."""

    def __init__(self, device: Device, extend: LdeEngine) -> None:
        self._device = device
        self._extend = extend
        self._ended: Array | None = None
        """How many blocks of the step with sums that runs have ended; zero between steps."""

    def prepare(self) -> None:
        for source in (STEPS, self._extend.profile.source):
            self._device.prepare(source)

    def clear(self) -> None:
        """Release the device memory that is kept between calls."""
        self._ended = None

    def _encode(self, coefficients: Array, log_blowup: int) -> Array:
        width, n = map(int, coefficients.shape)
        preconditions.contiguous(coefficients, "coefficients")
        if n > 1 << MAX_LOG_N or log_blowup > MAX_LOG_BLOWUP:
            raise SizeError(f"{n} rows with a blow-up of 2^{log_blowup}: at most 2^{MAX_LOG_N} and 2^{MAX_LOG_BLOWUP}")
        out = self._empty((width, 1 << log_blowup, n))
        self._extend.encode(Extended(coefficients, out, 0))
        return out

    def _apply_runs(self, columns: Array, matrix: Words) -> Array:
        return self._applied(columns, np.ascontiguousarray(matrix.T), apart=False)

    def _bind_runs(self, columns: Array, weights: Words) -> Array:
        return self._applied(columns, weights, apart=True)

    def _applied(self, columns: Array, weights: Words, *, apart: bool) -> Array:
        """Apply weights (size, rows) to each run; with `apart` each row of them has an output of its own."""
        preconditions.contiguous(columns, "columns")
        size, rows = weights.shape
        runs = int(columns.size) // size
        out = self._empty((rows, runs) if apart else (int(columns.shape[0]), int(columns.shape[1]) // size * rows))
        matrix = self._upload(weights)
        given = {"log_run": size.bit_length() - 1, "rows": rows, "apart": runs if apart else 0}
        self._each("apply_runs", runs * rows, source=columns, matrix=matrix, out=out, **given)
        return out

    def _sum_runs(self, columns: Array, weights: Array, size: int) -> Words:
        log_run, runs = size.bit_length() - 1, int(columns.size) // size
        out = self._empty((SETS, size, 3))
        given = {"log_run": log_run, "runs": runs, "sets": len(weights)}
        self._sum("weighted_runs", int(columns.size), log_run, out, columns=columns, weights=weights, **given)
        return self._download(out)[: len(weights)]

    def _run(self, step: str, items: int, arguments: Any) -> None:
        kernel = self._device.kernel(STEPS, f"ml_{step}")
        kernel.launch(grid_for(items, THREADS), THREADS, (ByValue(arguments), np.uint64(items)))

    def _run_sum(self, step: str, items: int, log_classes: int, arguments: Any, out: Array) -> None:
        kernel = self._device.kernel(STEPS, f"ml_{step}")
        if self._ended is None:
            self._ended = self._device.zeros((1,), np.uint32)
        resident = min(MAX_BLOCKS_PER_SM, kernel.blocks_per_sm(THREADS)) * self._device.sm_count
        blocks = max(1, min(grid_for(items, THREADS), resident))
        partial = self._empty((blocks, int(out.size)))
        sizes = np.uint64(items), np.uint32(log_classes)
        kernel.launch(blocks, THREADS, (ByValue(arguments), *sizes, partial, self._ended, out))

    def _empty(self, shape: tuple[int, ...]) -> Array:
        return self._device.empty(shape)

    def _zeros(self, shape: tuple[int, ...]) -> Array:
        return self._device.zeros(shape)

    def _address(self, array: Array) -> int:
        return self._device.address(array)

    def _upload(self, host: Words) -> Array:
        return self._device.upload(np.ascontiguousarray(host))

    def _download(self, array: Array) -> Words:
        return self._device.download(array)

    def _join(self, arrays: Sequence[Array], out: Array) -> None:
        flat, at = out.reshape(-1), 0
        for array in arrays:
            preconditions.contiguous(array, "what is joined")
            if array.size:
                self._device.copy(flat[at : at + array.size], array)
            at += int(array.size)
        if at < out.size:
            self._device.clear(flat[at:])
