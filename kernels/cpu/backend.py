"""The CPU backend: NumPy arrays, and the native extension for all computation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from kernels.cpu.groups import CpuGroups
from kernels.cpu.leased_pool import Lease, LeasedPool
from kernels.cpu.sparse import CpuSparse
from kernels.cpu.synthesis import CpuSynthesis
from kernels.cpu.vectors import CpuVectors
from kernels.errors import BackendError
from kernels.host import native as builds
from kernels.host.arena import HostArena
from kernels.host.processor import processor_facts
from kernels.interface.arrays import Array, Empty, HostArray
from kernels.interface.backend import Backend, DeviceInfo, Traffic

if TYPE_CHECKING:
    from kernels.cpu.babybear import CpuBabyBear
    from kernels.cpu.goldilocks.kernels import CpuGoldilocks
    from kernels.cpu.goldilocks.multilinear import CpuMultilinear
    from kernels.cpu.inner_products import CpuInnerProducts
    from kernels.cpu.openvm.kernels import CpuOpenVm


class CpuBackend(Backend):
    """Computes on at most `threads` threads of this machine, the caller's included.

    `variant` names a build of the extension (see `kernels.host.native`); None is the fastest that runs here. `budget`
    is the memory, in bytes, that plans may count on; None is all that the machine has. Large arrays come from `arena`,
    if given, which must outlive the backend. `lease` is held during each computation on field vectors or points that is
    not small (see `LeasedPool`).
    """

    vectors: CpuVectors
    sparse: CpuSparse
    groups: CpuGroups
    synthesis: CpuSynthesis

    def __init__(
        self,
        threads: int = 1,
        variant: str | None = None,
        *,
        budget: int | None = None,
        arena: HostArena | None = None,
        lease: Lease | None = None,
    ) -> None:
        if threads < 1:
            raise BackendError(f"a backend needs at least one thread, not {threads}")
        self.name = "cpu"
        self.traffic = Traffic()
        self.threads = threads
        self._budget = budget
        self._empty: Empty = np.empty if arena is None else arena.empty
        self._zeros: Empty = np.zeros if arena is None else arena.zeros
        native = builds.load(variant)
        self._variant = variant or builds.variants()[-1]
        self.pool = LeasedPool(native, threads, lease)
        self.vectors = CpuVectors(self.pool, self._empty)
        self.sparse = CpuSparse(self.pool, self._empty)
        self.groups = CpuGroups(self.pool, self._empty)
        self.synthesis = CpuSynthesis(self.pool)
        self._goldilocks: CpuGoldilocks | None = None

    @property
    def goldilocks(self) -> CpuGoldilocks:
        if self._goldilocks is None:
            from kernels.cpu.goldilocks.kernels import CpuGoldilocks

            self._goldilocks = CpuGoldilocks(self.pool.native, self.pool.threads, self._empty)
        return self._goldilocks

    @property
    def multilinear(self) -> CpuMultilinear:
        from kernels.cpu.goldilocks.multilinear import CpuMultilinear

        return CpuMultilinear(self.pool.native, self.pool.threads, self._empty, self._zeros, rows=self.goldilocks)

    @property
    def babybear(self) -> CpuBabyBear:
        from kernels.cpu.babybear import CpuBabyBear

        return CpuBabyBear(self.pool)

    @property
    def openvm(self) -> CpuOpenVm:
        from kernels.cpu.openvm.kernels import CpuOpenVm

        return CpuOpenVm(self.babybear)

    @property
    def inner_products(self) -> CpuInnerProducts:
        from kernels.cpu.inner_products import CpuInnerProducts

        return CpuInnerProducts(self.pool)

    # -- memory -----------------------------------------------------------------------------------------------------

    def info(self) -> DeviceInfo:
        total = int(psutil.virtual_memory().total)
        return DeviceInfo(
            name=processor_facts().model,
            kind="cpu",
            memory_total=total,
            memory_budget=total if self._budget is None else self._budget,
            details={"threads": self.threads, "variant": self._variant, "features": builds.cpu_features()},
        )

    def to_device(self, host: HostArray) -> Array:
        return host

    def to_host(self, array: Array) -> HostArray:
        return np.asarray(array)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self._empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self._zeros(shape, dtype)

    def synchronize(self) -> None:
        """Do nothing: every call returns when its work is done."""

    # -- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the threads and drop the cached roots of unity."""
        self.vectors.clear()
        self.synthesis.clear()
        self._goldilocks = None
        self.pool.close()
