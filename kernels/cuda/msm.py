"""Multi-scalar multiplication (MSM) on the GPU: Pippenger's buckets over fixed points with precomputed multiples.

With window size c and W windows, sum_i s_i P_i = sum_i sum_w d_iw 2^(c w) P_i for signed digits d_iw. A table that
holds the multiples 2^(c w) P_i for all w needs one set of 2^(c - 1) buckets for all windows; where memory does not
allow that, a table of K multiples leaves ceil(W / K) sets, joined at the end by doublings. The stages are
`cuda/src/msm_sort.cu` (digits, radix sort by bucket), `cuda/src/msm_accumulate.cu` (bucket sums over equal segments)
and
`cuda/src/msm_buckets.cu` (cut buckets merged, weighted sum of the buckets).

Zero digits cost nothing, so a 0/1-heavy witness is faster, and the time is not constant in the scalars.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernels.cuda.device import Device, Fetch, Recording
from kernels.cuda.points import curve_source, group_source, normalise, sum_limbs, sum_to_affine
from kernels.errors import OutOfMemory, SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.groups import MAX_POINTS, PendingPoint
from kernels.maths.curves import BN254, Curve, Group
from kernels.source import KernelSource

SORT_BLOCK = 512
"""Threads of a block of the sort's kernels. Must equal BLOCK in msm_sort.cu."""

SORT_TILE = 16 * SORT_BLOCK
"""Entries that a block of msm_scatter_entries puts in order at a time. Must equal TILE in msm_sort.cu."""

MAX_BIN_BITS = 11
"""Most bits of one radix pass: log2 of MAX_BINS in msm_sort.cu."""

MAX_WINDOW_BITS = 24
MAX_BUCKETS = 1 << 26

UPLOAD_ROWS = 1 << 18
"""Points uploaded at a time, so that the device needs no second copy of a table."""

TABLE_ROWS = 1 << 20
"""Points whose multiples are computed at a time. Bounds the XYZZ scratch at 128 to 384 MiB."""


RECORDED_SHARE = 16
"""An MSM is recorded where its scratch takes at most this part of the free memory: it keeps it."""


@dataclass(frozen=True)
class MsmProfile:
    """Tuning parameters of the MSM. The defaults were measured on one H200; two profiles can run in one process."""

    window_bits: int | None = None
    """Window size in bits; None chooses it by the number of points and the memory."""
    bin_bits: int = MAX_BIN_BITS
    """Most bits that one radix pass takes."""
    sort_blocks_per_sm: int = 2
    """Blocks of the sort's kernels per multiprocessor."""
    digit_tile: int = 1024
    """Most scalars whose digits a block of msm_scatter_digits puts in order at a time."""
    digit_shared: int = 98 << 10
    """Most bytes of shared memory for these digits; two blocks then fit a multiprocessor of 227 KiB."""
    min_segment: int = 16
    """Fewest entries that a thread accumulates. With fewer there would be more to merge than to accumulate."""
    accumulate_block: int = 128
    accumulate_blocks: int | None = None
    """Blocks of msm_accumulate per multiprocessor, which bounds the registers; None chooses by curve and group."""
    product_calls: bool | None = None
    """Whether msm_accumulate calls field products instead of inlining them; None does so for G2 only."""
    merge_block: int = 256
    reduce_block: int = 128
    reduce_threads_per_sm: int = 256
    """Threads of msm_reduce per multiprocessor, as long as a chunk has at least `min_chunk` buckets."""
    min_chunk: int = 4
    bucket_cost: float = 6.0
    """Cost of one more bucket when the window is chosen, in mixed additions."""
    bit_cost: float = 42000.0
    """Cost of one more bit of the window, in mixed additions: the reduction gets deeper."""

    def __post_init__(self) -> None:
        if not 1 <= self.bin_bits <= MAX_BIN_BITS:
            raise SizeError(f"a radix pass takes 1 to {MAX_BIN_BITS} bits, not {self.bin_bits}")
        if self.window_bits is not None and not 2 <= self.window_bits <= MAX_WINDOW_BITS:
            raise SizeError(f"a window has 2 to {MAX_WINDOW_BITS} bits, not {self.window_bits}")

    def blocks_for(self, curve: Curve, group: Group) -> int:
        """Return the blocks of msm_accumulate per multiprocessor. Measured: registers matter more than occupancy."""
        if self.accumulate_blocks is not None:
            return self.accumulate_blocks
        return 4 if curve is BN254 and group is Group.G1 else 2


@dataclass(frozen=True)
class WindowPlan:
    """A plan of how scalars are cut into windows, and of how many multiples of each point the table holds."""

    window_bits: int
    windows: int
    multiples: int
    sets: int

    @property
    def buckets_per_set(self) -> int:
        return 1 << (self.window_bits - 1)

    @property
    def buckets(self) -> int:
        return self.sets * self.buckets_per_set


