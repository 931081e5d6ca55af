"""Goldilocks' pointwise kernels on a real GPU: parity with the definition in NumPy, and sizes it is too slow for."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.stark import field
from kernels.cuda.backend import CudaBackend
from kernels.cuda.goldilocks.kernels import CudaGoldilocks
from kernels.cuda.goldilocks.row_program import RowProfile
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import DeepPoint
from kernels.maths.goldilocks import P
from kernels.maths.goldilocks_extension import ext_pow
from tests.support.goldilocks_cases import assert_counts, element, powers, random_program, words
from tests.support.stark_reference import ReferenceKernels, domain, power

pytestmark = pytest.mark.gpu
reference = ReferenceKernels()
LOG_SIZES = [0, 3, 10, 16]


@pytest.fixture(scope="module")
def rows(cuda: CudaBackend) -> CudaGoldilocks:
    return CudaGoldilocks(cuda.device)


@pytest.mark.parametrize("log_n", LOG_SIZES)
@pytest.mark.parametrize("profile", [RowProfile(), RowProfile(40.0, 3)], ids=["default", "cut"])
def test_row_programs(cuda: CudaBackend, profile: RowProfile, log_n: int) -> None:
    rows, n = CudaGoldilocks(cuda.device, row_profile=profile), 1 << log_n
    for seed in range(3):
        for fold in (False, True):
            program = random_program(seed, fold=fold)
            scalars, options = words(program.scalars, 3), {"log_cosets": 1, "coset_factors": words(2)}
            inputs = [None, words(4, 2, n), words(6, 4, n)]
            got = rows.evaluate(program, [None if m is None else cuda.to_device(m) for m in inputs], scalars, **options)
            assert np.array_equal(cuda.to_host(got), reference.evaluate(program, inputs, scalars, **options))


@pytest.mark.parametrize("log_n", LOG_SIZES)
def test_selectors_and_quotients(cuda: CudaBackend, rows: CudaGoldilocks, log_n: int) -> None:
    for log_blowup, log_cosets in ((1, 1), (2, 1)):
        got = cuda.to_host(rows.selectors(log_n, log_blowup, log_cosets))
        assert np.array_equal(got, reference.selectors(log_n, log_blowup, log_cosets))
    a, b = words(6, 1 << log_n), words(6, 1 << log_n, seed=2)
    b[:3, 0] = 0
    got = cuda.to_host(rows.divide(cuda.to_device(a), cuda.to_device(b)))
    assert np.array_equal(got, reference.divide(a, b))


@pytest.mark.parametrize("log_n", [0, 3, 10, 14])
def test_running_sum(cuda: CudaBackend, rows: CudaGoldilocks, log_n: int) -> None:
    terms = words(6, 1 << log_n)
    got, total = rows.running_sum(cuda.to_device(terms))
    want, whole = reference.running_sum(terms)
    assert total == whole
    assert np.array_equal(cuda.to_host(got), want)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1 << 20, 16), (1 << 20, 1 << 16)])
def test_count(cuda: CudaBackend, rows: CudaGoldilocks, n: int, m: int) -> None:
    assert_counts(rows, n, m, cuda)


@pytest.mark.parametrize("log_n", [20, 22])
def test_a_long_running_sum_is_cyclic(cuda: CudaBackend, rows: CudaGoldilocks, log_n: int) -> None:
    """What defines it: the first is zero, and each step, the last one too, adds the term less T/n."""
    terms = words(3, 1 << log_n)
    on_device, total = rows.running_sum(cuda.to_device(terms))
    s = cuda.to_host(on_device)
    assert not s[:, 0].any()
    share = np.array([t * pow(1 << log_n, -1, P) % P for t in total], dtype=np.uint64)[:, None]
    assert np.array_equal(field.sub(np.roll(s, -1, axis=1), s), field.sub(terms, share))


@pytest.mark.parametrize("log_arity", [1, 2, 3])
@pytest.mark.parametrize("log_n", [3, 10, 18])
def test_fold(cuda: CudaBackend, rows: CudaGoldilocks, log_n: int, log_arity: int) -> None:
    codeword, add = words(3, 2, 1 << log_n), words(3, 2, 1 << (log_n - log_arity))
    got = rows.fold(cuda.to_device(codeword), log_arity, element(1), add=cuda.to_device(add))
    assert np.array_equal(cuda.to_host(got), reference.fold(codeword, log_arity, element(1), add=add))


@pytest.mark.parametrize("every", [None, 1, 2])
@pytest.mark.parametrize("log_n", [0, 1, 6, 13])
def test_evaluate_at(cuda: CudaBackend, rows: CudaGoldilocks, log_n: int, every: int | None) -> None:
    matrices = [words(w, 2, 1 << log_n) for w in (1, 3, 18)] + [words(1, 2, 1 << log_n, seed=s) for s in range(3)]
    next_row = None if every is None else [range(0, len(m), every) for m in matrices]
    got = rows.evaluate_at([cuda.to_device(m) for m in matrices], element(3), next_row=next_row)
    want = reference.evaluate_at(matrices, element(3), next_row=next_row)
    for a, b in zip(got, want, strict=True):
        assert np.array_equal(a, b)


def test_several_heights_at_a_point(cuda: CudaBackend, rows: CudaGoldilocks) -> None:
    matrices = [words(w, 2, n) for w, n in ((3, 4096), (1, 8), (2, 4096), (4, 1))]
    next_row = [(0, 2), (), (), (0, 1, 2, 3)]
    got = rows.evaluate_at([cuda.to_device(m) for m in matrices], element(3), next_row=next_row)
    for a, b in zip(got, reference.evaluate_at(matrices, element(3), next_row=next_row), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("log_n", [20, 22])
def test_long_columns_at_a_point(cuda: CudaBackend, rows: CudaGoldilocks, log_n: int) -> None:
    """Powers of x, which everyone can evaluate."""
    x, exponents = domain(log_n, 1), (0, 1, 5, (1 << log_n) - 1)
    matrix = np.stack([power(x, e) for e in exponents])
    (got,) = rows.evaluate_at([cuda.to_device(matrix)], element(4), next_row=[(1, 2)])
    after = field.e_scale(element(4), field.root_of_unity(log_n))
    want = [ext_pow(element(4), e) for e in exponents] + [ext_pow(after, e) for e in exponents[1:3]]
    assert got.tolist() == [list(value) for value in want]


@pytest.mark.parametrize("log_n", LOG_SIZES)
@pytest.mark.parametrize("widths", [(1,), (5, 30), (70,), (3,) * 40])
def test_combine(cuda: CudaBackend, rows: CudaGoldilocks, log_n: int, widths: tuple[int, ...]) -> None:
    host = [words(w, 2, 1 << log_n, seed=i) for i, w in enumerate(widths)]
    weights = words(sum(widths), 3, seed=9)
    got = rows.combine([cuda.to_device(m) for m in host], weights)
    assert np.array_equal(cuda.to_host(got), reference.combine(host, weights))


@pytest.mark.parametrize("log_n", LOG_SIZES)
def test_deep(cuda: CudaBackend, rows: CudaGoldilocks, log_n: int) -> None:
    host = {w: words(w, 2, 1 << log_n) for w in (5, 3, 6)}
    device = {w: cuda.to_device(m) for w, m in host.items()}
    gamma = element(1)

    def points(matrices: dict[int, Array]) -> list[DeepPoint]:
        main, aux, quotient = matrices.values()
        weights = powers(14, gamma)
        return [
            DeepPoint(element(2), (main, aux, quotient), weights, element(5)),
            DeepPoint(element(3), (main, aux, quotient), weights, element(6), ext_pow(gamma, 14)),
            DeepPoint(element(4), (main, aux), words(8, 3), element(7)),
            DeepPoint(element(8), (aux, main), words(8, 3, seed=2), element(9)),
            DeepPoint((17, 0, 0), (quotient,), words(6, 3), element(9)),
        ]

    for use in (slice(0, 2), slice(2, 4), slice(0, 5), slice(4, 5)):
        assert np.array_equal(cuda.to_host(rows.deep(points(device)[use])), reference.deep(points(host)[use]))


def test_an_offset_beyond_32_bits(cuda: CudaBackend, rows: CudaGoldilocks) -> None:
    """A matrix of more than 2^32 words: the last column counts, alone."""
    width, log_n = 520, 22
    if cuda.device.memory_free() < 3 * 8 * width << (log_n + 1):
        pytest.skip("less than three times the matrix's memory is free")
    matrix = cuda.zeros((width, 2, 1 << log_n))
    last = words(1, 2, 1 << log_n)
    cuda.device.copy(matrix[width - 1 :], cuda.to_device(last))
    weight = powers(width, element(1))
    got = rows.deep([DeepPoint(element(2), (matrix,), weight, element(3))])
    scale = np.array([ext_pow(element(1), width - 1)], dtype=np.uint64)
    want = rows.deep([DeepPoint(element(2), (cuda.to_device(last),), scale, element(3))])
    assert cuda.vectors.equal(got, want)
    opened = rows.evaluate_at([matrix], element(4))[0]
    assert not opened[:-1].any()
    assert np.array_equal(opened[-1:], rows.evaluate_at([cuda.to_device(last)], element(4))[0])
