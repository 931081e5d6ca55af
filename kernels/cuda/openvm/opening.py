"""The CUDA implementation of `kernels.interface.openvm_opening`: `openvm_opening.cu`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cuda.device import ByValue, Device
from kernels.cuda.openvm.codes import CudaCodes, pass_bits
from kernels.cuda.openvm.sums import THREADS, GridSums
from kernels.host.babybear import canonical, montgomery
from kernels.interface.arrays import Array
from kernels.interface.openvm_opening import Opening, OpeningKernels
from kernels.maths.babybear import DEGREE, Elements, add, ext_one, sub
from kernels.maths.babybear_ntt import log2_of
from kernels.source import KernelSource

LOG_TILE = 12
"""log2 of the words of a block's tile."""
SOURCE = KernelSource("openvm_opening", (("THREADS", str(THREADS)), ("TILE", str(1 << LOG_TILE))))


class CudaOpenings(OpeningKernels):
    """The kernels of one device."""

    def __init__(self, device: Device, codes: CudaCodes) -> None:
        self._device = device
        self._codes = codes
        self._sums: dict[str, GridSums] = {}

    def clear(self) -> None:
        """Release the device memory that is kept between calls."""
        self._sums.clear()

    def begin(self, columns: Sequence[Array], powers: Elements, log_skip: int, point: Sequence[Elements]) -> Opening:
        n = 1 << len(point)
        addresses = [
            self._device.address(each) + 4 * n * column for each in columns for column in range(int(each.shape[0]))
        ]
        coefficients = self.table(n)
        at = self._device.upload(np.array(addresses, dtype=np.uint64))
        arguments = (at, self.upload(powers), np.uint32(len(powers)), coefficients, np.uint64(n))
        self.run("opening_combine", n, *arguments)
        self._codes.message(coefficients, coefficients, log_skip)
        values = self.table(n)
        self._device.copy(values, coefficients)
        self._subset_sums(values)
        pairs = [(sub(ext_one(), add(coordinate, coordinate)), coordinate) for coordinate in point]
        log_low = len(pairs) // 2
        low, high = self.products(pairs[:log_low]), self.products(pairs[log_low:])
        weights = self.table(n)
        self.run("opening_outer", n, low, high, weights, np.uint32(log_low), np.uint64(n))
        return CudaOpening(self, values, weights, coefficients)

    def table(self, n: int) -> Array:
        """Return memory for n elements, (4, n)."""
        return self.memory((DEGREE, n))

    def memory(self, shape: tuple[int, ...]) -> Array:
        """Return memory for base elements."""
        return self._device.empty(shape, np.uint32)

    def upload(self, host: Elements) -> Array:
        """Return elements in Montgomery form on the device."""
        return self._device.upload(montgomery(host))

    def run(self, name: str, items: int, *arguments: object) -> None:
        """Launch a kernel with one thread per item."""
        kernel = self._device.kernel(SOURCE, name)
        kernel.launch(-(-items // THREADS), THREADS, arguments)

    def summed(self, name: str, count: int, items: int, *arguments: object) -> Elements:
        """Launch a kernel with `count` sums over items; wait for them, (count, 4)."""
        if name not in self._sums:
            self._sums[name] = GridSums(self._device, SOURCE, name, count)
        out = self._device.empty((count, DEGREE), np.uint32)
        self._sums[name].launch(items, (*arguments, out))
        return canonical(self._device.download(out))

    def products(self, pairs: Sequence[tuple[Elements, Elements]]) -> Array:
        """Return the products over i of pairs[i][bit i of b], for all b, (2^pairs, 4)."""
        out = self._device.empty((1 << len(pairs), DEGREE), np.uint32)
        factors = np.array(pairs, dtype=np.uint32).reshape(-1, DEGREE)
        self.run("opening_products", 1 << len(pairs), self.upload(factors), np.uint32(len(pairs)), out)
        return out

    def _subset_sums(self, table: Array) -> None:
        log_n, kernel = log2_of(int(table.shape[1])), self._device.kernel(SOURCE, "opening_subset_sums")
        log_stride, log_words = log_n, log_n + 2
        for bits in pass_bits(log_n):
            log_stride -= bits
            log_tile = min(LOG_TILE, log_words)
            # The last pass has whole runs of neighbours in its tile.
            log_low = min(log_stride, log_tile - bits)
            logs = map(np.uint32, (log_tile, log_stride, log_low, log_low, bits))
            kernel.launch(1 << (log_words - log_tile), THREADS, (table, *logs))


class CudaOpening(Opening):
    """Values, weights and coefficients, tables (4, n). The fold by a challenge waits for the sums that follow it."""

    def __init__(self, kernels: CudaOpenings, values: Array, weights: Array, coefficients: Array) -> None:
        self._kernels = kernels
        self._values = values
        self._weights = weights
        self._at: Elements | None = None
        self._coefficients = coefficients
        self._challenges: list[Elements] = []
        """Those that the coefficients are not folded by."""

    def sums(self) -> Elements:
        old = self._values, self._weights
        if self._at is None:
            pairs = int(self._values.shape[1]) // 2
            return self._kernels.summed("opening_sums", 2, pairs, *old, np.uint64(pairs))
        at, pairs = self._challenge(), self._halve() // 2
        new = self._values, self._weights
        return self._kernels.summed("opening_fold_sums", 2, pairs, *old, at, *new, np.uint64(pairs))

    def bind(self, challenge: Elements) -> None:
        self._fold()
        self._at = challenge
        self._challenges.append(challenge)

    @property
    def coefficients(self) -> Array:
        if self._challenges:
            log_run = len(self._challenges)
            n = int(self._coefficients.shape[1]) >> log_run
            out, factors = self._kernels.table(n), self._kernels.products([(ext_one(), x) for x in self._challenges])
            sizes = np.uint64(n), np.uint32(log_run)
            self._kernels.run("opening_combine_runs", n, self._coefficients, factors, out, *sizes)
            self._coefficients, self._challenges = out, []
        return self._coefficients

    def evaluate(self, at: Elements) -> Elements:
        table = self.coefficients
        n = int(table.shape[1])
        [found] = self._kernels.summed("opening_evaluate", 1, n, table, np.uint64(n), _factor(at))
        return np.asarray(found)

    def add_points(self, outside: Elements, points: Elements, factors: Elements) -> None:
        self._fold()
        kernels, n = self._kernels, int(self._weights.shape[1])
        log_low = log2_of(n) // 2
        log_high = log2_of(n) - log_low
        outside_low, outside_high = (kernels.memory((1 << log, DEGREE)) for log in (log_low, log_high))
        for scale, skipped, log, out in (
            (ext_one(), 0, log_low, outside_low),
            (factors[0], log_low, log_high, outside_high),
        ):
            arguments = (_factor(outside), _factor(scale), np.uint32(skipped), np.uint32(log), out)
            kernels.run("opening_eq_of_squares", 1 << log, *arguments)
        count = len(points)
        low = kernels.memory((count, 1 << log_low))
        high = kernels.memory((1 << log_high, count, DEGREE))
        sizes = np.uint32(count), np.uint32(log_low)
        given = kernels.upload(points), kernels.upload(factors[1:])
        items = count * ((1 << log_low) + (1 << log_high))
        kernels.run("opening_point_tables", items, *given, *sizes, np.uint32(log_high), low, high)
        tables = self._weights, outside_low, outside_high, low, high
        kernels.run("opening_add_points", n, *tables, *sizes, np.uint64(n))

    def _fold(self) -> None:
        """Fold by the challenge that waits."""
        if self._at is not None:
            old, at, n = (self._values, self._weights), self._challenge(), self._halve()
            self._kernels.run("opening_fold", n, *old, at, self._values, self._weights, np.uint64(n))

    def _challenge(self) -> ByValue:
        """The challenge that waits, which is taken."""
        assert self._at is not None
        at, self._at = self._at, None
        return _factor(at)

    def _halve(self) -> int:
        """Take tables of half the size, and return it."""
        n = int(self._values.shape[1]) // 2
        self._values, self._weights = self._kernels.table(n), self._kernels.table(n)
        return n


def _factor(value: Elements) -> ByValue:
    """`struct Factor` in openvm_opening.cu."""
    return ByValue(montgomery(np.ascontiguousarray(value)))
