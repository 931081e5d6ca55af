"""Goldilocks' pointwise kernels, on host fibers, against the executable definition in NumPy."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from kernels.cuda.backend import CudaBackend
from kernels.cuda.goldilocks.deep_fri import OPENINGS
from kernels.cuda.goldilocks.kernels import CudaGoldilocks
from kernels.cuda.goldilocks.row_program import MAX_COSETS, MAX_UNIFORM_WORDS, RowPlan, RowProfile
from kernels.errors import SizeError
from kernels.interface.goldilocks import DeepPoint, RowJob
from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import P
from kernels.maths.goldilocks_extension import ext_mul, ext_pow, ext_scale
from tests.support.emulated_device import EmulatedDevice
from tests.support.goldilocks_cases import assert_counts, element, powers, random_program, words
from tests.support.stark_reference import ReferenceKernels

reference = ReferenceKernels()


@pytest.fixture(scope="module")
def rows(emulated: CudaBackend) -> CudaGoldilocks:
    assert isinstance(emulated.device, EmulatedDevice)
    return CudaGoldilocks(emulated.device)


@pytest.mark.parametrize(("fold", "seed"), [(False, 1), (True, 2), (True, 3)])
def test_row_programs(rows: CudaGoldilocks, fold: bool, seed: int) -> None:
    program = random_program(seed, fold=fold)
    scalars = words(program.scalars, 3)
    for n, blowup, log_cosets in ((1, 1, 0), (4, 4, 2), (128, 4, 1)):
        inputs = [None, words(4, n) if blowup == 1 else words(4, blowup, n), words(6, blowup, n)]
        for factors in (None, words(1 << log_cosets)):
            options = {"log_cosets": log_cosets, "coset_factors": factors}
            want = reference.evaluate(program, inputs, scalars, **options)
            assert np.array_equal(rows.evaluate(program, inputs, scalars, **options), want)


def test_programs_side_by_side(rows: CudaGoldilocks, emulated: CudaBackend) -> None:
    """Of several tables, each with kernels of its own; and of none."""
    assert isinstance(emulated.device, EmulatedDevice)
    jobs = []
    for seed in range(1, 12):
        program, n = random_program(seed, fold=seed % 2 == 1), 2 << seed % 5
        inputs = [None, words(4, 2, n), words(6, 2, n)]
        jobs.append(RowJob(program, inputs, words(program.scalars, 3), 1, words(2) if seed % 3 else None))
    before = emulated.device.did.copy()
    got = rows.evaluate_all(jobs)
    assert emulated.device.did - before == {"launch": len(jobs), "fork": 1}
    for out, job in zip(got, jobs, strict=True):
        options = {"log_cosets": 1, "coset_factors": job.coset_factors}
        assert np.array_equal(out, reference.evaluate(job.program, job.inputs, job.scalars, **options))
    assert rows.evaluate_all([]) == []


def test_a_long_program_is_cut(emulated: CudaBackend) -> None:
    inputs = [None, words(4, 2, 64), words(6, 2, 64)]
    for fold in (False, True):
        program = random_program(7, fold=fold)
        assert len(RowPlan(program, RowProfile(max_work=40.0)).kernels) > 3
        scalars = words(program.scalars, 3)
        options = {"log_cosets": 1, "coset_factors": words(2)}
        got = CudaGoldilocks(emulated.device, row_profile=RowProfile(max_work=40.0)).evaluate(
            program, inputs, scalars, **options
        )
        assert np.array_equal(got, reference.evaluate(program, inputs, scalars, **options))


def test_factors_are_taken_out_of_a_fold(rows: CudaGoldilocks) -> None:
    """Constraints with selectors, base and extension; squares and products with two shared factors among them."""
    code: list[tuple[int, ...]] = [(Op.LOAD, 0, c, 0) for c in range(4)] + [(Op.LOAD, 1, c, 1) for c in range(3)]
    code += [(Op.SCALAR, 0, 0, 0), (Op.ADD, 7, 0, 0)]  # value 8 is an extension element
    first = len(code)
    code += [(Op.MUL, 4 + i % 2, (0, 1, 2, 3, 8)[i % 5], 0) for i in range(30)]
    code += [(Op.MUL, 4, 5, 0), (Op.MUL, 4, 4, 0), (Op.MUL, 8, 8, 0), (Op.MUL, 6, 1, 0), (Op.MUL, 4, 7, 0)]
    outputs = (*range(first, len(code)), 4, 7, first)
    program = RowProgram((4, 3), np.array(code, dtype=np.int32), (), 1 + len(outputs), outputs, 1)
    (kernel,) = RowPlan(program).kernels
    assert len(re.findall(r"mul\(sum\d\.value\(\), v", kernel.source.text)) == 4
    few = RowProgram((4, 3), program.code, (), 13, tuple(range(first, first + 24, 2)), 1)  # one sum beside another
    inputs = [words(4, 2, 64), words(3, 2, 64)]
    for one in (program, few):
        scalars = words(one.scalars, 3)
        got = rows.evaluate(one, inputs, scalars, log_cosets=1)
        assert np.array_equal(got, reference.evaluate(one, inputs, scalars, log_cosets=1))


def test_a_kernel_takes_no_more_scalars_than_its_parameters_hold() -> None:
    """A fold of many outputs is cut for its weights alone, and a kernel's words are no more than there is room for."""
    code = np.array([(Op.LOAD, 0, i, 0) for i in range(1000)], dtype=np.int32)
    program = RowProgram((1000,), code, (), 1000, tuple(range(1000)), 0)
    plan = RowPlan(program, RowProfile(max_work=1e9))
    sizes = [len(w) for w in plan.words(words(1000, 3), np.ones(1, np.uint64))]
    assert sum(sizes) == 3000 + 1000
    assert max(sizes) <= MAX_UNIFORM_WORDS
    assert sum((k.weights for k in plan.kernels), ()) == tuple(range(1000))