def plan_windows(curve: Curve, group: Group, n: int, memory: int, profile: MsmProfile) -> WindowPlan:
    """Return the cheapest plan for an MSM of n points whose table takes at most `memory` bytes.

    A scalar above half the order is negated, so signed digits need no bit for the sign: W = ceil(bits / c).
    Raises OutOfMemory if the points alone do not fit, SizeError if no plan fits the kernels' 32-bit indices.
    """
    point_bytes = 8 * curve.point_limbs(group)
    fitting = memory // (max(n, 1) * point_bytes)
    if fitting < 1:
        raise OutOfMemory(f"{n} points take {n * point_bytes} bytes on the device; {memory} bytes were allowed")
    fitting = min(fitting, MAX_POINTS // max(n, 1))
    if fitting < 1:
        raise SizeError(f"an MSM has at most {MAX_POINTS} points, not {n}")
    best: tuple[float, WindowPlan] | None = None
    chosen = profile.window_bits
    for bits in range(2, MAX_WINDOW_BITS + 1) if chosen is None else (chosen,):
        windows = -(-curve.fr.bits // bits)
        sets = -(-windows // min(windows, fitting))
        plan = WindowPlan(bits, windows, -(-windows // sets), sets)
        if plan.buckets > MAX_BUCKETS or n * windows >= 1 << 32:
            continue
        depth = bits if sets == 1 else bits * (sets + 1)
        cost = n * windows + profile.bucket_cost * plan.buckets + profile.bit_cost * depth
        if best is None or cost < best[0]:
            best = (cost, plan)
    if best is None:
        raise SizeError(f"an MSM of {n} points has more digits than a 32-bit index counts")
    return best[1]


@dataclass(frozen=True)
class CudaPointTable:
    """Fixed affine points on the device: row k * n + i holds 2^(window_bits * sets * k) * points[i]."""

    curve: Curve
    group: Group
    n: int
    nbytes: int
    plan: WindowPlan
    points: Array
    recorded: dict[tuple[int, int], tuple[Recording, Array]] = field(default_factory=dict)
    """MSMs that were recorded, each with its sum, by the number of scalars and the first point."""


class FetchedPoint:
    """A `PendingPoint` whose XYZZ sum is on its way from the device; `result` waits for this sum alone."""

    def __init__(self, curve: Curve, group: Group, fetch: Fetch) -> None:
        self._curve, self._group, self._fetch = curve, group, fetch

    def result(self) -> HostArray:
        return sum_to_affine(self._curve, self._group, self._fetch.result())


class CudaSums:
    """The MSMs of `CudaGroups`. Each call takes its scratch from the device's arena and gives it back."""

    def __init__(self, device: Device, profile: MsmProfile | None = None) -> None:
        self.device = device
        self.profile = profile or MsmProfile()

    def prepare(self, curve: Curve, group: Group) -> None:
        """Begin to compile everything that `load_points` and `msm` need in the background."""
        for source in (
            self._accumulate_source(curve, group),
            self._buckets_source(curve, group),
            curve_source("msm_sort", curve),
            group_source("point_batch", curve, group),
        ):
            self.device.prepare(source)

    # -- tables -----------------------------------------------------------------------------------------------------

    def _load_points(self, curve: Curve, group: Group, points: Array, memory: int | None) -> CudaPointTable:
        """Upload points and compute as many multiples as `memory` bytes hold. None allows a quarter of what is free, or
        what the points alone take if that is more.

        `points` is (n, point_limbs) uint64 or (n, 8 * point_limbs) uint8, affine in Montgomery form, infinity all zero.
        Points that are on the device already are used in place, where their table has no multiples.
        Raises SizeError if the kernels' indices cannot count them, OutOfMemory.
        """
        limbs, n = curve.point_limbs(group), points.shape[0]
        on_device = not isinstance(points, np.ndarray)
        if memory is None:
            free = self.device.memory_free()
            memory = max(free // 4, 8 * limbs * n if on_device else min(free, 8 * limbs * n))
        plan = plan_windows(curve, group, n, memory, self.profile)
        self.prepare(curve, group)
        if on_device and plan.multiples == 1:
            return CudaPointTable(curve, group, n, int(points.nbytes), plan, points)
        table = self.device.empty((plan.multiples * n, limbs))
        for begin in range(0, n, UPLOAD_ROWS):
            rows = points[begin : begin + UPLOAD_ROWS]
            self.device.copy(table[begin : begin + rows.shape[0]], rows if on_device else self.device.upload(rows))
        for multiple in range(1, plan.multiples):
            self._next_multiples(curve, group, table, n, multiple, plan.window_bits * plan.sets)
        return CudaPointTable(curve, group, n, int(table.nbytes), plan, table)

    def _next_multiples(self, curve: Curve, group: Group, table: Array, n: int, multiple: int, doublings: int) -> None:
        double = self.device.kernel(group_source("point_batch", curve, group), "point_double")
        for begin in range(0, n, TABLE_ROWS):
            count = min(TABLE_ROWS, n - begin)
            sums = self.device.empty((count, sum_limbs(curve, group)))
            before = (multiple - 1) * n + begin
            double.launch_items(count, (table[before : before + count], np.uint32(count), np.uint32(doublings), sums))
            after = multiple * n + begin
            normalise(self.device, curve, group, sums, table[after : after + count])

    def msm_scratch(self, curve: Curve, group: Group, n: int) -> int:
        """Predict the bytes of scratch of `msm` with n scalars, however many multiples the table holds.

        Counts the entries twice, for the sort's passes, and XYZZ sums: one for each bucket, two for each thread of the
        accumulation, one for each thread of the reduction. Counters are too small to count.
        """
        if n == 0:
            return 0
        device, profile = self.device, self.profile
        words = sum_limbs(curve, group)
        most = 0
        for memory in (8 * curve.point_limbs(group) * n, device.memory_free()):
            try:
                plan = plan_windows(curve, group, n, memory, profile)
            except OutOfMemory:
                continue
            entries = n * plan.windows
            threads = device.sm_count * profile.blocks_for(curve, group) * profile.accumulate_block
            records = 2 * min(threads, -(-entries // profile.min_segment) + profile.accumulate_block)
            reducing = min(plan.buckets, device.sm_count * profile.reduce_threads_per_sm) + profile.reduce_block
            most = max(most, 16 * entries + 8 * words * (plan.buckets + records + reducing))
        return most

    # -- sums -------------------------------------------------------------------------------------------------------

    def _repeat(self, table: CudaPointTable, count: int, start: int) -> None:
        """Record the MSM, where that takes little of what is free. The MSMs of a proof then run beside each other, each
        on a stream of its own; the host queues each by one call instead of some twelve."""
        device = self.device
        if self.msm_scratch(table.curve, table.group, count) > device.memory_free() // RECORDED_SHARE:
            return
        scalars = device.zeros((count, table.curve.fr.limbs))
        self._sum(table, scalars, start)  # loads the kernels, which a recording must find there
        recording, total = device.record([scalars], lambda: self._sum(table, scalars, start))
        table.recorded[count, start] = recording, total

    def _msm(self, table: CudaPointTable, scalars: Array, start: int) -> PendingPoint:
        recorded = table.recorded.get((scalars.shape[0], start))
        if recorded is None:
            fetch = self.device.fetch(self._sum(table, scalars, start))
        else:
            recording, total = recorded
            fetch = self.device.fetch(total, recording.replay([scalars]))
        return FetchedPoint(table.curve, table.group, fetch)

    def _sum(self, table: CudaPointTable, scalars: Array, start: int) -> Array:
        """The XYZZ sum of the MSM, (sum_limbs,)."""
        entries, entry_count = self.sorted_entries(table, scalars, start)
        buckets = self._bucket_sums(table, entries, entry_count, scalars.shape[0] * table.plan.windows)
        return self._weighted_sum(table, buckets)

    def sorted_entries(self, table: CudaPointTable, scalars: Array, start: int) -> tuple[Array, Array]:
        """Return entries (bucket, point and sign), sorted, (m * windows, 2) uint32, and the count used, (1,) uint32."""
        device, plan = self.device, table.plan
        source = curve_source("msm_sort", table.curve)
        m = scalars.shape[0]
        key_bits = (plan.buckets - 1).bit_length()
        passes = -(-key_bits // self.profile.bin_bits)
        # the first pass, over digits, has the fewest bits
        widths = [(key_bits + index) // passes for index in range(passes)]
        blocks = min(device.sm_count * self.profile.sort_blocks_per_sm, -(-m // 32))
        tile = min(self.profile.digit_tile, self.profile.digit_shared // (8 * plan.windows), -(-m // blocks))
        counts = device.empty((blocks << widths[-1],), np.uint32)
        totals = device.empty((1 << widths[-1],), np.uint32)
        entry_count = device.empty((1,), np.uint32)
        entries = device.empty((m * plan.windows, 2), np.uint32)
        other = device.empty((m * plan.windows, 2), np.uint32) if passes > 1 else entries

        def launch(name: str, grid: int, *args: object, shared: int = 0) -> None:
            device.kernel(source, name).launch(grid, SORT_BLOCK, args, shared=shared)

        def scan(bins: int) -> None:
            rows = -(-bins // (SORT_BLOCK // 32))
            launch("msm_scan_rows", rows, counts, np.uint32(bins), np.uint32(blocks), totals)

        bins = 1 << widths[0]
        cut = (
            np.uint32(plan.window_bits),
            np.uint32(plan.windows),
            np.uint32(plan.sets),
            np.uint32(bins),
            np.uint32(tile),
        )
        launch("msm_count_digits", blocks, scalars, np.uint32(m), *cut, counts)
        scan(bins)
        points = (np.uint32(start), np.uint32(table.n))
        args = (scalars, np.uint32(m), *points, *cut, counts, totals, entries, entry_count)
        launch("msm_scatter_digits", blocks, *args, shared=12 * bins + 8 * tile * plan.windows)
        low = widths[0]
        for width in widths[1:]:
            bins, shift = 1 << width, np.uint32(low)
            launch("msm_count_entries", blocks, entries, entry_count, shift, np.uint32(bins), counts)
            scan(bins)
            shared = 12 * bins + 8 * SORT_TILE + 2 * (SORT_BLOCK // 32) * bins
            places = (shift, np.uint32(width), counts, totals)
            launch("msm_scatter_entries", blocks, entries, entry_count, *places, other, shared=shared)
            entries, other = other, entries
            low += width
        return entries, entry_count

    def _bucket_sums(self, table: CudaPointTable, entries: Array, entry_count: Array, most: int) -> Array:
        """Return the XYZZ sums of the buckets, (buckets, sum_limbs); `most` bounds the number of entries."""
        device, profile, curve, group = self.device, self.profile, table.curve, table.group
        words = sum_limbs(curve, group)
        accumulate = device.kernel(self._accumulate_source(curve, group), "msm_accumulate")
        block = profile.accumulate_block
        wave = device.sm_count * accumulate.blocks_per_sm(block)
        grid = min(wave, -(-most // (block * profile.min_segment)))
        buckets = device.zeros((table.plan.buckets, words))
        count = 2 * grid * block
        keys, records = device.empty((count,), np.uint32), device.empty((count, words))
        args: tuple[Array, ...] = (
            table.points,
            entries,
            entry_count,
            np.uint32(profile.min_segment),
            buckets,
            keys,
            records,
        )
        accumulate.launch(grid, block, args)

        merge = device.kernel(self._buckets_source(curve, group), "msm_merge")
        while True:
            blocks = -(-count // profile.merge_block)
            keys_out, records_out = device.empty((2 * blocks,), np.uint32), device.empty((2 * blocks, words))
            merge.launch(blocks, profile.merge_block, (keys, records, np.uint32(count), buckets, keys_out, records_out))
            if blocks == 1:
                return buckets
            keys, records, count = keys_out, records_out, 2 * blocks

    def _weighted_sum(self, table: CudaPointTable, buckets: Array) -> Array:
        """Return the XYZZ sum of the MSM, (sum_limbs,), from the sums of its buckets."""
        device, profile, plan = self.device, self.profile, table.plan
        words = sum_limbs(table.curve, table.group)
        source = self._buckets_source(table.curve, table.group)
        threads = device.sm_count * profile.reduce_threads_per_sm
        chunk = max(profile.min_chunk, -(-plan.buckets // threads))
        block = profile.reduce_block
        grid = -(-plan.buckets_per_set // (chunk * block))
        partial = device.empty((plan.sets * grid, words))
        scratch = device.empty((plan.sets * grid * block, words))
        reduce = device.kernel(source, "msm_reduce")
        size = np.uint32(plan.buckets_per_set)
        reduce.launch((grid, plan.sets), block, (buckets, size, np.uint32(chunk), scratch, partial))
        sums = partial
        if grid > 1:
            sums = device.empty((plan.sets, words))
            add = device.kernel(source, "msm_sum")
            add.launch(plan.sets, block, (partial, np.uint32(grid), scratch, sums))
        if plan.sets == 1:
            return sums.reshape(-1)
        result = device.empty((words,))
        join = device.kernel(source, "msm_join_sets")
        join.launch(1, 1, (sums, np.uint32(plan.sets), np.uint32(plan.window_bits), result))
        return result

    def _accumulate_source(self, curve: Curve, group: Group) -> KernelSource:
        profile = self.profile
        calls = group is Group.G2 if profile.product_calls is None else profile.product_calls
        return group_source(
            "msm_accumulate",
            curve,
            group,
            ("ACCUMULATE_BLOCK", profile.accumulate_block),
            ("ACCUMULATE_BLOCKS", profile.blocks_for(curve, group)),
            ("PRODUCT_CALLS", int(calls)),
        )

    def _buckets_source(self, curve: Curve, group: Group) -> KernelSource:
        shape = (("MERGE_BLOCK", self.profile.merge_block), ("REDUCE_BLOCK", self.profile.reduce_block))
        return group_source("msm_buckets", curve, group, *shape)
