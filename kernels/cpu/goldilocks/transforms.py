"""Goldilocks on the CPU: elementwise arithmetic, low-degree extensions, commitments, grinding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels.cpu.goldilocks.merkle import CpuMerkleTree, Hasher
from kernels.errors import BackendError, SizeError
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import GRIND_TAG, MerkleTree, Words
from kernels.maths.goldilocks import GENERATOR, TWO_ADICITY, P, root_of_unity

MAX_GRIND_BITS = 40
"""Most bits of grinding. More would take days on one core and must be a mistake."""


class CpuTransforms:
    """The transforms and hashes of `GoldilocksKernels`, on the threads of `pool`.

    `native` is a build of the extension (`kernels.cpu.native.load`), `pool` one of its pools. `instruction_set` names
    one of `native.gl_instruction_sets()`; None is the fastest that runs on this CPU.
    """

    def __init__(self, native: Any, pool: Any, *, instruction_set: str | None = None) -> None:
        known = native.gl_instruction_sets()
        if instruction_set is not None and instruction_set not in known:
            raise BackendError(
                f"no instruction set {instruction_set!r} on this processor; there are: {', '.join(known)}"
            )
        self._native = native
        self._pool = pool
        self._set: str = instruction_set or known[-1]
        self._hasher = Hasher(native, pool, self._set)

    # -- elementwise --------------------------------------------------------------------------------------------------

    def add(self, a: Array, b: Array) -> Array:
        return self._elementwise(self._native.gl_add, a, b)

    def sub(self, a: Array, b: Array) -> Array:
        return self._elementwise(self._native.gl_sub, a, b)

    def mul(self, a: Array, b: Array) -> Array:
        return self._elementwise(self._native.gl_mul, a, b)

    def _elementwise(self, op: Any, a: Array, b: Array) -> Array:
        _expect_words(a, "a")
        _expect_words(b, "b")
        if a.shape != b.shape and b.shape != (1,):
            raise SizeError(f"operands have the same shape, or the second shape (1,): not {a.shape} and {b.shape}")
        out = np.empty(a.shape, dtype=np.uint64)
        op(self._pool, self._set, _flat(a), _flat(b), out.reshape(-1))
        return out

    # -- polynomials --------------------------------------------------------------------------------------------------

    def lde(self, columns: Array, log_blowup: int, *, coset: int = 1, out: Array | None = None) -> Array:
        _expect_words(columns, "columns")
        if columns.ndim != 2:
            raise SizeError(f"columns have shape (w, n), not {columns.shape}")
        width, n = columns.shape
        log_n = _log2(n, "rows")
        if log_blowup < 0 or log_n + log_blowup > TWO_ADICITY:
            raise SizeError(
                f"no extension of 2^{log_n} rows by 2^{log_blowup}: the field has 2^{TWO_ADICITY} roots of 1"
            )
        if not 0 < coset < P:
            raise SizeError("a coset's shift is a field element that is not zero")
        shape = (width, 1 << log_blowup, n)
        target = np.empty(shape, dtype=np.uint64) if out is None else out
        if target.shape != shape or target.dtype != np.uint64 or not target.flags.writeable:
            raise SizeError(f"out must be a writable uint64 array of shape {shape}, not {target.shape} {target.dtype}")
        if not target.flags.c_contiguous or (np.may_share_memory(columns, target) and not _in_place(columns, target)):
            raise SizeError("out must be contiguous, and apart from the columns or their very memory")
        step, shift = root_of_unity(log_n + log_blowup), GENERATOR * pow(coset, -1, P) % P
        shifts = np.array([shift * pow(step, k, P) % P for k in range(1 << log_blowup)], dtype=np.uint64)
        if width:
            self._native.gl_lde(
                self._pool, self._set, _flat(columns), log_n, root_of_unity(log_n), shifts, target.reshape(-1)
            )
        return target

    # -- commitments --------------------------------------------------------------------------------------------------

    def commit(self, matrices: Sequence[Array], *, log_arity: int = 0) -> MerkleTree:
        for matrix in matrices:
            _expect_words(matrix, "matrix")
        return CpuMerkleTree(self._hasher, [np.ascontiguousarray(m) for m in matrices], log_arity)

    def grind(self, seed: bytes, bits: int) -> int:
        if len(seed) != 32 or not 0 <= bits <= MAX_GRIND_BITS:
            raise SizeError(
                f"grinding takes a seed of 32 bytes and 0 to {MAX_GRIND_BITS} bits, not {len(seed)} and {bits}"
            )
        words = np.frombuffer(seed, dtype="<u8").astype(np.uint64)
        return int(self._native.gl_grind(self._pool, self._set, GRIND_TAG, words, bits))


def _expect_words(array: Array, what: str) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != np.uint64:
        raise SizeError(
            f"{what}: Goldilocks elements are an array of uint64, not {getattr(array, 'dtype', type(array))}"
        )


def _in_place(columns: Words, out: Words) -> bool:
    """Whether `out` is exactly the memory of `columns`: an extension with blow-up 1, in place."""
    same = columns.__array_interface__["data"] == out.__array_interface__["data"]
    return same and columns.flags.c_contiguous and columns.size == out.size


def _flat(array: Words) -> Words:
    return np.ascontiguousarray(array).reshape(-1)


def _log2(n: int, what: str) -> int:
    if n < 1 or n & (n - 1):
        raise SizeError(f"{what}: {n} is not a power of two")
    return n.bit_length() - 1