def test_a_rule_that_repeats_itself_is_one_text(rows: CudaGoldilocks) -> None:
    """(1 - x) x of 300 columns, twice 100 of them with the next row's: whichever they are, three texts say it all."""
    code: list[tuple[int, ...]] = [(Op.CONST, 0, 0, 0)]
    outputs = []
    for i in range(300):
        at = len(code)
        code += [(Op.LOAD, 0, 7 * i % 300, int(i >= 100)), (Op.SUB, 0, at, 0), (Op.MUL, at + 1, at, 0)]
        outputs.append(at + 2)
    program = RowProgram((300,), np.array(code, dtype=np.int32), (1,), 300, tuple(outputs), 0)
    inputs, scalars = [words(300, 2, 64)], words(300, 3)
    for one in (program, RowProgram((300,), program.code, (1,), 300, tuple(outputs))):
        plan = RowPlan(one, RowProfile(max_work=40.0))
        assert len(plan.kernels) > 9
        assert len({kernel.source for kernel in plan.kernels}) <= 5
        got = CudaGoldilocks(rows._device, row_profile=RowProfile(max_work=40.0)).evaluate(
            one, inputs, scalars, log_cosets=1
        )
        assert np.array_equal(got, reference.evaluate(one, inputs, scalars, log_cosets=1))


def test_an_output_of_more_columns_than_the_parameters_hold(rows: CudaGoldilocks) -> None:
    width = MAX_UNIFORM_WORDS + 60
    code: list[tuple[int, ...]] = [(Op.LOAD, 0, i, i % 2) for i in range(width)]
    for i in range(1, width):
        code.append((Op.ADD, i if i == 1 else len(code) - 1, i - 1 if i == 1 else i, 0))
    program = RowProgram((width,), np.array(code, dtype=np.int32), (), 1, (len(code) - 1,), 0)
    inputs, scalars = [words(width, 2, 8)], words(1, 3)
    got = rows.evaluate(program, inputs, scalars, log_cosets=1)
    assert np.array_equal(got, reference.evaluate(program, inputs, scalars, log_cosets=1))


def test_a_program_without_rows_to_read(rows: CudaGoldilocks) -> None:
    code = np.array([(Op.SCALAR, 0, 0, 0), (Op.BASE_SCALAR, 1, 0, 0), (Op.MUL, 0, 1, 0)], dtype=np.int32)
    for fold, outputs in ((None, (2, 1)), (1, (2, 1)), (1, ())):
        program = RowProgram((1,), code, (), 3, outputs, fold)
        scalars, inputs = words(3, 3), [words(1, 8)]
        if not outputs:
            assert not rows.evaluate(program, inputs, scalars).any()
        else:
            assert np.array_equal(rows.evaluate(program, inputs, scalars), reference.evaluate(program, inputs, scalars))


