"""The wheels of `make wheel`, where there are any, and their check."""

from __future__ import annotations

import importlib
from pathlib import Path
from zipfile import ZipFile

import pytest

from distprove.measure.wheels import complaints, packaged_files, row_libraries
from distprove.stark.air.cpp_rows import CppRows
from distprove.stark.programs.row_texts import texts
from kernels.cpu.goldilocks.row_source import host_text
from kernels.host.compiler import digest
from tests.support import ROOT

WHEELS = sorted((ROOT / "dist").glob("distprove-*.whl"))


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda path: path.name)
def test_a_wheel_has_all_that_a_proof_needs(wheel: Path) -> None:
    if wheel.stat().st_mtime < max((ROOT / name).stat().st_mtime for name in packaged_files()):
        pytest.skip("the wheel is older than the code: make wheel")
    assert list(complaints(wheel)) == []


def test_every_row_function_of_the_package_ships_compiled() -> None:
    """Those of a tree's nodes did not: a job that ended in one proof asked for a compiler."""
    paths = [path for path in (ROOT / "distprove").rglob("*.py") if "= CppRows(" in path.read_text(encoding="utf-8")]
    modules = [importlib.import_module(".".join(p.relative_to(ROOT).with_suffix("").parts)) for p in paths]
    named = [(f"{module.__name__}.{name}", value) for module in modules for name, value in vars(module).items()]
    found = {name: rows for name, rows in named if isinstance(rows, CppRows)}
    assert len(found) >= 16
    shipped = texts()
    assert [name for name, rows in found.items() if digest(host_text(rows.source)) not in shipped] == []


def made(folder: Path, name: str, leave_out: str = "", more: str = "") -> Path:
    """A wheel of empty files."""
    modules = {f"kernels/{module}.cpython-311-x86_64-linux-gnu.so" for module in ("_native", "_native_adx")}
    names = packaged_files() | row_libraries() | modules | {"distprove-0.1.0.dist-info/licenses/LICENSE"}
    with ZipFile(folder / name, "w") as file:
        for each in sorted(names - {leave_out} | ({more} if more else set())):
            file.writestr(each, b"")
    return folder / name


GOOD = "distprove-0.1.0-cp311-cp311-manylinux_2_34_x86_64.whl"


def test_a_wheel_that_lacks_something_is_refused(tmp_path: Path) -> None:
    assert list(complaints(made(tmp_path, GOOD))) == []
    rows = min(row_libraries())
    for missing in ("distprove/stark/riscv/runtime/guest.ld", rows, "distprove-0.1.0.dist-info/licenses/LICENSE"):
        (told,) = complaints(made(tmp_path, GOOD, missing))
        assert "missing" in told
    (told,) = complaints(made(tmp_path, GOOD, "kernels/_native_adx.cpython-311-x86_64-linux-gnu.so"))
    assert "extension modules" in told
    (told,) = complaints(made(tmp_path, GOOD, more="tests/test_wheel.py"))
    assert "is no part" in told


def test_a_wheel_for_this_machine_alone_is_refused(tmp_path: Path) -> None:
    (told,) = complaints(made(tmp_path, "distprove-0.1.0-cp311-cp311-linux_x86_64.whl"))
    assert "no manylinux tag" in told
    told, _ = complaints(made(tmp_path, "distprove-0.1.0-cp312-cp312-manylinux_2_34_x86_64.whl"))
    assert told.endswith("is for cp312")
