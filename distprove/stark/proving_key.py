"""The proving key: the verifying key, and what of the preprocessed columns stays beside every proof."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from distprove.stark.extension import Extender, Extension
from distprove.stark.memory import key_bytes
from distprove.stark.params import Parameters
from distprove.stark.program import Program, preprocessed_columns
from distprove.stark.shape import ProofShape
from distprove.stark.verifying_key import VerifyingKey, compile_program, with_roots
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.goldilocks import MerkleTree
from kernels.interface.row_program import RowProgram

MAX_KEY_SHARE = 0.25
"""Maximum share of a device's memory for whole extensions of preprocessed columns, which stay beside every proof."""


@dataclass
class ProvingKey:
    """A verifying key with its preprocessed columns, extended and committed, on a prover's device."""

    program: Program
    key: VerifyingKey
    backend: Backend
    extensions: list[Extension | None]
    """The extension of each table's preprocessed columns, which keeps the trace; None for a table without."""
    trees: dict[int | None, MerkleTree]
    """The trees of `VerifyingKey.preprocessed_trees`, over these extensions."""
    streamed: bool
    """Whether the extensions are on one coset at a time. If so, the columns of all proofs are streamed too."""

    def fixed_columns(self, table: int) -> Array | None:
        """A table's preprocessed columns (width, rows) on the trace's domain; None for a table without."""
        extension = self.extensions[table]
        return None if extension is None else extension.trace()

    def prepare_optional(self, shape: ProofShape) -> None:
        """Begin to compile the kernels of the optional tables that a partition has, in the background. A key may have
        hundreds of them; those of required tables are compiled when the key is made."""
        chosen = [i for i in shape.numbers if self.key.optional[i] is not None]
        if chosen:
            self.backend.goldilocks.prepare(programs_of(self.program, chosen))

    def extended(self, extender: Extender, tables: Sequence[int]) -> list[Extension | None]:
        """The extensions of these tables' preprocessed columns for a proof whose own extensions `extender` makes."""
        extensions = [self.extensions[i] for i in tables]
        if extender.streamed == self.streamed:
            return extensions
        return extender.extend_present([None if e is None else copied(self.backend, e.trace()) for e in extensions])


def make_key(program: Program, params: Parameters, backend: Backend) -> ProvingKey:
    """Compile `program`, and extend and commit to its preprocessed columns on `backend`.

    Raises UsageError for a key that no verifier would accept, AirError for tables that cannot be compiled and for
    preprocessed columns of a wrong shape.
    """
    key = compile_program(program, params)
    tables = key.tables
    required = [i for i, root in enumerate(key.optional) if root is None]
    backend.goldilocks.prepare(programs_of(program, required), [f.source for f in program.row_functions])
    given = preprocessed_columns(program)
    heights = [
        known if matrix is None else int(matrix.shape[1]).bit_length() - 1
        for known, matrix in zip(key.fixed_heights, given, strict=True)
    ]
    key = replace(key, fixed_heights=tuple(heights))
    streamed = key_bytes(key, streamed=False) > MAX_KEY_SHARE * backend.info().memory_budget
    extender = Extender(backend, params.log_blowup, streamed=streamed, tree_hash=params.tree_hash)
    columns = [
        None if m is None else copied(backend, backend.to_device(np.ascontiguousarray(m, np.uint64))) for m in given
    ]
    extensions = extender.extend_present(columns, keep_trace=True)
    trees = {
        tree: extender.commit([e for e in (extensions[i] for i in held) if e is not None])
        for tree, held in key.preprocessed_trees.items()
    }
    key = with_roots(key, {number: tree.root for number, tree in trees.items()})
    known = {t.name: h for t, h in zip(tables, heights, strict=True) if h is not None}
    key = replace(key, arguments=program.key_arguments(key.preprocessed_root, known))
    key.check(f"program {program.name}")
    return ProvingKey(program, key, backend, extensions, trees, streamed)


def programs_of(program: Program, tables: Collection[int]) -> list[RowProgram]:
    """The row programs of these tables: constraints, interactions, lookups that are counted."""
    own = [p for i in tables for p in program.compiled_tables[i].programs]
    return own + program.counting.programs(tables)


def copied(backend: Backend, array: Array) -> Array:
    """Copy `array` to a contiguous array in the backend's memory."""
    out = backend.empty(tuple(array.shape))
    out[...] = array
    return out
