"""The whole-table part of `GoldilocksKernels` on CUDA: vectors, low-degree extensions, trees, grinding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cuda.device import Device
from kernels.cuda.goldilocks.lde import MAX_LOG_BLOWUP, MAX_LOG_N, Extended, LdeEngine, LdeProfile
from kernels.cuda.goldilocks.merkle import MerkleEngine
from kernels.cuda.goldilocks.tree import CudaMerkleTree, LeafShape
from kernels.errors import BackendError, SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import Elementwise, LdeJob, MerkleTree, TreeOpening
from kernels.maths.goldilocks import P
from kernels.source import KernelSource

VECTOR = KernelSource("goldilocks_vector")


class CudaTransforms:
    """Elementwise operations, extensions, trees and grinding of `GoldilocksKernels` on one device."""

    def __init__(self, device: Device, lde_profile: LdeProfile | None = None) -> None:
        self.device = device
        self._extend = LdeEngine(device, lde_profile)
        self._merkle = MerkleEngine(device)

    def prepare_transforms(self) -> None:
        """Begin to compile the kernels in the background. A kernel's first use waits for it."""
        self.device.prepare(VECTOR)
        self._extend.prepare()
        self._merkle.prepare()

    def clear_transforms(self) -> None:
        """Release the device memory of tables."""
        self._extend.clear()
        self._merkle.clear()

    def _elementwise(self, operation: Elementwise, a: Array, b: Array) -> Array:
        out = self.device.empty(a.shape)
        arguments = (a, b, out, np.uint64(a.size), np.uint32(b.shape == (1,)))
        self.device.kernel(VECTOR, f"goldilocks_{operation}").launch_items(int(a.size), arguments)
        return out

    def _lde_all(self, jobs: Sequence[LdeJob], log_blowup: int) -> list[Array]:
        extensions = [self._extension(job, log_blowup) for job in jobs]
        self._extend.run([extension for extension in extensions if len(extension.columns)])
        return [extension.out for extension in extensions]

    def _extension(self, job: LdeJob, log_blowup: int) -> Extended:
        """Allocate the output of `job` unless it has one. Raises SizeError for sizes that the kernels do not handle."""
        width, n = map(int, job.columns.shape)
        preconditions.contiguous(job.columns, "columns")
        if n > 1 << MAX_LOG_N or log_blowup > MAX_LOG_BLOWUP:
            raise SizeError(f"{n} rows with a blow-up of 2^{log_blowup}: at most 2^{MAX_LOG_N} and 2^{MAX_LOG_BLOWUP}")
        out = self.device.empty((width, 1 << log_blowup, n)) if job.out is None else job.out
        return Extended(job.columns, out, job.coset % P)

    def _commit(self, matrices: Sequence[Array], log_arity: int) -> CudaMerkleTree:
        for matrix in matrices:
            preconditions.contiguous(matrix, "a tree's matrix")
        leaves = tuple(LeafShape(matrix, log_arity) for matrix in matrices)
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

    def _grind(self, seed: bytes, bits: int) -> int:
        return self._merkle.grind(seed, bits)
