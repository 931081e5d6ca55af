"""The CPU backend: NumPy arrays, and the native extension for all computation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from kernels.cpu import native as builds
from kernels.cpu.points import Bytes, flat_bytes, point_bytes
from kernels.errors import BackendError, SizeError
from kernels.host.arena import HostArena
from kernels.host.processor import processor_facts
from kernels.interface.arrays import Array, Empty, HostArray
from kernels.interface.backend import Backend, CsrMatrix, DeviceInfo, Matrix, PendingPoint, PointTable, Traffic
from kernels.interface.leases import CPU_MSM, PROVING, SPMV, Lease
from kernels.maths import encoding
from kernels.maths.curves import Curve, Field, Group

if TYPE_CHECKING:
    from kernels.cpu.goldilocks.kernels import CpuGoldilocks


MAX_POINTS = 1 << 31
"""An MSM takes fewer points than this: an entry of its buckets is a point's index and a sign in 32 bits."""

MAX_LOG_ROOTS = 15
"""log2 of the most roots of unity kept for each field and direction (1 MB). Longer transforms derive the rest."""

SMALL = 1 << 17
"""Smallest work, in field multiplications, that asks for a lease: a few milliseconds of one thread. Waiting for
the lease may take as long."""
MSM_THREAD_BYTES = 3 << 18
"""Bytes that each thread of a group sum keeps in its cache: half a megabyte of points and the products beside them, as
kernels/cpu/src/grouped_sum.h cuts them. The pool's threads share the buckets, each of which is written once."""
GROUP_WORK = 300
"""Rough cost of one point of a group sum, in field multiplications. Other operations on points cost more."""


@dataclass(frozen=True)
class CpuPoints:
    """Points of an MSM, used in place from an array or a mapped key. `nbytes` is the table's own memory: 0."""

    curve: Curve
    group: Group
    n: int
    nbytes: int
    data: Bytes


@dataclass(frozen=True)
class CpuMatrix:
    """A CSR matrix whose indices the extension has checked."""

    rows: int
    cols: int
    nbytes: int
    entries: int
    field: Field
    native: Any


@dataclass(frozen=True, repr=False)  # the sum may be of a witness
class ReadyPoint:
    """The result of an MSM. On the CPU it is complete when the call returns."""

    point: HostArray

    def result(self) -> HostArray:
        return self.point


