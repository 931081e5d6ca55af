"""A backend in two parts: a device, and this machine's CPU for the operations that are offloaded to it.

It is for devices whose memory is too small for everything, and for machines whose cores would idle. Points of offloaded
MSMs are used in place, in a mapped key, and take no memory of the device. Offloaded operations run one at a time, in
the order in which they were asked for, on a thread of their own beside the device, and under the host's leases: an
MSM's `PendingPoint` waits for its operation, and a product that `stage_spmv` began may be computed while the device
works on another proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernels.cpu.backend import CpuBackend
from kernels.cpu.sparse import CpuMatrix
from kernels.errors import BackendError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.backend import Backend, DeviceInfo
from kernels.interface.busy import BusyWatch
from kernels.interface.goldilocks import GoldilocksKernels
from kernels.interface.groups import Groups, PendingPoint, PointTable
from kernels.interface.inner_products import InnerProducts
from kernels.interface.leases import SPMV
from kernels.interface.matrix import CsrMatrix
from kernels.interface.offload import MSM, Offload
from kernels.interface.sparse import Matrix, Sparse
from kernels.interface.staged import MadeOnUse, Staged
from kernels.maths.curves import Curve, Field, Group


class SplitBackend(Backend):
    """Computes on `device`, except what `offload` says that `host` computes. Owns and closes both.

    A host array that is staged must not change until the points computed from it are there.
    """

    def __init__(self, device: Backend, host: CpuBackend, offload: Offload) -> None:
        self._device, self._host = device, host
        self.offload = offload
        self.name = device.name
        self.traffic = device.traffic
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="offload")
        self.vectors, self.sparse, self.groups = device.vectors, device.sparse, device.groups
        self.synthesis = device.synthesis
        if SPMV in offload.host:
            self.sparse = HostSparse(device, host, self._thread)
        if offloaded := frozenset(group for group in Group if MSM[group] in offload.host):
            self.groups = SplitGroups(device, host, offloaded, self._thread)

    @property
    def goldilocks(self) -> GoldilocksKernels:
        return self._device.goldilocks

    @property
    def inner_products(self) -> InnerProducts:
        return self._device.inner_products

    def prepare(self, curve: Curve) -> None:
        self._device.prepare(curve)

    def info(self) -> DeviceInfo:
        info = self._device.info()
        return replace(info, details={**info.details, "placement": str(self.offload)})

    def stage(self, host: HostArray, *, ahead: bool = True) -> Staged:
        if {SPMV, MSM[Group.G1]} <= self.offload.host:  # the device is not expected to read it
            return SplitStaged(host, MadeOnUse(lambda: self._device.to_device(host)))
        return SplitStaged(host, self._device.stage(host, ahead=ahead))

    def to_device(self, host: HostArray) -> Array:
        return self._device.to_device(host)

    def to_host(self, array: Array) -> HostArray:
        return self._device.to_host(array)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self._device.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self._device.zeros(shape, dtype)

    def empty_host(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> HostArray:
        return self._device.empty_host(shape, dtype)

    def memory_free(self) -> int | None:
        return self._device.memory_free()

    def synchronize(self) -> None:
        self._thread.submit(lambda: None).result()
        self._device.synchronize()

    def repeated(self, work: Callable[..., Array], shapes: Sequence[tuple[int, ...]]) -> Callable[..., Array]:
        repeated: Callable[..., Array] = self._device.repeated(work, shapes)
        return repeated

    def repeated_points(
        self, work: Callable[..., Sequence[PendingPoint]], shapes: Sequence[tuple[int, ...]]
    ) -> Callable[..., Sequence[PendingPoint]] | None:
        return None if self.offload.host else self._device.repeated_points(work, shapes)

    def records(self, nbytes: int, free: int) -> bool:
        return self._device.records(nbytes, free)

    def watch_memory(self) -> None:
        self._device.watch_memory()

    def memory_peak(self) -> int | None:
        return self._device.memory_peak()

    def watch_busy(self) -> BusyWatch:
        return self._device.watch_busy()

    def host_waits(self) -> None:
        self._device.host_waits()

    def close_host(self) -> None:
        """Release what is the host's. The device is left to others that use it."""
        self._thread.shutdown(cancel_futures=True)
        self._host.close()

    def close(self) -> None:
        self.close_host()
        self._device.close()


@dataclass(frozen=True, repr=False)
class SplitStaged:
    """A staged array whose original the host reads, and the device's copy of it."""

    host: HostArray
    copy: Staged

    def array(self) -> Array:
        return self.copy.array()

    def release(self) -> None:
        self.copy.release()


