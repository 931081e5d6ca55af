"""Row functions in C++ on the CPU: what they make, the compiler's messages, the cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.cpu.backend import CpuBackend
from kernels.cpu.goldilocks import row_source as cpu_row_source
from kernels.errors import BackendError, CompilerMissing, SizeError
from kernels.host import compiler as host_compiler
from kernels.interface.row_source import RowSource
from kernels.maths.goldilocks import P
from tests.support.row_source_cases import CASE, case_columns, case_inputs, case_sums

try:
    host_compiler.find_compiler()
except CompilerMissing as _error:
    pytest.skip(str(_error), allow_module_level=True)


@pytest.fixture
def cpu() -> Iterator[CpuBackend]:
    with CpuBackend(threads=2) as backend:
        yield backend


def source(body: str, columns: tuple[tuple[str, int], ...] = (("a", 1), ("b", 2)), **more: Any) -> RowSource:
    text = f"DP_ROW void row(const Inputs& in, u64 i, Row& out) {{{body}}}"
    return RowSource("test.cpp", text, columns, more.pop("inputs", ()), **more)


@pytest.mark.parametrize("rows", [1, 2, 16, 32, 1 << 12])
def test_columns(cpu: CpuBackend, rows: int) -> None:
    inputs = case_inputs()
    assert np.array_equal(cpu.goldilocks.generate(CASE, inputs, rows), case_columns(inputs, rows))
    assert {name: inputs[name].tolist() for name in CASE.sums} == case_sums(inputs, rows)


@pytest.mark.parametrize("shift", range(8))
def test_columns_wherever_they_begin(cpu: CpuBackend, shift: int) -> None:
    """Tiles follow the output's cache lines, and nothing beside it is written."""
    rows, inputs = 1 << 7, case_inputs()
    room = np.full(CASE.width * rows + 16, 5, dtype=np.uint64)
    out = room[shift : shift + CASE.width * rows].reshape(CASE.width, rows)
    assert cpu.goldilocks.generate(CASE, inputs, rows, out=out) is out
    assert np.array_equal(out, case_columns(inputs, rows))
    assert (room[:shift] == 5).all()
    assert (room[shift + out.size :] == 5).all()


def test_inputs_need_not_be_contiguous(cpu: CpuBackend) -> None:
    inputs = case_inputs()
    inputs["table"] = np.repeat(inputs["table"], 2, axis=1)[:, ::2]
    assert np.array_equal(cpu.goldilocks.generate(CASE, inputs, 8), case_columns(inputs, 8))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "a of row 0"),
        ("out[0] = 1; out[1] = i;", r"b\[1\] of row 0"),
        ("out[0] = 1; out[1] = i; if (i != 2050) out[2] = 0;", r"b\[1\] of row 2050"),
        (f"out[0] = out[1] = 0; out[2] = i < 40 ? i : {P}ull;", r"b\[1\] of row 40"),
        ("out[0] = i > 3000 ? ~0ull : 0; out[1] = out[2] = i < 3001 ? 0 : ~0ull;", "a of row 3001"),
    ],
)
def test_what_is_no_trace_is_named(cpu: CpuBackend, body: str, said: str) -> None:
    with pytest.raises(BackendError, match=f"test.cpp: {said} is not written, or holds no canonical"):
        cpu.goldilocks.generate(source(body), {}, 1 << 12)


def test_the_greatest_element_is_one(cpu: CpuBackend) -> None:
    made = cpu.goldilocks.generate(source(f"out[0] = out[1] = out[2] = {P - 1}ull;"), {}, 8)
    assert (made == P - 1).all()


def test_a_text_that_does_not_compile(cpu: CpuBackend) -> None:
    with pytest.raises(
        BackendError, match=r"(?s)test\.cpp does not compile .*test\.cpp:3:3: error:.*nonsense"
    ) as error:
        cpu.goldilocks.generate(source("\n\n  nonsense = in.rows;\n"), {}, 8)
    assert not isinstance(error.value, CompilerMissing)


