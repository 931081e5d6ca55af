"""A backend in two parts: a device, and this machine's CPU for the operations that are offloaded to it.

It is for devices whose memory is too small for everything, and for machines whose cores would idle. Points of offloaded
MSMs are used in place, in a mapped key, and take no memory of the device. Offloaded operations run one at a time, in
the order in which they were asked for, on a thread of their own beside the device, and under the host's leases: an
MSM's `PendingPoint` waits for its operation, and a product that `stage_spmv` began may be computed while the device
works on another proof.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernels.cpu.backend import CpuBackend
from kernels.errors import BackendError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.backend import (
    Backend,
    CopiedOnUse,
    CsrMatrix,
    DeviceInfo,
    Matrix,
    PendingPoint,
    PointTable,
    Staged,
)
from kernels.interface.busy import BusyWatch
from kernels.interface.goldilocks import GoldilocksKernels
from kernels.interface.leases import SPMV
from kernels.interface.placement import MSM, Placement
from kernels.maths.curves import Curve, Field, Group


class PlacedArray:
    """Rows of a staged array on both sides: the host's own, and the device's copy, made when an operation asks."""

    def __init__(self, host: HostArray, device: Callable[[], Array]) -> None:
        self.host = host
        self._device = device

    @property
    def device(self) -> Array:
        return self._device()

    def __getitem__(self, rows: slice) -> PlacedArray:
        return PlacedArray(self.host[rows], lambda: self._device()[rows])


class PlacedBackend(Backend):
    """Computes on `device`, except what `placement` offloads to `host`. Owns and closes both.

    A host array that is staged must not change until the points computed from it are there.
    """

    def __init__(self, device: Backend, host: CpuBackend, placement: Placement) -> None:
        self._device, self._host = device, host
        self.placement = placement
        self.name = device.name
        self.traffic = device.traffic
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="placed")

    def prepare(self, curve: Curve) -> None:
        self._device.prepare(curve)

    # -- the host's part --------------------------------------------------------------------------------------------

    def stage(self, host: HostArray) -> Staged:
        read_by_device = not {SPMV, MSM[Group.G1]} <= self.placement.host
        return _PlacedStaged(self._device, host, ahead=read_by_device)

    def stage_spmv(self, matrix: Matrix, x: Staged, *, standard_form: bool = False) -> Staged:
        if SPMV not in self.placement.host:
            return super().stage_spmv(matrix, x, standard_form=standard_form)
        if not isinstance(x, _PlacedStaged):
            raise BackendError("this array was staged by another backend")
        vector = x.host
        product = self._thread.submit(lambda: self._host.spmv(matrix, vector, standard_form=standard_form))
        return _HostProduct(self._device, product)

    def spmv(self, matrix: Matrix, x: Array, out: Array | None = None, *, standard_form: bool = False) -> Array:
        if SPMV not in self.placement.host:
            return self._device.spmv(matrix, _on_device(x), out, standard_form=standard_form)
        vector = self._on_host(x)
        product = self._thread.submit(lambda: self._host.spmv(matrix, vector, standard_form=standard_form))
        self._device.host_waits()
        array = self._device.to_device(product.result())
        if out is None:
            return array
        out[...] = array
        return out

    def load_matrix(self, field: Field, matrix: CsrMatrix) -> Matrix:
        return (self._host if SPMV in self.placement.host else self._device).load_matrix(field, matrix)

    def load_points(self, curve: Curve, group: Group, points: HostArray, *, memory: int | None = None) -> PointTable:
        backend = self._host if MSM[group] in self.placement.host else self._device
        return backend.load_points(curve, group, points, memory=memory)

    def msm_scratch(self, curve: Curve, group: Group, n: int) -> int:
        return 0 if MSM[group] in self.placement.host else self._device.msm_scratch(curve, group, n)

    def msm(self, table: PointTable, scalars: Array, *, start: int = 0) -> PendingPoint:
        if MSM[table.group] not in self.placement.host:
            return self._device.msm(table, _on_device(scalars), start=start)
        values = self._on_host(scalars)
        return _HostPoint(self._thread.submit(lambda: self._host.msm(table, values, start=start).result()))

    def _on_host(self, array: Array) -> HostArray:
        return array.host if isinstance(array, PlacedArray) else self._device.to_host(array)

    # -- the device's part ------------------------------------------------------------------------------------------

    def info(self) -> DeviceInfo:
        info = self._device.info()
        return replace(info, details={**info.details, "placement": str(self.placement)})

    def to_device(self, host: HostArray) -> Array:
        return self._device.to_device(host)

    def to_host(self, array: Array) -> HostArray:
        return self._on_host(array)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self._device.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self._device.zeros(shape, dtype)

    def synchronize(self) -> None:
        self._thread.submit(lambda: None).result()
        self._device.synchronize()

    def watch_memory(self) -> None:
        self._device.watch_memory()

    def memory_peak(self) -> int | None:
        return self._device.memory_peak()

    def watch_busy(self) -> BusyWatch:
        return self._device.watch_busy()

    def host_waits(self) -> None:
        self._device.host_waits()

    def add(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._device.add(field, _on_device(a), _on_device(b), out)

    def sub(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._device.sub(field, _on_device(a), _on_device(b), out)

    def mul(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._device.mul(field, _on_device(a), _on_device(b), out)

    def mul_sub(self, field: Field, a: Array, b: Array, c: Array, out: Array | None = None) -> Array:
        return self._device.mul_sub(field, _on_device(a), _on_device(b), _on_device(c), out)

    def scale_powers(self, field: Field, a: Array, base: int, first: int = 1, out: Array | None = None) -> Array:
        return self._device.scale_powers(field, _on_device(a), base, first, out)

    def to_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._device.to_montgomery(field, _on_device(a), out)

    def from_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._device.from_montgomery(field, _on_device(a), out)

    def batch_inverse(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._device.batch_inverse(field, _on_device(a), out)

    def equal(self, a: Array, b: Array) -> bool:
        return self._device.equal(_on_device(a), _on_device(b))

    def ntt(
        self,
        field: Field,
        a: Array,
        *,
        inverse: bool = False,
        coset: int | None = None,
        bit_reversed_input: bool = False,
        bit_reversed_output: bool = False,
    ) -> Array:
        return self._device.ntt(
            field,
            a,
            inverse=inverse,
            coset=coset,
            bit_reversed_input=bit_reversed_input,
            bit_reversed_output=bit_reversed_output,
        )

    def fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
        return self._device.fixed_base(curve, group, base, _on_device(scalars))

    def check_points(self, curve: Curve, group: Group, points: HostArray, *, subgroup: bool = True) -> int | None:
        return self._device.check_points(curve, group, points, subgroup=subgroup)

    @property
    def goldilocks(self) -> GoldilocksKernels:
        return self._device.goldilocks

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._host.close()
        self._device.close()


class _PlacedStaged:
    """A staged array whose original the host's part of the backend reads."""

    def __init__(self, device: Backend, host: HostArray, *, ahead: bool) -> None:
        """`ahead` begins to copy now; otherwise no operation of the device is expected to read the array."""
        self.host = host
        self._staged = device.stage(host) if ahead else CopiedOnUse(device, host)

    def array(self) -> Array:
        return PlacedArray(self.host, self._staged.array)

    def release(self) -> None:
        self._staged.release()


class _HostProduct:
    """A product that the host computes. It goes to the device only when it is asked for: earlier it would take memory
    that the previous proof may need."""

    def __init__(self, device: Backend, product: Future[HostArray]) -> None:
        self._device = device
        self._product: Future[HostArray] | None = product
        self._array: Array | None = None

    def array(self) -> Array:
        if self._product is None:
            raise BackendError("a product was asked for after it had been released")
        if self._array is None:
            self._device.host_waits()
            self._array = self._device.to_device(self._product.result())
        return self._array

    def release(self) -> None:
        if self._product is not None:
            self._product.cancel()
        self._product = self._array = None


@dataclass(frozen=True)
class _HostPoint:
    """The `PendingPoint` of an MSM on the host's thread."""

    point: Future[HostArray]

    def result(self) -> HostArray:
        return self.point.result()


def _on_device(array: Array) -> Array:
    return array.device if isinstance(array, PlacedArray) else array
