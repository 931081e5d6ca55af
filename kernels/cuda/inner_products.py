"""Inner products of points and folded vectors of points on the GPU. The host does the final exponentiations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from kernels.cuda.device import ByValue, Device, Fetch, check_index32
from kernels.cuda.points import curve_source, group_source, normalise, sum_limbs
from kernels.host.native import native
from kernels.interface.arrays import Array, HostArray
from kernels.interface.inner_products import InnerProducts, PendingProducts, ReadyProducts, halves, split
from kernels.maths.curves import BN254, Curve, Group
from kernels.maths.encoding import field_from_ints, pack

PAIRS = 4
"""Maximum pairs of one thread's Miller loop. Must equal PAIRS in miller.cu."""
VALUES = 8
"""Values that one thread multiplies."""
_X = {True: 4965661367192848881, False: 0xD201000000010000}
"""The parameter's absolute value, of BN254 and of BLS12-381."""
_DIGITS = 68


class CudaInnerProducts(InnerProducts):
    """Inner products on one device."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def prepare(self, curve: Curve) -> None:
        self.device.prepare(curve_source("miller", curve))
        for group in Group:
            for name in ("multiply_add", "point_batch"):
                self.device.prepare(group_source(name, curve, group))

    @cached_property
    def _pool(self) -> Any:
        """The host's threads for final exponentiations."""
        return native.Pool(os.cpu_count() or 1)

    def _pairing_products(self, curve: Curve, products: Sequence[Sequence[tuple[Array, Array]]]) -> PendingProducts:
        device, source = self.device, curve_source("miller", curve)
        device.prepare(source)
        counts = [sum(len(g1) for g1, _ in pairs) for pairs in products]
        total = sum(counts)
        check_index32("pairs", total)
        if not total:
            return ReadyProducts(np.stack([_one(curve)] * len(products)))
        g1 = self._joined(curve, Group.G1, [one for pairs in products for one, _ in pairs], total)
        g2 = self._joined(curve, Group.G2, [two for pairs in products for _, two in pairs], total)
        # As few pairs for a thread as keep the device full, so that a small product takes no longer than it must.
        per_thread = min(PAIRS, max(1, total // (256 * device.sm_count)))
        ends, counts = _chunks(counts, per_thread)
        values = device.empty((len(ends), 12, curve.fq.limbs))
        given = (g1, g2, device.upload(ends), np.uint32(len(ends)), _constants(curve))
        device.kernel(source, "miller_loops").launch_items(len(ends), (*given, values), spread=True)
        while max(counts) > 1 or min(counts) < 1:
            ends, counts = _chunks([max(count, 0) for count in counts], VALUES, least=1)
            out = device.empty((len(ends), 12, curve.fq.limbs))
            arguments = (values, device.upload(ends), np.uint32(len(ends)), out)
            device.kernel(source, "target_products").launch_items(len(ends), arguments, spread=True)
            values = out
        return FetchedProducts(curve, device.fetch(values), self._pool)

    def _scaled(self, curve: Curve, group: Group, points: Array, scalars: Array) -> Array:
        return self._multiply_add(curve, group, None, points, scalars, one_scalar=False)

    def _folded(self, curve: Curve, group: Group, vectors: Sequence[Array], scalar: int) -> list[Array]:
        low, high = halves(vectors)
        addends, points = (self._joined(curve, group, parts, sum(map(len, parts))) for parts in (low, high))
        factor = self.device.upload(pack([scalar], curve.fr.limbs))
        return split(self._multiply_add(curve, group, addends, points, factor, one_scalar=True), low)

    def _multiply_add(
        self, curve: Curve, group: Group, addends: Array | None, points: Array, scalars: Array, *, one_scalar: bool
    ) -> Array:
        """addends[i] + scalars[i] * points[i], or the one scalar times each."""
        device, n = self.device, len(points)
        check_index32("points", n)
        out = device.empty((n, curve.point_limbs(group)))
        if n:
            sums = device.empty((n, sum_limbs(curve, group)))
            device.prepare(group_source("point_batch", curve, group))
            kernel = device.kernel(group_source("multiply_add", curve, group), "multiply_add")
            arguments = (addends, points, scalars, np.uint32(one_scalar), np.uint32(n), sums)
            kernel.launch_items(n, arguments, spread=True)
            normalise(device, curve, group, sums, out)
        return out

    def _joined(self, curve: Curve, group: Group, vectors: Sequence[Array], total: int) -> Array:
        """The vectors one after the other, (total, point_limbs)."""
        joined = self.device.empty((total, curve.point_limbs(group)))
        for vector, place in zip(vectors, split(joined, vectors), strict=True):
            if len(vector):
                self.device.copy(place, vector)
        return joined


@dataclass(frozen=True)
class FetchedProducts:
    """Values of Miller loops on their way to the host, which does their final exponentiations."""

    curve: Curve
    fetch: Fetch
    pool: Any

    def result(self) -> HostArray:
        values = self.fetch.result()
        out = np.empty_like(values)
        arrays = (a.reshape(-1).view(np.uint8) for a in (values, out))
        native.final_exponentiations(self.pool, self.curve.name, *arrays)
        return out


def _one(curve: Curve) -> HostArray:
    return np.concatenate([field_from_ints(curve.fq, [1]), np.zeros((11, curve.fq.limbs), dtype=np.uint64)])


def _chunks(counts: Sequence[int], size: int, *, least: int = 0) -> tuple[HostArray, list[int]]:
    """Cut runs of so many values each into chunks of at most `size`, and give an empty run `least` of them: where each
    chunk ends, uint32, and how many chunks each run has."""
    ends: list[int] = []
    made: list[int] = []
    begin = 0
    for count in counts:
        chunks = [min(begin + i + size, begin + count) for i in range(0, count, size)] or [begin] * least
        ends += chunks
        made.append(len(chunks))
        begin += count
    return np.array(ends, dtype=np.uint32), made


@cache
def _constants(curve: Curve) -> ByValue:
    """The struct `Constants` of miller.cu."""
    q, is_bn = curve.fq.modulus, curve is BN254
    xi = (9, 1) if is_bn else (1, 1)
    b3 = [3 * c for c in curve.b2]
    psi = [*_power(xi, (q - 1) // 3, q), *_power(xi, (q - 1) // 2, q)]
    digits = _loop_digits(6 * _X[True] + 2 if is_bn else _X[False])
    loop = np.zeros(_DIGITS + 12, dtype=np.int8)  # the digits, their number, and padding to 16 bytes
    loop[: len(digits)] = digits
    loop[_DIGITS : _DIGITS + 4] = np.array([len(digits)], dtype="<i4").view(np.int8)
    return ByValue(np.concatenate([field_from_ints(curve.fq, [*b3, *psi]).reshape(-1).view(np.int8), loop]))


def _power(base: tuple[int, int], exponent: int, q: int) -> tuple[int, int]:
    """base^exponent in Fq[u] / (u^2 + 1)."""
    result = (1, 0)
    for bit in bin(exponent)[2:]:
        a, b = result
        result = ((a - b) * (a + b) % q, 2 * a * b % q)
        if bit == "1":
            a, b = result
            result = ((a * base[0] - b * base[1]) % q, (a * base[1] + b * base[0]) % q)
    return result


def _loop_digits(n: int) -> list[int]:
    """Non-adjacent form of n without its leading digit, most significant first, as `loop_digits` in pairing.h."""
    digits: list[int] = []
    while n:
        digits.append(0 if n % 2 == 0 else 2 - n % 4)
        n = (n - digits[-1]) // 2
    if len(digits) > 2 and digits[-2:] == [0, 1] and digits[-3] == -1:
        digits[-3:] = [1, 1]
    return digits[-2::-1]
