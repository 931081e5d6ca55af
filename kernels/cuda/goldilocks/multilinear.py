"""The CUDA implementation of `kernels.interface.multilinear.MultilinearKernels`. The kernels are in
`cuda/src/multilinear_steps.cu`, those of codewords in `goldilocks_lde.cu`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.device import ByValue, Device, Kernel, grid_for
from kernels.cuda.goldilocks.lde import LdeEngine, Part
from kernels.cuda.goldilocks.leaves import LEAVES, leaves_of, takes
from kernels.cuda.goldilocks.merkle import LEAF_KERNELS
from kernels.cuda.goldilocks.rules import LOG_TILE, RULES, THREADS, CudaRules
from kernels.errors import SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import GoldilocksKernels
from kernels.interface.multilinear import MAX_LOG_RUN, MultilinearKernels
from kernels.interface.multilinear_rows import RuleProgram
from kernels.interface.steps import Words
from kernels.interface.tree_hash import TreeHash
from kernels.source import KernelSource

STEPS = KernelSource("multilinear_steps")
BLOCKS = KernelSource("multilinear_steps", (("DP_ONE_BLOCK", "1"),))
"""The steps of one block."""
MAX_BLOCKS_PER_SM = 4
"""Most blocks of a step with sums for each multiprocessor: the last one to end adds up those of all."""
TILE_RUNS, TILE_WORDS = 128, 2048
"""Most runs and words of a tile of `ml_sum_runs`. Must equal those in multilinear_steps.cu."""
ROUND_SUMS = 2
"""SUMS of the rounds that end on the device."""

MAX_LOG_ROWS, MAX_LOG_CODEWORD = 28, 30
"""Limits on log2 of the coefficients of a column and of its codeword. WHIR's later rounds have few coefficients and a
large blow-up: the tables of a plan grow with the codeword's points, and not with the blow-up alone."""


