"""Row functions in C++ as programs use them: Keccak's rounds, and texts of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distprove.errors import AirError
from distprove.stark.air import CppRows
from distprove.stark.programs.keccak_rounds import WIDTH, blocks_for, fill_rounds
from kernels.cpu.backend import CpuBackend
from kernels.errors import CompilerMissing
from kernels.host import compiler as host_compiler
from tests.support import keccak_vectors


def needs_compiler() -> None:
    try:
        host_compiler.find_compiler()
    except CompilerMissing as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("rows", [32, 1 << 11])
def test_keccak_rounds(rows: int) -> None:
    states = np.random.default_rng(rows).integers(0, 2**64, (25, blocks_for(rows)), dtype=np.uint64)
    with CpuBackend(threads=2) as backend:
        expected = np.empty((WIDTH, rows), dtype=np.uint64)
        keccak_vectors.fill_rounds(expected, states, backend)
        columns = np.full((WIDTH + 2, rows), 7, dtype=np.uint64)
        fill_rounds(columns, states, backend)
    assert np.array_equal(columns[:WIDTH], expected)
    assert (columns[WIDTH:] == 7).all()


def test_a_file(tmp_path: Path) -> None:
    needs_compiler()
    path = tmp_path / "twice.cpp"
    path.write_text("DP_ROW void twice(const Inputs& in, u64 i, Row& out) { out[column::twice] = 2 * in.values[i]; }")
    twice = CppRows(path, {"twice": 1}, ("values",), function="twice")
    with CpuBackend() as backend:
        made = twice.make(backend, 4, values=np.arange(4, dtype=np.uint64))
    assert made.tolist() == [[0, 2, 4, 6]]


@pytest.mark.parametrize(("source", "columns"), [(Path("/no/such/file.cpp"), {"a": 1}), ("", {}), ("", {"a b": 1})])
def test_what_is_no_row_function(source: Path | str, columns: dict[str, int]) -> None:
    with pytest.raises(AirError, match=r"a row function in C\+\+"):
        CppRows(source, columns, ())
