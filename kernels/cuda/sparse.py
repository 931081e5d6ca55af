"""CSR matrices on the device and their products with vectors, by `cuda/src/spmv.cu`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.cuda.device import Device, check_index32
from kernels.cuda.field import field_source
from kernels.interface.arrays import Array, HostArray
from kernels.interface.matrix import CsrMatrix
from kernels.interface.sparse import Sparse, SparseRows
from kernels.interface.templated import RowTemplate, TemplatedMatrix, TemplatedRows
from kernels.maths.curves import Field
from kernels.maths.encoding import field_from_ints
from kernels.source import KernelSource

CSR = KernelSource("csr")
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
    spread: int = 1
    """Row i of these arrays is the matrix' row i * spread modulo `rows`."""

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

    def _on_use(self, field: Field, matrix: SparseRows) -> Callable[[], CudaMatrix]:
        """Long rows, which are few, stay on the device. Templates are expanded at each use, in less time than the link
        takes for the rows; a matrix without templates is brought over from page-locked memory."""
        if isinstance(matrix, TemplatedMatrix):
            long = self._upload_long(long_rows_of_parts(matrix))
            return lambda: self._place(field, matrix, long)
        check_index32("rows of the matrix", matrix.rows)
        device = self._device
        values, number = with_ones(field, matrix.values)
        value_index = number[matrix.value_index] if matrix.nnz else matrix.value_index
        entries = [device.locked(part) for part in (matrix.row_ptr, matrix.columns, value_index)]
        long, dictionary = self._upload_long(long_rows(matrix.row_ptr[:-1], matrix.row_ptr[1:])), device.upload(values)

        def make() -> CudaMatrix:
            here = [device.empty(part.shape, np.uint32) for part in entries]
            before = device.stream.record()  # whoever had the memory may still be at work
            for target, part in zip(here, entries, strict=True):
                if part.nbytes:
                    device.stream.wait(device.bring(target, part, before))
            return CudaMatrix(field, matrix.rows, matrix.cols, *[*here, dictionary, *long])

        return make

    def _load_matrix(self, field: Field, matrix: CsrMatrix) -> CudaMatrix:
        check_index32("rows of the matrix", matrix.rows)
        upload = self._device.upload
        row_ptr = np.ascontiguousarray(matrix.row_ptr)
        values, number = with_ones(field, matrix.values)
        value_index = number[matrix.value_index] if matrix.nnz else matrix.value_index
        columns = upload(np.ascontiguousarray(matrix.columns))
        long = self._upload_long(long_rows(row_ptr[:-1], row_ptr[1:]))
        rows, cols = matrix.rows, matrix.cols
        return CudaMatrix(field, rows, cols, upload(row_ptr), columns, upload(value_index), upload(values), *long)

    def _load_placed(self, field: Field, matrix: TemplatedMatrix) -> CudaMatrix:
        return self._place(field, matrix, self._upload_long(long_rows_of_parts(matrix)))

    def _place(self, field: Field, matrix: TemplatedMatrix, long: Sequence[Array]) -> CudaMatrix:
        """Make the rows on the device: what is uploaded are the templates, and where their instances lie."""
        check_index32("rows of the matrix", matrix.rows)
        device = self._device
        place_entries, place_rows = (device.kernel(CSR, name) for name in ("csr_place_entries", "csr_place_rows"))
        values, number = with_ones(field, matrix.values)
        position = None if matrix.position is None else device.upload(matrix.position)
        row_ptr = device.empty((matrix.rows + 1,), np.uint32)
        columns, value_index = (device.empty((matrix.nnz,), np.uint32) for _ in range(2))
        device.clear(row_ptr[:1])
        loaded: dict[int, tuple[Array, Array, Array]] = {}

        def placed(part: TemplatedRows) -> None:
            template, row, entry = part.template, part.row, part.entry
            if id(template) not in loaded:
                hosts = (template.row_ptr, template.columns, number[template.value_index])
                loaded[id(template)] = tuple(device.upload(np.ascontiguousarray(h)) for h in hosts)  # type: ignore[assignment]
            ends, local, index = loaded[id(template)]
            count, nnz = np.uint64(part.rows), np.uint32(template.nnz)
            steps = np.uint64(part.row_step), np.uint64(part.entry_step)
            arguments = (ends, np.uint32(template.rows), *steps, np.uint32(entry), count, row_ptr[row + 1 :])
            place_rows.launch_items(part.rows, arguments)
            runs = device.upload(np.ascontiguousarray(part.runs, dtype=np.int64))
            where = (runs, np.uint32(len(part.runs)), np.int64(part.first), np.int64(part.step))
            out = (columns[entry:], value_index[entry:])
            sizes = np.uint64(part.entry_step), np.uint64(part.nnz)
            place_entries.launch_items(part.nnz, (local, index, nnz, *where, *sizes, position, *out))

        for part in matrix.parts:
            placed(part)
        if matrix.filled < matrix.rows:
            none = np.empty(0, np.uint32)
            empty = RowTemplate(np.zeros(2, np.uint32), none, none)
            rest = TemplatedRows.stacked(empty, np.empty((0, 2), np.int64), lanes=matrix.rows - matrix.filled)
            placed(rest.below(matrix.filled, matrix.nnz))
        dictionary = device.upload(values)
        made = CudaMatrix(field, matrix.rows, matrix.cols, row_ptr, columns, value_index, dictionary, *long)
        made.spread = matrix.spread
        return made

    def _load_transposed(self, field: Field, matrix: SparseRows) -> CudaMatrix:
        check_index32("columns of the matrix", matrix.cols)
        device = self._device
        if isinstance(matrix, TemplatedMatrix) and matrix.spread != 1:
            matrix = matrix.csr()
        rows = self._load_matrix(field, matrix) if isinstance(matrix, CsrMatrix) else self._load_placed(field, matrix)
        counts = device.zeros((matrix.cols,), np.uint32)
        device.kernel(CSR, "csr_count_columns").launch_items(matrix.nnz, (rows.columns, np.uint64(matrix.nnz), counts))
        row_ptr = np.zeros(matrix.cols + 1, dtype=np.uint32)
        np.cumsum(device.download(counts), out=row_ptr[1:])
        ends = device.upload(row_ptr)
        device.copy(counts, ends[:-1])
        columns, value_index = (device.empty((matrix.nnz,), np.uint32) for _ in range(2))
        arguments = (rows.row_ptr, rows.columns, rows.value_index, np.uint32(matrix.rows), counts, columns, value_index)
        device.kernel(CSR, "csr_transpose").launch_items(matrix.rows, arguments)
        long = self._upload_long(long_rows(row_ptr[:-1], row_ptr[1:]))
        return CudaMatrix(field, matrix.cols, matrix.rows, ends, columns, value_index, rows.values, *long)

    def _upload_long(self, long: HostArray) -> list[Array]:
        """Long rows cut into segments, as a `CudaMatrix` has them."""
        row, begin, end = long
        first_segment = np.concatenate([[0], np.cumsum(-(-(end - begin) // SEGMENT))])
        owner = np.repeat(np.arange(row.size), np.diff(first_segment))
        begin = begin[owner] + (np.arange(owner.size) - first_segment[owner]) * SEGMENT
        end = np.minimum(begin + SEGMENT, end[owner])
        lists = (row, first_segment, begin, end)
        return [self._device.upload(np.ascontiguousarray(part, dtype=np.uint32)) for part in lists]

    def _spmv(self, matrix: CudaMatrix, x: Array, out: Array, standard_form: bool) -> None:
        device, source = self._device, field_source("spmv", matrix.field)
        entries = (matrix.columns, matrix.value_index, matrix.values, x)
        mask = 0xFFFFFFFF if matrix.spread == 1 else matrix.rows - 1
        form = (np.uint32(standard_form), np.uint32(matrix.spread), np.uint32(mask))
        short = device.kernel(source, "spmv_short")
        short.launch_items(matrix.rows, (matrix.row_ptr, *entries, out, np.uint32(matrix.rows), *form))
        long_rows, segments = int(matrix.long_rows.shape[0]), int(matrix.segment_begin.shape[0])
        if long_rows == 0:
            return
        partial = device.empty((segments, matrix.field.limbs))
        cut = device.kernel(source, "spmv_segments")
        cut.launch_items(
            32 * segments, (matrix.segment_begin, matrix.segment_end, *entries, partial, np.uint32(segments))
        )
        add = device.kernel(source, "spmv_long")
        arguments = (matrix.long_rows, matrix.first_segment, partial, out, np.uint32(long_rows), *form)
        add.launch_items(32 * long_rows, arguments)


def with_ones(field: Field, values: HostArray) -> tuple[HostArray, HostArray]:
    """A dictionary with 1 and -1 at its head, and the number in it of each of `values`."""
    ones = field_from_ints(field, [1, -1])
    number = np.arange(2, len(values) + 2, dtype=np.uint32)
    for index, one in enumerate(ones):
        number[np.all(values == one, axis=1)] = index
    return np.concatenate([ones, values]), number


def long_rows(begin: HostArray, end: HostArray) -> HostArray:
    """Rows of more than SHORT_ROW entries, of those that begin and end at these: (3, k) row, begin and end of each."""
    row = np.flatnonzero(end - begin > SHORT_ROW)
    return np.stack([row, begin[row], end[row]]).astype(np.int64)


def long_rows_of_parts(matrix: TemplatedMatrix) -> HostArray:
    """The long rows of a placed matrix."""
    found = [np.empty((3, 0), dtype=np.int64)]
    for part in matrix.parts:
        ends = part.template.row_ptr.astype(np.int64)
        rows, entries = part.instances()
        long = zip((rows, entries, entries), long_rows(ends[:-1], ends[1:]), strict=True)
        found.append(np.stack([(start[:, None] + local).ravel() for start, local in long]))
    return np.concatenate(found, axis=1)
