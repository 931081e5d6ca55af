"""The MSM and fixed-base kernels, run on the host: their passes, edges and bookkeeping at small sizes."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kernels.cuda import groups as cuda_groups
from kernels.cuda.backend import CudaBackend
from kernels.cuda.groups import CudaGroups, base_table
from kernels.cuda.msm import (
    SMALL_CLASS,
    SORT_BLOCK,
    WORD_CLASSES,
    CudaPointTable,
    Cut,
    MsmProfile,
    WindowPlan,
    most_digits,
    plan_windows,
)
from kernels.cuda.points import group_source, normalise, sum_limbs
from kernels.cuda.streamed import bounds
from kernels.errors import OutOfMemory, SizeError
from kernels.interface.arrays import Array, Pending
from kernels.interface.groups import PointSlices
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from kernels.maths.encoding import Words, generator, scalars_from_ints
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.groups import multiple_of_generator

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

GROUPS = [(curve, group) for curve in CURVES for group in Group]
IDS = [f"{curve.name}-{group.value}" for curve, group in GROUPS]

SMALL = MsmProfile(
    window_bits=6,
    bin_bits=3,
    digit_shared=16 * 43 * 8,
    sort_blocks_per_sm=1,
    chunk_entries=1500,
    affine_rounds=2,
    slice_entries=1200,
    pairs_block=32,
    pairs_most=2,
    pairs_fewest=2,
    min_segment=3,
    least_segment=3,
    accumulate_block=32,
    merge_block=32,
    reduce_block=32,
    reduce_threads=64,
)
"""Small enough that a few hundred entries need several passes, segments, merge levels and reduction blocks, and several
turns of a thread in an affine round; larger tests need several chunks and slices."""


MOST = 80
"""The most points of a test."""


@cache
def device() -> EmulatedDevice:
    return EmulatedDevice()


@cache
def known_points(curve: Curve, group: Group) -> tuple[list[int], Words]:
    """MOST points with their logarithms: infinity, random ones and their opposites, each several times over."""
    rng = random.Random(1)
    logs = [0]
    for _ in range(6):
        log = rng.randrange(curve.fr.modulus)
        logs += [log, curve.fr.modulus - log]
    points = np.stack([multiple_of_generator(curve, group, log) for log in logs])
    chosen = [rng.randrange(len(logs)) for _ in range(MOST)]
    return [logs[i] for i in chosen], points[chosen]


def check(
    curve: Curve,
    group: Group,
    profile: MsmProfile,
    scalars: list[int],
    *,
    memory: int = 1 << 30,
    start: int = 0,
    on: EmulatedDevice | None = None,
) -> None:
    logs, points = known_points(curve, group)
    n, on = start + len(scalars), on or device()
    groups = CudaGroups(on, profile)
    table = groups.load_points(curve, group, points[:n], memory=memory)
    result = groups.msm(table, on.upload(scalars_from_ints(curve.fr, scalars)), start=start).result()
    total = sum(s * k for s, k in zip(scalars, logs[start:n], strict=True))
    assert np.array_equal(result, multiple_of_generator(curve, group, total))


QUADS = """
#define DP_OUTLINE_PRODUCTS
#include "quads.h"
using namespace dp;
extern "C" __global__ void add_neighbours(Sum* sums, u32 count) {
  add_pairs(sums, count, [](u32 i) { return make_uint2(2 * i, 2 * i + 1); });
}
"""


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_four_lanes_add_any_two_sums(curve: Curve, group: Group) -> None:
    """Infinity, equal and opposite points, each with both forms of a sum; in three turns, the last with idle lanes."""
    logs = [0, 6, curve.fr.modulus - 6, 10]
    double = device().kernel(group_source("point_batch", curve, group), "point_double")
    forms = []
    for doublings in (0, 1):  # zz is one, and is not
        halves = [log * pow(2, -doublings, curve.fr.modulus) for log in logs]
        points = np.stack([multiple_of_generator(curve, group, log) for log in halves])
        sums = device().empty((len(logs), sum_limbs(curve, group)))
        double.launch_items(len(logs), (points, np.uint32(len(logs)), np.uint32(doublings), sums))
        forms += list(zip(logs, sums, strict=True))
    pairs = [(a, b) for a in forms for b in forms][:61]
    sums = device().empty((2 * len(pairs), sum_limbs(curve, group)))
    sums[...] = np.stack([words for pair in pairs for _, words in pair])
    source = replace(group_source("quads", curve, group), text=QUADS)
    device().kernel(source, "add_neighbours").launch(1, 96, (sums, np.uint32(len(pairs))))
    out = device().empty((len(pairs), curve.point_limbs(group)))
    normalise(device(), curve, group, np.ascontiguousarray(sums[::2]), out)
    for ((a, _), (b, kept)), point, second in zip(pairs, out, sums[1::2], strict=True):
        assert np.array_equal(point, multiple_of_generator(curve, group, (a + b) % curve.fr.modulus))
        assert np.array_equal(second, kept)


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_a_recorded_msm_gives_the_sum_of_what_it_is_given(curve: Curve, group: Group) -> None:
    """Three inputs in turn, whose results are asked for afterwards; the last one is shorter, and not recorded."""
    logs, points = known_points(curve, group)
    rng, groups = random.Random(7), CudaGroups(device(), SMALL)
    table = groups.load_points(curve, group, points[:40])
    groups.repeat(table, 36, start=4)
    before = device().did["replay"]
    given = [[rng.randrange(curve.fr.modulus) for _ in range(36)], [0] * 36, [rng.randrange(2) for _ in range(30)]]
    sums = [groups.msm(table, device().upload(scalars_from_ints(curve.fr, scalars)), start=4) for scalars in given]
    assert device().did["replay"] == before + 2
    for scalars, found in zip(given, sums, strict=True):
        total = sum(s * k for s, k in zip(scalars, logs[4:], strict=False))
        assert np.array_equal(found.result(), multiple_of_generator(curve, group, total))


def recorded_together(overwrite: bool) -> bool:
    """Whether sums of two inputs that are recorded as one piece are right. The last one is of what is computed between;
    with `overwrite` the scalars of the others are written meanwhile, which must not be."""
    curve, rng = BN254, random.Random(9)
    backend = CudaBackend(EmulatedDevice(), msm_profile=SMALL)
    logs = {group: known_points(curve, group)[0][:40] for group in Group}
    tables = {group: backend.groups.load_points(curve, group, known_points(curve, group)[1][:40]) for group in Group}

    def work(given: Array) -> list[Pending]:
        scalars = backend.vectors.add(curve.fr, given, given)
        points = [backend.groups.msm(table, scalars) for table in tables.values()]
        more = backend.vectors.add(curve.fr, scalars, given, out=scalars if overwrite else None)
        return [*points, backend.groups.msm(tables[Group.G1], more), backend.groups.msm(tables[Group.G1], more[:0])]

    repeated = backend.repeated_points(work, [(40, 4)])
    assert repeated is not None
    assert isinstance(backend.device, EmulatedDevice)
    done = backend.device.did.copy()
    given = [[rng.randrange(curve.fr.modulus) for _ in range(40)] for _ in range(3)]
    pending = [repeated(backend.to_device(scalars_from_ints(curve.fr, scalars))) for scalars in given]
    assert {name: backend.device.did[name] - done[name] for name in ("replay", "download")} == dict.fromkeys(
        ("replay", "download"), 3
    )
    right = True
    for scalars, points in zip(given, pending, strict=True):
        for (group, times), point in zip(((Group.G1, 2), (Group.G2, 2), (Group.G1, 3)), points[:3], strict=True):
            total = times * sum(s * k for s, k in zip(scalars, logs[group], strict=True))
            right &= np.array_equal(point.result(), multiple_of_generator(curve, group, total))
        assert not points[3].result().any()
    return right


def test_msms_are_recorded_together_with_what_is_computed_between() -> None:
    assert recorded_together(overwrite=False)


def test_scalars_that_are_overwritten_beside_their_msm_are_seen() -> None:
    """What the test above would not see if the emulated device ran branches early."""
    assert not recorded_together(overwrite=True)


def test_an_msm_is_recorded_where_its_scratch_is_little() -> None:
    _, points = known_points(BN254, Group.G1)
    for budget, recorded in ((1 << 20, False), (1 << 30, True)):
        small = EmulatedDevice(budget=budget)
        groups = CudaGroups(small, SMALL)
        table = groups.load_points(BN254, Group.G1, points[:40])
        groups.repeat(table, 40)
        groups.msm(table, small.upload(scalars_from_ints(BN254.fr, range(40)))).result()
        assert small.did["replay"] == recorded
    with pytest.raises(SizeError, match="41 scalars"):
        groups.repeat(table, 41)


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_fixed_base_table(curve: Curve, group: Group) -> None:
    """The first entries of the table; all of it is the slow part of the emulation, and test_fixed_base_edges has it."""
    sums, points = device().empty((32, sum_limbs(curve, group))), device().empty((32, curve.point_limbs(group)))
    base = device().upload(generator(curve, group))
    device().kernel(group_source("fixed_base", curve, group), "fixed_base_table").launch(1, 32, (base, sums))
    normalise(device(), curve, group, sums, points)
    for k in (0, 1, 2, 31):
        assert np.array_equal(points[k], multiple_of_generator(curve, group, k))


def test_fixed_base_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_groups, "base_table", lambda *_: edge_table())
    monkeypatch.setattr(cuda_groups, "BATCH", 3)
    rng = random.Random(13)
    logs = [rng.randrange(BN254.fr.modulus) for _ in range(7)]
    scalars = device().upload(scalars_from_ints(BN254.fr, logs))
    points = CudaGroups(device()).fixed_base(BN254, Group.G1, generator(BN254, Group.G1), scalars)
    for log, point in zip(logs, points, strict=True):
        assert np.array_equal(point, multiple_of_generator(BN254, Group.G1, log))


@pytest.mark.parametrize("scalar", [0, 1, 2, 255, 256, 1 << 248, BN254.fr.modulus - 1, (1 << 256) - 1])
def test_fixed_base_edges(scalar: int) -> None:
    """Any 256-bit integer is a scalar; the table is the slow part here, so one curve and few points."""
    scalars = device().upload(np.frombuffer(scalar.to_bytes(32, "little"), dtype=np.uint64).reshape(1, 4))
    table = edge_table()
    sums, out = device().empty((1, 16)), device().empty((1, 8))
    source = group_source("fixed_base", BN254, Group.G1)
    device().kernel(source, "fixed_base_multiply").launch_items(1, (table, scalars, np.uint32(1), sums))
    normalise(device(), BN254, Group.G1, sums, out)
    assert np.array_equal(out[0], multiple_of_generator(BN254, Group.G1, scalar))


@cache
def edge_table() -> Words:
    """The table that fixed_base makes of G1's generator."""
    return base_table(device(), BN254, Group.G1, generator(BN254, Group.G1))


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_random_scalars(curve: Curve, group: Group) -> None:
    rng = random.Random(5)
    check(curve, group, SMALL, [rng.randrange(curve.fr.modulus) for _ in range(24)])


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize(
    "pattern", ["zeros", "ones", "minus one", "same", "small", "bits", "halves", "one of many", "window edges"]
)
def test_patterns(curve: Curve, pattern: str) -> None:
    r, rng, n = curve.fr.modulus, random.Random(7), 60
    scalars = {
        "zeros": [0] * n,
        "ones": [1] * n,
        "minus one": [r - 1] * n,
        "same": [rng.randrange(r)] * n,
        "small": [rng.randrange(1000) for _ in range(n)],
        "bits": [rng.randrange(2) if i % 10 else rng.randrange(r) for i in range(n)],
        "halves": [(r - 1) // 2 + i % 3 for i in range(n)],
        "one of many": [0] * (n - 1) + [rng.randrange(r)],
        "window edges": [sum(32 << (6 * w) for w in range(i % 41)) + i % 3 for i in range(n)],
    }[pattern]
    check(curve, Group.G1, SMALL, scalars)


@pytest.mark.parametrize("n", [0, 1, 2, 31, 33])
def test_sizes(n: int) -> None:
    rng = random.Random(n)
    check(BN254, Group.G1, SMALL, [rng.randrange(BN254.fr.modulus) for _ in range(n)], start=7)


def test_windows_of_the_default_profile() -> None:
    rng = random.Random(6)
    check(BN254, Group.G1, MsmProfile(), [rng.randrange(BN254.fr.modulus) for _ in range(3)])


@pytest.mark.parametrize("multiples", [1, 2, 3, 20])
def test_tables_of_few_multiples(multiples: int) -> None:
    """Less memory, more sets of buckets, the same sum; the last set may have fewer windows than the others."""
    rng = random.Random(multiples)
    n, curve = 20, BLS12_381
    memory = multiples * n * 8 * curve.point_limbs(Group.G1)
    check(curve, Group.G1, SMALL, [rng.randrange(curve.fr.modulus) for _ in range(n)], memory=memory)


@pytest.mark.parametrize(("window_bits", "bin_bits"), [(4, 1), (3, 11), (8, 4), (11, 5), (12, 11)])
def test_windows_and_radix_passes(window_bits: int, bin_bits: int) -> None:
    rng = random.Random(window_bits)
    profile = MsmProfile(
        window_bits=window_bits, bin_bits=bin_bits, accumulate_block=32, reduce_block=32, merge_block=64
    )
    check(BN254, Group.G1, profile, [rng.randrange(BN254.fr.modulus) for _ in range(24)])


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_affine_rounds_over_cuts_of_sets_and_points(rounds: int) -> None:
    """Chunks of one set and of parts of the points, slices that cut buckets, and as many rounds as leave one entry."""
    rng, curve, n = random.Random(rounds), BN254, 60
    profile = replace(SMALL, affine_rounds=rounds, chunk_entries=300, slice_entries=90)
    scalars = [rng.choice((1, 1 << 6, rng.randrange(curve.fr.modulus))) for _ in range(n)]
    memory = 8 * n * 8 * curve.point_limbs(Group.G1)
    check(curve, Group.G1, profile, scalars, memory=memory, start=20)


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_chunks_whose_entries_are_counted(share: float) -> None:
    """The host learns how many scalars are not zero, and makes as many rounds and slices as these want."""
    rng, curve, n = random.Random(7), BN254, 64
    profile = replace(SMALL, affine_rounds=None, chunk_entries=400, slice_entries=90, counted_entries=1)
    scalars = [rng.randrange(1, curve.fr.modulus) if rng.random() < share else 0 for _ in range(n)]
    check(curve, Group.G1, profile, scalars, memory=8 * n * 8 * curve.point_limbs(Group.G1))
    check(curve, Group.G1, replace(profile, affine_rounds=2), scalars)


WIDTHS = (0, 1, 7, 8, 31, 32, 33, 64, 96, 128, 200, 252, 253)


def edges(curve: Curve, rng: random.Random, n: int) -> list[int]:
    """Scalars of few and of many bits, all ones and powers of two among them, and the negatives of such."""
    magnitudes = (abs((1 << rng.choice(WIDTHS)) - rng.choice((0, 0, 1, rng.getrandbits(5)))) for _ in range(n))
    return [rng.choice((1, -1)) * m % curve.fr.modulus for m in magnitudes]


@pytest.mark.parametrize("multiples", [1, 2])
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_windows_are_chosen_by_the_scalars(curve: Curve, multiples: int) -> None:
    """Scalars of which most are 0 or 1, and of every width, are summed in the windows that were chosen for them."""
    rng, on = random.Random(5), EmulatedDevice()
    profile = replace(SMALL, window_bits=12, classified_points=1, chunk_entries=700 * multiples)
    profile = replace(profile, affine_rounds=None, bit_cost=0.0, pass_cost=0.0)
    memory = multiples * MOST * 8 * curve.point_limbs(Group.G1)
    _, points = known_points(curve, Group.G1)
    groups = CudaGroups(on, profile)
    table = groups.load_points(curve, Group.G1, points, memory=memory)
    for scalars in (
        [1] * MOST,
        [0] * MOST,
        [rng.choice((0, 1, -1 % curve.fr.modulus)) for _ in range(MOST - 4)] + edges(curve, rng, 4),
        edges(curve, rng, MOST),
    ):
        check(curve, Group.G1, profile, scalars, memory=memory)
        words = on.upload(scalars_from_ints(curve.fr, scalars))
        planned = groups._cut(curve, Group.G1, table.plan, MOST)
        plan, cut = groups._plan_for(table, words, planned)
        if max(min(s, curve.fr.modulus - s) for s in scalars) <= 1:
            assert plan.window_bits < table.plan.window_bits or cut.entries < planned.entries
        assert cut.entries >= digits_of(curve, plan, scalars) or cut.sets < plan.sets or cut.points < MOST


def digits_of(curve: Curve, plan: WindowPlan, scalars: list[int]) -> int:
    """How many signed digits of the scalars are not zero."""
    found, half = 0, 1 << (plan.window_bits - 1)
    for scalar in scalars:
        rest = min(scalar, curve.fr.modulus - scalar)
        while rest:
            digit = rest % (2 * half)
            digit -= 2 * half if digit > half else 0
            rest, found = (rest - digit) >> plan.window_bits, found + (digit != 0)
    return found


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
@pytest.mark.parametrize("bits", [8, 9, 11, 15, 16, 17, 20, 22, 24])
def test_no_more_digits_than_counted(curve: Curve, bits: int) -> None:
    """The attack: entries beyond the memory that was taken for them. Every class bounds its widest scalars."""
    plan = WindowPlan(bits, -(-curve.fr.bits // bits), 1, -(-curve.fr.bits // bits))
    for kind in range(WORD_CLASSES + 1):
        most = min(128 if kind == 0 else (1 << 32 * kind) - 1, curve.fr.modulus // 2)
        classes = np.zeros(SMALL_CLASS + 1 + WORD_CLASSES, np.uint32)
        classes[SMALL_CLASS + kind] = 1
        ones = sum(1 << bits * w for w in range(plan.windows))
        for scalar in (
            most,
            *(min(most, k) for k in (ones << bits - 1, (ones << bits - 1) + ones, ones, most // 2 + 1)),
        ):
            for sign in (1, -1):
                assert digits_of(curve, plan, [sign * scalar % curve.fr.modulus]) <= most_digits(classes, plan)


def test_turns_of_a_thread() -> None:
    """Few threads, so that each takes several turns in a round, each with an inversion of its own."""
    rng, curve = random.Random(9), BN254
    profile = replace(SMALL, pairs_most=10, pairs_fewest=1, chunk_entries=1 << 20, slice_entries=1 << 20)
    scalars = [rng.randrange(curve.fr.modulus) for _ in range(70)]
    check(curve, Group.G1, profile, scalars, on=EmulatedDevice(sm_count=1))


def test_scratch_is_what_was_predicted() -> None:
    """The arrays of a sum, counters aside, are those that `msm_scratch` counts, with affine rounds and without."""
    _, points = known_points(BN254, Group.G1)
    for rounds in (0, 2):
        own = EmulatedDevice(budget=1 << 20)
        groups = CudaGroups(own, replace(SMALL, affine_rounds=rounds, chunk_entries=1 << 20, slice_entries=1 << 20))
        table = groups.load_points(BN254, Group.G1, points, memory=points.nbytes)
        scalars = own.upload(scalars_from_ints(BN254.fr, range(1 << 200, (1 << 200) + MOST)))
        own.watch_memory()
        before = own.memory_peak()
        groups.msm(table, scalars).result()
        assert own.memory_peak() - before <= groups.msm_scratch(BN254, Group.G1, MOST) + (8 << 10)


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
@pytest.mark.parametrize("budget", [8 << 30, 139 << 30])
@pytest.mark.parametrize("log_n", [4, 20, 24, 27])
def test_cuts_cover_the_msm_and_fit_the_device(curve: Curve, group: Group, budget: int, log_n: int) -> None:
    n, point_bytes = 1 << log_n, 8 * curve.point_limbs(group)
    for multiples in (1, 3, 100):
        plan = plan_windows(curve, group, n, multiples * n * point_bytes, MsmProfile())
        for rounds in (None, 3):
            profile = MsmProfile(affine_rounds=rounds)
            cut = Cut.of(curve, group, plan, n, profile, budget)
            assert 1 <= cut.sets <= plan.sets
            assert 1 <= cut.points <= n
            assert cut.points == n or cut.sets == 1
            assert cut.entries >= cut.points * min(plan.windows, cut.sets * plan.multiples)
            assert cut.entries <= profile.chunk_entries
            assert cut.slice_entries % 2 == 0
            assert 2 * 8 * cut.entries <= budget // 16
            assert cut.rounds_bytes(point_bytes) <= 2 * budget // 16


@pytest.mark.parametrize(
    ("curve", "group", "log_n", "rounds"),
    [
        (BN254, Group.G1, 20, 0),
        (BN254, Group.G1, 24, 3),
        (BLS12_381, Group.G1, 18, 0),
        (BLS12_381, Group.G1, 20, 3),
        (BLS12_381, Group.G1, 27, 4),
        (BN254, Group.G2, 20, 3),
    ],
)
def test_affine_rounds_are_made_where_they_were_faster(curve: Curve, group: Group, log_n: int, rounds: int) -> None:
    plan = plan_windows(curve, group, 1 << log_n, 32 << 30, MsmProfile())
    assert Cut.of(curve, group, plan, 1 << log_n, MsmProfile(), 139 << 30).rounds == rounds


@pytest.mark.parametrize("ones", [0, 2000])
def test_sort_over_several_tiles(ones: int) -> None:
    """Blocks that take more than one tile in both scatters; the order is that of a stable sort on the key. After many
    ones tiles have more scalars, and the last ones more entries than shared memory has room for."""
    curve, n = BN254, 200 + ones
    rng = random.Random(11)
    narrow = EmulatedDevice(sm_count=1)
    profile = MsmProfile(window_bits=2, bin_bits=1, digit_shared=30 * 127 * 8, sort_blocks_per_sm=1)
    plan = WindowPlan(2, 127, 64, 2)
    table = CudaPointTable(curve, Group.G1, n, 0, plan, narrow.empty((0, 8)))
    scalars = [1] * ones + [rng.randrange(curve.fr.modulus) for _ in range(n - ones)]
    known = ones + 200 * plan.windows if ones else None
    words = narrow.upload(scalars_from_ints(curve.fr, scalars))
    entries, count = CudaGroups(narrow, profile).sorted_entries(table, words, 0, known=known)
    used = entries[: int(count[0])]
    keys, values = used[:, 0], used[:, 1]
    assert len(used) > 2 * profile.sort_items * SORT_BLOCK
    assert np.all(np.diff(keys.astype(np.int64)) >= 0)
    totals = [0] * n
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        multiple, point = divmod(value & 0x7FFFFFFF, n)
        digit = (key % 2 + 1) << (2 * (2 * multiple + key // 2))
        totals[point] += -digit if value >> 31 else digit
    assert [t % curve.fr.modulus for t in totals] == scalars


def test_unaligned_bytes_load_as_words_do() -> None:
    _, points = known_points(BN254, Group.G1)
    points = points[:24]
    raw = np.zeros(points.nbytes + 3, dtype=np.uint8)
    raw[3:] = points.reshape(-1).view(np.uint8)
    msm = CudaGroups(device(), SMALL)
    a = msm.load_points(BN254, Group.G1, points, memory=1 << 30)
    b = msm.load_points(BN254, Group.G1, raw[3:].reshape(24, -1), memory=1 << 30)
    assert np.array_equal(a.points, b.points)


class Slices(PointSlices):
    """Points, and which slices of them were asked for."""

    def __init__(self, points: np.ndarray) -> None:
        self.points, self.asked = points, list[slice]()

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, which: slice) -> np.ndarray:
        self.asked.append(which)
        return self.points[which]


def test_slices_load_as_one_array_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.cuda.msm.UPLOAD_ROWS", 10)
    points = known_points(BN254, Group.G1)[1][:24]
    slices, msm = Slices(points), CudaGroups(device(), SMALL)
    whole = msm.load_points(BN254, Group.G1, points, memory=1 << 30)
    assert np.array_equal(msm.load_points(BN254, Group.G1, slices, memory=1 << 30).points, whole.points)
    assert slices.asked[1:] == [slice(0, 10), slice(10, 20), slice(20, 30)]


def test_normalising_shares_inversions() -> None:
    """More points than threads, infinities among them, each thread's first and last included."""
    curve, group = BN254, Group.G1
    logs, points = known_points(curve, group)
    logs, points = logs[:24], points[:24]
    sums = device().empty((24, sum_limbs(curve, group)))
    double = device().kernel(group_source("point_batch", curve, group), "point_double")
    double.launch_items(24, (points, np.uint32(24), np.uint32(3), sums))
    out = device().empty((24, curve.point_limbs(group)))
    share = device().kernel(group_source("point_batch", curve, group), "point_normalise")
    share.launch_items(5, (sums, np.uint32(24), np.uint32(5), out))
    for log, point in zip(logs, out, strict=True):
        assert np.array_equal(point, multiple_of_generator(curve, group, 8 * log))


def test_refusals() -> None:
    _, points = known_points(BN254, Group.G1)
    points = points[:24]
    msm = CudaGroups(device(), SMALL)
    with pytest.raises(OutOfMemory, match="allowed"):
        msm.load_points(BN254, Group.G1, points, memory=64)
    with pytest.raises(SizeError):
        MsmProfile(window_bits=1)
    with pytest.raises(SizeError, match="whole warps"):
        MsmProfile(reduce_threads=16, reduce_block=16)


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
@pytest.mark.parametrize("log_n", [0, 4, 10, 16, 20, 22, 24])
def test_plans_fit_their_memory_and_the_index(curve: Curve, group: Group, log_n: int) -> None:
    n, point_bytes = 1 << log_n, 8 * curve.point_limbs(group)
    for multiples in (1, 2, 5, 100):
        plan = plan_windows(curve, group, n, multiples * n * point_bytes, MsmProfile())
        assert plan.multiples <= multiples
        assert plan.window_bits * plan.windows >= curve.fr.bits
        assert plan.multiples * plan.sets >= plan.windows
        assert n * plan.multiples <= 1 << 31
    with pytest.raises(SizeError, match="points"):
        plan_windows(curve, group, (1 << 31) + 1, 1 << 60, MsmProfile())


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_streamed_points_give_the_sum_of_resident_ones(curve: Curve, group: Group) -> None:
    """Slices of 2, 8 and 16 points, the last one shorter, with several chunks in each; and a single slice."""
    logs, points = known_points(curve, group)
    rng, own = random.Random(8), EmulatedDevice(budget=16 << 20)
    for most, count, start in ((16, 60, 7), (16, 16, 0), (1, 3, 2)):
        groups = CudaGroups(own, replace(SMALL, chunk_entries=200, stream_points=most))
        table = groups.load_points(curve, group, points, streamed=True)
        free = own.memory_free()
        before = own.traffic.to_device
        scalars = [rng.choice((0, 1, rng.randrange(curve.fr.modulus))) for _ in range(count)]
        on_device = own.upload(scalars_from_ints(curve.fr, scalars))
        own.watch_memory()
        held = own.memory_peak()
        found = groups.msm(table, on_device, start=start).result()
        total = sum(s * k for s, k in zip(scalars, logs[start:], strict=False))
        assert np.array_equal(found, multiple_of_generator(curve, group, total))
        scratch = own.memory_peak() - held
        assert scratch <= groups.msm_scratch(curve, group, count, streamed=True) + (8 << 10)
        assert own.traffic.to_device - before == on_device.nbytes + count * 8 * curve.point_limbs(group)
        del on_device
        assert own.memory_free() == free
    mapped = groups.load_points(curve, group, points.view(np.uint8), streamed=True)
    assert mapped.n == table.n
    assert mapped.nbytes == 0


def test_slices_of_points_grow_to_their_size() -> None:
    assert bounds(60, 16) == [(0, 2), (2, 10), (10, 26), (26, 42), (42, 58), (58, 60)]
    assert bounds(16, 16) == [(0, 16)]
    assert bounds(3, 1) == [(0, 1), (1, 2), (2, 3)]
