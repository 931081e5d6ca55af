"""MSM, fixed-base multiplication and point checks of the CPU backend, against known logarithms and py_ecc."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from kernels.cpu import group
from kernels.cpu.backend import CpuBackend
from kernels.cpu.points import from_big_endian, to_big_endian
from kernels.errors import SizeError
from kernels.maths import encoding
from kernels.maths.curves import BLS12_381, BN254, Curve, Group
from tests.support.cpu_cases import BACKENDS, GROUPS, KnownPoints, backend_id, edge_values, point_at, unaligned


@pytest.fixture(params=BACKENDS, ids=backend_id)
def backend(request: pytest.FixtureRequest) -> CpuBackend:
    variant, threads = request.param
    return CpuBackend(threads, variant)


def msm(backend: CpuBackend, known: KnownPoints, scalars: list[int], start: int = 0) -> np.ndarray:
    table = backend.groups.load_points(known.curve, known.which, known.points)
    return backend.groups.msm(table, encoding.scalars_from_ints(known.curve.fr, scalars), start=start).result()


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_fixed_base_against_single_multiplications(backend: CpuBackend, curve: Curve, which: Group) -> None:
    scalars = edge_values(curve.fr, 30, random.Random(1))
    base = group.mul(curve, which, encoding.generator(curve, which), 12345)
    got = backend.groups.fixed_base(curve, which, base, encoding.scalars_from_ints(curve.fr, scalars))
    for point, k in zip(got, scalars, strict=True):
        assert np.array_equal(point, group.mul(curve, which, base, k))
    infinity = np.zeros_like(base)
    assert not backend.groups.fixed_base(curve, which, infinity, encoding.scalars_from_ints(curve.fr, scalars)).any()
    assert backend.groups.fixed_base(curve, which, base, encoding.scalars_from_ints(curve.fr, [])).shape == (
        0,
        len(base),
    )


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_msm_of_every_kind_of_scalar(backend: CpuBackend, curve: Curve, which: Group) -> None:
    r, rng = curve.fr.modulus, random.Random(2)
    logs = edge_values(curve.fr, 700, rng)
    logs[20:60] = [77] * 40  # equal points: doublings inside buckets
    logs[60:100] = [r - 77] * 40  # and their opposites
    known = KnownPoints(backend, curve, which, logs)  # logs[0] = 0: an infinite point
    kinds: dict[str, list[int]] = {
        "uniform": edge_values(curve.fr, 700, rng),
        "bits": [rng.choice([0, 1]) for _ in range(700)],
        "signs": [rng.choice([0, 1, r - 1]) for _ in range(700)],
        "small": [rng.randrange(1 << 20) for _ in range(700)],
        "mixed": [rng.choice([0, 1, 1, 1, r - 2, rng.randrange(r)]) for _ in range(700)],
        "zeros": [0] * 700,
        "ones": [1] * 700,
        "same": [r // 3] * 700,
        "one large": [0] * 699 + [r - 5],
    }
    for name, scalars in kinds.items():
        assert np.array_equal(msm(backend, known, scalars), known.combination(scalars)), name


@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 100, 3000])
def test_msm_of_every_length(backend: CpuBackend, n: int) -> None:
    rng = random.Random(n)
    known = KnownPoints(backend, BN254, Group.G1, [rng.randrange(1, BN254.fr.modulus) for _ in range(n)])
    scalars = edge_values(BN254.fr, n, rng)
    assert np.array_equal(msm(backend, known, scalars), known.combination(scalars))


@pytest.mark.parametrize("n", range(14, 36))
def test_sums_of_few_points_that_are_equal_opposite_or_infinite(n: int) -> None:
    """Additions go in eights where the CPU allows it: each of these, and of what is left over, may be special."""
    backend, r, rng = CpuBackend(1), BN254.fr.modulus, random.Random(n)
    for logs in ([rng.choice([0, 5, r - 5, 7]) for _ in range(n)], [9] * n, [3, r - 3] * (n // 2)):
        known = KnownPoints(backend, BN254, Group.G1, logs)
        scalars = [1] * len(logs)
        assert np.array_equal(msm(backend, known, scalars), known.combination(scalars))


@pytest.mark.parametrize("without", ["avx512ifma", "avx512ifma,fma"])
def test_sums_are_the_same_without_instructions_of_this_cpu(without: str) -> None:
    """The tests of sums again, with the code that other CPUs run: on AVX2 and FMA, and one addition at a time."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", __file__, "-k", "msm or few_points"]
    done = subprocess.run(command, env=os.environ | {"DISTPROVE_WITHOUT": without}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_msm_in_scratch_memory_of_any_size_and_content(share: float) -> None:
    backend, rng, where = CpuBackend(2), random.Random(4), (BN254.name, Group.G1.value)
    known = KnownPoints(backend, BN254, Group.G1, [rng.randrange(BN254.fr.modulus) for _ in range(500)])
    scalars = edge_values(BN254.fr, 500, rng)
    scratch = np.full(int(share * backend.pool.native.msm_scratch(*where, 500)), 0xA5, dtype=np.uint8)
    backend.groups._empty = lambda shape, dtype: scratch
    assert np.array_equal(msm(backend, known, scalars), known.combination(scalars))
    assert share < 1 or not (scratch == 0xA5).all()


def test_large_msm_cuts_groups_across_segments() -> None:
    """Enough entries for many segments; half of the scalars share one bucket, which spans several."""
    backend, rng = CpuBackend(2), random.Random(8)
    r = BN254.fr.modulus
    known = KnownPoints(backend, BN254, Group.G1, [rng.randrange(r) for _ in range(40000)])
    scalars = [rng.choice([0, 1, 1, rng.randrange(r)]) for _ in range(40000)]
    assert np.array_equal(msm(backend, known, scalars), known.combination(scalars))


def test_msm_of_opposite_points_is_infinity(backend: CpuBackend) -> None:
    r = BN254.fr.modulus
    known = KnownPoints(backend, BN254, Group.G1, [5, r - 5] * 200)
    assert not msm(backend, known, [9] * 400).any()


def test_msm_of_part_of_a_table(backend: CpuBackend) -> None:
    known = KnownPoints(backend, BN254, Group.G1, list(range(1, 51)))
    got = msm(backend, known, [3] * 10, start=20)
    expected = group.mul(BN254, Group.G1, encoding.generator(BN254, Group.G1), 3 * sum(range(21, 31)))
    assert np.array_equal(got, expected)
    with pytest.raises(SizeError):
        msm(backend, known, [3] * 10, start=41)
    with pytest.raises(SizeError):
        msm(backend, known, [3] * 10, start=-1)


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_points_are_used_in_place_at_any_address(backend: CpuBackend, curve: Curve, which: Group) -> None:
    known = KnownPoints(backend, curve, which, list(range(40)))
    view = unaligned(known.points)
    table = backend.groups.load_points(curve, which, view)
    assert table.nbytes == 0
    scalars = edge_values(curve.fr, 40, random.Random(4))
    words = unaligned(encoding.scalars_from_ints(curve.fr, scalars)).view(np.uint64)
    assert np.array_equal(backend.groups.msm(table, words).result(), known.combination(scalars))
    assert backend.groups.check_points(curve, which, view) is None


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_check_points_finds_the_first_bad_one(backend: CpuBackend, curve: Curve, which: Group) -> None:
    good = KnownPoints(backend, curve, which, list(range(200))).points
    assert backend.groups.check_points(curve, which, good) is None
    off = good.copy()
    off[150, 0] ^= np.uint64(1)
    off[180, 0] ^= np.uint64(1)
    assert backend.groups.check_points(curve, which, off) == 150
    assert backend.groups.check_points(curve, which, off, subgroup=False) == 150
    excess = good.copy()  # x + p stands for the same element, in more bits
    limbs = curve.fq.limbs
    raised = encoding.unpack(excess[30:31, :limbs])[0] + curve.fq.modulus
    excess[30, :limbs] = encoding.pack([raised], limbs)[0]
    assert backend.groups.check_points(curve, which, excess) == 30


@pytest.mark.parametrize(
    ("curve", "which"),
    [(BN254, Group.G2), (BLS12_381, Group.G1), (BLS12_381, Group.G2)],
    ids=["bn128-g2", "bls12381-g1", "bls12381-g2"],
)
def test_points_outside_the_subgroup_are_found(backend: CpuBackend, curve: Curve, which: Group) -> None:
    found = [p for p in (point_at(curve, which, x) for x in range(1, 40)) if p is not None]
    assert len(found) > 5
    outside = np.stack([encoding.point_from_ints(curve, which, p) for p in found])
    for point in outside:
        rows = point.reshape(1, -1)
        assert backend.groups.check_points(curve, which, rows, subgroup=False) is None
        in_subgroup = not group.mul(curve, which, point, curve.fr.modulus).any()
        assert (backend.groups.check_points(curve, which, rows) is None) == in_subgroup
    assert any(group.mul(curve, which, point, curve.fr.modulus).any() for point in outside)


def test_bn254_g1_has_no_other_subgroup(backend: CpuBackend) -> None:
    found = [p for p in (point_at(BN254, Group.G1, x) for x in range(1, 40)) if p is not None]
    points = np.stack([encoding.point_from_ints(BN254, Group.G1, p) for p in found])
    assert backend.groups.check_points(BN254, Group.G1, points) is None
    assert all(not group.mul(BN254, Group.G1, p, BN254.fr.modulus).any() for p in points)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_points_as_bytes_of_a_file(backend: CpuBackend, curve: Curve, which: Group, threads: int) -> None:
    points = KnownPoints(backend, curve, which, list(range(1, 2000))).points
    encoded = to_big_endian(curve, which, points, threads)
    for point, raw in zip(points[::97], encoded[::97], strict=True):
        values = encoding.point_to_ints(curve, which, point)
        coordinates = [values[i : i + len(values) // 2] for i in (0, len(values) // 2)]
        size = 8 * curve.fq.limbs
        expected = b"".join(value.to_bytes(size, "big") for each in coordinates for value in reversed(each))
        assert raw.tobytes() == expected
    decoded, bad = from_big_endian(curve, which, encoded, threads=threads)
    assert bad is None
    assert np.array_equal(decoded, points)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_the_first_point_that_is_not_encoded_properly_is_named(
    backend: CpuBackend, curve: Curve, which: Group, threads: int
) -> None:
    encoded = to_big_endian(curve, which, KnownPoints(backend, curve, which, [5] * 4000).points)
    size, element = encoded.shape[1], 8 * curve.fq.limbs
    modulus = np.frombuffer(curve.fq.modulus.to_bytes(element, "big"), dtype=np.uint8)
    for at in range(0, size, element):  # every element of a point in turn
        changed = encoded.copy()
        changed[3100, at : at + element] = changed[2900, at : at + element] = modulus
        assert from_big_endian(curve, which, changed, threads=threads)[1] == 2900
        changed[2900, at : at + element] -= np.uint8(1) * (np.arange(element) == element - 1).astype(np.uint8)
        assert from_big_endian(curve, which, changed, threads=threads)[1] == 3100
    changed = encoded.copy()
    changed[77] = 0
    assert from_big_endian(curve, which, changed, threads=threads)[1] == 77
    changed = encoded.copy()
    changed[1999, 0] |= 0x80
    assert from_big_endian(curve, which, changed, flags=0x80, threads=threads)[1] == 1999
