"""The whole-table part of `GoldilocksKernels` on CUDA: vectors, low-degree extensions, trees, grinding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cuda.device import Device
from kernels.cuda.goldilocks.lde import MAX_LOG_BLOWUP, MAX_LOG_N, Extended, LdeEngine, LdeProfile
from kernels.cuda.goldilocks.merkle import MerkleEngine, MerkleProfile
from kernels.cuda.goldilocks.tree import CudaMerkleTree, LeafShape
from kernels.errors import BackendError, SizeError
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import LdeJob, MerkleTree, TreeOpening
from kernels.maths.goldilocks import TWO_ADICITY, P
from kernels.source import KernelSource

VECTOR = KernelSource("goldilocks_vector")
SEED_BYTES = 32


class CudaTransforms:
    """The methods add, sub, mul, lde, lde_all, commit, open and grind of `GoldilocksKernels` on one device."""

    def __init__(
        self, device: Device, *, lde_profile: LdeProfile | None = None, merkle_profile: MerkleProfile | None = None
    ) -> None:
        self.device = device
        self._lde = LdeEngine(device, lde_profile)
        self._merkle = MerkleEngine(device, merkle_profile)

    def prepare_transforms(self) -> None:
        """Begin to compile the kernels in the background. A kernel's first use waits for it."""
        self.device.prepare(VECTOR)
        self._lde.prepare()
        self._merkle.prepare()

    def clear_transforms(self) -> None:
        """Release the device memory of tables."""
        self._lde.clear()
        self._merkle.clear()

    def add(self, a: Array, b: Array) -> Array:
        return self._elementwise("goldilocks_add", a, b)

    def sub(self, a: Array, b: Array) -> Array:
        return self._elementwise("goldilocks_sub", a, b)

    def mul(self, a: Array, b: Array) -> Array:
        return self._elementwise("goldilocks_mul", a, b)

    def _elementwise(self, name: str, a: Array, b: Array) -> Array:
        for operand in (a, b):
            _require_words(name, operand)
        scalar = tuple(b.shape) == (1,)
        if a.shape != b.shape and not scalar:
            raise SizeError(f"{name} of shapes {a.shape} and {b.shape}")
        out = self.device.empty(a.shape)
        arguments = (a, b, out, np.uint64(a.size), np.uint32(scalar))
        self.device.kernel(VECTOR, name).launch_items(int(a.size), arguments)
        return out

    def lde(self, columns: Array, log_blowup: int, *, coset: int = 1, out: Array | None = None) -> Array:
        return self.lde_all([LdeJob(columns, coset, out)], log_blowup)[0]

    def lde_all(self, jobs: Sequence[LdeJob], log_blowup: int) -> list[Array]:
        extensions = [self._extension(job, log_blowup) for job in jobs]
        self._lde.run([extension for extension in extensions if len(extension.columns)])
        return [extension.out for extension in extensions]

    def _extension(self, job: LdeJob, log_blowup: int) -> Extended:
        """Check `job` and allocate its output unless it has one. Raises SizeError."""
        columns, out = job.columns, job.out
        _require_words("a low-degree extension", columns)
        if columns.ndim != 2:
            raise SizeError(f"a low-degree extension takes columns (width, n), not shape {columns.shape}")
        width, n = map(int, columns.shape)
        log_n = _log2("rows", n)
        if log_n > MAX_LOG_N or not 0 <= log_blowup <= MAX_LOG_BLOWUP or log_n + log_blowup > TWO_ADICITY:
            raise SizeError(
                f"2^{log_n} rows with a blow-up of 2^{log_blowup}: at most 2^{MAX_LOG_N} and 2^{MAX_LOG_BLOWUP}"
            )
        if job.coset % P == 0:
            raise SizeError("the coset 0 has no interpolation")
        shape = (width, 1 << log_blowup, n)
        if out is None:
            out = self.device.empty(shape)
        _require_words("the output of a low-degree extension", out)
        if tuple(out.shape) != shape:
            raise SizeError(f"an output of shape {out.shape} for an extension of shape {shape}")
        return Extended(columns, out, job.coset % P)

    def commit(self, matrices: Sequence[Array], *, log_arity: int = 0) -> CudaMerkleTree:
        if not matrices:
            raise SizeError("a tree of no matrix")
        for matrix in matrices:
            _require_words("a tree", matrix)
            if matrix.ndim != 3:
                raise SizeError(f"a tree takes matrices (width, blow-up, n), not shape {matrix.shape}")
            _log2("blow-up", int(matrix.shape[1]))
            _log2("rows", int(matrix.shape[2]))
        if any(matrix.shape[1] != matrices[0].shape[1] for matrix in matrices):
            raise SizeError("the matrices of one tree have one blow-up")
        leaves = tuple(LeafShape(matrix, log_arity) for matrix in matrices)
        if log_arity < 0 or (log_arity and len(leaves) > 1) or leaves[0].log_count < 0:
            raise SizeError(f"no tree over {len(leaves)} matrices has arity 2^{log_arity}")
        if any(leaf.elements >= 2**32 for leaf in leaves):
            raise SizeError("a leaf's width must fit 32 bits")
        return self._merkle.commit(leaves)

    def open(self, trees: Sequence[MerkleTree], indices: Sequence[int]) -> list[TreeOpening]:
        ours = [tree for tree in trees if isinstance(tree, CudaMerkleTree)]
        if len(ours) != len(trees):
            raise BackendError("a tree was not made by this backend")
        if any(not 0 <= i < 1 << 63 for i in indices):
            raise SizeError("an index of a query is a natural number")
        return self._merkle.open(ours, indices)

    def grind(self, seed: bytes, bits: int) -> int:
        if len(seed) != SEED_BYTES or not 0 <= bits <= 64:
            raise SizeError(f"grinding takes a seed of {SEED_BYTES} bytes and 0 to 64 bits, not {len(seed)} and {bits}")
        return self._merkle.grind(seed, bits)


def _require_words(what: str, array: Array) -> None:
    if array.dtype != np.uint64 or not array.flags.c_contiguous:
        raise SizeError(f"{what} takes contiguous 64-bit words, not {array.dtype} of shape {array.shape}")


def _log2(what: str, size: int) -> int:
    if size < 1 or size & (size - 1):
        raise SizeError(f"{size} is no power of two ({what})")
    return size.bit_length() - 1
