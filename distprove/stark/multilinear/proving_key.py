"""The proving key of the multilinear engine: a verifying key, and the committed stack of its preprocessed columns."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.multilinear.commitment import Stacked, commit_stack, interpolated
from distprove.stark.multilinear.key import MultilinearKey, compile_key, with_arguments, with_root
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.stacking import Stack
from distprove.stark.program import Program, preprocessed_columns
from kernels.cpu.backend import CpuBackend
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

MOST_ROOTS = 64
"""Roots of preprocessed columns that a process keeps."""
_ROOTS: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
"""By the digest of the columns, and what else a root depends on."""
_LOCK = threading.Lock()


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
    backend.multilinear.prepare(tree_hash=params.tree_hash)  # first, as its kernels take longest
    backend.goldilocks.prepare(sources=[f.source for f in program.row_functions])
    host = _fixed_columns(program)
    columns = [None if matrix is None else backend.to_device(matrix) for matrix in host]
    fixed = None
    if key.preprocessed.width:
        fixed = commit_stack(backend, key.preprocessed, _present(columns), params, main=False)
        key = with_root(key, fixed.tree.root)
    key = _finished(program, key)
    return MultilinearProvingKey(program, key, backend, columns, fixed, [CellPrograms.of(t) for t in key.tables])


def make_verifying_key(program: Program, params: Parameters, backend: CpuBackend) -> MultilinearKey:
    """The key alone of `make_key`, in a fraction of the memory. Its root is that of an earlier call for the same
    columns, if this process still has it. Raises as `make_key` does."""
    key = compile_key(program, params)
    columns = _present(_fixed_columns(program))
    if key.preprocessed.width:
        key = with_root(key, _root(backend, key.preprocessed, columns, params))
    return _finished(program, key)


def _root(backend: CpuBackend, stack: Stack, columns: Mapping[int, Array], params: Parameters) -> bytes:
    """The root over stacked columns, made here or found among the last that this process has made: jobs of a service
    differ in their inputs, and rarely in their columns."""
    digest = hashlib.sha256()
    for number, matrix in sorted(columns.items()):
        digest.update(f"{number} {matrix.shape}\n".encode())
        digest.update(matrix)
    name = digest.digest(), stack, params.log_skip, params.log_blowup, params.tree_hash
    with _LOCK:
        root = _ROOTS.get(name)
    if root is None:
        coefficients = interpolated(backend, stack, columns, params)
        root = backend.multilinear.root(coefficients, params.log_blowup, params.tree_hash)
    with _LOCK:
        _ROOTS[name] = root
        _ROOTS.move_to_end(name)
        while len(_ROOTS) > MOST_ROOTS:
            _ROOTS.popitem(last=False)
    return root


def _fixed_columns(program: Program) -> list[Array | None]:
    """Each table's preprocessed columns (width, rows) on the host; None for a table without. Raises AirError."""
    given = preprocessed_columns(program)
    return [None if matrix is None else np.ascontiguousarray(matrix, np.uint64) for matrix in given]


def _present(columns: Sequence[Array | None]) -> dict[int, Array]:
    return {number: matrix for number, matrix in enumerate(columns) if matrix is not None}


def _finished(program: Program, key: MultilinearKey) -> MultilinearKey:
    """The key with the arguments that depend on its root. Raises FormatError unless its parts fit each other."""
    known = {t.name: h for t, h in zip(key.tables, key.fixed_heights, strict=True) if h is not None}
    key = with_arguments(key, program.key_arguments(key.preprocessed_root, known))
    key.check(f"program {program.name}")
    return key
