"""The CUDA kernels' logic, run on the host, against Python integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.cuda.field import field_source
from kernels.cuda.ntt import NttEngine, NttProfile, plan_passes
from kernels.errors import BackendError, SizeError
from kernels.interface.matrix import CsrMatrix
from kernels.interface.vectors import Transform
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Field, Group
from kernels.maths.encoding import field_from_ints, field_to_ints, generator, point_from_ints, scalars_from_ints
from tests.support.emulated_device import EmulatedDevice
from tests.support.synthesis_cases import BATCH, LANES, PLACEMENTS, bits_of, products, sha256_block, wires_of
from tests.support.templated_cases import placed_matrix

FIELDS = [BN254.fr, BN254.fq, BLS12_381.fr, BLS12_381.fq]


def values(field: Field, n: int, seed: int = 1) -> list[int]:
    """Random elements with the edges among them."""
    rng = random.Random(seed)
    edges = [0, 1, field.modulus - 1, 0, 2]
    return [rng.choice(edges) if rng.random() < 0.2 else rng.randrange(field.modulus) for _ in range(n)]


def bit_reversed(items: list[int]) -> list[int]:
    bits = len(items).bit_length() - 1
    return [items[int(format(i, f"0{bits}b")[::-1], 2) if bits else 0] for i in range(len(items))]


def transform(field: Field, x: list[int], root: int) -> list[int]:
    """sum_j x[j] root^(ij), by halves."""
    n, p = len(x), field.modulus
    if n == 1:
        return x
    even, odd = (transform(field, x[k::2], root * root % p) for k in (0, 1))
    out, power = [0] * n, 1
    for i in range(n // 2):
        t = power * odd[i]
        out[i], out[i + n // 2] = (even[i] + t) % p, (even[i] - t) % p
        power = power * root % p
    return out


def expected_ntt(field: Field, x: list[int], inverse: bool, coset: int | None) -> list[int]:
    p, n = field.modulus, len(x)
    root, g = field.root_of_unity(n.bit_length() - 1), coset or 1
    if not inverse:
        return transform(field, [v * pow(g, j, p) % p for j, v in enumerate(x)], root)
    scale = pow(n, -1, p)
    return [v * scale * pow(g, -k, p) % p for k, v in enumerate(transform(field, x, pow(root, -1, p)))]


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_elementwise(emulated: CudaBackend, field: Field) -> None:
    p, n = field.modulus, 333
    x, y, z = (values(field, n, seed) for seed in (1, 2, 3))
    a, b, c = (emulated.to_device(field_from_ints(field, v)) for v in (x, y, z))
    assert field_to_ints(field, emulated.vectors.add(field, a, b)) == [(u + v) % p for u, v in zip(x, y, strict=True)]
    assert field_to_ints(field, emulated.vectors.sub(field, a, b)) == [(u - v) % p for u, v in zip(x, y, strict=True)]
    assert field_to_ints(field, emulated.vectors.mul(field, a, b)) == [u * v % p for u, v in zip(x, y, strict=True)]
    want = [(u * v - w) % p for u, v, w in zip(x, y, z, strict=True)]
    assert field_to_ints(field, emulated.vectors.mul_sub(field, a, b, c, out=c)) == want
    plain = emulated.vectors.from_montgomery(field, a)
    assert np.array_equal(plain, scalars_from_ints(field, x))
    assert np.array_equal(emulated.vectors.to_montgomery(field, plain, out=plain), a)


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
@pytest.mark.parametrize("n", [1, 5000])
def test_scale_powers_and_inverse(emulated: CudaBackend, field: Field, n: int) -> None:
    p, x = field.modulus, values(field, n)
    a = emulated.to_device(field_from_ints(field, x))
    want, power = [], 3
    for v in x:
        want.append(v * power % p)
        power = power * 7 % p
    assert field_to_ints(field, emulated.vectors.scale_powers(field, a, 7, first=3)) == want
    want = [pow(v, -1, p) if v else 0 for v in x]
    assert field_to_ints(field, emulated.vectors.batch_inverse(field, a)) == want
    assert field_to_ints(field, emulated.vectors.batch_inverse(field, a, out=a)) == want


def test_equal(emulated: CudaBackend) -> None:
    x = np.arange(4000, dtype=np.uint64).reshape(-1, 4)
    a, b = emulated.to_device(x), emulated.to_device(x)
    assert emulated.vectors.equal(a, b)
    b[999, 3] += np.uint64(1)
    assert not emulated.vectors.equal(a, b)
    assert not emulated.vectors.equal(a, b[:10])


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("coset", [None, 7])
@pytest.mark.parametrize("inverse", [False, True])
def test_ntt_of_every_order(emulated: CudaBackend, curve: Curve, inverse: bool, coset: int | None) -> None:
    field = curve.fr
    profiles = (
        NttProfile(),
        NttProfile(log_tile=8, log_radix=3),  # up to three passes, with pairs between them
        NttProfile(log_tile=8, log_radix=2, pairs=False),  # and without; sizes above 6 go to the larger profile
        NttProfile(11, 10, log_elements=3, blocks_per_sm=1),
    )
    for profile in profiles:
        engine = NttEngine(emulated.device, profile)
        for log_n in (0, 1, 2, 3, 5, 7, 9):
            x = values(field, 1 << log_n, log_n)
            want = expected_ntt(field, x, inverse, coset)
            for reversed_in in (False, True):
                for reversed_out in (False, True):
                    a = emulated.to_device(field_from_ints(field, bit_reversed(x) if reversed_in else x))
                    engine.run(field, a, Transform(log_n, inverse, coset, reversed_in, reversed_out))
                    got = field_to_ints(field, a)
                    assert got == (bit_reversed(want) if reversed_out else want), (profile, log_n)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_ntt_of_the_largest_and_smallest_elements(emulated: CudaBackend, curve: Curve) -> None:
    """Sums of these come closest to the bounds that values are kept below between products."""
    field, rng = curve.fr, random.Random(4)
    edges = [0, 1, field.modulus - 1]
    for x in [[edges[2]] * 512, [edges[2] * (i % 2) for i in range(512)], [rng.choice(edges) for _ in range(512)]]:
        for profile in (NttProfile(), NttProfile(log_tile=8, log_radix=3)):
            a = emulated.to_device(field_from_ints(field, x))
            NttEngine(emulated.device, profile).run(field, a, Transform(9, False, None, False, False))
            assert field_to_ints(field, a) == expected_ntt(field, x, False, None)


@pytest.mark.parametrize(
    ("log_n", "profile"),
    [
        (9, NttProfile(log_tile=8, log_radix=3)),  # three passes, pairs between them
        (6, NttProfile(log_tile=8, log_radix=2, pairs=False)),  # three passes, no pairs
        (9, NttProfile()),  # one pass
    ],
    ids=str,
)
@pytest.mark.usefixtures("emulated")
def test_the_memory_of_transforms_is_predicted(log_n: int, profile: NttProfile) -> None:
    field, device = BN254.fr, EmulatedDevice()
    free, engine = device.memory_free(), NttEngine(device, profile)
    for inverse, coset in ((False, None), (True, None), (False, 7)):  # as many kinds as a quotient takes
        a = device.upload(field_from_ints(field, [1] * (1 << log_n)))
        engine.run(field, a, Transform(log_n, inverse, coset, False, False))
        del a
    held = free - device.memory_free()
    assert held <= engine.transform_bytes(field, log_n, 3).tables <= 1.5 * held


def test_tables_of_large_transforms_take_no_more_than_a_vector() -> None:
    engine, vector = NttEngine(EmulatedDevice(budget=139 << 30)), BLS12_381.fr.bytes
    for log_n, times in ((20, 2), (24, 2), (25, 1), (27, 1), (28, 1)):
        assert engine.transform_bytes(BLS12_381.fr, log_n, 1).tables == pytest.approx(times * vector << log_n, rel=0.1)


def test_ntt_of_a_batch(emulated: CudaBackend) -> None:
    field = BN254.fr
    vectors = [values(field, 1 << 11, seed) for seed in (1, 2, 3)]
    a = emulated.to_device(np.stack([field_from_ints(field, v) for v in vectors]))
    emulated.vectors.ntt(field, a, coset=5)
    for got, x in zip(a, vectors, strict=True):
        assert field_to_ints(field, got) == expected_ntt(field, x, False, 5)


def test_passes_cover_every_size() -> None:
    for log_radix in range(2, 12):
        for log_n in range(1, 3 * log_radix + 1):
            passes = plan_passes(log_n, log_radix)
            assert sum(passes) == log_n
            assert len(passes) <= 3
            assert max(passes) <= log_radix
        with pytest.raises(SizeError, match="passes"):
            plan_passes(3 * log_radix + 1, log_radix)


@pytest.mark.parametrize("standard_form", [False, True])
@pytest.mark.parametrize("field", [BN254.fr, BLS12_381.fr], ids=lambda f: f.name)
def test_spmv(emulated: CudaBackend, field: Field, standard_form: bool) -> None:
    rng, p = random.Random(5), field.modulus
    lengths = [0, 1, 2, 3, 32, 33, 700, 2500, 0] + [rng.randrange(6) for _ in range(80)]
    cols, dictionary = 500, [5, 1, p - 1, 0, rng.randrange(p)]
    columns = [rng.randrange(cols) for _ in range(sum(lengths))]
    index = [rng.choice([0, 1, 1, 2, 2, 3, 4]) for _ in columns]
    matrix = CsrMatrix(
        len(lengths),
        cols,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        np.array(columns, dtype=np.uint32),
        np.array(index, dtype=np.uint32),
        field_from_ints(field, dictionary),
    )
    x = values(field, cols)
    want, at = [], 0
    for length in lengths:
        want.append(sum(dictionary[index[k]] * x[columns[k]] for k in range(at, at + length)) % p)
        at += length
    loaded = emulated.sparse.load_matrix(field, matrix)
    encode = scalars_from_ints if standard_form else field_from_ints
    got = emulated.sparse.spmv(loaded, emulated.to_device(encode(field, x)), standard_form=standard_form)
    assert field_to_ints(field, got) == want


@pytest.mark.parametrize("group", list(Group), ids=lambda g: g.value)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_check_points(emulated: CudaBackend, curve: Curve, group: Group) -> None:
    good = np.stack([generator(curve, group), point_from_ints(curve, group, None)] * 3)
    assert emulated.groups.check_points(curve, group, good) is None
    assert emulated.groups.check_points(curve, group, good.view(np.uint8)) is None
    off_curve = good.copy()
    off_curve[4, 0] ^= np.uint64(1)
    assert emulated.groups.check_points(curve, group, off_curve) == 4
    not_canonical = good.copy()
    not_canonical[2, : curve.fq.limbs] = np.uint64(2**64 - 1)
    assert emulated.groups.check_points(curve, group, not_canonical, subgroup=False) == 2


def test_check_points_outside_the_subgroup(emulated: CudaBackend) -> None:
    """(0, 2) lies on BLS12-381's y^2 = x^3 + 4 and has order 3."""
    points = np.stack([generator(BLS12_381, Group.G1), point_from_ints(BLS12_381, Group.G1, (0, 2))])
    assert emulated.groups.check_points(BLS12_381, Group.G1, points, subgroup=False) is None
    assert emulated.groups.check_points(BLS12_381, Group.G1, points) == 1