def test_sizes_that_the_kernels_do_not_handle_are_refused(rows: CudaGoldilocks) -> None:
    wide = RowProgram((1,) * 9, np.array([(Op.LOAD, 8, 0, 0)], dtype=np.int32), (), 0, (0,))
    with pytest.raises(SizeError, match="9 matrices"):
        rows.evaluate(wide, [words(1, 8)] * 9, words(0, 3))
    narrow = RowProgram((1,), np.array([(Op.LOAD, 0, 0, 0)], dtype=np.int32), (), 0, (0,))
    with pytest.raises(SizeError, match="cosets"):
        rows.evaluate(narrow, [words(1, 2 * MAX_COSETS, 2)], words(0, 3), log_cosets=MAX_COSETS.bit_length())
    for log_arity in (0, 4):
        with pytest.raises(SizeError, match="fold by"):
            rows.fold(words(3, 2, 32), log_arity, element(1))


@pytest.mark.parametrize(("log_n", "log_blowup", "log_cosets"), [(0, 1, 1), (1, 2, 0), (5, 2, 1), (9, 1, 1)])
def test_selectors(rows: CudaGoldilocks, log_n: int, log_blowup: int, log_cosets: int) -> None:
    got = rows.selectors(log_n, log_blowup, log_cosets)
    assert np.array_equal(got, reference.selectors(log_n, log_blowup, log_cosets))


@pytest.mark.parametrize(("vectors", "n"), [(1, 1), (2, 4), (3, 512)])
def test_divide(rows: CudaGoldilocks, vectors: int, n: int) -> None:
    a, b = words(3 * vectors, n), words(3 * vectors, n, seed=2)
    b[:3, 0] = 0
    assert np.array_equal(rows.divide(a, b), reference.divide(a, b))


@pytest.mark.parametrize(("vectors", "n"), [(1, 1), (2, 8), (1, 256), (3, 2048)])
def test_running_sum(rows: CudaGoldilocks, vectors: int, n: int) -> None:
    terms = words(3 * vectors, n)
    got, total = rows.running_sum(terms)
    want, whole = reference.running_sum(terms)
    assert total == whole
    assert np.array_equal(got, want)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (700, 16), (700, 300)])
def test_count(rows: CudaGoldilocks, n: int, m: int) -> None:
    assert_counts(rows, n, m)


@pytest.mark.parametrize("log_arity", [1, 2, 3])
@pytest.mark.parametrize(("blowup", "n"), [(2, 8), (4, 8), (2, 256)])
def test_fold(rows: CudaGoldilocks, log_arity: int, blowup: int, n: int) -> None:
    codeword, beta = words(3, blowup, n), element(5)
    add = words(3, blowup, n >> log_arity)
    assert np.array_equal(rows.fold(codeword, log_arity, beta), reference.fold(codeword, log_arity, beta))
    got = rows.fold(codeword, log_arity, beta, add=add)
    assert np.array_equal(got, reference.fold(codeword, log_arity, beta, add=add))


@pytest.mark.parametrize("every", [None, 1, 2])
@pytest.mark.parametrize(("blowup", "n"), [(2, 1), (4, 2), (2, 64), (1, 1024)])
def test_evaluate_at(rows: CudaGoldilocks, blowup: int, n: int, every: int | None) -> None:
    """Of no columns, all or every second one the next row too: of small heights in more runs than a launch takes."""
    many = 70 if n < 10 else 0
    matrices = [words(w, blowup, n) for w in (1, 3, 0, 18)] + [words(1, blowup, n, seed=s) for s in range(many)]
    next_row = None if every is None else [range(0, len(m), every) for m in matrices]
    for point in (element(3), (12345, 0, 0)):
        got = rows.evaluate_at(matrices, point, next_row=next_row)
        for a, b in zip(got, reference.evaluate_at(matrices, point, next_row=next_row), strict=True):
            assert np.array_equal(a, b)
    assert [v.shape for v in rows.evaluate_at([matrices[2]], element(3))] == [(0, 3)]


