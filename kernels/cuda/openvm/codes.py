"""The CUDA implementation of `kernels.interface.openvm_codes`: `openvm_codes.cu`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.device import ByValue, Device, grid_for, layout
from kernels.cuda.openvm.trees import CudaCodeTree, open_trees
from kernels.host.babybear import montgomery
from kernels.interface.arrays import Array
from kernels.interface.openvm_codes import CodeKernels, CodeTree, Opened, Place
from kernels.maths.babybear import TWO_ADICITY, Elements, powers, root_of_unity
from kernels.maths.babybear_ntt import intt, log2_of, subset_sums
from kernels.source import KernelSource

TRANSFORM_THREADS, LOG_TILE = 256, 12
"""Threads of a block of the transform, and log2 of the elements of its tile: 16 a thread."""
MAX_BITS = 8
"""Most bits of the index that a pass transforms."""
MAX_LOG_RUN = 4
"""log2 of the longest runs that the first pass makes messages of: a pass of 8 bits has 2^4 neighbours in its tile."""
LOG_FINE = 13
"""log2 of the roots in the first part of their table. Must equal that in openvm_codes.cu."""
SOURCE = KernelSource(
    "openvm_codes",
    (
        ("TRANSFORM_THREADS", str(TRANSFORM_THREADS)),
        ("LOG_TILE", str(LOG_TILE)),
    ),
)

_PASS = layout(("u8", "blocks in_pitch out_pitch"), ("u4", "log_block log_low log_cosets log_skip"))
"""The layout of `struct Pass` in openvm_codes.cu."""


class CudaCodes(CodeKernels):
    """The kernels of one device. Keeps the tables of roots and messages."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._tables: dict[str | int, Array] = {}

    def clear(self) -> None:
        """Release the device memory of the tables."""
        self._tables.clear()

    def stack(self, matrices: Sequence[Array], places: Sequence[Place], width: int, log_height: int) -> Array:
        device = self._device
        cells, end = device.empty((width << log_height,), np.uint32), 0
        for matrix, place in zip(matrices, places, strict=True):
            size = int(matrix.size) << place.log_step
            if not size:
                continue
            part = cells[place.start : place.start + size]
            if place.log_step:
                arguments = (matrix, part, np.uint64(matrix.size), np.uint32(place.log_step))
                device.kernel(SOURCE, "codes_spread").launch_items(size, arguments)
            else:
                device.copy(part, matrix)
            end = place.start + size
        device.clear(cells[end:])
        return cells.reshape(width, 1 << log_height)

    def commit(self, columns: Array, log_skip: int, log_blowup: int, log_fold: int) -> CodeTree:
        width, n = map(int, columns.shape)
        log_n = log2_of(n)
        codewords = self._device.empty((width, n << log_blowup), np.uint32)
        if width and log_skip <= min(MAX_LOG_RUN, log_n - next(pass_bits(log_n))):
            self._transform(columns, n, codewords, log_n, log_skip)
        elif width:
            # The messages wait in the places of the first coset.
            self.message(columns, codewords, log_skip)
            self._transform(codewords, n << log_blowup, codewords, log_n)
        return CudaCodeTree.over(self._device, codewords, log_fold)

    def commit_coefficients(self, coefficients: Array, log_blowup: int, log_fold: int) -> CodeTree:
        width, n = map(int, coefficients.shape)
        codewords = self._device.empty((width, n << log_blowup), np.uint32)
        self._transform(coefficients, n, codewords, log2_of(n))
        return CudaCodeTree.over(self._device, codewords, log_fold)

    def open(self, trees: Sequence[CodeTree], leaves: NDArray[np.int64]) -> list[Opened]:
        return open_trees(self._device, trees, leaves)

    def message(self, columns: Array, out: Array, log_skip: int) -> None:
        """Write the messages of columns (width, n), as `commit` encodes them, to the first n elements of each row of
        `out`. It may be `columns`."""
        width, n = map(int, columns.shape)
        if log_skip not in self._tables:
            self._tables[log_skip] = self._device.upload(montgomery(_message_matrix(log_skip)))
        logs = np.uint32(log_skip), np.uint32(log2_of(n))
        sizes = np.uint64(width * n), *logs, np.uint64(n), np.uint64(out.shape[1])
        kernel = self._device.kernel(SOURCE, "codes_message")
        grid = grid_for(width * n, 1 << LOG_TILE)
        kernel.launch(grid, TRANSFORM_THREADS, (columns, out, self._tables[log_skip], *sizes))

    def _transform(self, messages: Array, pitch: int, codewords: Array, log_n: int, log_skip: int = 0) -> None:
        """Encode messages of 2^log_n elements, `pitch` apart. They may lie in the first places of the codewords.

        With `log_skip` they are columns of a stack, whose runs the first of several passes makes messages of.
        """
        if "roots" not in self._tables:
            self._tables["roots"] = self._device.upload(_roots())
        width, rows = map(int, codewords.shape)
        source, blocks, log_block, log_cosets = messages, width, log_n, log2_of(rows) - log_n
        in_pitch, out_pitch = pitch, rows
        for bits in pass_bits(log_n):
            log_stride, log_columns = log_block - bits, LOG_TILE - bits
            log_low = min(log_stride, log_columns)
            numbers = blocks, in_pitch, out_pitch, log_block, log_low, log_cosets, log_skip
            kind = "stack" if log_skip else "strided" if log_stride else "last"
            kernel = self._device.kernel(SOURCE, f"codes_{kind}_{bits}")
            grid = grid_for(blocks, 1 << (log_columns - log_low)) << (log_stride - log_low)
            arguments = (source, codewords, self._tables["roots"], ByValue(np.array(numbers, dtype=_PASS)))
            kernel.launch(grid, TRANSFORM_THREADS, arguments)
            source, blocks, log_block = codewords, blocks << (log_cosets + bits), log_stride
            log_cosets, log_skip, in_pitch, out_pitch = 0, 0, 1 << log_block, 1 << log_block


def pass_bits(log_n: int) -> Iterator[int]:
    """Yield the bits of the index that each pass of a transform takes, from the top: the last as many as it can."""
    last = min(log_n, MAX_BITS)
    before = log_n - last
    passes = -(-before // MAX_BITS)
    for i in range(passes):
        yield before // passes + (i < before % passes)
    yield last


@cache
def _message_matrix(log_skip: int) -> Elements:
    """Row j has what value j of a run gives to each element of the run's message, (2^log_skip, 2^log_skip)."""
    return subset_sums(intt(np.eye(1 << log_skip, dtype=np.uint32)))


@cache
def _roots() -> Elements:
    """The powers of the root of unity of order 2^27 up to 2^13, and the powers of the last, in Montgomery form."""
    fine = powers(root_of_unity(TWO_ADICITY), 1 << LOG_FINE)
    coarse = powers(root_of_unity(TWO_ADICITY - LOG_FINE), 1 << (TWO_ADICITY - LOG_FINE))
    return montgomery(np.concatenate((fine, coarse)))
