"""Goldilocks on the CPU: elementwise arithmetic, low-degree extensions, commitments, grinding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kernels.cpu.goldilocks.merkle import CpuMerkleTree, Hasher, open_trees
from kernels.errors import BackendError, SizeError
from kernels.interface.arrays import Array, Empty
from kernels.interface.goldilocks import Elementwise, LdeJob, MerkleTree, StoredTree, TreeOpening, Words
from kernels.interface.tree_hash import GRIND_TAG, TreeHash
from kernels.maths.goldilocks import GENERATOR, P, root_of_unity

MAX_GRIND_BITS = 40
"""Most bits of grinding. More would take days on one core and must be a mistake."""


class CpuTransforms:
    """The transforms and hashes of `GoldilocksKernels`, on the threads of `pool`.

    `native` is a build of the extension (`kernels.host.native.load`), `pool` one of its pools. `instruction_set` names
    one of `native.gl_instruction_sets()`; None is the fastest that runs on this CPU. `empty` makes the results' arrays.
    """

    def __init__(self, native: Any, pool: Any, empty: Empty, *, instruction_set: str | None = None) -> None:
        known = native.gl_instruction_sets()
        if instruction_set is not None and instruction_set not in known:
            raise BackendError(
                f"no instruction set {instruction_set!r} on this processor; there are: {', '.join(known)}"
            )
        self._native = native
        self._pool = pool
        self._set: str = instruction_set or known[-1]
        self._empty = empty
        self._hasher = Hasher(native, pool, self._set, empty)

    def _elementwise(self, operation: Elementwise, a: Array, b: Array) -> Array:
        out = self._empty(a.shape, np.uint64)
        getattr(self._native, f"gl_{operation}")(self._pool, self._set, _flat(a), _flat(b), out.reshape(-1))
        return out

    def _lde_all(self, jobs: Sequence[LdeJob], log_blowup: int) -> list[Array]:
        return [self._lde(job, log_blowup) for job in jobs]

    def _lde(self, job: LdeJob, log_blowup: int) -> Array:
        columns, out = job.columns, job.out
        width, n = columns.shape
        log_n = n.bit_length() - 1
        if out is not None and np.may_share_memory(columns, out) and not _in_place(columns, out):
            raise SizeError("out must be apart from the columns, or their very memory")
        target = self._empty((width, 1 << log_blowup, n), np.uint64) if out is None else out
        step, shift = root_of_unity(log_n + log_blowup), GENERATOR * pow(job.coset, -1, P) % P
        shifts = np.array([shift * pow(step, k, P) % P for k in range(1 << log_blowup)], dtype=np.uint64)
        if width:
            self._native.gl_lde(
                self._pool, self._set, _flat(columns), log_n, root_of_unity(log_n), shifts, target.reshape(-1)
            )
        return target

    def _commit(self, matrices: Sequence[Array], log_arity: int, tree_hash: TreeHash) -> StoredTree:
        if matrices[0].shape[2] >> log_arity == 0:
            raise SizeError(f"a leaf of 2^{log_arity} rows on cosets of {matrices[0].shape[2]}")
        return CpuMerkleTree(self._hasher.using(tree_hash), [np.ascontiguousarray(m) for m in matrices], log_arity)

    def _open_trees(self, trees: Sequence[MerkleTree], indices: NDArray[np.int64]) -> list[TreeOpening]:
        return open_trees(cast("Sequence[CpuMerkleTree]", trees), indices)

    def _grind(self, seed: bytes, bits: int, tree_hash: TreeHash) -> int:
        if bits > MAX_GRIND_BITS:
            raise SizeError(f"grinding takes at most {MAX_GRIND_BITS} bits on the CPU, not {bits}")
        words = np.frombuffer(seed, dtype="<u8").astype(np.uint64)
        return int(self._native.gl_grind(self._pool, self._set, tree_hash.function, GRIND_TAG, words, bits))


def _in_place(columns: Words, out: Words) -> bool:
    """Whether `out` is exactly the memory of `columns`: an extension with blow-up 1, in place."""
    same = columns.__array_interface__["data"] == out.__array_interface__["data"]
    return same and columns.flags.c_contiguous and columns.size == out.size


def _flat(array: Words) -> Words:
    return np.ascontiguousarray(array).reshape(-1)