def test_a_staged_array_is_counted_once_and_gone_once_released(emulated: CudaBackend) -> None:
    field, x = BN254.fr, field_from_ints(BN254.fr, values(BN254.fr, 9))
    before = emulated.traffic.snapshot()
    staged = emulated.stage(x.copy())
    assert emulated.traffic.since(before).to_device == 0  # the thread that computes counts
    doubled = emulated.vectors.add(field, staged.array(), staged.array())
    assert emulated.traffic.since(before).to_device == x.nbytes
    staged.release()
    staged.release()
    with pytest.raises(BackendError, match="released"):
        staged.array()
    assert field_to_ints(field, emulated.to_host(doubled)) == [2 * v % field.modulus for v in field_to_ints(field, x)]


@pytest.mark.parametrize("field", [BN254.fr, BLS12_381.fr], ids=lambda f: f.name)
def test_synthesis(emulated: CudaBackend, field: Field) -> None:
    with CpuBackend() as cpu:
        block = sha256_block(field, 3000, 2)
        for program, bits in ((products(field, 7, 60, 1), False), (bits_of(field, 7, 3, 250, 1), False), (block, True)):
            assert np.array_equal(wires_of(emulated, program, bits=bits), wires_of(cpu, program, bits=bits))
        a = field_from_ints(field, values(field, 70))
        assert np.array_equal(emulated.vectors.bits(field, a, 200), cpu.vectors.bits(field, a, 200))


