"""Field vectors on the GPU: elementwise operations and transforms."""

from __future__ import annotations

import numpy as np

from kernels.cuda.device import ByValue, Device, Kernel, grid_for
from kernels.cuda.field import field_source
from kernels.cuda.ntt import NttEngine, NttProfile, squares
from kernels.interface.arrays import Array
from kernels.interface.vectors import Elementwise, Transform, TransformBytes, Vectors
from kernels.maths.curves import Field
from kernels.maths.encoding import field_from_ints
from kernels.source import KernelSource

WORDS = KernelSource("words")
INVERT_CHUNK = 8
"""Elements that one thread of a batch inversion takes. Must equal CHUNK in invert.cu."""
INVERT_EACH = 4096
"""Most elements that are inverted one by one, each by a chain of some 380 products."""
SCALE_PER_THREAD = 16
"""Elements that one thread of `scale_powers` takes."""


class CudaVectors(Vectors):
    """Field vectors on one device."""

    def __init__(self, device: Device, profile: NttProfile | None = None) -> None:
        """`profile` tunes the transforms."""
        super().__init__(device.empty)
        self._device = device
        self._transforms = NttEngine(device, profile)

    def prepare(self, field: Field) -> None:
        """Begin to compile the kernels for transforms and elementwise operations in the background."""
        self._transforms.prepare(field)
        self._device.prepare(field_source("vector", field))

    def transform_bytes(self, field: Field, log_n: int, kinds: int) -> TransformBytes:
        return self._transforms.transform_bytes(field, log_n, kinds)

    def clear(self) -> None:
        """Release the device memory that is kept between calls."""
        self._transforms.clear()

    def _elementwise(self, operation: Elementwise, field: Field, n: int, inputs: tuple[Array, ...], out: Array) -> None:
        if operation == "batch_inverse":
            self._invert(field, n, inputs[0], out)
        else:
            self._kernel("vector", field, f"vector_{operation}").launch_items(n, (*inputs, out, np.uint64(n)))

    def _scale_powers(self, field: Field, n: int, a: Array, base: int, first: int, out: Array) -> None:
        if n == 0:
            return
        kernel = self._kernel("vector", field, "vector_scale_powers")
        block = kernel.block()
        grid = grid_for(-(-n // SCALE_PER_THREAD), block)
        step = pow(base, grid * block, field.modulus)
        powers = ByValue(squares(field, base, 40)), *(ByValue(field_from_ints(field, [e])) for e in (first, step))
        kernel.launch(grid, block, (a, out, np.uint64(n), *powers))

    def _bits(self, field: Field, a: Array, count: int, out: Array) -> None:
        n = int(a.shape[0])
        self._kernel("synthesis", field, "synthesis_bits").launch_items(n, (a, out, np.uint64(n), np.uint32(count)))

    def _invert(self, field: Field, n: int, a: Array, out: Array) -> None:
        flat, result = a.reshape(n, field.limbs), out.reshape(n, field.limbs)
        if n <= INVERT_EACH:
            if out is not a:
                self._device.copy(out, a)
            self._kernel("invert", field, "invert_each").launch_items(n, (result, np.uint64(n)))
            return
        count = -(-n // INVERT_CHUNK)
        products = self._device.empty((count, field.limbs))
        sizes = (np.uint64(n), np.uint64(count))
        self._kernel("invert", field, "invert_fold").launch_items(count, (flat, products, *sizes))
        self._invert(field, count, products, products)
        unfold = self._kernel("invert", field, "invert_unfold")
        unfold.launch_items(count, (flat, products, result, *sizes))

    def _equal(self, a: Array, b: Array) -> bool:
        words = a.nbytes // 8
        differ = self._device.zeros((1,), np.uint32)
        kernel = self._device.kernel(WORDS, "words_differ")
        block = kernel.block()
        grid = min(grid_for(words, block), 8 * self._device.sm_count)
        kernel.launch(grid, block, (a, b, np.uint64(words), differ))
        return int(self._device.fetch(differ).result()[0]) == 0

    def _ntt(self, field: Field, a: Array, transform: Transform) -> None:
        self._transforms.run(field, a, transform)

    def _kernel(self, source: str, field: Field, name: str) -> Kernel:
        return self._device.kernel(field_source(source, field), name)
