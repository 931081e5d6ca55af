"""The CPU's row programs, openings and folds, against the interface's definition in NumPy."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.stark.field import e_dot
from kernels.cpu.goldilocks.kernels import CpuGoldilocks
from kernels.errors import SizeError
from kernels.host import native
from kernels.interface.goldilocks import DeepPoint
from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import GENERATOR, P, root_of_unity
from tests.support.goldilocks_cases import assert_counts
from tests.support.row_cases import elements, random_program, scalars_for
from tests.support.stark_reference import ReferenceKernels

CASES = [
    (variant, (1, 3)[(i + j) % 2], kernels)
    for i, variant in enumerate(native.variants())
    for j, kernels in enumerate(native.load(variant).row_kernels())
]
"""Every build with every instruction set, on one thread or on more than there are cores."""

REFERENCE = ReferenceKernels()


@pytest.fixture(scope="module", params=CASES, ids=lambda c: "-".join(map(str, c)))
def rows(request: pytest.FixtureRequest) -> CpuGoldilocks:
    variant, threads, kernels = request.param
    module = native.load(variant)
    return CpuGoldilocks(module, module.Pool(threads), row_kernels=kernels)


seeds = st.integers(0, 2**32 - 1)
log_heights = st.integers(0, 9)
log_blowups = st.integers(0, 3)
few = settings(max_examples=15)


def extension(rng: np.random.Generator) -> tuple[int, int, int]:
    a, b, c = elements(rng, 3).tolist()
    return a, b, c


# -- row programs -----------------------------------------------------------------------------------------------------


@few
@given(seeds, log_heights, log_blowups, st.data())
def test_programs(rows: CpuGoldilocks, seed: int, log_n: int, log_blowup: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    log_cosets = data.draw(st.integers(0, log_blowup))
    widths = tuple(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any)))
    program = random_program(rng, widths, data.draw(st.integers(3, 120)), folds=data.draw(st.booleans()))
    inputs = [elements(rng, w, 1 << log_blowup, 1 << log_n) if w else None for w in widths]
    scalars = scalars_for(rng, program)
    factors = elements(rng, 1 << log_cosets) if data.draw(st.booleans()) else None
    got = rows.evaluate(program, inputs, scalars, log_cosets=log_cosets, coset_factors=factors)
    want = REFERENCE.evaluate(program, inputs, scalars, log_cosets=log_cosets, coset_factors=factors)
    assert np.array_equal(got, want)


def test_trace_rows_and_several_blocks(rows: CpuGoldilocks) -> None:
    """(width, n) inputs, more rows than a block has, and the last row's next."""
    rng = np.random.default_rng(1)
    program = random_program(rng, (3, 0, 2), 60, folds=False)
    inputs = [elements(rng, 3, 4096), None, elements(rng, 2, 4096)]
    scalars = scalars_for(rng, program)
    assert np.array_equal(rows.evaluate(program, inputs, scalars), REFERENCE.evaluate(program, inputs, scalars))


def test_many_live_values(rows: CpuGoldilocks) -> None:
    """More values alive at once than any cache holds, and a fold of more terms than one unreduced sum takes."""
    rng = np.random.default_rng(2)
    width = 1100
    code = [(Op.LOAD, 0, c, c % 2) for c in range(width)]
    code += [(Op.MUL, c, width - 1 - c, 0) for c in range(width)]
    code += [(Op.SUB, width + c, c, 0) for c in range(width)]
    outputs = tuple(range(width, 3 * width))
    program = RowProgram((width,), np.array(code, dtype=np.int32), (), len(outputs), outputs, 0)
    trace, scalars = elements(rng, width, 1, 32), elements(rng, len(outputs), 3)
    assert np.array_equal(rows.evaluate(program, [trace], scalars), REFERENCE.evaluate(program, [trace], scalars))


def test_slots_and_steps_are_few(rows: CpuGoldilocks) -> None:
    """Values give their slots back after their last use; what nothing uses, or no row changes, costs no step."""
    code = [(Op.LOAD, 0, 0, 0), (Op.LOAD, 0, 1, 1), (Op.CONST, 0, 0, 0), (Op.MUL, 2, 2, 0), (Op.MUL, 0, 1, 0)]
    code += [(Op.ADD, v - 1, v % 4, 0) for v in range(5, 500)]
    code += [(Op.MUL, 0, 0, 0)]
    program = RowProgram((2,), np.array(code, dtype=np.int32), (7,), 0, (499,))
    prepared = rows._prepare(program)
    assert prepared.slots == 3  # the two columns, the running sum
    assert prepared.steps == 2 + 1 + 495 + 1  # loads, the product, sums, the output


