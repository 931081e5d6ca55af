"""BabyBear on the GPU: products, transforms, Poseidon2 and proofs of work.

Arrays are on the host, as `kernels.interface.babybear` has them: each call copies its arguments and its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from kernels.cuda.device import ByValue, Device, layout
from kernels.errors import SizeError
from kernels.interface.arrays import Array
from kernels.interface.babybear import BabyBearKernels, check_sum
from kernels.maths.babybear import DEGREE, Elements, P, elements, mul, powers, root_of_unity
from kernels.maths.babybear_ntt import log2_of
from kernels.maths.broadcasting import Broadcast
from kernels.maths.poseidon2_babybear import DIAGONAL, DIGEST, WIDTH, round_constants
from kernels.source import KernelSource

HASH_THREADS = 256
SOURCE = KernelSource("babybear")
POSEIDON2 = KernelSource("babybear_poseidon2", (("HASH_THREADS", str(HASH_THREADS)),))
SOURCES = (SOURCE, POSEIDON2)

RADIX = np.uint32((1 << 32) % P)
"""Factor of the Montgomery form."""
MIN_LOG_WITNESSES, MAX_LOG_WITNESSES = 12, 26
"""Bounds on log2 of the witnesses of one launch."""

_STEPS = layout(("u8", "outer inner"))
"""The layout of `struct Steps` in babybear.cu."""


@cache
def poseidon2_constants() -> Elements:
    """`struct Constants` in hash/poseidon2_babybear.h."""
    return mul(elements((*round_constants(), *DIAGONAL)), RADIX)


@cache
def poseidon2_argument() -> ByValue:
    """The constants as a kernel's argument: all threads read the same word, which is in the bank of constants."""
    return ByValue(poseidon2_constants())


@cache
def _roots(log_n: int) -> Elements:
    """The powers of the root of unity that a transform of 2^log_n items takes, in Montgomery form."""
    return mul(powers(root_of_unity(log_n), 1 << (log_n - 1)), RADIX) if log_n else np.zeros(1, dtype=np.uint32)


class CudaBabyBear(BabyBearKernels):
    """The kernels on one device."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def prepare(self) -> None:
        """Begin to compile the kernels in the background."""
        for source in SOURCES:
            self._device.prepare(source)

    def mul(self, a: Elements, b: Elements) -> Elements:
        return self._product("babybear_mul", np.asarray(a), np.asarray(b), ())

    def ext_mul(self, a: Elements, b: Elements) -> Elements:
        return self._product("babybear_ext_mul", a, b, (DEGREE,))

    def _product(self, name: str, a: Elements, b: Elements, item: tuple[int, ...]) -> Elements:
        both = Broadcast.of(a, b, len(item))
        n, out = both.outer * both.inner, self._empty((*both.shape, *item))
        steps = [ByValue(np.array((each.outer, each.inner), dtype=_STEPS)) for each in (both.a, both.b)]
        items = [self._device.upload(each.items) for each in (both.a, both.b)] if n else [None, None]
        kernel = self._device.kernel(SOURCE, name)
        kernel.launch_items(n, (*items, out, np.uint64(n), np.uint64(both.inner), *steps))
        return self._device.download(out)

    def add_scaled(self, total: Elements, a: Elements, by: Elements) -> None:
        check_sum(total, a)
        n, sums = total.size // DEGREE, self._upload(total)
        if n:
            sizes = np.uint64(n), np.uint32(a.shape == total.shape)
            kernel = self._device.kernel(SOURCE, "babybear_add_scaled")
            kernel.launch_items(n, (self._upload(a), self._upload(by), sums, *sizes))
            total[...] = self._device.download(sums)

    def matmul(self, a: Elements, b: Elements) -> Elements:
        (rows, inner), columns = a.shape, b.shape[1]
        if b.shape[0] != inner:
            raise SizeError(f"a matrix {a.shape} times one {b.shape}")
        if not rows * inner * columns:
            return np.zeros((rows, columns), dtype=np.uint32)
        out, sizes = self._empty((rows, columns)), map(np.uint64, (rows, inner, columns))
        kernel = self._device.kernel(SOURCE, "babybear_matmul")
        kernel.launch_items(rows * columns, (self._upload(a), self._upload(b), out, *sizes))
        return self._device.download(out)

    def ntt(self, coefficients: Elements, axis: int = -1) -> Elements:
        axis %= coefficients.ndim
        log_n = log2_of(coefficients.shape[axis])
        if not coefficients.size:
            return np.array(coefficients, dtype=np.uint32)
        n, inner = coefficients.size, np.uint64(np.prod(coefficients.shape[axis + 1 :], dtype=np.int64))
        data, roots = self._empty(coefficients.shape), self._device.upload(_roots(log_n))
        kernel = self._device.kernel(SOURCE, "babybear_reverse")
        kernel.launch_items(n, (self._upload(coefficients), data, np.uint64(n), np.uint32(log_n), inner))
        kernel = self._device.kernel(SOURCE, "babybear_butterflies")
        for log_half in range(log_n):
            sizes = np.uint64(n), np.uint32(log_half), np.uint32(log_n), inner
            kernel.launch_items(n // 2, (data, roots, *sizes))
        return self._device.download(data)

    def intt(self, values: Elements, axis: int = -1) -> Elements:
        n = values.shape[axis]
        # Values at the inverse powers: the same in the reverse order, the first apart.
        back = np.take(values, -np.arange(n) % n, axis=axis)
        return self.mul(self.ntt(back, axis), np.asarray(pow(n, -1, P), dtype=np.uint32))

    def hash_rows(self, rows: Elements) -> Elements:
        n, width = rows.shape
        if not n * width:
            return np.zeros((n, DIGEST), dtype=np.uint32)
        out, kernel = self._empty((n, DIGEST)), self._device.kernel(POSEIDON2, "babybear_hash_rows")
        kernel.launch_items(n, (poseidon2_argument(), self._upload(rows), out, np.uint64(n), np.uint64(width)))
        return self._device.download(out)

    def compress(self, left: Elements, right: Elements) -> Elements:
        n = len(left)
        out, kernel = self._empty((n, DIGEST)), self._device.kernel(POSEIDON2, "babybear_compress")
        kernel.launch_items(n, (poseidon2_argument(), self._upload(left), self._upload(right), out, np.uint64(n)))
        return self._device.download(out)

    def least_witness(self, state: Sequence[int], position: int, bits: int) -> int:
        if len(state) != WIDTH:
            raise SizeError(f"a state is {WIDTH} elements, not {len(state)}")
        kernel, begin = self._device.kernel(POSEIDON2, "babybear_grind"), self._upload(elements(state))
        best, mask = self._device.upload(np.array([P], dtype=np.uint32)), np.uint32((1 << bits) - 1)
        # Four times the witnesses that one hit needs on average: a second launch is rare.
        most = 1 << min(max(bits + 2, MIN_LOG_WITNESSES), MAX_LOG_WITNESSES)
        for first in range(0, P, most):
            count = min(most, P - first)
            sizes = np.uint32(position), np.uint32(first), np.uint32(count), mask
            kernel.launch_items(count, (poseidon2_argument(), begin, *sizes, best))
            found = int(self._device.download(best)[0])
            if found != P:
                return found
        raise ValueError(f"no element does the work of {bits} bits")

    def _upload(self, host: Elements) -> Array:
        return self._device.upload(np.ascontiguousarray(host, dtype=np.uint32))

    def _empty(self, shape: tuple[int, ...]) -> Array:
        return self._device.empty(shape, np.uint32)
