"""Checks a wheel that `make wheel` made: `python -m distprove.measure.wheels WHEEL...`.

A wheel has to install and prove without a compiler, on every Linux that its tag names. So it needs the extension
modules, the compiled row functions of all programs that ship, and every file of the packages that git tracks. All
compiled files have to be for the machine that the tag names: a wheel may have been cross-compiled.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from distprove.measure.prose import ROOT
from distprove.stark.programs.row_texts import do_without_native, texts

PACKAGES = ("distprove", "kernels", "actors", "cluster")
_NAME = re.compile(r"distprove-[\w.]+-(cp3\d+)-(cp3\d+|abi3)-(manylinux_2_\d+_\w+|[\w.]*manylinux[\w.]+)\.whl")
_ABI3 = (3, 12)
"""First Python whose stable ABI nanobind uses."""
_MACHINES = {"x86_64": 62, "aarch64": 183}
"""The field e_machine of an ELF file, by the machine's name in a wheel's tag."""
_MACHINE_AT = slice(18, 20)
"""Where that field lies in a file, in bytes."""


def packaged_files() -> set[str]:
    """The files of the packages that git tracks, but for what only a build reads."""
    told = subprocess.run(["git", "ls-files", "-z", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in told.stdout.split("\0") if name and (ROOT / name).is_file()}


def row_libraries() -> set[str]:
    """The compiled row functions of the programs that ship, and of the nodes of trees."""
    return {f"kernels/rows/{name}.so" for name in texts()}


def foreign_libraries(file: ZipFile, machine: str) -> Iterator[str]:
    """The compiled files of a wheel that are for another machine than `machine`, as a tag names it."""
    for name in sorted(each for each in file.namelist() if each.endswith(".so")):
        with file.open(name) as library:
            header = library.read(_MACHINE_AT.stop)
        if int.from_bytes(header[_MACHINE_AT], "little") != _MACHINES.get(machine):
            yield name


def complaints(wheel: Path) -> Iterator[str]:
    """What is wrong with a wheel, a sentence each."""
    name = _NAME.fullmatch(wheel.name)
    if name is None:
        yield f"{wheel.name} has no manylinux tag"
    with ZipFile(wheel) as file:
        names = {info.filename for info in file.infolist() if not info.is_dir()}
        if name is not None:
            machine = next((each for each in _MACHINES if name[3].endswith(f"_{each}")), "this tag")
            yield from (f"{library} is not for {machine}" for library in foreign_libraries(file, machine))
    for missing in sorted(packaged_files() - names):
        yield f"{missing} is missing"
    for missing in sorted(row_libraries() - names):
        yield f"the row function {missing} is missing"
    if name is not None:
        version = int(name[1].removeprefix("cp3"))
        suffix = f"cpython-3{version}-" if name[2] != "abi3" else "abi3.so"
        if (name[2] == "abi3") != ((3, version) >= _ABI3):
            yield f"{wheel.name} is for {name[2]}"
        found = {each.split(".")[0] for each in names if re.fullmatch(rf"kernels/_native\w*\.{suffix}.*", each)}
        if "kernels/_native" not in found or ("x86_64" in name[3] and "kernels/_native_adx" not in found):
            yield f"of the extension modules only {sorted(found)} are there"
    if not any(re.fullmatch(r"distprove-[\w.]+\.dist-info/licenses/LICENSE", each) for each in names):
        yield "the licence is missing"
    for other in sorted(each for each in names if each.split("/")[0] not in PACKAGES and ".dist-info/" not in each):
        yield f"{other} is no part of the package"


if __name__ == "__main__":
    do_without_native()
    wrong = [f"{path}: {complaint}" for path in map(Path, sys.argv[1:]) for complaint in complaints(path)]
    sys.exit("\n".join(wrong) if wrong else 0)