class CpuBackend(Backend):
    """Computes on at most `threads` threads of this machine, the caller's included.

    `variant` names a build of the extension (see `kernels.cpu.native`); None is the fastest that runs here. `budget` is
    the memory, in bytes, that plans may count on; None is all that the machine has. Field vectors come from `arena`, if
    given, which must outlive the backend. `lease` is held during each computation on field vectors or points that is
    not small. Nothing else is waited for while it is held; it may allow fewer threads.
    """

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
        self._lease = lease
        self._empty: Empty = np.empty if arena is None else arena.empty
        self._zeros: Empty = np.zeros if arena is None else arena.zeros
        try:
            self._native = builds.load(variant)
        except KeyError as error:
            raise BackendError(str(error.args[0])) from None
        self._variant = variant or builds.variants()[-1]
        self._pool = self._native.Pool(threads)
        self._roots: dict[tuple[str, bool], tuple[int, Bytes]] = {}
        self._goldilocks: CpuGoldilocks | None = None

    def limit_threads(self, threads: int) -> None:
        """From now on, compute on at most `threads` threads, and never on more than the backend was created with."""
        wanted = max(1, min(threads, self.threads))
        if wanted != self._pool.threads:
            self._pool = self._native.Pool(wanted)

    @contextmanager
    def _leased(self, phase: str, work: int) -> Iterator[Any]:
        """Hold a lease of class `phase` for a computation of about `work` field multiplications; yields its pool."""
        if self._lease is None or work < SMALL:
            yield self._pool
            return
        with self._lease(phase) as threads:
            self.limit_threads(threads)
            yield self._pool

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

    # -- field vectors ----------------------------------------------------------------------------------------------

    def add(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._elementwise(self._native.field_add, field, (a, b), out)

    def sub(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._elementwise(self._native.field_sub, field, (a, b), out)

    def mul(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._elementwise(self._native.field_mul, field, (a, b), out)

    def mul_sub(self, field: Field, a: Array, b: Array, c: Array, out: Array | None = None) -> Array:
        return self._elementwise(self._native.field_mul_sub, field, (a, b, c), out)

    def to_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._elementwise(self._native.to_montgomery, field, (a,), out)

    def from_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._elementwise(self._native.from_montgomery, field, (a,), out)

    def batch_inverse(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._elementwise(self._native.batch_inverse, field, (a,), out)

    def scale_powers(self, field: Field, a: Array, base: int, first: int = 1, out: Array | None = None) -> Array:
        _expect_elements(field, a, "a")
        if a.ndim != 2:
            raise SizeError(f"scale_powers takes one vector, shape (n, {field.limbs}), not {a.shape}")
        target = self._output(a.shape, out)
        with self._leased(PROVING, len(a)) as pool:
            self._native.scale_powers(
                pool, field.name, flat_bytes(a), _element(field, base), _element(field, first), flat_bytes(target)
            )
        return target

    def equal(self, a: Array, b: Array) -> bool:
        return bool(np.array_equal(a, b))

    def _elementwise(self, op: Any, field: Field, inputs: tuple[Array, ...], out: Array | None) -> Array:
        for i, array in enumerate(inputs):
            _expect_elements(field, array, f"operand {i}")
            if array.shape != inputs[0].shape:
                raise SizeError(f"operands of different shapes: {array.shape} and {inputs[0].shape}")
        target = self._output(inputs[0].shape, out)
        with self._leased(PROVING, target.size // field.limbs) as pool:
            op(pool, field.name, *map(flat_bytes, inputs), flat_bytes(target))
        return target

    def _output(self, shape: tuple[int, ...], out: HostArray | None) -> HostArray:
        if out is None:
            return self._empty(shape, np.uint64)
        if out.shape != shape or out.dtype != np.uint64 or not out.flags.writeable:
            raise SizeError(f"out must be a writable uint64 array of shape {shape}, not {out.shape} {out.dtype}")
        return out

    # -- transforms -------------------------------------------------------------------------------------------------

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
        _expect_elements(field, a, "a")
        n = a.shape[-2]
        log_n = n.bit_length() - 1
        if a.ndim not in (2, 3) or n != 1 << log_n or log_n > field.two_adicity:
            raise SizeError(
                f"a transform over {field.name} takes (n, {field.limbs}) or (batch, n, {field.limbs}) with n a power "
                f"of two up to 2^{field.two_adicity}, not {a.shape}"
            )
        target = self._output(a.shape, a)
        if not target.flags.aligned:
            raise SizeError("a transform in place needs an aligned array")
        p = field.modulus
        shift = 1 if coset is None else coset % p
        if shift == 0:
            raise SizeError("a coset's shift cannot be zero")
        root = field.root_of_unity(log_n)
        first = 1
        if inverse:
            root, shift, first = pow(root, -1, p), pow(shift, -1, p), pow(n, -1, p)
        scaled = shift != 1 or first != 1
        with self._leased(PROVING, target.size // field.limbs * max(1, log_n // 2)) as pool:
            self._native.ntt(
                pool,
                field.name,
                flat_bytes(target),
                log_n,
                self._root_table(field, log_n, inverse),
                _element(field, root),
                _element(field, shift),
                _element(field, first),
                scaled and not inverse,
                scaled and inverse,
                bit_reversed_input,
                bit_reversed_output,
            )
        return a

    def _root_table(self, field: Field, log_n: int, inverse: bool) -> Bytes:
        """Return roots of unity in bit-reversed order: at least 2^(log_n - 1), or as many as are ever kept."""
        wanted = min(max(log_n, 1), MAX_LOG_ROOTS + 1, field.two_adicity)
        key = (field.name, inverse)
        if key not in self._roots or self._roots[key][0] < wanted:
            root = field.root_of_unity(wanted)
            table = np.empty(field.bytes << (wanted - 1), dtype=np.uint8)
            self._native.root_table(
                field.name, _element(field, pow(root, -1, field.modulus) if inverse else root), wanted, table
            )
            self._roots[key] = (wanted, table)
        return self._roots[key][1]

    def load_matrix(self, field: Field, matrix: CsrMatrix) -> Matrix:
        parts = (matrix.row_ptr, matrix.columns, matrix.value_index)
        if any(p.dtype != np.uint32 or p.ndim != 1 for p in parts):
            raise SizeError("a matrix has its row_ptr, columns and value_index as vectors of uint32")
        _expect_elements(field, matrix.values, "values")
        if len(matrix.row_ptr) != matrix.rows + 1:
            raise SizeError(f"a matrix of {matrix.rows} rows has {matrix.rows + 1} row pointers, not {len(parts[0])}")
        arrays = [flat_bytes(np.ascontiguousarray(p)) for p in (*parts, matrix.values)]
        try:
            native = self._native.Matrix(field.name, matrix.cols, *arrays)
        except ValueError as error:
            raise SizeError(f"not a sparse matrix: {error}") from None
        return CpuMatrix(matrix.rows, matrix.cols, sum(a.nbytes for a in arrays), len(parts[1]), field, native)

    def spmv(self, matrix: Matrix, x: Array, out: Array | None = None, *, standard_form: bool = False) -> Array:
        if not isinstance(matrix, CpuMatrix):
            raise BackendError("this matrix was loaded by another backend")
        _expect_elements(matrix.field, x, "x")
        if x.shape != (matrix.cols, matrix.field.limbs):
            raise SizeError(
                f"a matrix of {matrix.cols} columns takes ({matrix.cols}, {matrix.field.limbs}), not {x.shape}"
            )
        target = self._output((matrix.rows, matrix.field.limbs), out)
        with self._leased(SPMV, matrix.entries) as pool:
            self._native.spmv(pool, matrix.native, flat_bytes(x), standard_form, flat_bytes(target))
        return target

    # -- groups -----------------------------------------------------------------------------------------------------

    def load_points(self, curve: Curve, group: Group, points: HostArray, *, memory: int | None = None) -> PointTable:
        data = point_bytes(curve, group, points)
        n = data.size // (8 * curve.point_limbs(group))
        if n >= MAX_POINTS:
            raise SizeError(f"an MSM takes fewer than {MAX_POINTS} points, not {n}")
        return CpuPoints(curve, group, n, 0, data)

    def msm(self, table: PointTable, scalars: Array, *, start: int = 0) -> PendingPoint:
        if not isinstance(table, CpuPoints):
            raise BackendError("these points were loaded by another backend")
        _expect_elements(table.curve.fr, scalars, "scalars")
        if scalars.ndim != 2 or start < 0 or start + len(scalars) > table.n:
            raise SizeError(f"scalars of shape {scalars.shape} from point {start} on, of {table.n} points")
        size = 8 * table.curve.point_limbs(table.group)
        points = table.data[start * size : (start + len(scalars)) * size]
        out = np.zeros(table.curve.point_limbs(table.group), dtype=np.uint64)
        where = (table.curve.name, table.group.value)
        scratch = self._empty((self._native.msm_scratch(*where, len(scalars)),), np.uint8)
        with self._leased(CPU_MSM, GROUP_WORK * len(scalars)) as pool:
            self._native.msm(pool, *where, points, flat_bytes(scalars), scratch, flat_bytes(out))
        return ReadyPoint(out)

    def fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
        _expect_elements(curve.fr, scalars, "scalars")
        if scalars.ndim != 2:
            raise SizeError(f"scalars have shape (n, {curve.fr.limbs}), not {scalars.shape}")
        point = point_bytes(curve, group, np.asarray(base).reshape(1, -1))
        out = np.empty((len(scalars), curve.point_limbs(group)), dtype=np.uint64)
        with self._leased(PROVING, GROUP_WORK * len(scalars)) as pool:
            self._native.fixed_base(pool, curve.name, group.value, point, flat_bytes(scalars), flat_bytes(out))
        return out

    def check_points(self, curve: Curve, group: Group, points: HostArray, *, subgroup: bool = True) -> int | None:
        data = point_bytes(curve, group, points)
        with self._leased(PROVING, GROUP_WORK * len(points)) as pool:
            found = self._native.first_invalid(pool, curve.name, group.value, data, subgroup)
        return None if found is None else int(found)

    # -- Goldilocks -------------------------------------------------------------------------------------------------

    @property
    def goldilocks(self) -> CpuGoldilocks:
        if self._goldilocks is None:
            from kernels.cpu.goldilocks.kernels import CpuGoldilocks

            self._goldilocks = CpuGoldilocks(self._native, self._pool)
        return self._goldilocks

    # -- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the threads and drop the cached roots of unity."""
        self._roots.clear()
        self._goldilocks = None
        self._pool = None


def _element(field: Field, value: int) -> Bytes:
    return flat_bytes(encoding.field_from_ints(field, [value]))


def _expect_elements(field: Field, array: HostArray, what: str) -> None:
    if array.dtype != np.uint64 or array.ndim < 2 or array.shape[-1] != field.limbs:
        raise SizeError(
            f"{what}: {field.name} elements have shape (..., n, {field.limbs}) and dtype uint64, "
            f"not {array.shape} {array.dtype}"
        )
