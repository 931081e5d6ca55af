"""The interface between proof systems and the devices that compute for them.

Operations take and return arrays in the backend's own memory (NumPy on the CPU, CuPy on a GPU). They share these terms:

* A field vector has shape (..., n, limbs) and dtype uint64: little-endian limbs, Montgomery form unless said otherwise.
* Scalars of an MSM have shape (n, limbs) and are canonical integers, not in Montgomery form.
* An affine point has `curve.point_limbs(group)` words: x, y in Montgomery form (G2: c0, c1 each); all zero is infinity.

Two implementations exist, `kernels.cpu.backend.CpuBackend` and `kernels.cuda.backend.CudaBackend`; a third needs only
this file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from kernels.errors import BackendError, SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.busy import BusyWatch, QueueWatch
from kernels.maths.curves import Curve, Field, Group

if TYPE_CHECKING:
    from kernels.interface.goldilocks import GoldilocksKernels


SelfBackend = TypeVar("SelfBackend", bound="Backend")


@dataclass(frozen=True)
class CsrMatrix:
    """A sparse matrix over a prime field whose values come from a small dictionary (most R1CS values are 1 or -1).

    Row i holds entries row_ptr[i] to row_ptr[i + 1]; entry k is values[value_index[k]] at column columns[k].
    """

    rows: int
    cols: int
    row_ptr: HostArray
    """Index of each row's first entry, (rows + 1,) uint32, ascending from 0 to nnz."""
    columns: HostArray
    """Column of each entry, (nnz,) uint32, each < cols."""
    value_index: HostArray
    """Index into `values` of each entry, (nnz,) uint32, each < len(values)."""
    values: HostArray
    """Dictionary of the values, (distinct, limbs) uint64, Montgomery form."""

    @property
    def nnz(self) -> int:
        return int(self.columns.shape[0])

    def check(self, field: Field) -> None:
        """Raise SizeError unless shapes and dtypes fit together and `field`, and all indices are in range.

        Reads every index once, for native code and kernels that follow the indices unchecked.
        """
        indices = {"row_ptr": self.row_ptr, "columns": self.columns, "value_index": self.value_index}
        for name, array in indices.items():
            if array.ndim != 1 or array.dtype != np.uint32:
                raise SizeError(f"a matrix's {name} is a vector of uint32, not {array.dtype} of shape {array.shape}")
        if self.values.ndim != 2 or self.values.shape[1] != field.limbs or self.values.dtype != np.uint64:
            raise SizeError(f"values of shape {self.values.shape} {self.values.dtype} are not elements of {field.name}")
        if self.row_ptr.shape != (self.rows + 1,) or self.row_ptr[0] != 0 or self.row_ptr[-1] != self.nnz:
            raise SizeError(f"row_ptr does not describe {self.rows} rows of {self.nnz} entries")
        if np.any(self.row_ptr[1:] < self.row_ptr[:-1]):
            raise SizeError("row_ptr does not rise")
        for array, limit, name in (
            (self.columns, self.cols, "column"),
            (self.value_index, self.values.shape[0], "value"),
        ):
            if array.shape[0] != self.nnz or (self.nnz and int(array.max()) >= limit):
                raise SizeError(f"an entry names a {name} beyond the {limit} there are")


@dataclass
class Traffic:
    """Bytes copied between host and device memory since the backend was created (zero on the CPU)."""

    to_device: int = 0
    to_host: int = 0

    def snapshot(self) -> Traffic:
        return Traffic(self.to_device, self.to_host)

    def since(self, earlier: Traffic) -> Traffic:
        return Traffic(self.to_device - earlier.to_device, self.to_host - earlier.to_host)


