"""Columns of a trace made by a C++ function of the row, one source that runs on GPUs and on the CPU.

    SQUARES = CppRows(Path(__file__).with_name("squares.cpp"), columns={"value": 1, "square": 1}, inputs=("values",))
    made = SQUARES.make(backend, rows, values=inputs["values"])     # (2, rows), in the backend's memory

It serves for columns that are not arithmetic modulo p, or would take too many vectorised steps; see docs/airs.md. Only
a prover compiles it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from distprove.errors import AirError
from kernels.errors import SizeError
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.row_source import RowSource


class CppRows:
    """A row function with the columns that it writes and the arrays that it reads."""

    def __init__(
        self,
        source: Path | str,
        columns: Mapping[str, int],
        inputs: Sequence[str],
        function: str = "row",
        sums: Sequence[str] = (),
    ) -> None:
        """`source` is a file or the text itself. `columns` maps names to widths as an AIR's `main`, in trace order.
        `sums` names arrays that rows add to.

        Raises AirError for a file that cannot be read, and for names that are not valid in C++.
        """
        try:
            name, text = (source.name, source.read_text(encoding="utf-8")) if isinstance(source, Path) else ("", source)
            named = tuple(columns.items()), tuple(inputs)
            self.source = RowSource(name or "row function", text, *named, function, tuple(sums))
        except (OSError, UnicodeDecodeError, SizeError) as error:
            raise AirError(f"a row function in C++: {error}") from None

    def make(self, backend: Backend, rows: int, *, out: Array | None = None, **inputs: Array) -> Array:
        """Run the function on all rows; gives (columns, rows) in `out` or a new array. `inputs` are uint64 arrays, (n,)
        or (k, n), on `backend`; those named in `sums` are contiguous, (n,), and are added to.

        Raises BackendError with the compiler's messages for a source that does not compile and, on the CPU, for an
        element that is not written or not a canonical field element; CompilerMissing where there is no compiler.
        """
        return backend.goldilocks.generate(self.source, inputs, rows, out=out)
