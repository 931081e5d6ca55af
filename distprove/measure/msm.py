"""`distprove bench msm`: multi-scalar multiplication (MSM) over fixed points in both groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.errors import JobFailed
from distprove.measure.ceilings import addition_ceiling, random_integers
from distprove.measure.results import Row
from distprove.measure.timing import Timing, measure, rotation
from kernels.interface.arrays import Array, HostArray
from kernels.interface.backend import Backend
from kernels.interface.groups import PointTable
from kernels.maths.curves import Curve, Field, Group
from kernels.maths.encoding import generator, scalars_from_ints, unpack

TIMED = (
    "one MSM, points resident and prepared for many as in a proving key, scalars in the backend's memory ('from host': "
    "in host memory), result on the host; wall time"
)
CHECKED = "each result against the known discrete logarithms of the points, before timing"

DISTINCT = 1 << 14
"""Number of distinct points. Larger sizes repeat them, as the published measurements of other libraries do."""

UNIFORM, WITNESS, FROM_HOST = "uniform", "witness", "uniform, from host"
VARIANTS = (UNIFORM, WITNESS, FROM_HOST)
ZERO_ONE_SHARE = 0.9
"""Share of scalars that are 0 or 1 (half each) in the variant `witness`."""


def bench_msm(
    backend: Backend,
    curves: Iterable[Curve],
    groups: Iterable[Group],
    sizes: Iterable[int],
    repeats: int,
    progress: Callable[[str], None],
    variants: Iterable[str] = (UNIFORM, WITNESS),
) -> list[Row]:
    """Time MSMs for every curve, group, size (log2) and kind of scalars. Raises JobFailed when a result is wrong."""
    groups, sizes, variants = list(groups), list(sizes), list(variants)
    rows = []
    for curve in curves:
        for group in groups:
            ceiling = addition_ceiling(backend, curve, group)
            for log_n in sizes:
                progress(f"MSM {curve.title} {group.name} 2^{log_n}")
                points = KnownPoints.make(backend, curve, group, 1 << log_n)
                table = points.load()
                for variant in variants:
                    timing = _time(backend, points, table, variant, repeats)
                    additions = _additions(table, curve, 1 << log_n) if variant != WITNESS else 0
                    rows.append(
                        Row(
                            what=f"msm {group.value}",
                            curve=curve.title,
                            log_n=log_n,
                            variant=variant,
                            timing=timing,
                            bytes_moved=(1 << log_n) * 8 * (curve.point_limbs(group) + curve.fr.limbs),
                            operations=additions,
                            ceiling=ceiling if additions else None,
                            facts={"table_bytes": table.nbytes},
                        )
                    )
                del table
    return rows


@dataclass(frozen=True)
class KnownPoints:
    """n points whose discrete logarithms are known, so that any MSM over them can be checked by one multiplication."""

    backend: Backend
    curve: Curve
    group: Group
    points: HostArray
    logs: list[int]

    @classmethod
    def make(cls, backend: Backend, curve: Curve, group: Group, n: int) -> KnownPoints:
        scalars = random_integers(curve.fr, min(n, DISTINCT))
        base = generator(curve, group)
        distinct = backend.to_host(backend.groups.fixed_base(curve, group, base, backend.to_device(scalars)))
        repeats = -(-n // distinct.shape[0])
        return cls(backend, curve, group, np.tile(distinct, (repeats, 1))[:n], unpack(scalars))

    def load(self) -> PointTable:
        return self.backend.groups.load_points(self.curve, self.group, self.points)

    def check(self, scalars: HostArray, result: HostArray) -> None:
        """Raise JobFailed unless `result` is the MSM of `scalars`."""
        p = self.curve.fr.modulus
        sums = _column_sums(scalars, len(self.logs))
        total = sum(s * k for s, k in zip(sums, self.logs, strict=False)) % p
        one = self.backend.to_device(scalars_from_ints(self.curve.fr, [total]))
        base = generator(self.curve, self.group)
        expected = self.backend.to_host(self.backend.groups.fixed_base(self.curve, self.group, base, one))[0]
        if not np.array_equal(expected, result):
            n = scalars.shape[0]
            raise JobFailed(f"the {self.curve.title} {self.group.name} MSM of {n} points gives a wrong result")


def _column_sums(scalars: HostArray, period: int) -> list[int]:
    """The sums of scalars j, j + period, j + 2 period, ... as integers, for each j < period."""
    n, limbs = scalars.shape
    if n < period:
        period = n
    # 32-bit halves, so that 2^32 of them can be added in 64 bits.
    halves = np.ascontiguousarray(scalars).view(np.uint32).reshape(n // period, period, 2 * limbs)
    columns = halves.sum(axis=0, dtype=np.uint64)
    weights = [1 << (32 * i) for i in range(2 * limbs)]
    return [sum(int(v) * w for v, w in zip(row, weights, strict=True)) for row in columns]


def draw_scalars(field: Field, n: int, variant: str) -> NDArray[np.uint64]:
    """n random scalars of the variant's kind as canonical integers, (n, limbs) uint64."""
    scalars: NDArray[np.uint64] = random_integers(field, n)
    if variant == WITNESS:
        rng = np.random.default_rng()
        small = rng.random(n) < ZERO_ONE_SHARE
        scalars[small] = 0
        scalars[small, 0] = rng.integers(0, 2, int(small.sum()), dtype=np.uint64)
    return scalars


def _time(backend: Backend, points: KnownPoints, table: PointTable, variant: str, repeats: int) -> Timing:
    n, field = table.n, points.curve.fr
    hosts = [draw_scalars(field, n, variant) for _ in range(rotation(n * field.bytes))]
    backend.groups.repeat(table, n)  # as a proving key does
    points.check(hosts[0], backend.groups.msm(table, backend.to_device(hosts[0])).result())
    from_host = variant == FROM_HOST
    inputs: list[Array] = hosts if from_host else [backend.to_device(host) for host in hosts]

    def run(i: int) -> HostArray:
        scalars = inputs[i % len(inputs)]
        return backend.groups.msm(table, backend.to_device(scalars) if from_host else scalars).result()

    return measure(run, backend, repeats=repeats)


def _additions(table: PointTable, curve: Curve, n: int) -> float:
    """Additions of one MSM: one per point and window of the table's plan or, if it has none, those of the best plan."""
    plan = getattr(table, "plan", None)
    if plan is not None:
        return float(n * plan.windows)
    return float(min(-(-(curve.fr.bits + 1) // c) * (n + (1 << c)) for c in range(2, 25)))