class CudaMultilinear(CudaRules, MultilinearKernels):
    """The multilinear kernels of one device, on its compute stream."""

    def __init__(self, device: Device, extend: LdeEngine, rows: GoldilocksKernels) -> None:
        CudaRules.__init__(self, device, rows)
        self._extend = extend
        self._ended: Array | None = None
        """How many blocks of the step with sums that runs have ended; zero between steps."""
        self._partial: Array | None = None
        """The sums of the blocks of the step that runs."""

    def prepare(self, rules: Iterable[RuleProgram] = (), tree_hash: TreeHash | None = None) -> None:
        hashes = () if tree_hash is None else (LEAF_KERNELS[tree_hash][0],)
        transforms = (self._extend.profile.sources[part] for part in (Part.RUNS, Part.CODEWORDS))
        for source in (*hashes, *transforms, STEPS, BLOCKS, RULES, LEAVES):
            self._device.prepare(source)
        for program in rules:
            self.prepare_rules(program)

    def load(self, rules: Iterable[RuleProgram]) -> None:
        for program in rules:
            self.load_rules(program)

    def clear(self) -> None:
        """Release the device memory that is kept between calls."""
        self._ended = self._partial = None
        self.clear_codes()

    # -- transforms and runs ----------------------------------------------------------------------------------------

    def _encode(self, coefficients: Array, log_blowup: int) -> Array:
        width, n = map(int, coefficients.shape)
        preconditions.contiguous(coefficients, "coefficients")
        if n > 1 << MAX_LOG_ROWS or n << log_blowup > 1 << MAX_LOG_CODEWORD:
            most = f"at most 2^{MAX_LOG_ROWS} rows and 2^{MAX_LOG_CODEWORD} points"
            raise SizeError(f"{n} rows with a blow-up of 2^{log_blowup}: {most}")
        out = self._empty((width, 1 << log_blowup, n))
        self._extend.encode(coefficients, out)
        return out

    def codeword_leaves(
        self, coefficients: Array, log_blowup: int, log_arity: int, indices: NDArray[np.int64]
    ) -> Words | None:
        preconditions.contiguous(coefficients, "coefficients")
        if not takes(int(coefficients.shape[1]).bit_length() - 1, log_blowup, log_arity, len(indices)):
            return None
        return leaves_of(self._device, coefficients, log_blowup, indices)

    def _interpolate_runs(self, columns: Array, log_run: int) -> None:
        preconditions.contiguous(columns, "columns")
        self._extend.interpolate_runs(columns, log_run)

    def _bind_runs(self, columns: Array, weights: Words, out: Array) -> None:
        self._bound(columns, self._upload(weights), out)

    def _bind_rows(self, columns: Array, weights: Array) -> Array:
        return self._bound(columns, weights, self._empty((3, int(columns.size) // len(weights))))

    def _bound(self, columns: Array, weights: Array, out: Array) -> Array:
        """Bind each run by weights (size, 3): out (3, runs)."""
        preconditions.contiguous(columns, "columns")
        words, log_run = int(columns.size), len(weights).bit_length() - 1
        if log_run > MAX_LOG_RUN:
            raise SizeError(f"runs of 2^{log_run} elements; at most 2^{MAX_LOG_RUN}")
        given = columns, np.uint64(words), weights, out, np.uint32(log_run), np.uint64(out.shape[1])
        self._device.kernel(STEPS, "ml_bind_runs").launch(grid_for(words, 1 << LOG_TILE), THREADS, given)
        return out

    def _sum_runs(self, columns: Array, weights: Array, size: int) -> Words:
        preconditions.contiguous(columns, "columns")
        preconditions.contiguous(weights, "weights")
        log_run, runs, sets = size.bit_length() - 1, int(columns.size) // size, len(weights)
        if log_run > MAX_LOG_RUN:
            raise SizeError(f"runs of 2^{log_run} elements; at most 2^{MAX_LOG_RUN}")
        out, tile = self._empty((sets, size, 3)), min(TILE_RUNS, TILE_WORDS >> log_run)
        kernel, blocks, partial = self._summing("sum_runs", -(-runs // tile) * THREADS, int(out.size))
        sizes = np.uint64(runs), np.uint32(log_run), np.uint32(sets)
        kernel.launch(blocks, THREADS, (columns, weights, *sizes, partial, self._ended, out))
        return self._download(out)

    # -- steps and arrays -------------------------------------------------------------------------------------------

    def _run(self, step: str, items: int, arguments: Any) -> None:
        kernel = self._device.kernel(STEPS, f"ml_{step}")
        kernel.launch(grid_for(items, THREADS), THREADS, (ByValue(arguments), np.uint64(items)))

    def _run_sum(self, step: str, items: int, log_classes: int, arguments: Any, out: Array) -> None:
        kernel, blocks, partial = self._summing(step, items, int(out.size))
        sizes = np.uint64(items), np.uint32(log_classes)
        kernel.launch(blocks, THREADS, (ByValue(arguments), *sizes, partial, self._ended, out))

    def _run_round(self, step: str, items: int, arguments: Any) -> None:
        kernel, blocks, partial = self._summing(step, items, 3 * ROUND_SUMS)
        kernel.launch(blocks, THREADS, (ByValue(arguments), np.uint64(items), partial, self._ended))

    def _run_block(self, step: str, arguments: Any) -> None:
        self._device.kernel(BLOCKS, f"ml_{step}").launch(1, THREADS, (ByValue(arguments),))

    def _summing(self, step: str, items: int, words: int) -> tuple[Kernel, int, Array]:
        """The kernel of a step with sums, its number of blocks, and memory for each one's sums of `words`."""
        kernel = self._device.kernel(STEPS, f"ml_{step}")
        if self._ended is None:
            self._ended = self._device.zeros((1,), np.uint32)
        resident = min(MAX_BLOCKS_PER_SM, kernel.blocks_per_sm(THREADS)) * self._device.sm_count
        blocks = max(1, min(grid_for(items, THREADS), resident))
        if self._partial is None or self._partial.size < blocks * words:
            self._partial = self._empty((resident * words,))
        return kernel, blocks, self._partial

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