class PointTable(Protocol):
    """Fixed points of an MSM, resident in the backend, possibly with precomputed multiples. Made by `load_points`."""

    @property
    def curve(self) -> Curve: ...
    @property
    def group(self) -> Group: ...
    @property
    def n(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


class PendingPoint(Protocol):
    """A point that the device may still be computing."""

    def result(self) -> HostArray:
        """Wait for the device and return the affine point, (point_limbs,) uint64 on the host."""


class Matrix(Protocol):
    """A CSR matrix resident in the backend. Made by `load_matrix`."""

    @property
    def rows(self) -> int: ...
    @property
    def cols(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


class Staged(Protocol):
    """An array that is being copied to, or computed in, the backend's memory. Made by `stage` and `stage_spmv`."""

    def array(self) -> Array:
        """Return the array on the backend. Work queued after this call waits for the copy; the host does not.

        Called by the thread that computes; counts the copy in `traffic`. Raises OutOfMemory if the copy starts only now
        and does not fit, BackendError after `release`.
        """

    def release(self) -> None:
        """Give the memory back once everything queued so far has read it. A second call does nothing."""


class CopiedOnUse:
    """The `Staged` of a backend that copies nothing ahead: `array` copies when it is first called."""

    def __init__(self, backend: Backend, host: HostArray) -> None:
        self._backend = backend
        self._host: HostArray | None = host
        self._array: Array | None = None

    def array(self) -> Array:
        if self._host is None:
            raise BackendError("a staged array was asked for after it had been released")
        if self._array is None:
            self._array = self._backend.to_device(self._host)
        return self._array

    def release(self) -> None:
        self._host = self._array = None


class ProductOnUse:
    """The `Staged` of a matrix product that is computed when `array` is first called. `x` must outlive it."""

    def __init__(self, backend: Backend, matrix: Matrix, x: Staged, standard_form: bool) -> None:
        self._backend, self._matrix, self._standard_form = backend, matrix, standard_form
        self._x: Staged | None = x
        self._array: Array | None = None

    def array(self) -> Array:
        if self._x is None:
            raise BackendError("a product was asked for after it had been released")
        if self._array is None:
            self._array = self._backend.spmv(self._matrix, self._x.array(), standard_form=self._standard_form)
        return self._array

    def release(self) -> None:
        self._x = self._array = None


@dataclass
class DeviceInfo:
    """The device that a backend runs on, for reports and `doctor`. Memory sizes are in bytes."""

    name: str
    kind: str  # "cpu" | "cuda"
    memory_total: int
    memory_budget: int
    details: dict[str, Any] = field(default_factory=dict)


class Backend(ABC):
    """One device. One thread at a time computes; others may stage arrays and wait for the `result` of points."""

    name: str
    traffic: Traffic

    def prepare(self, curve: Curve) -> None:  # noqa: B027 (a backend with nothing to prepare need not say so)
        """Begin slow preparation for proofs on `curve` (compilation) in the background. Calling it is optional."""

    # -- memory -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def info(self) -> DeviceInfo: ...

    @abstractmethod
    def to_device(self, host: HostArray) -> Array:
        """Copy `host` to the backend's memory (the CPU backend returns `host` itself). Counted in `traffic`."""

    def stage(self, host: HostArray) -> Staged:
        """Begin to copy `host` while the backend computes. `host` must not change until it is released.

        This and `stage_spmv` are the methods that may be called while another thread computes. A backend that cannot
        copy in the background copies when the array is asked for. Raises OutOfMemory.
        """
        return CopiedOnUse(self, host)

    @abstractmethod
    def to_host(self, array: Array) -> HostArray:
        """Wait for the work that computes `array` and return it on the host. Counted in `traffic`."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array: ...

    @abstractmethod
    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array: ...

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

    def host_waits(self) -> None:  # noqa: B027 (a backend without events has nothing to note)
        """Note that the computing thread is about to wait for something other than the device, which may go idle."""

    # -- field vectors ----------------------------------------------------------------------------------------------

    @abstractmethod
    def add(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array: ...

    @abstractmethod
    def sub(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array: ...

    @abstractmethod
    def mul(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array: ...

    @abstractmethod
    def mul_sub(self, field: Field, a: Array, b: Array, c: Array, out: Array | None = None) -> Array:
        """Return a * b - c, elementwise."""

    @abstractmethod
    def scale_powers(self, field: Field, a: Array, base: int, first: int = 1, out: Array | None = None) -> Array:
        """Return a[i] * first * base^i; `base` and `first` are integers in standard form."""

    @abstractmethod
    def to_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array: ...

    @abstractmethod
    def from_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array: ...

    @abstractmethod
    def batch_inverse(self, field: Field, a: Array, out: Array | None = None) -> Array:
        """Return 1 / a[i], elementwise; zero stays zero."""

    @abstractmethod
    def equal(self, a: Array, b: Array) -> bool:
        """Whether two arrays hold the same words. Copies one flag to the host."""

    # -- transforms -------------------------------------------------------------------------------------------------

    @abstractmethod
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
        """Transform each length-n vector of `a`, shape (n, limbs) or (batch, n, limbs), in place.

        Forward: out[i] = sum_j a[j] (coset * w^i)^j, with w = field.root_of_unity(log2 n). The inverse undoes exactly
        that, 1/n included. n is 2^0 to 2^two_adicity. `coset` is an integer in standard form. Returns `a`.
        """

    @abstractmethod
    def load_matrix(self, field: Field, matrix: CsrMatrix) -> Matrix: ...

    @abstractmethod
    def spmv(self, matrix: Matrix, x: Array, out: Array | None = None, *, standard_form: bool = False) -> Array:
        """Return matrix @ x, (rows, limbs), in Montgomery form. `standard_form`: x is canonical (a raw witness)."""

    def stage_spmv(self, matrix: Matrix, x: Staged, *, standard_form: bool = False) -> Staged:
        """Begin matrix @ x (see `spmv`) for a staged x, now if that does not disturb what the backend computes.

        Like `stage` it may be called while another thread computes. The caller owns the array and may change it;
        `release` before the first `array` cancels the product. A backend that cannot compute in the background computes
        when the array is asked for.
        """
        return ProductOnUse(self, matrix, x, standard_form)

    # -- groups -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def load_points(self, curve: Curve, group: Group, points: HostArray, *, memory: int | None = None) -> PointTable:
        """Load fixed points for `msm`.

        `points` has shape (n, point_limbs) uint64, or (n, 8 * point_limbs) uint8 when it is a view into a mapped file
        that may not be aligned; the CPU backend uses it in place. `memory` bounds the bytes of the table with its
        precomputed multiples (None: the backend chooses from what is free).
        """

    @abstractmethod
    def msm(self, table: PointTable, scalars: Array, *, start: int = 0) -> PendingPoint:
        """Begin sum_i scalars[i] * points[start + i] for canonical integers `scalars`, (m, limbs), start + m <= n."""

    def msm_scratch(self, curve: Curve, group: Group, n: int) -> int:
        """Bytes of the backend's memory that an MSM of n points takes besides its table; 0 if that is no concern."""
        return 0

    @abstractmethod
    def fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
        """Return scalars[i] * base for one affine `base`: (n, point_limbs) affine points in the backend's memory."""

    @abstractmethod
    def check_points(self, curve: Curve, group: Group, points: HostArray, *, subgroup: bool = True) -> int | None:
        """Return the index of the first point that is not a canonical point of the curve or its subgroup, or None."""

    # -- Goldilocks -------------------------------------------------------------------------------------------------

    @property
    def goldilocks(self) -> GoldilocksKernels:
        """The Goldilocks kernels of a STARK, on this device. Raises BackendError if this backend has none."""
        raise BackendError(f"the {self.name} backend has no Goldilocks kernels")

    # -- life -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def close(self) -> None:
        """Release all memory. The backend must not be used afterwards."""

    def __enter__(self: SelfBackend) -> SelfBackend:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
