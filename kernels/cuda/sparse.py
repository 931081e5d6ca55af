"""CSR matrices on the device and their products with vectors, by `cuda/src/spmv.cu`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.cuda.device import Device, check_index32
from kernels.cuda.field import field_source
from kernels.interface.arrays import Array
from kernels.interface.sparse import CsrMatrix, Sparse
from kernels.maths.curves import Field
from kernels.maths.encoding import field_from_ints

SHORT_ROW = 32
"""Most entries of a row that one thread sums alone. Must equal SHORT_ROW in spmv.cu."""
SEGMENT = 1024
"""Entries of a longer row that one warp sums at a time."""


@dataclass
class CudaMatrix:
    """A CSR matrix resident on the device. Values 0 and 1 of its dictionary are 1 and -1."""

    field: Field
    rows: int
    cols: int
    row_ptr: Array
    columns: Array
    value_index: Array
    values: Array
    long_rows: Array
    """Rows with more than SHORT_ROW entries; the i-th has segments first_segment[i] to first_segment[i + 1]."""
    first_segment: Array
    segment_begin: Array
    segment_end: Array

    @property
    def nbytes(self) -> int:
        arrays = (self.row_ptr, self.columns, self.value_index, self.values)
        lists = (self.long_rows, self.first_segment, self.segment_begin, self.segment_end)
        return sum(int(a.nbytes) for a in (*arrays, *lists))


class CudaSparse(Sparse[CudaMatrix]):
    """Products of sparse matrices on one device."""

    loaded = CudaMatrix

    def __init__(self, device: Device) -> None:
        super().__init__(device.empty)
        self._device = device

    def prepare(self, field: Field) -> None:
        """Begin to compile the kernels in the background."""
        self._device.prepare(field_source("spmv", field))

    def _load_matrix(self, field: Field, matrix: CsrMatrix) -> CudaMatrix:
        """Put 1 and -1 at the head of the dictionary, cut long rows into segments, and upload."""
        check_index32("rows of the matrix", matrix.rows)
        device = self._device
        row_ptr, value_index = np.ascontiguousarray(matrix.row_ptr), np.ascontiguousarray(matrix.value_index)
        values = matrix.values
        ones = field_from_ints(field, [1, -1])
        remap = np.arange(2, len(values) + 2, dtype=np.uint32)
        for index, one in enumerate(ones):
            remap[np.all(values == one, axis=1)] = index
        lengths = row_ptr[1:] - row_ptr[:-1]
        long_rows = np.flatnonzero(lengths > SHORT_ROW).astype(np.uint32)
        counts = -(-lengths[long_rows].astype(np.int64) // SEGMENT)
        first_segment = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        owner = np.repeat(np.arange(long_rows.size), counts)
        within = np.arange(owner.size) - first_segment[owner]
        begin = row_ptr[long_rows][owner].astype(np.int64) + within * SEGMENT
        end = np.minimum(begin + SEGMENT, row_ptr[long_rows + 1][owner])
        return CudaMatrix(
            field,
            matrix.rows,
            matrix.cols,
            device.upload(row_ptr),
            device.upload(np.ascontiguousarray(matrix.columns)),
            device.upload(remap[value_index] if matrix.nnz else value_index),
            device.upload(np.concatenate([ones, values])),
            device.upload(long_rows),
            device.upload(first_segment.astype(np.uint32)),
            device.upload(begin.astype(np.uint32)),
            device.upload(end.astype(np.uint32)),
        )

    def _spmv(self, matrix: CudaMatrix, x: Array, out: Array, standard_form: bool) -> None:
        device, source = self._device, field_source("spmv", matrix.field)
        entries = (matrix.columns, matrix.value_index, matrix.values, x)
        form = np.uint32(standard_form)
        short = device.kernel(source, "spmv_short")
        short.launch_items(matrix.rows, (matrix.row_ptr, *entries, out, np.uint32(matrix.rows), form))
        long_rows, segments = int(matrix.long_rows.shape[0]), int(matrix.segment_begin.shape[0])
        if long_rows == 0:
            return
        partial = device.empty((segments, matrix.field.limbs))
        cut = device.kernel(source, "spmv_segments")
        cut.launch_items(
            32 * segments, (matrix.segment_begin, matrix.segment_end, *entries, partial, np.uint32(segments))
        )
        add = device.kernel(source, "spmv_long")
        arguments = (matrix.long_rows, matrix.first_segment, partial, out, np.uint32(long_rows), form)
        add.launch_items(32 * long_rows, arguments)
