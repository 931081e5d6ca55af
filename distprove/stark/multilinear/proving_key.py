"""The proving key of the multilinear engine: a verifying key, and the committed stack of its preprocessed columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from distprove.errors import UsageError
from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.multilinear.commitment import Stacked, commit_stack
from distprove.stark.multilinear.key import MultilinearKey, compile_key, with_arguments, with_root
from distprove.stark.multilinear.params import Parameters
from distprove.stark.program import Program
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend


@dataclass
class MultilinearProvingKey:
    """A verifying key with what a prover keeps for it."""

    program: Program
    key: MultilinearKey
    backend: Backend
    columns: list[Array | None] = field(repr=False)
    """Each table's preprocessed columns (width, rows) in the backend's memory; None for a table without."""
    fixed: Stacked | None
    """The committed stack of these columns; None without any."""
    programs: list[CellPrograms]
    """Each table's programs for the prover's rounds."""

    def fixed_columns(self, table: int) -> Array | None:
        """A table's preprocessed columns (width, rows) in the backend's memory; None for a table without."""
        return self.columns[table]


def make_key(program: Program, params: Parameters, backend: Backend) -> MultilinearProvingKey:
    """Compile `program`, and stack and commit to its preprocessed columns on `backend`.

    Raises UsageError for a key that no verifier would accept, AirError for tables that cannot be compiled.
    """
    key = compile_key(program, params)
    backend.goldilocks.prepare(sources=[f.source for f in program.row_functions])
    backend.multilinear.prepare()
    given = program.preprocessed()
    columns: list[Array | None] = []
    for table, height in zip(key.tables, key.fixed_heights, strict=True):
        matrix = given.get(table.name)
        width = 0 if matrix is None else len(matrix)
        if width != table.preprocessed_width:
            raise UsageError(f"table {table.name} has {table.preprocessed_width} preprocessed columns, not {width}")
        if matrix is not None and height is not None and matrix.shape[1] != 1 << height:
            raise UsageError(f"table {table.name} is fixed to 2^{height} rows; its preprocessed columns differ")
        columns.append(None if matrix is None else backend.to_device(np.ascontiguousarray(matrix, np.uint64)))
    fixed = None
    if key.preprocessed.width:
        present = {i: m for i, m in enumerate(columns) if m is not None}
        fixed = commit_stack(backend, key.preprocessed, present, params, main=False)
        key = with_root(key, fixed.tree.root)
    known = {t.name: h for t, h in zip(key.tables, key.fixed_heights, strict=True) if h is not None}
    key = with_arguments(key, program.key_arguments(key.preprocessed_root, known))
    key.check(f"program {program.name}")
    return MultilinearProvingKey(program, key, backend, columns, fixed, [CellPrograms.of(t) for t in key.tables])
