"""The MSM and fixed-base kernels, run on the host: their passes, edges and bookkeeping at small sizes."""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
import pytest

from kernels.backend import OutOfMemory, SizeError
from kernels.cuda_fixed_base import fixed_base
from kernels.cuda_group import group_source, sum_limbs
from kernels.cuda_msm import CudaMsm, MsmProfile, plan_windows
from kernels.curves import BLS12_381, BN254, CURVES, Curve, Group
from kernels.encoding import Words, generator, scalars_from_ints
from tests.emulation.device import EmulatedDevice, compiler
from tests.groups import multiple_of_generator

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

GROUPS = [(curve, group) for curve in CURVES for group in Group]
IDS = [f"{curve.name}-{group.value}" for curve, group in GROUPS]

SMALL = MsmProfile(window_bits=5, bin_bits=2, min_segment=3, accumulate_block=32, merge_block=32, reduce_block=32)
"""Small enough that a few hundred entries need several passes, segments, merge levels and reduction blocks."""


@lru_cache(maxsize=None)
def device() -> EmulatedDevice:
    return EmulatedDevice()


@lru_cache(maxsize=None)
def known_points(curve: Curve, group: Group, n: int, seed: int = 1) -> tuple[list[int], Words]:
    """Points with their logarithms: random ones, infinity, equal ones and opposite ones among them."""
    rng = random.Random(seed)
    r = curve.fr.modulus
    logs = [rng.randrange(r) for _ in range(n)]
    for i in range(0, n - 4, 7):
        logs[i : i + 4] = [0, logs[i + 1], logs[i + 1], r - logs[i + 1]]
    scalars = device().upload(scalars_from_ints(curve.fr, logs))
    return logs, fixed_base(device(), curve, group, generator(curve, group), scalars)


def check(curve: Curve, group: Group, profile: MsmProfile, scalars: list[int], memory: int = 1 << 30, n: int = 0) -> None:
    logs, points = known_points(curve, group, n or len(scalars))
    msm = CudaMsm(device(), profile)
    table = msm.load_points(curve, group, points, memory)
    start = len(logs) - len(scalars)
    result = msm.msm(table, device().upload(scalars_from_ints(curve.fr, scalars)), start).result()
    total = sum(s * k for s, k in zip(scalars, logs[start:], strict=True))
    assert np.array_equal(result, multiple_of_generator(curve, group, total))


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_fixed_base_agrees_with_py_ecc(curve: Curve, group: Group) -> None:
    scalars = [0, 1, 2, 255, 256, 1 << 248, curve.fr.modulus - 1, random.Random(3).randrange(curve.fr.modulus)]
    on_device = device().upload(scalars_from_ints(curve.fr, scalars))
    points = fixed_base(device(), curve, group, generator(curve, group), on_device)
    for scalar, point in zip(scalars, points, strict=True):
        assert np.array_equal(point, multiple_of_generator(curve, group, scalar))


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_random_scalars(curve: Curve, group: Group) -> None:
    rng = random.Random(5)
    check(curve, group, SMALL, [rng.randrange(curve.fr.modulus) for _ in range(40)])


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize(
    "pattern", ["zeros", "ones", "minus one", "same", "small", "bits", "halves", "one of many", "window edges"]
)
def test_patterns(curve: Curve, pattern: str) -> None:
    r, rng, n = curve.fr.modulus, random.Random(7), 150
    scalars = {
        "zeros": [0] * n,
        "ones": [1] * n,
        "minus one": [r - 1] * n,
        "same": [rng.randrange(r)] * n,
        "small": [rng.randrange(1000) for _ in range(n)],
        "bits": [rng.randrange(2) if i % 10 else rng.randrange(r) for i in range(n)],
        "halves": [(r - 1) // 2 + i % 3 for i in range(n)],
        "one of many": [0] * (n - 1) + [rng.randrange(r)],
        "window edges": [sum(16 << (5 * w) for w in range(i % 49)) + i % 3 for i in range(n)],
    }[pattern]
    check(curve, Group.G1, SMALL, scalars)


@pytest.mark.parametrize("n", [0, 1, 2, 31, 33])
def test_sizes(n: int) -> None:
    rng = random.Random(n)
    check(BN254, Group.G1, SMALL, [rng.randrange(BN254.fr.modulus) for _ in range(n)], n=40)


@pytest.mark.parametrize("multiples", [1, 2, 3, 20])
def test_tables_of_few_multiples(multiples: int) -> None:
    """Less memory, more sets of buckets, the same sum; the last set may have fewer windows than the others."""
    rng = random.Random(multiples)
    n, curve = 20, BLS12_381
    memory = multiples * n * 8 * curve.point_limbs(Group.G1)
    check(curve, Group.G1, SMALL, [rng.randrange(curve.fr.modulus) for _ in range(n)], memory)


@pytest.mark.parametrize("window_bits", [2, 3, 8, 11])
@pytest.mark.parametrize("bin_bits", [3, 11])
def test_windows_and_radix_passes(window_bits: int, bin_bits: int) -> None:
    rng = random.Random(window_bits)
    profile = MsmProfile(window_bits=window_bits, bin_bits=bin_bits, accumulate_block=32, reduce_block=32, merge_block=64)
    check(BN254, Group.G1, profile, [rng.randrange(BN254.fr.modulus) for _ in range(24)])


def test_unaligned_bytes_load_as_words_do() -> None:
    _, points = known_points(BN254, Group.G1, 24)
    raw = np.zeros(points.nbytes + 3, dtype=np.uint8)
    raw[3:] = points.reshape(-1).view(np.uint8)
    msm = CudaMsm(device(), SMALL)
    a = msm.load_points(BN254, Group.G1, points, 1 << 30)
    b = msm.load_points(BN254, Group.G1, raw[3:].reshape(24, -1), 1 << 30)
    assert np.array_equal(a.points, b.points)


def test_normalising_shares_inversions() -> None:
    """More points than threads, infinities among them, each thread's first and last included."""
    curve, group = BN254, Group.G1
    logs, points = known_points(curve, group, 24)
    sums = device().empty((24, sum_limbs(curve, group)))
    double = device().kernel(group_source("point_batch", curve, group), "point_double")
    double.launch_items(24, (points, np.uint32(24), np.uint32(3), sums))
    out = device().empty((24, curve.point_limbs(group)))
    normalise = device().kernel(group_source("point_batch", curve, group), "point_normalise")
    normalise.launch_items(5, (sums, np.uint32(24), np.uint32(5), out))
    for log, point in zip(logs, out, strict=True):
        assert np.array_equal(point, multiple_of_generator(curve, group, 8 * log))


def test_refusals() -> None:
    _, points = known_points(BN254, Group.G1, 24)
    msm = CudaMsm(device(), SMALL)
    table = msm.load_points(BN254, Group.G1, points, 1 << 30)
    scalars = device().upload(scalars_from_ints(BN254.fr, range(10)))
    with pytest.raises(SizeError, match="24 points"):
        msm.msm(table, scalars, start=15)
    with pytest.raises(SizeError, match="scalars must be"):
        msm.msm(table, scalars[:, :3])
    with pytest.raises(SizeError, match="points must be"):
        msm.load_points(BN254, Group.G2, points)
    with pytest.raises(OutOfMemory, match="allowed"):
        msm.load_points(BN254, Group.G1, points, 64)
    with pytest.raises(SizeError, match="the base must be"):
        fixed_base(device(), BN254, Group.G1, points, scalars)
    with pytest.raises(SizeError):
        MsmProfile(window_bits=1)


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