def test_worst_case_sums(rows: CpuGoldilocks) -> None:
    """All elements p - 1: the largest unreduced sums."""
    width = 2100
    code = [(Op.LOAD, 0, c, 0) for c in range(width)]
    program = RowProgram((width,), np.array(code, dtype=np.int32), (), width, tuple(range(width)), 0)
    trace, scalars = (np.full(shape, P - 1, dtype=np.uint64) for shape in ((width, 1, 64), (width, 3)))
    assert (rows.evaluate(program, [trace], scalars) == width % P).all()
    lde = np.full((2, 1, 8192), P - 1, dtype=np.uint64)
    (values,) = rows.evaluate_at([lde], (1, 2, 3), next_row=[(0, 1)])
    assert values.tolist() == [[P - 1, 0, 0]] * 4
    point = DeepPoint((5, 0, 0), (np.repeat(trace, 2, axis=1),), scalars, (width, 0, 0))
    value = width % P
    assert np.array_equal(rows.deep([point]), REFERENCE.deep([point]))
    assert not rows.deep([DeepPoint((5, 0, 0), point.matrices, scalars, (value, value, value))]).any()


def test_prepared_programs_end_with_their_program(rows: CpuGoldilocks) -> None:
    rng = np.random.default_rng(3)
    trace = elements(rng, 2, 8)
    for seed in range(20):
        program = random_program(np.random.default_rng(seed), (2,), 30, folds=False)
        scalars = scalars_for(rng, program)
        for _ in range(2):
            assert np.array_equal(
                rows.evaluate(program, [trace], scalars), REFERENCE.evaluate(program, [trace], scalars)
            )
        del program
    gc.collect()
    assert not rows._prepared


def test_evaluate_refuses(rows: CpuGoldilocks) -> None:
    program = RowProgram((2, 1), np.array([(Op.LOAD, 1, 0, 1)], dtype=np.int32), (), 1, (0,), 0)
    a, b, s = (np.zeros(shape, dtype=np.uint64) for shape in ((2, 2, 8), (1, 2, 8), (1, 3)))
    rows.evaluate(program, [a, b], s)
    with pytest.raises(SizeError, match="canonical"):
        rows.evaluate(program, [a, b], s + np.uint64(P))


BAD_LINES = [(0, 1, 0, 0), (0, 0, 2, 0), (0, 0, 0, 2), (0, -1, 0, 0), (1, 0, 0, 0), (2, 1, 0, 0)]
BAD_LINES += [(3, -1, 0, 0), (4, 0, 1, 0), (6, 1, 0, 0), (7, 0, 0, 0), (-1, 0, 0, 0)]


@pytest.mark.parametrize("line", BAD_LINES)
def test_native_code_checks_operands_itself(line: tuple[int, int, int, int]) -> None:
    code = np.array([(0, 0, 0, 0), line], dtype=np.int32)
    for variant in native.variants():
        with pytest.raises(ValueError, match="row program"):
            native.load(variant).RowCode((2,), code, (), 1, (0,), None)


def test_native_code_checks_outputs_itself() -> None:
    code = np.array([(0, 0, 0, 0)], dtype=np.int32)
    for outputs, constants, fold in (((1,), (), None), ((0,), (P,), None), ((0, 0), (), 0), ((0,), (), 1)):
        with pytest.raises(ValueError, match="row program"):
            native.native.RowCode((2,), code, constants, 1, outputs, fold)


# -- pointwise --------------------------------------------------------------------------------------------------------


@few
@given(seeds, log_heights, log_blowups, st.data())
def test_selectors(rows: CpuGoldilocks, seed: int, log_n: int, log_blowup: int, data: st.DataObject) -> None:
    log_cosets = data.draw(st.integers(0, log_blowup))
    assert np.array_equal(
        rows.selectors(log_n, log_blowup, log_cosets), REFERENCE.selectors(log_n, log_blowup, log_cosets)
    )


@few
@given(seeds, st.integers(0, 11), st.integers(0, 4))
def test_divide(rows: CpuGoldilocks, seed: int, log_n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = elements(rng, 3 * m, 1 << log_n), elements(rng, 3 * m, 1 << log_n)
    b *= np.repeat(rng.random((m, 1 << log_n)) < 0.8, 3, axis=0).astype(np.uint64)
    assert np.array_equal(rows.divide(a, b), REFERENCE.divide(a, b))


@few
@given(seeds, st.integers(0, 11), st.integers(0, 4))
def test_running_sum(rows: CpuGoldilocks, seed: int, log_n: int, m: int) -> None:
    terms = elements(np.random.default_rng(seed), 3 * m, 1 << log_n)
    got, want = rows.running_sum(terms), REFERENCE.running_sum(terms)
    assert got[1] == want[1]
    assert np.array_equal(got[0], want[0])


@pytest.mark.parametrize(("n", "m"), [(1, 1), (700, 16), (700, 300)])
def test_count(rows: CpuGoldilocks, n: int, m: int) -> None:
    assert_counts(rows, n, m)


# -- openings and folds -----------------------------------------------------------------------------------------------


@few
@given(seeds, st.integers(0, 10), log_blowups, st.lists(st.integers(0, 20), min_size=1, max_size=3), st.booleans())
def test_evaluate_at(
    rows: CpuGoldilocks, seed: int, log_n: int, log_blowup: int, widths: list[int], some: bool
) -> None:
    rng = np.random.default_rng(seed)
    matrices = [elements(rng, w, 1 << log_blowup, 1 << log_n) for w in widths]
    next_row = [np.flatnonzero(rng.integers(0, 2, w)).tolist() for w in widths] if some else None
    point = extension(rng)
    got = rows.evaluate_at(matrices, point, next_row=next_row)
    want = REFERENCE.evaluate_at(matrices, point, next_row=next_row)
    assert len(got) == len(want)
    assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))


