"""The wheels of `make wheel`, where there are any, and their check."""

from __future__ import annotations

import importlib
import struct
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


# Starts of ELF files: the magic number, 64 bits, little-endian, version 1, a shared object, the machine.
ELF = {
    name: b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HH", 3, code)
    for name, code in (("x86_64", 62), ("aarch64", 183))
}


def made(folder: Path, name: str, leave_out: str = "", more: str = "", machine: str = "x86_64") -> Path:
    """A wheel of empty files, but that the compiled ones say for which machine they are."""
    modules = {f"kernels/{module}.cpython-311-{machine}-linux-gnu.so" for module in ("_native", "_native_adx")}
    names = packaged_files() | row_libraries() | modules | {"distprove-0.1.0.dist-info/licenses/LICENSE"}
    with ZipFile(folder / name, "w") as file:
        for each in sorted(names - {leave_out} | ({more} if more else set())):
            file.writestr(each, ELF[machine] if each.endswith(".so") else b"")
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


def test_a_library_for_another_machine_is_refused(tmp_path: Path) -> None:
    """As a cross-compiled wheel would have, of which a part was made by this machine's own compiler."""
    name = "distprove-0.1.0-cp311-cp311-manylinux_2_28_aarch64.whl"
    assert list(complaints(made(tmp_path, name, machine="aarch64"))) == []
    told = list(complaints(made(tmp_path, name, machine="x86_64")))
    assert len(told) == len(row_libraries()) + 2
    assert all(each.endswith(".so is not for aarch64") for each in told)
