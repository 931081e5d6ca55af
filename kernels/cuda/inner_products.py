"""Inner products of points and folded vectors of points on the GPU. The host does the final exponentiations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from kernels.cuda.device import ByValue, Device, check_index32
from kernels.cuda.points import curve_source, group_source, normalise, sum_limbs
from kernels.host.native import native
from kernels.interface.arrays import Array, HostArray, Pending, Ready
from kernels.interface.inner_products import InnerProducts, halves, split
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import field_from_ints, pack

PAIRS = 4
"""Maximum pairs of one thread's Miller loop. Must equal PAIRS in miller.cu."""
VALUES = 8
"""Values that one thread multiplies."""


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

    def _pairing_products(self, curve: Curve, products: Sequence[Sequence[tuple[Array, Array]]]) -> Pending:
        device, source = self.device, curve_source("miller", curve)
        device.prepare(source)
        counts = [sum(len(g1) for g1, _ in pairs) for pairs in products]
        total = sum(counts)
        check_index32("pairs", total)
        if not total:
            return Ready(np.stack([_one(curve)] * len(products)))
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
    fetch: Pending
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
    return ByValue(np.frombuffer(native.miller_constants(curve.name), dtype=np.uint8))