def test_evaluate_at_of_several_heights(rows: CpuGoldilocks) -> None:
    rng = np.random.default_rng(5)
    matrices = [elements(rng, w, 2, n) for w, n in ((3, 16), (1, 4), (2, 16), (4, 1))]
    next_row = [(1,), (), (), (0, 1, 3)]
    got = rows.evaluate_at(matrices, (1, 2, 3), next_row=next_row)
    want = REFERENCE.evaluate_at(matrices, (1, 2, 3), next_row=next_row)
    assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))


def test_evaluate_at_refuses_points_of_the_coset(rows: CpuGoldilocks) -> None:
    matrix = elements(np.random.default_rng(4), 1, 2, 8)
    with pytest.raises(SizeError):
        rows.evaluate_at([matrix], (GENERATOR * root_of_unity(3) % P, 0, 0))
    with pytest.raises(SizeError):
        rows.evaluate_at([matrix], (1, 2, P))


@few
@given(seeds, st.integers(0, 10), st.lists(st.tuples(st.integers(0, 70), log_blowups), min_size=1, max_size=4))
def test_combine(rows: CpuGoldilocks, seed: int, log_n: int, shapes: list[tuple[int, int]]) -> None:
    rng = np.random.default_rng(seed)
    matrices = [elements(rng, width, 1 << log_cosets, 1 << log_n) for width, log_cosets in shapes]
    weights = elements(rng, sum(width for width, _ in shapes), 3)
    assert np.array_equal(rows.combine(matrices, weights), REFERENCE.combine(matrices, weights))


@few
@given(seeds, log_heights, log_blowups, st.data())
def test_deep(rows: CpuGoldilocks, seed: int, log_n: int, log_blowup: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    widths = data.draw(st.lists(st.integers(1, 70), min_size=1, max_size=3))
    matrices = tuple(elements(rng, w, 1 << log_blowup, 1 << log_n) for w in widths)

    twice = extension(rng)

    def opening(count: int) -> DeepPoint:
        opened = matrices[:count]
        point = twice if rng.random() < 0.5 else extension(rng)
        return DeepPoint(point, opened, elements(rng, sum(widths[:count]), 3), extension(rng))

    points = [opening(count) for count in data.draw(st.lists(st.integers(1, len(widths)), min_size=1, max_size=4))]
    assert np.array_equal(rows.deep(points), REFERENCE.deep(points))


@few
@given(seeds, log_heights, log_blowups, st.integers(1, 3))
def test_deep_of_polynomials(rows: CpuGoldilocks, seed: int, log_n: int, log_blowup: int, count: int) -> None:
    """DEEP's codeword is that of a polynomial where the opened values are right, whichever way it is computed."""
    rng = np.random.default_rng(seed)
    points = []
    for width in rng.integers(1, 40, count).tolist():
        columns = rows.lde(elements(rng, width, 1 << log_n), log_blowup)
        zeta, weights = extension(rng), elements(rng, width, 3)
        (values,) = rows.evaluate_at([columns], zeta)
        points.append(DeepPoint(zeta, (columns,), weights, e_dot(weights, values)))
    assert np.array_equal(rows.deep(points, polynomial=True), REFERENCE.deep(points))


def test_deep_at_a_point_of_the_domain(rows: CpuGoldilocks) -> None:
    """Nothing is divided by zero: that row's quotient counts as zero, the others are what they are."""
    rng = np.random.default_rng(5)
    matrix = elements(rng, 3, 2, 64)
    x = GENERATOR * pow(root_of_unity(7), 2 * 5 + 1, P) % P
    point = DeepPoint((x, 0, 0), (matrix,), elements(rng, 3, 3), (1, 2, 3))
    got = rows.deep([point])
    assert not got[:, 1, 5].any()
    assert np.array_equal(got, REFERENCE.deep([point]))


@few
@given(seeds, log_heights, log_blowups, st.data())
def test_fold(rows: CpuGoldilocks, seed: int, log_n: int, log_blowup: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    log_arity = data.draw(st.integers(0, min(log_n, 6)))
    codeword = elements(rng, 3, 1 << log_blowup, 1 << log_n)
    add = elements(rng, 3, 1 << log_blowup, 1 << log_n - log_arity) if data.draw(st.booleans()) else None
    beta = extension(rng)
    assert np.array_equal(
        rows.fold(codeword, log_arity, beta, add=add), REFERENCE.fold(codeword, log_arity, beta, add=add)
    )


def test_fold_refuses_more_rows_than_it_keeps(rows: CpuGoldilocks) -> None:
    with pytest.raises(SizeError, match="fold by"):
        rows.fold(np.zeros((3, 1, 128), dtype=np.uint64), 7, (1, 2, 3))
