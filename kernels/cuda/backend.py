"""The CUDA backend: `Backend` on one NVIDIA GPU, with CuPy arrays and the kernels of `kernels/cuda/src`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kernels.cuda.device import ByValue, Device, Kernel, grid_for
from kernels.cuda.field import FIELD_PARAMS, field_source
from kernels.cuda.fixed_base import fixed_base
from kernels.cuda.goldilocks.kernels import CudaGoldilocks
from kernels.cuda.group import group_source
from kernels.cuda.msm import CudaMsm, CudaPointTable, MsmProfile
from kernels.cuda.ntt import NttEngine, NttProfile, squares
from kernels.cuda.spmv import CudaMatrix, load_matrix, spmv
from kernels.errors import BackendError, SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.backend import Backend, CsrMatrix, DeviceInfo, Matrix, PendingPoint, PointTable, Staged
from kernels.interface.busy import BusyWatch
from kernels.maths.curves import BN254, Curve, Field, Group
from kernels.maths.encoding import field_from_ints
from kernels.source import KernelSource

WORDS = KernelSource("words")
INVERT_CHUNK = 8
"""Elements that one thread of a batch inversion takes. Must equal CHUNK in invert.cu."""
INVERT_EACH = 4096
"""Most elements that are inverted one by one, each by a chain of some 380 products."""
SCALE_PER_THREAD = 16
"""Elements that one thread of `scale_powers` takes."""
CHECK_ROWS = 1 << 20
"""Points that `check_points` has on the device at a time."""
NONE_BAD = 2**64 - 1


class CudaBackend(Backend):
    """`Backend` on one GPU. One thread at a time queues work, on one stream.

    `to_host`, `equal` and points' `result` wait for that work. `stage` copies on a stream of its own and may be called
    by another thread meanwhile.
    """

    def __init__(
        self,
        device: int | Device = 0,
        budget: int | None = None,
        *,
        share: int = 1,
        threads: int = 4,
        cache_dir: Path | None = None,
        msm_profile: MsmProfile | None = None,
        ntt_profile: NttProfile | None = None,
    ) -> None:
        """`device` is a `Device`, or the index of one as this process counts them. `budget` bounds its memory in bytes;
        without a budget, `share` backends divide it evenly. `threads` bounds the host threads that compile kernels and
        copy to pinned memory.

        Raises BackendError if CuPy, the driver or the GPU is missing, OutOfMemory if the budget is not there.
        """
        self.device: Device = _open(device, budget, share, threads, cache_dir) if isinstance(device, int) else device
        self.name = "cuda"
        self.traffic = self.device.traffic
        self._ntt = NttEngine(self.device, ntt_profile)
        self._msm = CudaMsm(self.device, msm_profile)
        self._goldilocks: CudaGoldilocks | None = None

    def prepare(self, curve: Curve, groups: Iterable[Group] = (Group.G1, Group.G2)) -> None:
        """Begin to compile the kernels for proofs on `curve` in the background. A kernel's first use waits for it."""
        self._ntt.prepare(curve.fr)
        for name in ("vector", "spmv"):
            self.device.prepare(field_source(name, curve.fr))
        for group in groups:
            self._msm.prepare(curve, group)

    # -- memory -----------------------------------------------------------------------------------------------------

    def info(self) -> DeviceInfo:
        return self.device.info()

    def to_device(self, host: HostArray) -> Array:
        return self.device.upload(host)

    def stage(self, host: HostArray) -> Staged:
        return self.device.stage(host)

    def to_host(self, array: Array) -> HostArray:
        return self.device.download(array)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self.device.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self.device.zeros(shape, dtype)

    def synchronize(self) -> None:
        self.device.synchronize()

    def watch_memory(self) -> None:
        self.device.watch_memory()

    def memory_peak(self) -> int:
        return self.device.memory_peak()

    def watch_busy(self) -> BusyWatch:
        return self.device.meter.watch()

    def host_waits(self) -> None:
        self.device.meter.pause()

    # -- field vectors ----------------------------------------------------------------------------------------------

    def add(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._elementwise("vector_add", field, (a, b), out)

    def sub(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._elementwise("vector_sub", field, (a, b), out)

    def mul(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._elementwise("vector_mul", field, (a, b), out)

    def mul_sub(self, field: Field, a: Array, b: Array, c: Array, out: Array | None = None) -> Array:
        return self._elementwise("vector_mul_sub", field, (a, b, c), out)

    def to_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._elementwise("vector_to_montgomery", field, (a,), out)

    def from_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._elementwise("vector_from_montgomery", field, (a,), out)

    def scale_powers(self, field: Field, a: Array, base: int, first: int = 1, out: Array | None = None) -> Array:
        n = _elements(field, a)
        out = self._out(a, out)
        if n == 0:
            return out
        if a.ndim != 2:
            raise SizeError(f"scale_powers takes one vector (n, {field.limbs}), not shape {a.shape}")
        kernel = self._kernel("vector", field, "vector_scale_powers")
        block = kernel.block()
        grid = grid_for(-(-n // SCALE_PER_THREAD), block)
        arguments = (
            a,
            out,
            np.uint64(n),
            ByValue(squares(field, base, 40)),
            ByValue(field_from_ints(field, [first])),
            ByValue(field_from_ints(field, [pow(base, grid * block, field.modulus)])),
        )
        kernel.launch(grid, block, arguments)
        return out

    def batch_inverse(self, field: Field, a: Array, out: Array | None = None) -> Array:
        n = _elements(field, a)
        out = self._out(a, out)
        flat, result = a.reshape(n, field.limbs), out.reshape(n, field.limbs)
        if n <= INVERT_EACH:
            if out is not a:
                self.device.copy(out, a)
            self._kernel("invert", field, "invert_each").launch_items(n, (result, np.uint64(n)))
            return out
        count = -(-n // INVERT_CHUNK)
        products = self.device.empty((count, field.limbs))
        sizes = (np.uint64(n), np.uint64(count))
        self._kernel("invert", field, "invert_fold").launch_items(count, (flat, products, *sizes))
        self.batch_inverse(field, products, out=products)
        unfold = self._kernel("invert", field, "invert_unfold")
        unfold.launch_items(count, (flat, products, result, *sizes))
        return out

    def equal(self, a: Array, b: Array) -> bool:
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        _require_contiguous(a)
        _require_contiguous(b)
        if a.nbytes % 8:
            raise SizeError(f"equal compares 64-bit words; {a.nbytes} bytes are not a whole number of them")
        words = a.nbytes // 8
        if words == 0:
            return True
        differ = self.device.zeros((1,), np.uint32)
        kernel = self.device.kernel(WORDS, "words_differ")
        block = kernel.block()
        grid = min(grid_for(words, block), 8 * self.device.sm_count)
        kernel.launch(grid, block, (a, b, np.uint64(words), differ))
        return int(self.device.fetch(differ).result()[0]) == 0

    def _elementwise(self, name: str, field: Field, inputs: tuple[Array, ...], out: Array | None) -> Array:
        n = _elements(field, inputs[0])
        for other in inputs[1:]:
            if other.shape != inputs[0].shape:
                raise SizeError(f"{name} of shapes {', '.join(str(a.shape) for a in inputs)}")
            _elements(field, other)
        out = self._out(inputs[0], out)
        self._kernel("vector", field, name).launch_items(n, (*inputs, out, np.uint64(n)))
        return out

    def _kernel(self, source: str, field: Field, name: str) -> Kernel:
        return self.device.kernel(field_source(source, field), name)

    def _out(self, like: Array, out: Array | None) -> Array:
        if out is None:
            return self.device.empty(like.shape)
        if out.shape != like.shape or out.dtype != like.dtype:
            raise SizeError(f"an output of shape {out.shape}, {out.dtype} for a result of {like.shape}, {like.dtype}")
        _require_contiguous(out)
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
        _elements(field, a)
        if a.ndim not in (2, 3):
            raise SizeError(f"a transform takes (n, limbs) or (batch, n, limbs), not shape {a.shape}")
        return self._ntt.run(
            field,
            a,
            inverse=inverse,
            coset=coset,
            bit_reversed_input=bit_reversed_input,
            bit_reversed_output=bit_reversed_output,
        )

    def load_matrix(self, field: Field, matrix: CsrMatrix) -> Matrix:
        _known(field)
        return load_matrix(self.device, field, matrix)

    def spmv(self, matrix: Matrix, x: Array, out: Array | None = None, *, standard_form: bool = False) -> Array:
        if not isinstance(matrix, CudaMatrix):
            raise BackendError("the matrix was not loaded by this backend")
        field = matrix.field
        if _elements(field, x) != matrix.cols or x.ndim != 2:
            raise SizeError(f"a matrix of {matrix.cols} columns times a vector of shape {x.shape}")
        shape = (matrix.rows, field.limbs)
        if out is None:
            out = self.device.empty(shape)
        elif out.shape != shape or _elements(field, out) != matrix.rows:
            raise SizeError(f"an output of shape {out.shape} for a product of shape {shape}")
        spmv(self.device, matrix, x, out, standard_form=standard_form)
        return out

    # -- groups -----------------------------------------------------------------------------------------------------

    def load_points(self, curve: Curve, group: Group, points: HostArray, *, memory: int | None = None) -> PointTable:
        return self._msm.load_points(curve, group, points, memory)

    def msm(self, table: PointTable, scalars: Array, *, start: int = 0) -> PendingPoint:
        if not isinstance(table, CudaPointTable):
            raise BackendError("the points were not loaded by this backend")
        return self._msm.msm(table, scalars, start)

    def msm_scratch(self, curve: Curve, group: Group, n: int) -> int:
        return self._msm.scratch_bytes(curve, group, n)

    def fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
        return fixed_base(self.device, curve, group, base, scalars)

    def check_points(self, curve: Curve, group: Group, points: HostArray, *, subgroup: bool = True) -> int | None:
        limbs = curve.point_limbs(group)
        columns = {np.dtype(np.uint64): limbs, np.dtype(np.uint8): 8 * limbs}
        if points.ndim != 2 or points.shape[1] != columns.get(points.dtype):
            raise SizeError(f"points of shape {points.shape}, {points.dtype} are not rows of {limbs} words")
        kernel = self.device.kernel(group_source("points", curve, group), "points_check")
        constant = (curve.b1,) if group is Group.G1 else curve.b2
        b = ByValue(field_from_ints(curve.fq, constant))
        # BN254's G1 has prime order: a point on the curve is in the subgroup.
        check_subgroup = np.uint32(subgroup and not (curve is BN254 and group is Group.G1))
        first_bad = self.device.upload(np.array([NONE_BAD], dtype=np.uint64))
        for begin in range(0, len(points), CHECK_ROWS):
            rows = self.device.upload(points[begin : begin + CHECK_ROWS])
            count = int(rows.shape[0])
            kernel.launch_items(count, (rows, np.uint64(count), np.uint64(begin), b, check_subgroup, first_bad))
        found = int(self.device.fetch(first_bad).result()[0])
        return None if found == NONE_BAD else found

    # -- Goldilocks -------------------------------------------------------------------------------------------------

    @property
    def goldilocks(self) -> CudaGoldilocks:
        if self._goldilocks is None:
            self._goldilocks = CudaGoldilocks(self.device)
        return self._goldilocks

    # -- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._ntt.clear()
        if self._goldilocks is not None:
            self._goldilocks.clear_transforms()
        self.device.close()


def _open(index: int, budget: int | None, share: int, threads: int, cache_dir: Path | None) -> Device:
    from kernels.cuda.launch import CudaDevice  # here, so that this module can be imported without CuPy

    return CudaDevice(index, budget=budget, share=share, threads=threads, cache_dir=cache_dir)


def _elements(field: Field, array: Array) -> int:
    """Return how many elements of `field` a contiguous array (..., limbs) holds. Raises SizeError, BackendError."""
    _known(field)
    if array.ndim < 2 or array.shape[-1] != field.limbs or array.dtype != np.uint64:
        raise SizeError(f"an array of shape {array.shape}, {array.dtype} does not hold elements of {field.name}")
    _require_contiguous(array)
    return int(array.size) // field.limbs


def _known(field: Field) -> None:
    if field not in FIELD_PARAMS:
        raise BackendError(f"the CUDA kernels do not know the field {field.name}")


def _require_contiguous(array: Array) -> None:
    if not array.flags.c_contiguous:
        raise SizeError(f"an array of shape {array.shape} must be contiguous in memory")