def test_evaluate_at_of_several_heights(emulated: CudaBackend, rows: CudaGoldilocks) -> None:
    assert isinstance(emulated.device, EmulatedDevice)
    matrices = [words(w, 2, n) for w, n in ((3, 64), (1, 8), (2, 64), (4, 1), (5, 8))]
    next_row = [(0, 2), (), (), (0, 1, 2, 3), (1, 2, 4)]
    before = emulated.device.did.copy()
    got = rows.evaluate_at(matrices, element(3), next_row=next_row)
    assert (emulated.device.did - before)["download"] == 1
    want = reference.evaluate_at(matrices, element(3), next_row=next_row)
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("n", [1, 2, 64, 1024])
@pytest.mark.parametrize("widths", [(1,), (5, 0, 30), (100,), (3,) * 40])
def test_combine(rows: CudaGoldilocks, n: int, widths: tuple[int, ...]) -> None:
    """Widths that are cut into several chunks, several launches, and within groups of columns loaded together."""
    matrices = [words(w, 1 + i % 2, n, seed=i) for i, w in enumerate(widths)]
    weights = words(sum(widths), 3, seed=9)
    assert np.array_equal(rows.combine(matrices, weights), reference.combine(matrices, weights))


@pytest.mark.parametrize(("blowup", "n"), [(1, 1), (2, 1), (1, 64), (4, 16), (2, 1024)])
def test_deep(rows: CudaGoldilocks, blowup: int, n: int) -> None:
    main, aux, quotient = (words(w, blowup, n, seed=w) for w in (5, 3, 6))
    gamma, zeta, after, other = element(1), element(2), element(3), element(4)
    both, only = (main, aux), (main, aux, quotient)
    shared = DeepPoint(zeta, only, powers(14, gamma), element(5))
    proportional = DeepPoint(after, only, shared.weights, element(6), ext_pow(gamma, 14))
    others = DeepPoint(after, both, words(8, 3), element(7), element(11))  # not proportional
    alone = DeepPoint(other, (quotient,), words(6, 3, seed=2), element(8))
    base = DeepPoint((17, 0, 0), (aux, aux), powers(6, gamma), element(9))
    none = DeepPoint(other, both, np.zeros((8, 3), dtype=np.uint64), element(9))
    for points in (
        [shared],
        [shared, proportional],
        [proportional, shared],
        [shared, others, alone],
        [base, alone],
        [none, proportional],
    ):
        assert np.array_equal(rows.deep(points), reference.deep(points))


def test_deep_of_several_tables(emulated: CudaBackend, rows: CudaGoldilocks) -> None:
    """As a proof has them: columns of every table at zeta and at the next row, others at zeta. One launch for all."""
    gamma, zeta, after = element(1), element(2), element(3)
    twice, once = [], []
    for t in range(3):
        main, aux, quotient = words(5, 2, 32, seed=t), words(3, 2, 32, seed=t), words(6, 2, 32, seed=t)
        both, here, next_row = (main[1:4], main[4:], aux[:1]), powers(5, gamma, ext_pow(gamma, 20 * t)), element(9)
        twice += [
            DeepPoint(zeta, both, here, element(10 * t)),
            DeepPoint(after, both, here, element(10 * t + 1), next_row),
        ]
        weights = powers(9, gamma, ext_pow(gamma, 20 * t + 7))
        once.append(DeepPoint(zeta, (main[:1], aux[1:], quotient), weights, element(10 * t + 2)))
    kernel = emulated.device.kernel(OPENINGS, "gl_deep_1")
    for points in (twice + once, once):
        before = kernel.launches
        assert np.array_equal(rows.deep(points), reference.deep(points))
        assert kernel.launches == before + 1


def test_deep_of_many_matrices(rows: CudaGoldilocks) -> None:
    matrices = tuple(words(1, 2, 8, seed=s) for s in range(70))
    points = [DeepPoint(element(s), matrices, words(70, 3, seed=s), element(s + 10)) for s in (1, 2)]
    assert np.array_equal(rows.deep(points), reference.deep(points))


def test_the_hosts_scalars() -> None:
    for a, b in product([(0, 0, 0), (1, 0, 0), element(1), (0, P - 1, 5)], repeat=2):
        product_ = reference.divide(words(3, 1), words(3, 1))
        assert product_.shape == (3, 1)
        quotient = reference.divide(np.array([a], dtype=np.uint64).T, np.array([b], dtype=np.uint64).T)[:, 0]
        assert b == (0, 0, 0) or ext_mul(tuple(quotient.tolist()), b) == a
    assert ext_scale(element(1), 7) == ext_mul(element(1), (7, 0, 0))
