"""Matrices of placed templates: their rows, their products on every backend, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels.cpu.backend import CpuBackend
from kernels.errors import SizeError
from kernels.interface.templated import TemplatedMatrix
from kernels.maths.curves import BLS12_381
from kernels.maths.encoding import field_from_ints, field_to_ints
from tests.support.templated_cases import dense, placed_matrix

FR = BLS12_381.fr


@pytest.mark.parametrize(("moved", "spread"), [(False, 1), (True, 1), (True, 77)])
def test_products_are_those_of_the_definition(moved: bool, spread: int) -> None:
    matrix = placed_matrix(FR, 1, moved=moved, spread=spread)
    rows = dense(matrix, FR)
    x = [pow(7, i, FR.modulus) for i in range(matrix.cols)]
    y = [pow(11, i, FR.modulus) for i in range(matrix.rows)]
    backward = [0] * matrix.cols
    for row, factor in zip(rows, y, strict=True):
        for column, coefficient in row.items():
            backward[column] += coefficient * factor
    with CpuBackend(threads=1) as cpu:
        loaded, transposed = (cpu.sparse.load_matrix(FR, matrix, transposed=t) for t in (False, True))
        product = field_to_ints(FR, cpu.sparse.spmv(loaded, field_from_ints(FR, x)))
        assert product == [sum(c * x[k] for k, c in row.items()) % FR.modulus for row in rows]
        assert field_to_ints(FR, cpu.sparse.spmv(transposed, field_from_ints(FR, y))) == [
            total % FR.modulus for total in backward
        ]


def spoiled(matrix: TemplatedMatrix) -> dict[str, TemplatedMatrix]:
    first = matrix.parts[0]
    beyond = first.runs.copy()
    beyond[0] = matrix.cols - 1, 1
    below = first.runs.copy()
    below[0] = 1, -1
    wrong = replace(first.template, value_index=first.template.value_index + 5)
    assert matrix.position is not None
    return {
        "input beyond": replace(matrix, parts=(replace(first, runs=beyond),)),
        "input below": replace(matrix, parts=(replace(first, runs=below),)),
        "own beyond": replace(matrix, parts=(replace(first, first=matrix.cols - 3),)),
        "no instance": replace(matrix, parts=(replace(first, lanes=0),)),
        "a value": replace(matrix, parts=(replace(first, template=wrong),)),
        "rows": replace(matrix, rows=3),
        "a row twice": replace(matrix, parts=(first.below(1, 0), *matrix.parts[1:])),
        "a gap": replace(matrix, parts=matrix.parts[1:]),
        "entries": replace(matrix, parts=(first.below(0, 1), *matrix.parts[1:])),
        "a spread": replace(matrix, spread=3),
        "a position": replace(matrix, position=matrix.position + np.uint32(1)),
        "positions": replace(matrix, position=matrix.position[:-1]),
    }


def test_columns_that_occur_are_those_with_an_entry() -> None:
    matrix = placed_matrix(FR, 1, moved=True)
    values = matrix.values.copy()
    values[:4] = 0
    entries = replace(matrix, values=values).csr()
    named = {int(c) for c, v in zip(entries.columns, entries.value_index, strict=True) if values[v].any()}
    assert set(np.flatnonzero(replace(matrix, values=values).occurring()).tolist()) == named
    assert set(np.flatnonzero(matrix.occurring()).tolist()) == set(entries.columns.tolist()) > named


@pytest.mark.parametrize("what", spoiled(placed_matrix(FR, 2, moved=True)))
def test_what_does_not_fit_is_refused(what: str) -> None:
    with pytest.raises(SizeError):
        spoiled(placed_matrix(FR, 2, moved=True))[what].check(FR)


def test_strides_that_come_round_are_refused() -> None:
    """Four times 2^62 is 0 in int64, so the last of five instances names the columns of the first one."""
    matrix = placed_matrix(FR, 2, moved=True)
    (at, *_) = [number for number, part in enumerate(matrix.parts) if part.lanes == 5]
    part = matrix.parts[at]
    runs = part.runs.copy()
    runs[0, 1] = 1 << 62
    for wrong in (replace(part, runs=runs), replace(part, step=1 << 62), replace(part, runs=runs, lanes=1 << 64)):
        with pytest.raises(SizeError):
            replace(matrix, parts=(*matrix.parts[:at], wrong, *matrix.parts[at + 1 :])).check(FR)
