"""Multi-scalar multiplication (MSM) on the GPU: Pippenger's buckets over fixed points with precomputed multiples.

With window size c and W windows, sum_i s_i P_i = sum_i sum_w d_iw 2^(c w) P_i for signed digits d_iw. A table that
holds the multiples 2^(c w) P_i for all w needs one set of 2^(c - 1) buckets for all windows; where memory does not
allow that, a table of K multiples leaves ceil(W / K) sets, which the host joins. The stages are
`cuda/src/msm_sort.cu` (digits, radix sort by bucket), `cuda/src/msm_pairs.cu` (affine additions two by two, in large
MSMs), `cuda/src/msm_accumulate.cu` (bucket sums over equal segments) and `cuda/src/msm_buckets.cu` (cut buckets merged,
weighted sums of the buckets taken apart by powers of two, which the host joins).

What the stages take is bounded: the sets of buckets are done in turn where memory does not hold the entries of all, the
points of a set too, and the affine rounds go through the sorted entries in slices (`Cut`). Points that the device does
not hold pass through it in slices (`kernels.cuda.streamed`).

Zero digits cost nothing, so a 0/1-heavy witness is faster, and the time is not constant in the scalars. A large MSM
over several sets of buckets takes windows of its own, for the widths of its scalars (`CudaSums._plan_for`).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from kernels.cuda.device import ByValue, Device, Recording, Stream
from kernels.cuda.joining import FetchedPoint, FetchedSums, GatheredPoint, Gathering, Joining, LeftSums
from kernels.cuda.points import curve_source, group_source, normalise, sum_limbs
from kernels.cuda.streamed import StreamedPoints, bounds, brought
from kernels.errors import OutOfMemory, SizeError
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.interface.groups import MAX_POINTS, PointSlices
from kernels.maths.curves import BLS12_381, BN254, Curve, Group
from kernels.source import KernelSource

SORT_BLOCK = 512
"""Threads of a block of the sort's kernels. Must equal BLOCK in msm_sort.cu."""

MAX_COUNT = (1 << 16) - 1
"""Most entries of a tile of msm_scatter_digits: its bins are counted in 16 bits."""

SMALL_CLASS, WORD_CLASSES = 1, 8
"""msm_classify counts scalars that are 0, those of at most SMALL (class SMALL_CLASS), and behind these those of 1 to
WORD_CLASSES words of 32 bits."""
SMALL_BITS = 8
"""Bits of a window with which a scalar of at most SMALL in msm_sort.cu has one digit."""

MAX_BIN_BITS = 11
"""Most bits of one radix pass: log2 of MAX_BINS in msm_sort.cu."""

MAX_WINDOW_BITS = 24
MAX_BUCKETS = 1 << 26

UPLOAD_ROWS = 1 << 18
"""Points uploaded at a time, so that the device needs no second copy of a table."""

TABLE_ROWS = 1 << 20
"""Points whose multiples are computed at a time. Bounds the XYZZ scratch at 128 to 384 MiB."""


SCRATCH_PART = 16
"""The entries that are sorted at a time take at most this part of the device's budget; the affine rounds take about as
much, and at most twice that."""

ENTRY_BYTES = 8
"""Bytes of one entry: its bucket and its point."""

AFFINE_DENSITY = 8
"""Fewest entries for each bucket with which there is an affine round; with twice as many there are two, and so on."""


MAX_AFFINE_ROUNDS = 3
"""Maximum number of affine rounds of an MSM of fewer than MANY_ENTRIES entries."""
MANY_ENTRIES = 1 << 28
"""Number of entries from which on an MSM may have one affine round more. The fourth takes 1 % off where there are 2^29
entries, 64 for each bucket, and was not measured to gain elsewhere."""


@dataclass(frozen=True)
class AffineRounds:
    """Where affine rounds were faster than none on one H200, and the fastest shapes of msm_add_pairs."""

    entries: int
    """Fewest entries of an MSM with affine rounds. Below, the inversions' latency costs more than the rounds gain."""
    pairs: int
    """Most pairs that a thread takes with one inversion."""
    blocks: int
    """Blocks per multiprocessor."""


AFFINE_ROUNDS = {
    (BN254.name, Group.G1): AffineRounds(1 << 26, 64, 4),  # whose first round is bound by its gathers
    (BN254.name, Group.G2): AffineRounds(1 << 23, 64, 2),
    (BLS12_381.name, Group.G1): AffineRounds(1 << 23, 256, 3),
    (BLS12_381.name, Group.G2): AffineRounds(1 << 23, 64, 2),
}

PLACE_BLOCK = 512
"""Threads of a block of msm_count_pairs and msm_place_pairs. Must equal PLACE_BLOCK in msm_pairs.cu."""

RECORDED_SHARE = 16
"""An MSM is recorded where its scratch takes at most this part of the free memory: it keeps it."""


