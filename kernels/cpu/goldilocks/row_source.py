"""Runs row functions in C++ on the CPU: compiled once by the machine's compiler, run on the threads of a pool."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.errors import BackendError, OutOfMemory
from kernels.host import compiler as host_compiler
from kernels.interface.arrays import Array, Empty
from kernels.interface.row_source import FUNCTION, SAMPLE, RowSource
from kernels.source import KernelSource, flatten

ROWS_PER_TASK = 1 << 10
"""Rows of one task: a multiple of TILE in trace/host.h, and enough to be worth allocating the task's buffer."""
_NONE, _NO_MEMORY = 2**64 - 1, 2**64 - 2
"""Values of `Job::bad` for no fault and for too little memory. Must equal NONE and NO_MEMORY in trace/host.h."""


class _Job(ctypes.Structure):
    """The layout of `struct Job` in trace/host.h."""

    _fields_ = (
        ("inputs", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("rows_per_task", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
        ("bad", ctypes.c_uint64),
    )


class CpuRowSources:
    """Runs row functions on `pool`, a `Pool` of the extension."""

    def __init__(self, pool: Any, empty: Empty) -> None:
        self._task_pool, self._empty = pool, empty
        self._libraries: dict[RowSource, ctypes.CDLL] = {}

    def generate(self, source: RowSource, inputs: Mapping[str, Array], rows: int, *, out: Array | None = None) -> Array:
        """See `GoldilocksKernels.generate`. Checks every element that is written, which a GPU does not."""
        shape = source.output_shape(rows, out)
        if source not in self._libraries:
            self._libraries[source] = host_compiler.load(
                f"the row function {source.name}", host_text(source), probe=host_text(SAMPLE)
            )
        arrays = {n: array if n in source.sums else np.ascontiguousarray(array) for n, array in inputs.items()}
        words = source.inputs_struct(rows, arrays, lambda array: int(array.ctypes.data))
        made = self._empty(shape, np.uint64) if out is None else out
        job = _Job(words.ctypes.data, made.ctypes.data, ROWS_PER_TASK, source.width, _NONE)
        function = ctypes.cast(getattr(self._libraries[source], FUNCTION), ctypes.c_void_p).value
        self._task_pool.run(-(-rows // ROWS_PER_TASK), function, ctypes.addressof(job))
        if job.bad == _NO_MEMORY:
            raise OutOfMemory(f"{source.name}: no memory for the rows of a tile")
        if job.bad != _NONE:
            row, column = divmod(int(job.bad), source.width)
            raise BackendError(
                f"{source.name}: {source.column_name(column)} of row {row} is not written, or holds no canonical field "
                "element"
            )
        return made


def host_text(source: RowSource) -> str:
    """Return the text that the host's compiler gets, headers included."""
    return flatten(KernelSource("trace_rows", text=source.whole("trace/host.h", "DP_TRACE_TASK")))
