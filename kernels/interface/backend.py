"""The interface between proof systems and the devices that compute for them.

A backend has its memory, and a family for each kind of operation. Operations take and return arrays in the backend's
own memory (NumPy on the CPU, CuPy on a GPU). A family checks what its operations are given, once and for every backend;
an implementation has its methods with an underscore, which check nothing of that again.

Two implementations exist, `kernels.cpu.backend.CpuBackend` and `kernels.cuda.backend.CudaBackend`; a third needs only
this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernels.errors import BackendError
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.interface.busy import BusyWatch, QueueWatch
from kernels.interface.groups import Groups
from kernels.interface.sparse import Sparse
from kernels.interface.staged import MadeOnUse, Staged
from kernels.interface.synthesis import Synthesis
from kernels.interface.vectors import Vectors
from kernels.maths.curves import Curve

if TYPE_CHECKING:
    from kernels.interface.goldilocks import GoldilocksKernels
    from kernels.interface.inner_products import InnerProducts
    from kernels.interface.multilinear import MultilinearKernels
    from kernels.interface.openvm import OpenVmKernels


SelfBackend = TypeVar("SelfBackend", bound="Backend")


@dataclass
class Traffic:
    """Traffic between host and device since the backend was created (zero on the CPU)."""

    to_device: int = 0
    """Bytes copied to the device."""
    to_host: int = 0
    """Bytes copied to the host."""
    launches: int = 0
    """Kernels that were queued. The kernels of a recording count when it is made."""
    waits: int = 0
    """Times that the host waited for a result of the device."""

    def snapshot(self) -> Traffic:
        return replace(self)

    def since(self, earlier: Traffic) -> Traffic:
        return Traffic(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))

    def plus(self, other: Traffic) -> Traffic:
        return Traffic(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass
class DeviceInfo:
    """The device that a backend runs on, for reports and `doctor`. Memory sizes are in bytes."""

    name: str
    kind: str  # "cpu" | "cuda"
    memory_total: int
    memory_budget: int
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Whether no other backend shares the device, as far as that is known."""
        return int(self.details.get("share", 1)) == 1


class Backend(ABC):
    """One device. One thread at a time computes; others may stage arrays and wait for the `result` of points."""

    name: str
    threads: int = 1
    """CPU threads that may compute beside the device, or that are the device."""
    traffic: Traffic
    vectors: Vectors
    sparse: Sparse[Any]
    groups: Groups[Any]
    synthesis: Synthesis

    def prepare(self, curve: Curve) -> None:  # noqa: B027 (a backend with nothing to prepare need not say so)
        """Begin slow preparation for proofs on `curve` (compilation) in the background. Calling it is optional."""

    @property
    def goldilocks(self) -> GoldilocksKernels:
        """The family of a STARK's kernels. Raises BackendError if this backend has none."""
        raise BackendError(f"the {self.name} backend has no Goldilocks kernels")

    @property
    def multilinear(self) -> MultilinearKernels:
        """The family of the multilinear engine. Raises BackendError if this backend has none."""
        raise BackendError(f"the {self.name} backend has no multilinear kernels")

    @property
    def openvm(self) -> OpenVmKernels:
        """The family of OpenVM's proofs. Raises BackendError if this backend has none."""
        raise BackendError(f"the {self.name} backend has no kernels for OpenVM's proofs")

    @property
    def inner_products(self) -> InnerProducts:
        """The family of proof aggregation. Raises BackendError if this backend has none."""
        raise BackendError(f"the {self.name} backend has no kernels for inner products")

    # -- memory -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def info(self) -> DeviceInfo: ...

    @abstractmethod
    def to_device(self, host: HostArray) -> Array:
        """Copy `host` to the backend's memory (the CPU backend returns `host` itself). Counted in `traffic`."""

    def stage(self, host: HostArray, *, ahead: bool = True) -> Staged:
        """Begin to copy `host` while the backend computes, or without `ahead` when the array is asked for. `host` must
        not change until it is released.

        May be called while another thread computes. A backend that cannot copy in the background copies when the array
        is asked for. Raises OutOfMemory.
        """
        return MadeOnUse(lambda: self.to_device(host))

    def make_ahead(self: SelfBackend, make: Callable[[Backend], Array]) -> Staged:
        """Begin to compute what `make` returns, which it makes with the backend that it is given, in this one's memory.

        May be called by one thread at a time while another computes. A backend that cannot compute two things at once
        computes when the array is asked for. Raises what `make` raises, now or then.
        """
        return MadeOnUse(lambda: make(self))

    @abstractmethod
    def to_host(self, array: Array) -> HostArray:
        """Wait for the work that computes `array` and return it on the host. Counted in `traffic`."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array: ...

    @abstractmethod
    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array: ...

    def empty_host(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> HostArray:
        """Return an uninitialised array in host memory from which, and to which, the backend copies fastest. It is for
        what stays there: a device takes seconds to make some gigabytes of it. Raises OutOfMemory."""
        return np.empty(shape, dtype)

    def memory_free(self) -> int | None:
        """Bytes that the backend's memory can still give; None for a backend that computes in host memory."""
        return None

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all work queued on the device."""

    def watch_memory(self) -> None:  # noqa: B027 (a backend that does not count has nothing to begin)
        """Restart the measurement of `memory_peak`."""

    def memory_peak(self) -> int | None:
        """Most bytes of the backend's memory in use at once since `watch_memory`; None if they are not counted."""
        return None

    def watch_busy(self) -> BusyWatch:
        """Begin to record when the device is busy with the work that this thread queues from now on."""
        return QueueWatch()

    def repeated(self, work: Callable[..., Array], shapes: Sequence[tuple[int, ...]]) -> Callable[..., Array]:
        """`work` for many calls with vectors of these shapes, on which it uses this backend; what it returns is valid
        until the next call. A device may keep memory for it. Nothing else may be under way on the backend."""
        return work

    def repeated_points(
        self, work: Callable[..., Sequence[Pending]], shapes: Sequence[tuple[int, ...]]
    ) -> Callable[..., Sequence[Pending]] | None:
        """`work` for many calls with arrays of these shapes, if the backend queues all of it as one piece; else None.

        `work` begins MSMs and returns their points; between them it computes with this backend. What it computes must
        not overwrite the scalars of an MSM. On the device a call waits for the one before. Nothing else may be under
        way on the backend now. Raises OutOfMemory.
        """
        return None

    def records(self, nbytes: int, free: int) -> bool:
        """Whether `repeated`, `repeated_points` and `Groups.repeat` keep memory for work that takes `nbytes` of it,
        where `free` bytes are free. `repeated` counts the vectors that the work is given."""
        return False

    # -- life -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def close(self) -> None:
        """Release all memory. The backend must not be used afterwards."""

    def __enter__(self: SelfBackend) -> SelfBackend:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
