"""Writes the row functions of programs that ship as files of C++, which the build compiles (kernels/CMakeLists.txt):
a machine that proves these needs no compiler.

It runs before the native code is built, with no package but those that the build asks for.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock


def texts() -> dict[str, str]:
    """The row functions that ship, by the digests of their texts: of all programs with their defaults for speed and for
    size, and of the tables of a tree's nodes, which make one proof of a job's partitions."""
    from distprove.stark.programs import PROGRAMS
    from distprove.stark.recursion.columns import ROWS
    from kernels.cpu.goldilocks.row_source import host_text
    from kernels.host.compiler import digest

    programs = [entry.make({}, proving=False, prefer=how) for entry in PROGRAMS.values() for how in ("speed", "size")]
    functions = [*ROWS, *(rows for program in programs for rows in program.row_functions)]
    return {digest(text): text for text in (host_text(rows.source) for rows in functions)}


def write(folder: Path) -> None:
    """Write each text to a file of its own, named by its digest; delete what lies there from earlier builds."""
    named = {f"{name}.cpp": text for name, text in texts().items()}
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if file.name not in named:
            file.unlink()
    for name, text in named.items():
        file = folder / name
        if not file.exists():
            file.write_text(text, encoding="utf-8")


def do_without_native() -> None:
    """Let modules be imported that use the native code when they are; nothing of it can be called."""
    unbuilt = sys.modules["kernels.host.native"] = ModuleType("kernels.host.native")
    unbuilt.native = MagicMock()  # type: ignore[attr-defined]


if __name__ == "__main__":
    do_without_native()
    write(Path(sys.argv[1]))