def test_an_unknown_header(cpu: CpuBackend) -> None:
    text = RowSource("test.cpp", '\n#include "no/such.h"\n', (("a", 1),), ())
    with pytest.raises(BackendError, match=r"test\.cpp:2 includes 'no/such\.h'"):
        cpu.goldilocks.generate(text, {}, 8)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"columns": ()}, "at least one column"),
        ({"columns": (("a", 0),)}, "at least one column"),
        ({"columns": (("a b", 1),)}, "column names"),
        ({"columns": (("a", 1), ("a", 1))}, "column names"),
        ({"inputs": ("x", "x")}, "input names"),
        ({"inputs": ("rows",)}, "none called rows"),
        ({"inputs": ("x",), "sums": ("x",)}, "input names"),
        ({"sums": ("rows",)}, "none called rows"),
        ({"function": "row()"}, "not a function's name"),
    ],
)
def test_names_that_are_none(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(SizeError, match=said):
        source("", **arguments)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "reads x; it was given nothing"),
        ({"y": np.zeros(3, np.uint64)}, "reads x; it was given y"),
        ({"x": np.zeros(3, np.int64)}, "x must be uint64"),
        ({"x": np.zeros((1, 1, 3), np.uint64)}, "x must be uint64"),
    ],
)
def test_wrong_inputs(cpu: CpuBackend, inputs: dict[str, Any], said: str) -> None:
    with pytest.raises(SizeError, match=said):
        cpu.goldilocks.generate(source("out[0] = out[1] = out[2] = 0;", inputs=("x",)), inputs, 8)


@pytest.mark.parametrize("sums", [np.zeros(16, np.uint64)[::2], np.zeros((2, 4), np.uint64), np.zeros(4, np.int64)])
def test_sums_that_could_not_be_added_to(cpu: CpuBackend, sums: np.ndarray) -> None:
    text = source("out[0] = out[1] = out[2] = 0; in.x.add(0);", sums=("x",))
    with pytest.raises(SizeError):
        cpu.goldilocks.generate(text, {"x": sums}, 8)
    sums = np.zeros(4, np.uint64)
    sums.flags.writeable = False
    with pytest.raises(SizeError):
        cpu.goldilocks.generate(text, {"x": sums}, 8)


@pytest.mark.parametrize(
    "out", [np.zeros((3, 4), np.uint64), np.zeros((3, 8), np.int64), np.zeros((8, 3), np.uint64).T]
)
def test_wrong_outputs(cpu: CpuBackend, out: np.ndarray[Any, Any]) -> None:
    with pytest.raises(SizeError, match=r"writes a contiguous \(3, 8\)"):
        cpu.goldilocks.generate(source(""), {}, 8, out=out)


def test_without_a_compiler(cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_compiler.shutil, "which", lambda name: None)
    host_compiler.find_compiler.cache_clear()
    try:
        with pytest.raises(CompilerMissing, match=r"c\+\+, g\+\+, clang\+\+.*install"):
            cpu.goldilocks.generate(source("out[0] = out[1] = out[2] = 1;"), {}, 8)
    finally:
        host_compiler.find_compiler.cache_clear()


def test_a_compiler_without_use(tmp_path: Path, cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that compiles nothing is as good as none, whatever the text."""
    broken = tmp_path / "c++"
    broken.write_text(
        "#!/bin/sh\necho broken compiler\ntest \"$1\" = --version || { echo 'no headers' >&2; exit 1; }\n"
    )
    broken.chmod(0o700)
    monkeypatch.setattr(host_compiler.shutil, "which", lambda name: str(broken))
    host_compiler.find_compiler.cache_clear()
    try:
        with pytest.raises(CompilerMissing, match=r"does not compile the project's headers:\nno headers"):
            cpu.goldilocks.generate(source("out[0] = out[1] = out[2] = 1;"), {}, 8)
    finally:
        host_compiler.find_compiler.cache_clear()


def test_a_text_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = cpu_row_source.host_text(source("out[0] = out[1] = out[2] = 4;"))
    host_compiler.load("it", text, probe=text, cache_dir=tmp_path)
    (kept,) = tmp_path.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(host_compiler, "_compile", lambda *_: pytest.fail("compiled again"))
        assert host_compiler.load("it", text, probe=text, cache_dir=tmp_path)._name == str(kept)
    host_compiler.load("it", text + "\n", probe=text, cache_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    text = cpu_row_source.host_text(source("out[0] = out[1] = out[2] = 4;"))
    assert host_compiler.load("it", text, probe=text, cache_dir=blocked / "cache").dp_trace_rows


def test_several_processes_at_once(tmp_path: Path) -> None:
    """They share one cache, and each gets a library that is whole."""
    program = (
        "import sys; from pathlib import Path; from kernels.host import compiler as h\n"
        "text = 'extern \"C\" int answer() { return 42; }'\n"
        "print(h.load('it', text, probe=text, cache_dir=Path(sys.argv[1])).answer())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in running] == ["42\n"] * 3
    assert not list(tmp_path.glob("*.tmp"))
