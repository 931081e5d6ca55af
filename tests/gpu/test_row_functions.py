"""Row functions in C++ on a real GPU: the columns that the CPU backend makes of the same text."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.stark.air import CppRows
from distprove.stark.programs import keccak_slices
from distprove.stark.programs.keccak_rounds import WIDTH, blocks_for, fill_rounds
from kernels.cuda.backend import CudaBackend
from kernels.errors import BackendError
from tests.support import keccak_vectors
from tests.support.row_source_cases import CASE, case_columns, case_inputs, case_sums

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("rows", [1, 32, 1 << 12])
def test_columns(cuda: CudaBackend, rows: int) -> None:
    inputs = case_inputs()
    given = {name: cuda.to_device(array) for name, array in inputs.items()}
    assert np.array_equal(cuda.to_host(cuda.goldilocks.generate(CASE, given, rows)), case_columns(inputs, rows))
    assert {name: cuda.to_host(given[name]).tolist() for name in CASE.sums} == case_sums(inputs, rows)


@pytest.mark.parametrize("rows", [32, 1 << 12])
def test_keccak_rounds(cuda: CudaBackend, rows: int) -> None:
    states = np.random.default_rng(4).integers(0, 2**64, (25, blocks_for(rows)), dtype=np.uint64)
    made = []
    for fill in (fill_rounds, keccak_vectors.fill_rounds):
        columns = cuda.empty((WIDTH, rows))
        fill(columns, cuda.to_device(states), cuda)
        made.append(cuda.to_host(columns))
    assert np.array_equal(made[0], made[1])


@pytest.mark.parametrize("rows", [128, 1 << 12])
def test_keccak_slices(cuda: CudaBackend, rows: int) -> None:
    states = np.random.default_rng(4).integers(0, 2**64, (25, keccak_slices.blocks_for(rows)), dtype=np.uint64)
    columns = cuda.empty((keccak_slices.WIDTH + len(keccak_slices.FLAGS), rows))
    expected = cuda.empty((keccak_slices.WIDTH, rows))
    keccak_slices.fill_slices(columns, cuda.to_device(states), 1, cuda)
    keccak_vectors.fill_slices(expected, cuda.to_device(states), cuda)
    assert np.array_equal(cuda.to_host(columns[: keccak_slices.WIDTH]), cuda.to_host(expected))


def test_the_compiler_names_the_authors_line(cuda: CudaBackend) -> None:
    function = CppRows("DP_ROW void row(const Inputs& in, u64 i, Row& out) {\n  nonsense;\n}\n", {"a": 1}, ())
    with pytest.raises(BackendError, match=r"row function\(2\): error: .*nonsense"):
        function.make(cuda, 8)
