"""Row functions in C++ as programs use them: Keccak's rounds, and what stands in for them without a compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import AirError
from distprove.stark.air import CppRows
from distprove.stark.programs import keccak_rounds, load_program
from distprove.stark.programs.keccak_rounds import ROWS, WIDTH, blocks_for, fill_rounds, fill_rounds_vectorised
from kernels.cpu.backend import CpuBackend
from kernels.errors import CompilerMissing
from kernels.host import compiler as host_compiler


def needs_compiler() -> None:
    try:
        host_compiler.find_compiler()
    except CompilerMissing as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("rows", [32, 1 << 11])
def test_keccak_rounds(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_compiler()
    states = np.random.default_rng(rows).integers(0, 2**64, (25, blocks_for(rows)), dtype=np.uint64)
    with CpuBackend(threads=2) as backend:
        expected = np.empty((WIDTH, rows), dtype=np.uint64)
        fill_rounds_vectorised(expected, states, backend)
        monkeypatch.setattr(keccak_rounds, "fill_rounds_vectorised", lambda *_: pytest.fail("not by the row function"))
        columns = np.full((WIDTH + 2, rows), 7, dtype=np.uint64)
        fill_rounds(columns, states, backend)
    assert np.array_equal(columns[:WIDTH], expected)
    assert (columns[WIDTH:] == 7).all()


def test_programs_do_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load_program("keccak-f", {"permutations": 2})
    assert program.row_functions == (ROWS,)
    inputs = program.inputs(program.slices(1)[0].source)
    made = []
    for missing in (False, True):
        if missing:
            monkeypatch.setattr(host_compiler, "load", no_compiler)
        with CpuBackend() as backend:
            made.append(program.trace(inputs, backend))
    assert np.array_equal(made[0].main[0], made[1].main[0])
    assert made[0].public == made[1].public


def no_compiler(*_: Any, **__: Any) -> None:
    raise CompilerMissing("none here")


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