@dataclass(frozen=True)
class MsmProfile:
    """Tuning parameters of the MSM. The defaults were measured on one H200; two profiles can run in one process."""

    window_bits: int | None = None
    """Window size of a table in bits; None chooses it by the number of points and the memory."""
    bin_bits: int = 8
    """Most bits that one radix pass takes. Of more, a block's counters leave no room for a second block."""
    sort_blocks_per_sm: int = 2
    """Blocks of the sort's kernels per multiprocessor."""
    sort_items: int = 8
    """Entries of a thread in a tile of msm_scatter_entries: an even number."""
    digit_shared: int = 98 << 10
    """Most bytes of shared memory for the digits that a block of msm_scatter_digits puts in order at a time; two blocks
    then fit a multiprocessor of 227 KiB."""
    chunk_entries: int = 1 << 29
    """Most entries that are sorted at a time; fewer on a small device (`SCRATCH_PART`)."""
    affine_rounds: int | None = None
    """Rounds in which points of one bucket are added two by two in affine coordinates, before msm_accumulate adds up
    what remains; None chooses by the number of entries for each bucket."""
    slice_entries: int = 1 << 26
    """Most entries that go through the affine rounds at a time; fewer on a small device."""
    counted_entries: int = 1 << 26
    """Fewest entries that a chunk could have for which the host waits to learn how many there are."""
    classified_points: int = 1 << 22
    """Fewest scalars for which the host waits to learn how wide they are, and chooses windows for these, where the
    table has several sets of buckets. With one, its buckets are few beside its digits."""
    stream_points: int = 1 << 24
    """Most points that are brought from host memory at a time; fewer on a small device."""
    pairs_block: int = 128
    pairs_most: int | None = None
    """Most pairs that a thread of msm_add_pairs takes with one inversion for its block; None chooses by curve and
    group."""
    pairs_fewest: int = 8
    """Fewest pairs of a thread of msm_add_pairs: an inversion for fewer costs more than an idle thread."""
    min_segment: int = 16
    """Fewest entries that a thread accumulates, where every multiprocessor has a block. With fewer there would be more
    to merge than to accumulate."""
    least_segment: int = 4
    """Fewest entries that a thread accumulates, so that more multiprocessors have a block."""
    accumulate_block: int = 128
    merge_block: int = 256
    reduce_block: int = 128
    """Running sums of a block of msm_reduce: a power of two."""
    reduce_threads: int = 128
    """Threads of a block of msm_reduce and msm_sum: at least `reduce_block`."""
    reduce_sums_per_sm: int = 256
    """Most running sums of msm_reduce per multiprocessor."""
    bucket_cost: float = 6.0
    """Cost of one more bucket when the window is chosen, in mixed additions."""
    bit_cost: float = 20000.0
    """Cost of one more bit of the window, in mixed additions: the reduction gets deeper."""
    pass_cost: float = 150000.0
    """Cost of one more pass of the sort, in mixed additions: three launches that wait for each other."""
    sum_cost: float = 70000.0
    """Cost of a reduction in two launches instead of one, in mixed additions."""

    def __post_init__(self) -> None:
        if not 1 <= self.bin_bits <= MAX_BIN_BITS:
            raise SizeError(f"a radix pass takes 1 to {MAX_BIN_BITS} bits, not {self.bin_bits}")
        if self.window_bits is not None and not 2 <= self.window_bits <= MAX_WINDOW_BITS:
            raise SizeError(f"a window has 2 to {MAX_WINDOW_BITS} bits, not {self.window_bits}")
        if self.merge_block % 32 or self.reduce_threads % 32 or self.reduce_threads < self.reduce_block:
            raise SizeError("the blocks that merge and reduce have whole warps, and a thread for each running sum")
        if self.pairs_most is not None and self.pairs_most < self.pairs_fewest:
            raise SizeError(f"a thread takes at least {self.pairs_fewest} pairs, not at most {self.pairs_most}")

    def affine_for(self, curve: Curve, group: Group) -> AffineRounds:
        """Return the shapes of msm_add_pairs for one group."""
        chosen = AFFINE_ROUNDS[curve.name, group]
        return replace(chosen, pairs=self.pairs_most or chosen.pairs)

    def rounds_for(self, curve: Curve, group: Group, entries: int, buckets: int) -> int:
        """Return how many affine rounds there are for so many entries of so many buckets."""
        if self.affine_rounds is not None:
            return self.affine_rounds
        if entries < AFFINE_ROUNDS[curve.name, group].entries:
            return 0
        most = MAX_AFFINE_ROUNDS + (entries >= MANY_ENTRIES)
        return min(most, (entries // (AFFINE_DENSITY * buckets)).bit_length())


def accumulate_blocks(curve: Curve, group: Group) -> int:
    """Return the blocks of msm_accumulate per multiprocessor. Measured: registers matter more than occupancy."""
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


def plan_windows(
    curve: Curve, group: Group, n: int, memory: int, profile: MsmProfile, *, buckets: int = MAX_BUCKETS
) -> WindowPlan:
    """Return the cheapest plan for an MSM of n points whose table takes at most `memory` bytes, with at most `buckets`
    buckets in all sets, where a window of two bits has no more.

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
        if best is not None and plan.buckets > buckets and chosen is None:
            continue
        cost = _cost(plan, n * windows, profile)
        if best is None or cost < best[0]:
            best = (cost, plan)
    if best is None:
        raise SizeError(f"an MSM of {n} points has more digits than a 32-bit index counts")
    return best[1]


def _cost(plan: WindowPlan, digits: int, profile: MsmProfile) -> float:
    """The cost of an MSM with so many digits that are not zero, in mixed additions."""
    depth = plan.window_bits if plan.sets == 1 else plan.window_bits * (plan.sets + 1)
    passes = -(-(plan.buckets - 1).bit_length() // profile.bin_bits)
    cost = digits + profile.bucket_cost * plan.buckets + profile.bit_cost * depth
    return cost + profile.pass_cost * passes + profile.sum_cost * (plan.buckets_per_set > profile.reduce_block)


def most_digits(classes: HostArray, plan: WindowPlan) -> int:
    """Return the most digits that are not zero of scalars of which msm_classify found so many in each class.

    A scalar below 2^b has at most ceil(b / c) digits and a carry; one of at most 2^(c - 1) has one.
    """
    small = 1 if plan.window_bits >= SMALL_BITS else plan.windows
    widths = (min(plan.windows, 32 * words // plan.window_bits + 2) for words in range(1, WORD_CLASSES + 1))
    each = (small, *widths)
    return sum(int(count) * digits for count, digits in zip(classes[SMALL_CLASS:], each, strict=True))


@dataclass(frozen=True)
class Cut:
    """How an MSM is cut, so that its scratch is bounded: into chunks of whole sets of buckets and, if need be, of
    points, whose entries are sorted at a time, and these into slices for the affine rounds."""

    sets: int
    """Sets of buckets that are summed at a time."""
    buckets: int
    """Buckets of these sets."""
    points: int
    """Scalars of a chunk."""
    entries: int
    """Most entries of a chunk."""
    rounds: int
    slice_entries: int
    """Most entries that go through the affine rounds at a time: an even number."""

    @classmethod
    def of(
        cls,
        curve: Curve,
        group: Group,
        plan: WindowPlan,
        n: int,
        profile: MsmProfile,
        budget: int,
        digits: int | None = None,
    ) -> Cut:
        """Return the cut of an MSM of n points on a device of `budget` bytes, whose scalars have at most so many
        `digits` that are not zero, if that is known."""
        part = budget // SCRATCH_PART
        most = max(plan.multiples, min(profile.chunk_entries, part // (2 * ENTRY_BYTES)))
        if digits is not None and digits <= most:
            sets, points, entries = plan.sets, n, max(1, digits)
        else:
            sets = _even_share(plan.sets, most // (n * plan.multiples))
            points = _even_share(n, most // (sets * plan.multiples))
            entries = points * min(sets * plan.multiples, plan.windows)
        buckets = sets * plan.buckets_per_set
        rounds = profile.rounds_for(curve, group, entries, buckets)
        fitting = part // (8 * curve.point_limbs(group) + 2 * ENTRY_BYTES)
        slice_entries = max(2, min(profile.slice_entries, entries + 1, fitting) // 2 * 2)
        return cls(sets, buckets, points, entries, rounds, slice_entries)

    def left(self, entries: int) -> int:
        """Return the most entries that remain of so many after a round: two of a pair that lies in two buckets."""
        return -(-entries // 2) + min(entries // 2, self.buckets - 1)

    def rounds_bytes(self, point_bytes: int) -> int:
        """Return the most bytes that the rounds of a slice take: what a round reads, what it leaves, and the places."""
        most, entries, read = 0, self.slice_entries, 0
        for _ in range(self.rounds):
            left = self.left(entries)
            written = left * (point_bytes + ENTRY_BYTES)
            most = max(most, read + written + 4 * (-(-entries // 2)))
            entries, read = left, written
        return most


def _product_calls(group: Group) -> tuple[str, int]:
    """Whether msm_accumulate and msm_add_pairs call field products instead of inlining them: those of G2 are long."""
    return "PRODUCT_CALLS", int(group is Group.G2)


def _even_share(total: int, most: int) -> int:
    """The size of each of the fewest equal parts of `total` that have at most `most`, or 1."""
    return -(-total // -(-total // max(1, min(total, most))))


@dataclass(frozen=True)
class CudaPointTable:
    """Fixed affine points on the device: row k * n + i holds 2^(window_bits * sets * k) * points[i]."""

    curve: Curve
    group: Group
    n: int
    nbytes: int
    plan: WindowPlan
    points: Array
    recorded: dict[tuple[int, int], tuple[Recording, SetSums]] = field(default_factory=dict)
    """MSMs that were recorded, each with its sums, by the number of scalars and the first point."""


CudaTable = CudaPointTable | StreamedPoints


def _slices(points: Array | PointSlices, n: int) -> Iterator[tuple[int, Array]]:
    """The n points, `UPLOAD_ROWS` at a time, each slice with the index of its first point.

    A slice that is read or decoded is so on a thread, while the caller has the one before it.
    """
    starts = range(0, n, UPLOAD_ROWS)
    if not (isinstance(points, PointSlices) and points.any_thread):
        yield from ((begin, points[begin : begin + UPLOAD_ROWS]) for begin in starts)
        return
    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(points.__getitem__, slice(0, UPLOAD_ROWS))
        for begin in starts:
            rows, after = ahead.result(), begin + UPLOAD_ROWS
            if after < n:
                ahead = reader.submit(points.__getitem__, slice(after, after + UPLOAD_ROWS))
            yield begin, rows


@dataclass(frozen=True)
class ReduceShape:
    """How the weighted sum of a set's buckets is taken apart: see msm_buckets.cu."""

    log_chunk: int
    """log2 of the buckets of a thread."""
    blocks: int
    """Blocks for each set: a power of two."""
    parts: int
    """Sums that a block leaves: S, V_k for each bit of a thread's index, W."""

    @property
    def width(self) -> int:
        """Sums of a set that go to the host: the parts, and V_k for each bit of a block's index."""
        return self.parts + self.blocks.bit_length() - 1

    def terms(self, plan: WindowPlan, limbs: int) -> tuple[tuple[int, int], ...]:
        """Return (first word, exponent) of each sum that counts, as of `LeftSums`, where a sum has so many limbs."""
        bits = [*range(1, self.parts - 1), *range(self.parts, self.width)]
        used = bits[: max(0, plan.window_bits - 1 - self.log_chunk)]
        columns = [(0, self.parts - 1), *((self.log_chunk + k, column) for k, column in enumerate(used))]
        return tuple(
            ((own * self.width + column) * limbs, plan.window_bits * own + exponent)
            for own in range(plan.sets)
            for exponent, column in columns
        )


@dataclass(frozen=True)
class SetSums:
    """The sums of an MSM on the device."""

    joining: Joining
    sums: Array
    """(sets, width, sum_limbs) XYZZ sums."""


class CudaSums:
    """The MSMs of `CudaGroups`. Each call takes its scratch from the device's arena and gives it back."""

    def __init__(self, device: Device, profile: MsmProfile | None = None) -> None:
        self.device = device
        self.profile = profile or MsmProfile()
        self.gathering: Gathering | None = None
        """Where the MSMs go that `CudaBackend.repeated_points` records."""

    def prepare(self, curve: Curve, group: Group) -> None:
        """Begin to compile everything that `load_points` and `msm` need in the background."""
        for source in (
            self._accumulate_source(curve, group),
            self._buckets_source(curve, group),
            self._sort_source(curve),
            group_source("point_batch", curve, group),
            self._pairs_source(curve, group),
        ):
            self.device.prepare(source)

    # -- tables -----------------------------------------------------------------------------------------------------

    def _load_points(
        self, curve: Curve, group: Group, points: Array | PointSlices, memory: int | None
    ) -> CudaPointTable:
        """Upload points and compute as many multiples as `memory` bytes hold. None allows a quarter of what is free, or
        what the points alone take if that is more.

        `points` is (n, point_limbs) uint64 or (n, 8 * point_limbs) uint8, affine in Montgomery form, infinity all zero.
        Points that are on the device already are used in place, where their table has no multiples.
        Raises SizeError if the kernels' indices cannot count them, OutOfMemory.
        """
        limbs, n = curve.point_limbs(group), len(points)
        on_device = not isinstance(points, (np.ndarray, PointSlices))
        if memory is None:
            free = self.device.memory_free()
            memory = max(free // 4, 8 * limbs * n if on_device else min(free, 8 * limbs * n))
        plan = plan_windows(curve, group, n, memory, self.profile)
        self.prepare(curve, group)
        if on_device and plan.multiples == 1:
            return CudaPointTable(curve, group, n, 8 * limbs * n, plan, points)
        table = self.device.empty((plan.multiples * n, limbs))
        for begin, rows in _slices(points, n):
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

    def _stream_points(self, curve: Curve, group: Group, points: Array) -> StreamedPoints:
        """Points for `msm` that stay in page-locked host memory: `points` themselves, or a copy of them."""
        self.prepare(curve, group)
        if points.dtype == np.uint8:
            points = self.device.locked(points).view(np.uint64)
        return StreamedPoints(curve, group, self.device.locked(points))

    def table_bytes(self, curve: Curve, group: Group, n: int, memory: int) -> int:
        return plan_windows(curve, group, n, memory, self.profile).multiples * n * 8 * curve.point_limbs(group)

    def msm_scratch(
        self, curve: Curve, group: Group, n: int, *, memory: int | None = None, streamed: bool = False
    ) -> int:
        """Predict the bytes of scratch of `msm` with n scalars.

        Counts the entries of a chunk twice, for the sort's passes, or once beside the affine rounds of a slice; and
        XYZZ sums: one for each bucket, those that go to the host, and either two for each thread of the accumulation or
        some two for each thread of the reduction. Counters are too small to count.
        """
        if n == 0:
            return 0
        point_bytes = 8 * curve.point_limbs(group)
        if streamed:
            plan, cut = self._plan_streamed(curve, group, n)
            here = 2 * point_bytes * max(end - begin for begin, end in bounds(n, self._slice_points(point_bytes)))
            return self._scratch_bytes(curve, group, plan, cut, plan.sets, here)
        most = 0
        for allowed in (point_bytes * n, self.device.memory_free()) if memory is None else (memory,):
            try:
                plan = plan_windows(curve, group, n, allowed, self.profile)
            except OutOfMemory:
                continue
            cut = self._cut(curve, group, plan, n)
            most = max(most, self._scratch_bytes(curve, group, plan, cut, cut.sets))
        return most

    def _scratch_bytes(self, curve: Curve, group: Group, plan: WindowPlan, cut: Cut, sets: int, points: int = 0) -> int:
        """Bytes of an MSM with so many sets of buckets at a time, whose chunks are cut so, beside `points` bytes of
        points."""
        device, profile = self.device, self.profile
        point_bytes, sum_bytes = 8 * curve.point_limbs(group), 8 * sum_limbs(curve, group)
        threads = device.sm_count * accumulate_blocks(curve, group) * profile.accumulate_block
        records = 2 * min(threads, -(-cut.entries // self._least_segment(cut.entries)) + profile.accumulate_block)
        shape = self._reduce_shape(plan, sets)
        affine = profile.affine_for(curve, group)
        together = device.sm_count * affine.blocks * profile.pairs_block
        products = cut.rounds and together * affine.pairs * point_bytes // 2
        listed = ENTRY_BYTES * cut.entries + max(ENTRY_BYTES * cut.entries, cut.rounds_bytes(point_bytes) + products)
        adding = points + listed + sum_bytes * records
        partial = shape.parts if shape.blocks > 1 else 0
        reducing = sum_bytes * sets * shape.blocks * (2 * profile.reduce_block + partial)
        return sum_bytes * (sets * plan.buckets_per_set + plan.sets * shape.width) + max(adding, reducing)

    def _slice_points(self, point_bytes: int) -> int:
        """The most streamed points that are brought to the device at a time."""
        fitting = self.device.info().memory_budget // SCRATCH_PART // point_bytes
        return max(1, min(self.profile.stream_points, fitting))

    def _plan_streamed(self, curve: Curve, group: Group, n: int) -> tuple[WindowPlan, Cut]:
        """The windows of an MSM of n streamed points, whose buckets are all there at a time, and the cut of its largest
        slice."""
        point_bytes, budget = 8 * curve.point_limbs(group), self.device.info().memory_budget
        buckets = budget // SCRATCH_PART // (8 * sum_limbs(curve, group))
        plan = plan_windows(curve, group, n, n * point_bytes, self.profile, buckets=buckets)
        return plan, self._cut(curve, group, plan, min(n, self._slice_points(point_bytes)))

    # -- sums -------------------------------------------------------------------------------------------------------

    def _repeat(self, table: CudaTable, count: int, start: int) -> None:
        """Record the MSM, where that takes little of what is free. The MSMs of a proof then run beside each other, each
        on a stream of its own; the host queues each by one call instead of some twelve."""
        device = self.device
        if isinstance(table, StreamedPoints):
            return
        scratch = self.msm_scratch(table.curve, table.group, count, memory=table.nbytes)
        if scratch > device.memory_free() // RECORDED_SHARE:
            return
        scalars = device.zeros((count, table.curve.fr.limbs))
        self._sums(table, scalars, start)  # loads the kernels, which a recording must find there
        recording, left = device.record([scalars], lambda: self._sums(table, scalars, start, host_waits=False))
        table.recorded[count, start] = recording, left

    def _msm(self, table: CudaTable, scalars: Array, start: int) -> Pending:
        if isinstance(table, StreamedPoints):
            return self._fetched(self._streamed_sums(table, scalars, start))
        if self.gathering is not None:
            return self._gathered(self.gathering, table, scalars, start)
        recorded = table.recorded.get((scalars.shape[0], start))
        if recorded is None:
            return self._fetched(self._sums(table, scalars, start))
        recording, left = recorded
        return self._fetched(left, recording.replay([scalars]))

    def _fetched(self, left: SetSums, stream: Stream | None = None) -> FetchedPoint:
        return FetchedPoint(FetchedSums(left.joining, self.device.fetch(left.sums, stream)))

    def _left(self, table: CudaTable, plan: WindowPlan, shape: ReduceShape) -> LeftSums:
        words = sum_limbs(table.curve, table.group)
        return LeftSums(table.curve, table.group, plan.sets * shape.width * words, shape.terms(plan, words))

    def _gathered(self, gathering: Gathering, table: CudaPointTable, scalars: Array, start: int) -> GatheredPoint:
        """Record the MSM as a branch, or do it once, which loads its kernels and counts its sums."""
        cut = self._cut(table.curve, table.group, table.plan, scalars.shape[0])
        shape = self._reduce_shape(table.plan, cut.sets)
        point, out = gathering.place(self._left(table, table.plan, shape), scalars)
        if out is None:
            self._sums(table, scalars, start, host_waits=False)
        else:
            with self.device.branch():
                self._sums(table, scalars, start, host_waits=False, out=out)
        return point

    def _sums(
        self, table: CudaPointTable, scalars: Array, start: int, host_waits: bool = True, out: Array | None = None
    ) -> SetSums:
        """Queue the MSM. `host_waits`: whether the host may wait for the number of entries. Its sums go to the words of
        `out`, if it is given."""
        device, words, n = self.device, sum_limbs(table.curve, table.group), scalars.shape[0]
        cut = self._cut(table.curve, table.group, table.plan, n)
        if host_waits and table.plan.sets > 1 and n >= self.profile.classified_points:
            plan, cut = self._plan_for(table, scalars, cut)
            table = replace(table, plan=plan)
        plan = table.plan
        shape = self._reduce_shape(plan, cut.sets)
        if out is None:
            out = device.empty((plan.sets * shape.width * words,))
        sums = out.reshape(plan.sets, shape.width, words)
        for first_set in range(0, plan.sets, cut.sets):
            sets = min(cut.sets, plan.sets - first_set)
            buckets = device.zeros((sets * plan.buckets_per_set, words))
            for begin in range(0, n, cut.points):
                chunk = scalars[begin : begin + cut.points]
                in_sets = range(first_set, first_set + sets)
                self._add_chunk(table, cut, chunk, start + begin, in_sets, buckets, host_waits)
            self._weighted_sums(table.curve, table.group, shape, buckets, sums[first_set : first_set + sets])
            del buckets  # before the next ones are taken
        return SetSums(Joining([self._left(table, plan, shape)]), sums)

    def _plan_for(self, table: CudaPointTable, scalars: Array, planned: Cut) -> tuple[WindowPlan, Cut]:
        """Choose windows by how wide the scalars are, of which most of a witness can be 0 or 1.

        The table's windows are for scalars of full width. Few of these want fewer buckets, in smaller windows, for
        which the table holds the points themselves: its first rows. Nothing is chosen that takes more scratch than
        what `msm_scratch` predicts for the table.
        """
        device, profile, curve, group = self.device, self.profile, table.curve, table.group
        n, budget = scalars.shape[0], device.info().memory_budget
        classes = device.zeros((SMALL_CLASS + 1 + WORD_CLASSES,), np.uint32)
        blocks = min(4 * device.sm_count, -(-n // SORT_BLOCK))
        args = (scalars, np.uint32(n), classes)
        device.kernel(self._sort_source(curve), "msm_classify").launch(blocks, SORT_BLOCK, args)
        found = device.fetch(classes).result()
        most = self._scratch_bytes(curve, group, table.plan, planned, planned.sets)
        best = _cost(table.plan, most_digits(found, table.plan), profile), table.plan, planned
        windows = {bits: -(-curve.fr.bits // bits) for bits in range(SMALL_BITS, MAX_WINDOW_BITS + 1)}
        for plan in (table.plan, *(WindowPlan(bits, count, 1, count) for bits, count in windows.items())):
            if plan.buckets > MAX_BUCKETS:
                continue
            digits = most_digits(found, plan)
            cut = Cut.of(curve, group, plan, n, profile, budget, digits)
            cost, whole = _cost(plan, digits, profile), cut.sets == plan.sets and cut.points == n
            if whole and self._scratch_bytes(curve, group, plan, cut, cut.sets) <= most and cost <= best[0]:
                best = cost, plan, cut
        return best[1:]

    def _streamed_sums(self, streamed: StreamedPoints, scalars: Array, start: int) -> SetSums:
        """As `_sums`, while slices of the points pass through the device's memory."""
        device, curve, group = self.device, streamed.curve, streamed.group
        points = streamed.points[start : start + scalars.shape[0]]
        plan, cut = self._plan_streamed(curve, group, len(points))
        shape, words = self._reduce_shape(plan, plan.sets), sum_limbs(curve, group)
        sums = device.empty((plan.sets, shape.width, words))
        buckets = device.zeros((plan.buckets, words))
        each = plan.buckets_per_set
        for first, here in brought(device, points, self._slice_points(8 * curve.point_limbs(group))):
            table = CudaPointTable(curve, group, len(here), int(here.nbytes), plan, here)
            for begin in range(0, len(here), cut.points):
                chunk = scalars[first + begin : first + min(begin + cut.points, len(here))]
                for low in range(0, plan.sets, cut.sets):
                    sets = range(low, min(low + cut.sets, plan.sets))
                    part = buckets[sets.start * each : sets.stop * each]
                    self._add_chunk(table, cut, chunk, begin, sets, part, host_waits=True)
            del here, table  # before the slices' memory is used again
        self._weighted_sums(curve, group, shape, buckets, sums)
        return SetSums(Joining([self._left(streamed, plan, shape)]), sums)

    def _cut(self, curve: Curve, group: Group, plan: WindowPlan, n: int) -> Cut:
        return Cut.of(curve, group, plan, n, self.profile, self.device.info().memory_budget)

    def _add_chunk(
        self,
        table: CudaPointTable,
        cut: Cut,
        scalars: Array,
        start: int,
        sets: range,
        buckets: Array,
        host_waits: bool,
    ) -> None:
        """Add the points of some scalars, and of their digits in these sets, to the buckets of these sets.

        Of a large chunk the host waits for the number of its entries: where most scalars are 0 or 1 they are a small
        part of what there could be, and want fewer rounds of fewer slices.
        """
        entries, entry_count = self.sorted_entries(table, scalars, start, sets, cut.entries)
        count, rounds = len(entries), cut.rounds
        if host_waits and rounds and count >= self.profile.counted_entries:
            count = int(self.device.fetch(entry_count).result()[0])
            if count == 0:
                return
            rounds = min(rounds, self.profile.rounds_for(table.curve, table.group, count, cut.buckets))
        if not rounds:
            self._accumulate(table, table.points, entries, entry_count, count, buckets)
            return
        for first in range(0, count, cut.slice_entries):
            some = min(cut.slice_entries, count - first)
            points, left, left_count, most = self._pair_round(
                table, cut, table.points, entries, entry_count, first, some
            )
            for _ in range(1, rounds):
                points, left, left_count, most = self._pair_round(table, cut, points, left, left_count, 0, most)
            self._accumulate(table, points, left, left_count, most, buckets)
            del points, left, left_count  # before the next slice takes its own

    def sorted_entries(
        self,
        table: CudaPointTable,
        scalars: Array,
        start: int,
        sets: range | None = None,
        known: int | None = None,
    ) -> tuple[Array, Array]:
        """Return the entries (bucket, point and sign) of these sets of buckets (None: of all), sorted, (most, 2)
        uint32, and the count used, (1,) uint32. There must be at most `known` entries, if that is given."""
        device, plan = self.device, table.plan
        source = self._sort_source(table.curve)
        m = scalars.shape[0]
        sets = range(plan.sets) if sets is None else sets
        digits = min(plan.multiples * len(sets), plan.windows)
        key_bits = (len(sets) * plan.buckets_per_set - 1).bit_length()
        passes = -(-key_bits // self.profile.bin_bits)
        # the first pass, over digits, has the fewest bits
        widths = [(key_bits + index) // passes for index in range(passes)]
        blocks = min(device.sm_count * self.profile.sort_blocks_per_sm, -(-m // 32))
        most = m * digits if known is None else min(m * digits, known)
        room = self.profile.digit_shared // ENTRY_BYTES
        # Twice as much room as for what most tiles have, where most scalars have no digits; at least what any tile has,
        # where they have all.
        tile = max(room // digits, min(room * m // (2 * most), MAX_COUNT // digits))
        tile = min(tile, -(-m // blocks))
        tile -= tile % SORT_BLOCK if tile > SORT_BLOCK else 0
        room = min(room, tile * digits)
        counts = device.empty((blocks << widths[-1],), np.uint32)
        totals = device.empty((1 << widths[-1],), np.uint32)
        entry_count = device.empty((1,), np.uint32)
        entries = device.empty((most, 2), np.uint32)
        other = device.empty((most, 2), np.uint32) if passes > 1 else entries

        def launch(name: str, grid: int, *args: object, shared: int = 0) -> None:
            device.kernel(source, name).launch(grid, SORT_BLOCK, args, shared=shared)

        def scan(bins: int) -> None:
            rows = -(-bins // (SORT_BLOCK // 32))
            launch("msm_scan_rows", rows, counts, np.uint32(bins), np.uint32(blocks), totals)

        bins = np.uint32(1 << widths[0])
        tile_counts = device.empty((-(-m // tile), 1 << widths[0]), np.uint16)
        windows, places = self._windows(plan, sets), (bins, np.uint32(tile), counts, tile_counts)
        launch("msm_count_digits", blocks, scalars, np.uint32(m), windows, *places)
        scan(1 << widths[0])
        points = (np.uint32(start), np.uint32(table.n))
        args = (scalars, np.uint32(m), *points, windows, *places, np.uint32(room), totals, entries, entry_count)
        launch("msm_scatter_digits", blocks, *args, shared=(12 << widths[0]) + ENTRY_BYTES * room)
        low = widths[0]
        for width in widths[1:]:
            shift = np.uint32(low)
            launch("msm_count_entries", blocks, entries, entry_count, shift, np.uint32(1 << width), counts)
            scan(1 << width)
            shared = (12 << width) + 8 * self.profile.sort_items * SORT_BLOCK + (SORT_BLOCK // 16 << width)
            ranks = (shift, np.uint32(width), counts, totals)
            launch("msm_scatter_entries", blocks, entries, entry_count, *ranks, other, shared=shared)
            entries, other = other, entries
            low += width
        return entries, entry_count

    @staticmethod
    def _windows(plan: WindowPlan, sets: range) -> ByValue:
        """`Windows` of msm_sort.cu: the windows of `plan` that these sets of buckets sum."""
        bits, halves = plan.window_bits, 0
        for window in range(plan.windows - 1):
            halves |= 1 << (bits * window + bits - 1)
        words = np.frombuffer(halves.to_bytes(32, "little"), np.uint32)
        return ByValue(np.array([bits, plan.windows, plan.sets, sets.start, len(sets), *words], np.uint32))

    def _pair_round(
        self, table: CudaPointTable, cut: Cut, points: Array, entries: Array, entry_count: Array, first: int, some: int
    ) -> tuple[Array, Array, Array, int]:
        """Add the points of `some` entries from `first` on two by two, where they are of one bucket. Returns the points
        that remain, their entries, how many there are, and how many at most."""
        device, profile, curve, group = self.device, self.profile, table.curve, table.group
        source = self._pairs_source(curve, group)
        pairs, most = -(-some // 2), cut.left(some)
        blocks = min(device.sm_count * profile.sort_blocks_per_sm, -(-pairs // PLACE_BLOCK))
        doubled = device.empty((blocks * PLACE_BLOCK // 32,), np.uint32)
        places = device.empty((pairs,), np.uint32)
        left_entries = device.empty((most, 2), np.uint32)
        left_count = device.empty((1,), np.uint32)
        part = (entries, entry_count, np.uint32(first), np.uint32(some))
        device.kernel(source, "msm_count_pairs").launch(blocks, PLACE_BLOCK, (*part, doubled))
        place = device.kernel(source, "msm_place_pairs")
        place.launch(blocks, PLACE_BLOCK, (*part, doubled, places, left_entries, left_count))

        add, block = device.kernel(source, "msm_add_pairs"), profile.pairs_block
        grid = min(device.sm_count * add.blocks_per_sm(block), -(-pairs // (block * profile.pairs_fewest)))
        together = profile.affine_for(curve, group).pairs
        products = device.empty((grid * block * together, curve.point_limbs(group) // 2))
        left = device.empty((most, curve.point_limbs(group)))
        bounds = (np.uint32(profile.pairs_fewest), np.uint32(together))
        add.launch(grid, block, (points, *part, places, *bounds, products, left))
        return left, left_entries, left_count, most

    def _accumulate(
        self, table: CudaPointTable, points: Array, entries: Array, entry_count: Array, most: int, buckets: Array
    ) -> None:
        """Add the points of sorted entries to the XYZZ sums of the buckets; `most` bounds the number of entries."""
        device, profile, curve, group = self.device, self.profile, table.curve, table.group
        words = sum_limbs(curve, group)
        accumulate = device.kernel(self._accumulate_source(curve, group), "msm_accumulate")
        block = profile.accumulate_block
        wave = device.sm_count * accumulate.blocks_per_sm(block)
        segment = self._least_segment(most)
        grid = min(wave, -(-most // (block * segment)))
        count = 2 * grid * block
        keys, records = device.empty((count,), np.uint32), device.empty((count, words))
        accumulate.launch(grid, block, (points, entries, entry_count, np.uint32(segment), buckets, keys, records))

        merge = device.kernel(self._buckets_source(curve, group), "msm_merge")
        while True:
            blocks = -(-count // profile.merge_block)
            keys_out, records_out = device.empty((2 * blocks,), np.uint32), device.empty((2 * blocks, words))
            merge.launch(blocks, profile.merge_block, (keys, records, np.uint32(count), buckets, keys_out, records_out))
            if blocks == 1:
                return
            keys, records, count = keys_out, records_out, 2 * blocks

    def _least_segment(self, entries: int) -> int:
        """The fewest entries of a thread of msm_accumulate, where there are so many."""
        profile = self.profile
        spread = -(-entries // (self.device.sm_count * profile.accumulate_block))
        return min(profile.min_segment, max(profile.least_segment, spread))

    def _weighted_sums(self, curve: Curve, group: Group, shape: ReduceShape, buckets: Array, sums: Array) -> None:
        """Write the XYZZ sums that the weighted sum of each set's buckets is made of to `sums`, (sets, width,
        sum_limbs)."""
        device, source, block = self.device, self._buckets_source(curve, group), self.profile.reduce_block
        threads = self.profile.reduce_threads
        (sets, width, words), blocks = sums.shape, shape.blocks
        partial = device.empty((sets * shape.parts * blocks, words)) if blocks > 1 else sums
        scratch = device.empty((2 * sets * blocks * block, words))
        each = np.uint32(len(buckets) // sets)
        reduce = device.kernel(source, "msm_reduce")
        reduce.launch((blocks, sets), threads, (buckets, each, np.uint32(shape.log_chunk), scratch, partial))
        if blocks > 1:
            fold = device.kernel(source, "msm_sum")
            fold.launch((shape.parts, sets), threads, (partial, np.uint32(blocks), np.uint32(width), sums))

    def _reduce_shape(self, plan: WindowPlan, sets: int) -> ReduceShape:
        """How weighted sums are taken apart, where there are so many sets at a time."""
        block = self.profile.reduce_block
        most, log_chunk = self.device.sm_count * self.profile.reduce_sums_per_sm, 0
        while sets * plan.buckets_per_set >> log_chunk > most and plan.buckets_per_set >> log_chunk > block:
            log_chunk += 1
        blocks = max(1, (plan.buckets_per_set >> log_chunk) // block)
        return ReduceShape(log_chunk, blocks, block.bit_length() + 1)

    def _sort_source(self, curve: Curve) -> KernelSource:
        profile = self.profile
        shape = ("SORT_ITEMS", profile.sort_items), ("SORT_BLOCKS", profile.sort_blocks_per_sm)
        return curve_source("msm_sort", curve, *shape)

    def _pairs_source(self, curve: Curve, group: Group) -> KernelSource:
        profile = self.profile
        shape = ("PAIRS_BLOCK", profile.pairs_block), ("PAIRS_BLOCKS", profile.affine_for(curve, group).blocks)
        return group_source("msm_pairs", curve, group, *shape, _product_calls(group))

    def _accumulate_source(self, curve: Curve, group: Group) -> KernelSource:
        profile = self.profile
        shape = ("ACCUMULATE_BLOCK", profile.accumulate_block), ("ACCUMULATE_BLOCKS", accumulate_blocks(curve, group))
        return group_source("msm_accumulate", curve, group, *shape, _product_calls(group))

    def _buckets_source(self, curve: Curve, group: Group) -> KernelSource:
        profile = self.profile
        reduce = ("REDUCE_BLOCK", profile.reduce_block), ("REDUCE_THREADS", profile.reduce_threads)
        return group_source("msm_buckets", curve, group, ("MERGE_BLOCK", profile.merge_block), *reduce)