@pytest.mark.parametrize("lanes", [1, 2, 8, 32])
def test_groups_of_threads_make_the_products_of_one(lanes: int) -> None:
    """Groups of any size give the wires that the CPU backend gives."""
    device = EmulatedDevice()
    backend, field = CudaBackend(device), BLS12_381.fr
    backend.synthesis.group_threads = lanes * LANES * PLACEMENTS * BATCH // device.sm_count + 1
    with CpuBackend() as cpu:
        for own in (1, 60, 61):
            program = products(field, 7, own, own)
            assert np.array_equal(wires_of(backend, program), wires_of(cpu, program))
    grouped = device.kernel(field_source("synthesis", field), "synthesis_products_grouped")
    assert grouped.launches == (0 if lanes == 1 else 3)


@pytest.mark.parametrize(("moved", "spread"), [(False, 1), (True, 1), (False, 77)])
@pytest.mark.parametrize("transposed", [False, True])
def test_placed_matrices_are_made_on_the_device(
    emulated: CudaBackend, moved: bool, spread: int, transposed: bool
) -> None:
    field = BLS12_381.fr
    matrix = placed_matrix(field, 3, moved=moved, spread=spread)
    x = field_from_ints(field, values(field, matrix.rows if transposed else matrix.cols))
    with CpuBackend(threads=1) as cpu:
        want = cpu.sparse.spmv(cpu.sparse.load_matrix(field, matrix, transposed=transposed), x)
    for given in (matrix, matrix.csr()):
        loaded = emulated.sparse.load_matrix(field, given, transposed=transposed)
        got = emulated.to_host(emulated.sparse.spmv(loaded, emulated.to_device(x)))
        assert np.array_equal(got, want)
