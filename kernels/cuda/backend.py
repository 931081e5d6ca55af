"""The CUDA backend: `Backend` on one NVIDIA GPU, with CuPy arrays and the kernels of `kernels/cuda/src`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernels.cuda.device import Device
from kernels.cuda.field import field_source
from kernels.cuda.goldilocks.kernels import CudaGoldilocks
from kernels.cuda.goldilocks.multilinear import CudaMultilinear
from kernels.cuda.groups import CudaGroups
from kernels.cuda.inner_products import CudaInnerProducts
from kernels.cuda.joining import FetchedPoint, FetchedSums, GatheredPoint, Gathering, Joining
from kernels.cuda.msm import RECORDED_SHARE, MsmProfile
from kernels.cuda.openvm.kernels import CudaOpenVm
from kernels.cuda.sparse import CudaSparse
from kernels.cuda.synthesis import CudaSynthesis
from kernels.cuda.vectors import CudaVectors
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.interface.backend import Backend, DeviceInfo
from kernels.interface.busy import BusyWatch
from kernels.interface.staged import Staged
from kernels.maths.curves import Curve, Group


class CudaBackend(Backend):
    """`Backend` on one GPU. One thread at a time queues work, on one stream.

    `to_host`, `Vectors.equal` and points' `result` wait for that work. `stage` copies on a stream of its own and may be
    called by another thread meanwhile.
    """

    vectors: CudaVectors
    sparse: CudaSparse
    groups: CudaGroups
    synthesis: CudaSynthesis

    def __init__(
        self,
        device: int | Device = 0,
        budget: int | None = None,
        *,
        share: int = 1,
        threads: int = 4,
        cache_dir: Path | None = None,
        msm_profile: MsmProfile | None = None,
    ) -> None:
        """`device` is a `Device`, or the index of one as this process counts them. `budget` bounds its memory in bytes;
        without a budget, `share` backends divide it evenly. `threads` bounds the host threads that compile kernels and
        copy to pinned memory.

        Raises BackendError if CuPy, the driver or the GPU is missing, OutOfMemory if the budget is not there.
        """
        if isinstance(device, int):
            from kernels.cuda.launch import CudaDevice  # here, so that this module can be imported without CuPy

            device = CudaDevice(device, budget=budget, share=share, threads=threads, cache_dir=cache_dir)
        self.device: Device = device
        self.name = "cuda"
        self.threads = threads
        self.traffic = self.device.traffic
        self.vectors = CudaVectors(self.device)
        self.sparse = CudaSparse(self.device)
        self.groups = CudaGroups(self.device, msm_profile)
        self.synthesis = CudaSynthesis(self.device)
        self._inner_products = CudaInnerProducts(self.device)
        self._goldilocks: CudaGoldilocks | None = None
        self._openvm: CudaOpenVm | None = None
        self._beside: CudaBackend | None = None
        """What `make_ahead` computes with."""

    @property
    def goldilocks(self) -> CudaGoldilocks:
        if self._goldilocks is None:
            self._goldilocks = CudaGoldilocks(self.device)
        return self._goldilocks

    @property
    def multilinear(self) -> CudaMultilinear:
        return self.goldilocks.multilinear

    @property
    def openvm(self) -> CudaOpenVm:
        if self._openvm is None:
            self._openvm = CudaOpenVm(self.device)
            self._openvm.prepare()
        return self._openvm

    @property
    def inner_products(self) -> CudaInnerProducts:
        return self._inner_products

    def prepare(self, curve: Curve) -> None:
        """Begin to compile the kernels for proofs on `curve` in the background. A kernel's first use waits for it."""
        self.vectors.prepare(curve.fr)
        self.device.prepare(field_source("spmv", curve.fr))
        for group in Group:
            self.groups.prepare(curve, group)

    # -- memory -----------------------------------------------------------------------------------------------------

    def info(self) -> DeviceInfo:
        return self.device.info()

    def to_device(self, host: HostArray) -> Array:
        return self.device.upload(host)

    def stage(self, host: HostArray, *, ahead: bool = True) -> Staged:
        return self.device.stage(host) if ahead else super().stage(host)

    def make_ahead(self, make: Callable[[Backend], Array]) -> Staged:
        """As of `Backend`; on a stream of its own, whose kernels come before those of proofs."""
        if self._beside is None:
            self._beside = CudaBackend(self.device.second())
        beside = self._beside.device
        before = beside.traffic.snapshot()
        array = make(self._beside)
        return self.device.staged(array, beside.stream.record(), beside.traffic.since(before).to_device)

    def to_host(self, array: Array) -> HostArray:
        return self.device.download(array)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self.device.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self.device.zeros(shape, dtype)

    def empty_host(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> HostArray:
        return self.device.empty_host(shape, dtype)

    def memory_free(self) -> int:
        return self.device.memory_free()

    def synchronize(self) -> None:
        self.device.synchronize()

    def repeated(self, work: Callable[..., Array], shapes: Sequence[tuple[int, ...]]) -> Callable[..., Array]:
        """Record `work`, where its inputs take little of what is free: a call then costs the host one launch."""
        device = self.device
        if not self.records(8 * sum(math.prod(shape) for shape in shapes), device.memory_free()):
            return work
        inputs = [device.zeros(shape) for shape in shapes]
        work(*inputs)  # loads the kernels and makes the tables, which a recording must find there
        recording, result = device.record(inputs, lambda: work(*inputs))

        def replayed(*arrays: Array) -> Array:
            device.after(recording.replay(arrays))
            return result

        return replayed

    def repeated_points(
        self, work: Callable[..., Sequence[Pending]], shapes: Sequence[tuple[int, ...]]
    ) -> Callable[..., Sequence[Pending]] | None:
        """Record `work`: a call then costs the host one launch, and one copy of all sums."""
        device, groups = self.device, self.groups
        inputs = [device.zeros(shape) for shape in shapes]
        try:
            groups.gathering = counted = Gathering()
            work(*inputs)  # loads the kernels and makes the tables, which a recording must find there
            sums = device.empty((counted.words,))
            groups.gathering = gathering = Gathering(sums)
            recording, points = device.record(inputs, lambda: work(*inputs))
        finally:
            groups.gathering = None

        joining = Joining(gathering.left)

        def replayed(*arrays: Array) -> Sequence[Pending]:
            fetched = FetchedSums(joining, device.fetch(sums, recording.replay(arrays)))
            return [
                FetchedPoint(fetched, point.index) if isinstance(point, GatheredPoint) else point for point in points
            ]

        return replayed

    def records(self, nbytes: int, free: int) -> bool:
        return nbytes <= free // RECORDED_SHARE

    def watch_memory(self) -> None:
        self.device.watch_memory()

    def memory_peak(self) -> int:
        return self.device.memory_peak()

    def watch_busy(self) -> BusyWatch:
        return self.device.meter.watch()

    # -- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._beside is not None:
            self._beside.vectors.clear()
            self._beside.synthesis.clear()
            self._beside = None
        self.vectors.clear()
        self.synthesis.clear()
        if self._goldilocks is not None:
            self._goldilocks.clear()
        if self._openvm is not None:
            self._openvm.clear()
        self.device.close()
