"""Vectors and low-degree extensions of `GoldilocksKernels` on CUDA."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cuda.device import Device
from kernels.cuda.goldilocks.lde import MAX_LOG_BLOWUP, MAX_LOG_N, Extended, LdeEngine, LdeProfile
from kernels.cuda.goldilocks.root_powers import RootPowers
from kernels.errors import SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import Elementwise, LdeJob
from kernels.maths.goldilocks import P
from kernels.source import KernelSource

VECTOR = KernelSource("goldilocks_vector")


class CudaTransforms:
    """Elementwise operations and extensions on one device."""

    def __init__(self, device: Device, powers: RootPowers, lde_profile: LdeProfile | None = None) -> None:
        self._device = device
        self._extend = LdeEngine(device, powers, lde_profile)

    def _elementwise(self, operation: Elementwise, a: Array, b: Array) -> Array:
        out = self._device.empty(a.shape)
        arguments = (a, b, out, np.uint64(a.size), np.uint32(b.shape == (1,)))
        self._device.kernel(VECTOR, f"goldilocks_{operation}").launch_items(int(a.size), arguments)
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
        out = self._device.empty((width, 1 << log_blowup, n)) if job.out is None else job.out
        return Extended(job.columns, out, job.coset % P)
