"""MSM and fixed base on a real GPU: against the CPU backend where that is quick, else against known logarithms.

Point i is (i + 1) * G, so an MSM is (sum_i s_i (i + 1)) * G, which the CPU backend computes with one multiplication.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.cuda.groups import CHECK_ROWS, CudaGroups
from kernels.cuda.msm import MsmProfile
from kernels.errors import OutOfMemory, SizeError
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from kernels.maths.encoding import Words, generator, pack, point_from_ints, scalars_from_ints, unpack
from tests.support.cpu_cases import point_at

pytestmark = pytest.mark.gpu

GROUPS = [(curve, group) for curve in CURVES for group in Group]
IDS = [f"{curve.name}-{group.value}" for curve, group in GROUPS]
SIZES = [0, 1, 10, 16, 18, 20, 22]


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    backend = CpuBackend(threads=8)
    yield backend
    backend.close()


def uniform(curve: Curve, n: int, seed: int) -> Words:
    """(n, 4) integers below the order, uniform but for the top word, which stays below the order's."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**64, size=(n, 4), dtype=np.uint64)
    words[:, 3] = rng.integers(0, curve.fr.modulus >> 192, size=n, dtype=np.uint64)
    return words


def witness_like(curve: Curve, n: int, seed: int) -> Words:
    """Nine in ten are 0 or 1, and the edges of the range are among the others."""
    words = uniform(curve, n, seed)
    kind = np.random.default_rng(seed + 1).random(n)
    words[kind < 0.9] = 0
    words[kind < 0.45, 0] = 1
    edges = [curve.fr.modulus - 1, (curve.fr.modulus - 1) // 2, (curve.fr.modulus + 1) // 2, 2]
    words[: min(n, 4)] = scalars_from_ints(curve.fr, edges)[:n]
    return words


def weighted_sum(scalars: Words) -> int:
    """sum_i scalars[i] * (i + 1), by 16-bit pieces in 64-bit sums."""
    total = 0
    weights = np.arange(1, len(scalars) + 1, dtype=np.uint64)
    pieces = np.ascontiguousarray(scalars).view(np.uint16).astype(np.uint64)
    for k in range(16):
        for block in range(0, len(scalars), 1 << 20):
            part = slice(block, block + (1 << 20))
            total += int(np.dot(pieces[part, k], weights[part])) << (16 * k)
    return total


def multiple(cpu: CpuBackend, curve: Curve, group: Group, k: int) -> HostArray:
    scalar = scalars_from_ints(curve.fr, [k])
    return cpu.to_host(cpu.groups.fixed_base(curve, group, generator(curve, group), scalar))[0]


def first_multiples(cuda: CudaBackend, curve: Curve, group: Group, n: int) -> HostArray:
    """1 * G to n * G, (n, point_limbs) on the host."""
    scalars = np.zeros((n, 4), dtype=np.uint64)
    scalars[:, 0] = np.arange(1, n + 1)
    return cuda.to_host(cuda.groups.fixed_base(curve, group, generator(curve, group), cuda.to_device(scalars)))


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_fixed_base(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, group: Group) -> None:
    scalars = witness_like(curve, 1 << 10, 1)
    base = multiple(cpu, curve, group, 12345678901234567890)
    want = cpu.to_host(cpu.groups.fixed_base(curve, group, base, scalars))
    got = cuda.to_host(cuda.groups.fixed_base(curve, group, base, cuda.to_device(scalars)))
    assert np.array_equal(got, want)


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_sparse_products(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, group: Group) -> None:
    """Coefficients of every length, most of them 1 or -1, rows of every length, and one of all points."""
    rng, n = np.random.default_rng(5), 1 << 12
    points = first_multiples(cuda, curve, group, n)
    points[::97] = 0
    lengths = rng.integers(0, 6, n)
    lengths[17], lengths[18] = n, 100
    values = [1, -1, 0, *((-1) ** i * ((1 << int(bits)) + i) for i, bits in enumerate(rng.integers(1, 253, 60)))]
    nnz = int(lengths.sum())
    index = np.where(rng.random(nnz) < 0.8, rng.integers(0, 2, nnz), rng.integers(0, len(values), nnz))
    matrix = CsrMatrix(
        rows=n,
        cols=n,
        row_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        columns=rng.integers(0, n, nnz).astype(np.uint32),
        value_index=index.astype(np.uint32),
        values=scalars_from_ints(curve.fr, values),
    )
    want, got = (backend.groups.sparse_product(curve, group, matrix, points) for backend in (cpu, cuda))
    assert np.array_equal(got, want)


@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_check_points(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, group: Group) -> None:
    """Points off the curve, outside the subgroup or with too many bits are found, the first one first."""
    n = CHECK_ROWS + 1000  # the last thousand in a launch of their own
    good = np.tile(first_multiples(cuda, curve, group, 1 << 12), (n // (1 << 12) + 1, 1))[:n]
    good[7] = 0  # the point at infinity
    assert cuda.groups.check_points(curve, group, good) is None
    for at in (n - 1, 5000, 0):  # each before what was put in last
        good[at, 0] ^= np.uint64(1)
        assert cuda.groups.check_points(curve, group, good) == at
        assert cuda.groups.check_points(curve, group, good, subgroup=False) == at
    excess, limbs = first_multiples(cuda, curve, group, 40), curve.fq.limbs
    excess[30, :limbs] = pack([unpack(excess[30:31, :limbs])[0] + curve.fq.modulus], limbs)[0]
    assert cuda.groups.check_points(curve, group, excess) == 30
    others = [point_at(curve, group, x) for x in range(1, 40)]
    outside = np.stack([point_from_ints(curve, group, other) for other in others if other is not None])
    assert cuda.groups.check_points(curve, group, outside, subgroup=False) is None
    for row in outside:
        one = row.reshape(1, -1)
        assert cuda.groups.check_points(curve, group, one) == cpu.groups.check_points(curve, group, one)
    first = cuda.groups.check_points(curve, group, outside)
    assert first == (None if (curve, group) == (BN254, Group.G1) else 0)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_recorded_msms_run_side_by_side_and_give_their_memory_back(
    cpu: CpuBackend, cuda: CudaBackend, curve: Curve
) -> None:
    """Eight inputs for each of two tables, all queued before a result is asked for; scalars are freed at once."""
    n, free = 3000, cuda.device.memory_free()
    tables = {
        group: cuda.groups.load_points(curve, group, first_multiples(cuda, curve, group, n), memory=64 << 20)
        for group in Group
    }
    for table in tables.values():
        cuda.groups.repeat(table, n)
    inputs = [witness_like(curve, n, 100 + i) for i in range(8)]
    pending = []
    for scalars in inputs:
        on_device = cuda.to_device(scalars)
        pending.append({group: cuda.groups.msm(table, on_device) for group, table in tables.items()})
        del on_device
        cuda.to_device(np.full((n, 4), 2**63, dtype=np.uint64))  # takes the memory of the scalars
    for scalars, sums in zip(inputs, pending, strict=True):
        for group, point in sums.items():
            assert np.array_equal(point.result(), multiple(cpu, curve, group, weighted_sum(scalars)))
    assert cuda.device.memory_free() < free
    del tables, table
    assert cuda.device.memory_free() == free


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
@pytest.mark.parametrize("n", [100, 3000, 70_000])
def test_msms_recorded_as_one_piece_give_their_memory_back(
    cpu: CpuBackend, cuda: CudaBackend, curve: Curve, n: int
) -> None:
    """Eight inputs, queued before a result is asked for. One sum is of what is computed between, in memory
    that others might be given; `most` is what a recording may hold at once."""
    free = cuda.device.memory_free()
    tables = {
        group: cuda.groups.load_points(curve, group, first_multiples(cuda, curve, group, n), memory=64 << 20)
        for group in Group
    }
    most = sum(cuda.groups.msm_scratch(curve, group, n) for group in (*Group, Group.G1)) + 5 * 32 * n

    def work(given: Array) -> list[Pending]:
        scalars = cuda.vectors.add(curve.fr, given, given)
        points = [cuda.groups.msm(table, scalars) for table in tables.values()]
        for _ in range(20):
            scalars = cuda.vectors.add(curve.fr, scalars, given)
        return [*points, cuda.groups.msm(tables[Group.G1], scalars)]

    before = cuda.device.memory_free()
    repeated = cuda.repeated_points(work, [(n, 4)])
    assert repeated is not None
    assert before - cuda.device.memory_free() < most + (8 << 20)
    inputs = [witness_like(curve, n, 100 + i) for i in range(8)]
    pending = [repeated(cuda.to_device(scalars)) for scalars in inputs]
    for scalars, points in zip(inputs, pending, strict=True):
        total = weighted_sum(scalars)
        for (group, times), point in zip(((Group.G1, 2), (Group.G2, 2), (Group.G1, 22)), points, strict=True):
            assert np.array_equal(point.result(), multiple(cpu, curve, group, times * total % curve.fr.modulus))
    tables.clear()
    del repeated
    assert cuda.device.memory_free() == free


@pytest.mark.parametrize("log_n", SIZES)
@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_sizes(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, group: Group, log_n: int) -> None:
    n = 1 << log_n
    points = first_multiples(cuda, curve, group, n)
    try:
        table = cuda.groups.load_points(curve, group, points)
    except OutOfMemory as error:
        pytest.skip(str(error))
    for make in (uniform, witness_like):
        scalars = make(curve, n, log_n)
        got = cuda.groups.msm(table, cuda.to_device(scalars)).result()
        assert np.array_equal(got, multiple(cpu, curve, group, weighted_sum(scalars)))


@pytest.mark.parametrize("multiples", [1, 2, 5])
@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_little_memory(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, group: Group, multiples: int) -> None:
    n = (1 << 12) + 3
    points = first_multiples(cuda, curve, group, n)
    table = cuda.groups.load_points(curve, group, points, memory=multiples * points.nbytes)
    assert table.nbytes <= multiples * points.nbytes
    scalars = uniform(curve, n, multiples)
    got = cuda.groups.msm(table, cuda.to_device(scalars)).result()
    assert np.array_equal(got, multiple(cpu, curve, group, weighted_sum(scalars)))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("scalar", [0, 1, -1, 1 << 200])
def test_one_scalar_for_all(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, scalar: int) -> None:
    """One bucket holds everything, over points of which many are equal, opposite or infinity."""
    n = 1 << 16
    logs = np.random.default_rng(3).integers(0, 4, size=n)
    pool = [multiple(cpu, curve, Group.G1, k) for k in (0, 1, -1, 5)]
    table = cuda.groups.load_points(curve, Group.G1, np.stack(pool)[logs])
    scalars = np.repeat(scalars_from_ints(curve.fr, [scalar]), n, axis=0)
    total = scalar * sum(int(np.count_nonzero(logs == i)) * k for i, k in enumerate((0, 1, -1, 5)))
    got = cuda.groups.msm(table, cuda.to_device(scalars)).result()
    assert np.array_equal(got, multiple(cpu, curve, Group.G1, total))


@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_affine_rounds(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, group: Group, rounds: int) -> None:
    """In one piece, and in chunks and slices that cut buckets; half of the points are equal, opposite or infinity."""
    n, few = (1 << 15) + 1, (0, 1, -1, 5)
    chosen = np.random.default_rng(3).integers(0, 8, size=n)
    logs = [few[k] if k < 4 else i + 1 for i, k in enumerate(chosen.tolist())]
    points = first_multiples(cuda, curve, group, n)
    points[chosen < 4] = np.stack([multiple(cpu, curve, group, k) for k in few])[chosen[chosen < 4]]
    inputs = [uniform(curve, n, 1), witness_like(curve, n, 2), np.repeat(uniform(curve, 1, 3), n, axis=0)]
    for cut in ({}, {"chunk_entries": 200_000, "slice_entries": 30_000}):
        groups = CudaGroups(cuda.device, MsmProfile(affine_rounds=rounds, **cut))
        for memory in (None, 3 * points.nbytes):
            table = groups.load_points(curve, group, points, memory=memory)
            for scalars in inputs:
                total = sum(s * k for s, k in zip(unpack(scalars), logs, strict=True))
                got = groups.msm(table, cuda.to_device(scalars)).result()
                assert np.array_equal(got, multiple(cpu, curve, group, total))


@pytest.mark.parametrize("multiples", [1, 3])
@pytest.mark.parametrize(("curve", "group"), GROUPS, ids=IDS)
def test_windows_chosen_by_the_scalars(
    cpu: CpuBackend, cuda: CudaBackend, curve: Curve, group: Group, multiples: int
) -> None:
    """Scalars of which most are 0 or 1, evenly spread or all others together, and scalars of full width."""
    n = (1 << 18) + 5
    points = first_multiples(cuda, curve, group, n)
    groups = CudaGroups(cuda.device, MsmProfile(classified_points=1))
    table = groups.load_points(curve, group, points, memory=multiples * points.nbytes)
    spread = witness_like(curve, n, 1)
    together = spread[np.argsort(spread[:, 3] != 0, kind="stable")]
    for scalars in (spread, together, uniform(curve, n, 2), np.zeros_like(spread)):
        got = groups.msm(table, cuda.to_device(np.ascontiguousarray(scalars))).result()
        assert np.array_equal(got, multiple(cpu, curve, group, weighted_sum(scalars)))


def test_part_of_a_table(cpu: CpuBackend, cuda: CudaBackend) -> None:
    curve, group, n, start = BLS12_381, Group.G1, 5000, 777
    table = cuda.groups.load_points(curve, group, first_multiples(cuda, curve, group, n))
    scalars = uniform(curve, n - start, 9)
    total = weighted_sum(scalars) + start * sum(unpack(scalars))
    got = cuda.groups.msm(table, cuda.to_device(scalars), start=start).result()
    assert np.array_equal(got, multiple(cpu, curve, group, total))
    with pytest.raises(SizeError, match="5000 points"):
        cuda.groups.msm(table, cuda.to_device(scalars), start=start + 1)


def test_several_under_way(cpu: CpuBackend, cuda: CudaBackend) -> None:
    """Results may be taken in any order, after later MSMs have reused the scratch."""
    curve, group, n = BN254, Group.G1, 1 << 14
    table = cuda.groups.load_points(curve, group, first_multiples(cuda, curve, group, n))
    scalars = [uniform(curve, n, seed) for seed in range(6)]
    pending = [cuda.groups.msm(table, cuda.to_device(s)) for s in scalars]
    for s, point in reversed(list(zip(scalars, pending, strict=True))):
        assert np.array_equal(point.result(), multiple(cpu, curve, group, weighted_sum(s)))