class SplitScalars:
    """Rows of a staged array on both sides: the host's own, and the device's copy, made when an MSM asks for it."""

    def __init__(self, host: HostArray, device: Callable[[], Array]) -> None:
        self.host = host
        self.device = device
        self.shape, self.ndim, self.dtype = host.shape, host.ndim, host.dtype
        self.size, self.flags = host.size, host.flags

    def __getitem__(self, rows: slice) -> SplitScalars:
        return SplitScalars(self.host[rows], lambda: self.device()[rows])


class HostSparse(Sparse[CpuMatrix]):
    """Products that the host computes for a device, on `thread`."""

    loaded = CpuMatrix

    def __init__(self, device: Backend, host: CpuBackend, thread: ThreadPoolExecutor) -> None:
        super().__init__(device.empty)
        self._device, self._host, self._thread = device, host.sparse, thread

    def matrix_bytes(self, rows: int, nnz: int) -> int:
        return 0  # of the device's memory

    def stage_spmv(self, matrix: Matrix, x: Staged, *, standard_form: bool = False) -> Staged:
        if not isinstance(x, SplitStaged):
            raise BackendError("this array was staged by another backend")
        product = self._begin(matrix, x.host, standard_form)
        return MadeOnUse(lambda: self._fetch(product), product.cancel)

    def _load_matrix(self, field: Field, matrix: CsrMatrix) -> CpuMatrix:
        return self._host._load_matrix(field, matrix)

    def _spmv(self, matrix: CpuMatrix, x: Array, out: Array, standard_form: bool) -> None:
        out[...] = self._fetch(self._begin(matrix, self._device.to_host(x), standard_form))

    def _begin(self, matrix: Matrix, x: HostArray, standard_form: bool) -> Future[HostArray]:
        return self._thread.submit(lambda: self._host.spmv(matrix, x, standard_form=standard_form))

    def _fetch(self, product: Future[HostArray]) -> Array:
        """Copy a product to the device, when it is asked for: earlier it would take memory that the previous proof may
        need."""
        self._device.host_waits()
        return self._device.to_device(product.result())


class SplitGroups(Groups[PointTable]):
    """A device's points, except that the MSMs of the `offloaded` groups run on the host, on `thread`."""

    def __init__(
        self, device: Backend, host: CpuBackend, offloaded: frozenset[Group], thread: ThreadPoolExecutor
    ) -> None:
        self.loaded = (*device.groups.loaded, *host.groups.loaded)
        self._to_host = device.to_host
        self._device, self._host = device.groups, host.groups
        self._offloaded, self._thread = offloaded, thread

    def scalars(self, staged: Staged) -> Array:
        if not isinstance(staged, SplitStaged):
            raise BackendError("this array was staged by another backend")
        return SplitScalars(staged.host, staged.array)

    def table_bytes(self, curve: Curve, group: Group, n: int, memory: int) -> int:
        return 0 if group in self._offloaded else self._device.table_bytes(curve, group, n, memory)

    def msm_scratch(
        self, curve: Curve, group: Group, n: int, *, memory: int | None = None, streamed: bool = False
    ) -> int:
        if group in self._offloaded:
            return 0
        return self._device.msm_scratch(curve, group, n, memory=memory, streamed=streamed)

    def _load_points(self, curve: Curve, group: Group, points: HostArray, memory: int | None) -> PointTable:
        groups = self._host if group in self._offloaded else self._device
        return groups._load_points(curve, group, points, memory)

    def _stream_points(self, curve: Curve, group: Group, points: HostArray) -> PointTable:
        return (self._host if group in self._offloaded else self._device)._stream_points(curve, group, points)

    def _repeat(self, table: Any, count: int, start: int) -> None:
        if table.group not in self._offloaded:
            self._device._repeat(table, count, start)

    def _msm(self, table: Any, scalars: Array, start: int) -> PendingPoint:
        split = isinstance(scalars, SplitScalars)
        if table.group not in self._offloaded:
            return self._device._msm(table, scalars.device() if split else scalars, start)
        values = scalars.host if split else self._to_host(scalars)
        return self._thread.submit(lambda: self._host._msm(table, values, start).result())

    def _fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
        return self._device._fixed_base(curve, group, base, scalars)

    def _check_points(self, curve: Curve, group: Group, points: HostArray, subgroup: bool) -> int | None:
        return self._device._check_points(curve, group, points, subgroup)
