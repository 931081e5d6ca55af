"""What does not fit is refused by the families themselves, and never reaches a backend's own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest

from kernels.errors import BackendError, SizeError
from kernels.interface import groups
from kernels.interface.goldilocks import DeepPoint, GoldilocksKernels
from kernels.interface.groups import Groups
from kernels.interface.matrix import CsrMatrix
from kernels.interface.row_program import Op, RowProgram
from kernels.interface.sparse import Sparse
from kernels.interface.vectors import Vectors
from kernels.maths.curves import BLS12_381, BN254, Field, Group
from kernels.maths.encoding import field_from_ints, generator
from kernels.maths.goldilocks import P

FR = BN254.fr
A = field_from_ints(FR, range(8))
OF_BYTES = A.astype(np.int64)
G1 = np.stack([generator(BN254, Group.G1)] * 4)
ODD = np.zeros(8 * A.size + 1, np.uint8)[1:].view(np.uint64).reshape(A.shape)
CONSTANT = A.copy()
CONSTANT.flags.writeable = False


def reached(*_: Any) -> NoReturn:
    raise AssertionError("a backend's own code was reached")


class Table:
    curve, group, n = BN254, Group.G1, 4


class Loaded:
    field, rows, cols = FR, 6, 8


def bare(family: Any, *arguments: Any, **attributes: Any) -> Any:
    """A family whose own code must not be reached."""
    return type("Bare", (family,), dict.fromkeys(family.__abstractmethods__, reached) | attributes)(*arguments)


VECTORS: Vectors = bare(Vectors, np.empty)
SPARSE: Sparse[Any] = bare(Sparse, np.empty, loaded=Loaded)
GROUPS: Groups[Any] = bare(Groups, loaded=Table)
STARK: GoldilocksKernels = bare(GoldilocksKernels)
COLUMNS, CUBE, OTHER = (np.zeros(shape, np.uint64) for shape in ((2, 8), (2, 2, 8), (2, 2, 4)))
THREES, CODEWORD = np.zeros((3, 4), np.uint64), np.zeros((3, 2, 8), np.uint64)
NOTHING = RowProgram((0,), np.array([(Op.SCALAR, 0, 0, 0)], dtype=np.int32), (), 2, (0,))
WEIGHTS, ONE = np.zeros((2, 3), np.uint64), (1, 0, 0)
LOADS = RowProgram((2, 2, 0), np.array([(Op.LOAD, 0, 0, 0)], dtype=np.int32), (), 2, (0,))


def matrix(row_ptr: list[int], columns: list[int], index: list[int]) -> CsrMatrix:
    arrays = [np.array(v, dtype=np.uint32) for v in (row_ptr, columns, index)]
    return CsrMatrix(2, 3, *arrays, A[:1])


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "another dtype": ("uint64", lambda: VECTORS.add(FR, OF_BYTES, A)),
    "another width": ("uint64", lambda: VECTORS.add(BLS12_381.fq, A, A)),
    "one axis": ("uint64", lambda: VECTORS.batch_inverse(FR, A.reshape(-1))),
    "different shapes": ("shapes", lambda: VECTORS.mul_sub(FR, A, A, A[:2])),
    "rows left out": ("contiguous", lambda: VECTORS.to_montgomery(FR, A[::2])),
    "a second operand with rows left out": ("contiguous", lambda: VECTORS.sub(FR, A[:4], A[::2])),
    "a read-only result": ("writable", lambda: VECTORS.add(FR, A, A, out=CONSTANT)),
    "a result at an odd address": ("writable", lambda: VECTORS.add(FR, A, A, out=ODD)),
    "a result of another shape": ("writable", lambda: VECTORS.scale_powers(FR, A, 3, out=A[:4])),
    "a result with rows left out": ("contiguous", lambda: VECTORS.add(FR, A[:4], A[:4], out=A.copy()[::2])),
    "powers of a batch": ("one vector", lambda: VECTORS.scale_powers(FR, A.reshape(2, 4, 4), 3)),
    "a transform of six": ("power of two", lambda: VECTORS.ntt(FR, A[:6].copy())),
    "a transform of none": ("power of two", lambda: VECTORS.ntt(FR, A[:0].copy())),
    "a transform beyond the roots of unity": ("power of two", lambda: VECTORS.ntt(BN254.fq, A[:4].copy())),
    "a transform of batches of batches": ("power of two", lambda: VECTORS.ntt(FR, A.reshape(2, 2, 2, 4).copy())),
    "a transform of what is read-only": ("writable", lambda: VECTORS.ntt(FR, CONSTANT)),
    "the coset 0": ("coset", lambda: VECTORS.ntt(FR, A.copy(), coset=FR.modulus)),
    "words compared to rows left out": ("contiguous", lambda: VECTORS.equal(A[:4], A[::2])),
    "half words": ("64-bit words", lambda: VECTORS.equal(np.zeros(4, np.uint8), np.zeros(4, np.uint8))),
    "a column out of range": ("column beyond", lambda: SPARSE.load_matrix(FR, matrix([0, 1, 2], [0, 3], [0, 0]))),
    "a value out of range": ("value beyond", lambda: SPARSE.load_matrix(FR, matrix([0, 1, 2], [0, 2], [0, 1]))),
    "rows that fall": ("rise", lambda: SPARSE.load_matrix(FR, matrix([0, 3, 2], [0, 2], [0, 0]))),
    "more entries than there are": ("describe", lambda: SPARSE.load_matrix(FR, matrix([0, 1, 3], [0, 2], [0, 0]))),
    "entries before the first row": ("describe", lambda: SPARSE.load_matrix(FR, matrix([1, 1, 2], [0, 2], [0, 0]))),
    "a row short": ("describe", lambda: SPARSE.load_matrix(FR, matrix([0, 1], [0], [0]))),
    "an index short": ("beyond", lambda: SPARSE.load_matrix(FR, matrix([0, 1, 2], [0, 2], [0]))),
    "a vector that is no matrix' columns": ("8 columns", lambda: SPARSE.spmv(Loaded(), A[:4])),  # type: ignore[arg-type]
    "points of another group": ("G2 points", lambda: GROUPS.load_points(BN254, Group.G2, G1)),
    "points of another curve": ("points have shape", lambda: GROUPS.check_points(BLS12_381, Group.G1, G1)),
    "points left out": ("contiguous", lambda: GROUPS.check_points(BN254, Group.G1, G1[::2])),
    "scalars of another width": ("uint64", lambda: GROUPS.msm(Table(), np.zeros((4, 6), np.uint64))),  # type: ignore[arg-type]
    "scalars left out": ("contiguous", lambda: GROUPS.msm(Table(), A[::2])),  # type: ignore[arg-type]
    "more scalars than points": ("4 points", lambda: GROUPS.msm(Table(), A[:5])),  # type: ignore[arg-type]
    "scalars beyond the last point": ("4 points", lambda: GROUPS.msm(Table(), A[:2], start=3)),  # type: ignore[arg-type]
    "scalars before the first point": ("4 points", lambda: GROUPS.msm(Table(), A[:2], start=-1)),  # type: ignore[arg-type]
    "a point for fewer columns": (
        "3 columns times 2",
        lambda: GROUPS.sparse_product(BN254, Group.G1, matrix([0, 1, 1], [0], [0]), G1[:2]),
    ),
    "a column beyond the points": (
        "column beyond",
        lambda: GROUPS.sparse_product(BN254, Group.G1, matrix([0, 1, 1], [3], [0]), G1[:3]),
    ),
    "multiples of two points": ("points have", lambda: GROUPS.fixed_base(BN254, Group.G1, G1[:2], A)),
    "elements of different shapes": ("shapes", lambda: STARK.add(COLUMNS, COLUMNS[:, :4])),
    "elements of another dtype": ("uint64", lambda: STARK.mul(COLUMNS, COLUMNS.astype(np.int64))),
    "columns of six rows": ("power of two", lambda: STARK.lde(COLUMNS[:, :6], 1)),
    "a column alone": ("shape", lambda: STARK.lde(COLUMNS[0], 1)),
    "an extension beyond the roots of unity": ("roots", lambda: STARK.lde(COLUMNS, 30)),
    "an extension to less": ("roots", lambda: STARK.lde(COLUMNS, -1)),
    "columns on the coset 0": ("coset", lambda: STARK.lde(COLUMNS, 1, coset=P)),
    "an extension of another shape": ("writable", lambda: STARK.lde(COLUMNS, 1, out=OTHER)),
    "selectors on more cosets than there are": ("selectors", lambda: STARK.selectors(3, 1, 2)),
    "selectors beyond the roots of unity": ("selectors", lambda: STARK.selectors(31, 2, 1)),
    "a matrix too few": ("given 1", lambda: STARK.evaluate(LOADS, [CUBE], WEIGHTS)),
    "no matrix where there are columns": ("no input", lambda: STARK.evaluate(LOADS, [CUBE, None, None], WEIGHTS)),
    "a matrix of another width": ("input 1", lambda: STARK.evaluate(LOADS, [CUBE, CUBE[:1], None], WEIGHTS)),
    "a matrix of another height": ("input 1", lambda: STARK.evaluate(LOADS, [CUBE, OTHER, None], WEIGHTS)),
    "a matrix of another dtype": ("uint64", lambda: STARK.evaluate(LOADS, [CUBE.astype(int), CUBE, None], WEIGHTS)),
    "a matrix of one axis": ("input 0", lambda: STARK.evaluate(LOADS, [CUBE[0, 0], CUBE, None], WEIGHTS)),
    "scalars that are missing": ("scalars", lambda: STARK.evaluate(LOADS, [CUBE, CUBE, None], WEIGHTS[:1])),
    "cosets that are missing": ("input 0", lambda: STARK.evaluate(LOADS, [CUBE, CUBE, None], WEIGHTS, log_cosets=2)),
    "factors that are missing": (
        "factors",
        lambda: STARK.evaluate(LOADS, [CUBE, CUBE, None], WEIGHTS, log_cosets=1, coset_factors=WEIGHTS[0]),
    ),
    "a program without rows": ("how many rows", lambda: STARK.evaluate(NOTHING, [None], WEIGHTS)),
    "coordinates that make no vector": ("extension vectors", lambda: STARK.running_sum(COLUMNS)),
    "counts of matrices": ("not counted", lambda: STARK.count(COLUMNS, COLUMNS, COLUMNS[0])),
    "counts of more rows than times": ("not counted", lambda: STARK.count(COLUMNS[0], COLUMNS[0, :4], COLUMNS[0])),
    "counts of another dtype": ("uint64", lambda: STARK.count(COLUMNS[0].astype(int), COLUMNS[0], COLUMNS[0])),
    "counts with gaps": ("contiguous", lambda: STARK.count(COLUMNS[0], COLUMNS[0], np.zeros(16, np.uint64)[::2])),
    "quotients of different shapes": ("differ", lambda: STARK.divide(np.zeros((3, 8), np.uint64), THREES)),
    "columns of two heights": ("one height", lambda: STARK.combine([CUBE, OTHER], np.zeros((4, 3), np.uint64))),
    "no columns": ("one height", lambda: STARK.combine([], WEIGHTS[:0])),
    "a weight too few": ("weights", lambda: STARK.combine([CUBE], WEIGHTS[:1])),
    "no openings": ("one height", lambda: STARK.deep([])),
    "an opening of nothing": ("one height", lambda: STARK.deep([DeepPoint(ONE, (), WEIGHTS[:0], ONE)])),
    "openings of two heights": ("one height", lambda: STARK.deep([DeepPoint(ONE, (CUBE, OTHER), WEIGHTS, ONE)])),
    "weights of one matrix for two": ("weights", lambda: STARK.deep([DeepPoint(ONE, (CUBE, CUBE), WEIGHTS, ONE)])),
    "columns opened for no matrix": ("sets of columns", lambda: STARK.evaluate_at([CUBE], ONE, next_row=[])),
    "a column that is not there": ("ascending", lambda: STARK.evaluate_at([CUBE], ONE, next_row=[(2,)])),
    "columns that do not ascend": ("ascending", lambda: STARK.evaluate_at([CUBE], ONE, next_row=[(1, 0)])),
    "a column opened twice": ("ascending", lambda: STARK.evaluate_at([CUBE], ONE, next_row=[(0, 0)])),
    "a codeword of two columns": ("cannot be folded", lambda: STARK.fold(CUBE, 1, ONE)),
    "a fold of more rows than there are": ("cannot be folded", lambda: STARK.fold(CODEWORD, 4, ONE)),
    "a fold by less than one": ("cannot be folded", lambda: STARK.fold(CODEWORD, -1, ONE)),
    "a fold of twelve rows": ("power of two", lambda: STARK.fold(np.zeros((3, 2, 12), np.uint64), 1, ONE)),
    "a fold added to another shape": ("another shape", lambda: STARK.fold(CODEWORD, 1, ONE, add=CODEWORD)),
    "a tree of nothing": ("no matrix", lambda: STARK.commit([])),
    "a tree of columns": ("takes matrices", lambda: STARK.commit([COLUMNS])),
    "a tree of two blow-ups": ("one blow-up", lambda: STARK.commit([CUBE, np.zeros((2, 4, 8), np.uint64)])),
    "a tree of six rows": ("power of two", lambda: STARK.commit([CUBE[:, :, :6]])),
    "a leaf of more rows than there are": ("arity", lambda: STARK.commit([CUBE], log_arity=5)),
    "leaves of rows of two matrices": ("arity", lambda: STARK.commit([CUBE, CUBE], log_arity=1)),
    "a query before the first leaf": ("natural", lambda: STARK.open([], [3, -1])),
    "a query of more than 63 bits": ("natural", lambda: STARK.open([], [1 << 63])),
    "a short seed": ("32 bytes", lambda: STARK.grind(bytes(31), 1)),
    "more bits than a word": ("64 bits", lambda: STARK.grind(bytes(32), 65)),
    "multiples by a batch": ("scalars have", lambda: GROUPS.fixed_base(BN254, Group.G1, G1[0], A.reshape(2, 4, 4))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what: str) -> None:
    told, call = REFUSED[what]
    with pytest.raises(SizeError, match=told):
        call()


def test_what_another_backend_loaded_and_unknown_fields_are_refused() -> None:
    other: Any = object()
    with pytest.raises(BackendError, match="another backend"):
        SPARSE.spmv(other, A)
    with pytest.raises(BackendError, match="another backend"):
        GROUPS.msm(other, A)
    with pytest.raises(BackendError, match="no kernels"):
        VECTORS.add(Field("other", 101, 4, 2, 2), A, A)


def test_too_many_points_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_POINTS", 4)
    with pytest.raises(SizeError, match="fewer than 4"):
        GROUPS.load_points(BN254, Group.G1, G1)


def test_what_needs_no_backend_is_answered_at_once() -> None:
    table: Any = Table()
    assert not GROUPS.msm(table, A[:0], start=4).result().any()
    assert not VECTORS.equal(A, A[:4])
    assert not VECTORS.equal(A, OF_BYTES)
    assert VECTORS.equal(A[:0], A[:0])
