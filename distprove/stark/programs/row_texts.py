"""Writes the row functions of programs that ship as files of C++, which the build compiles (kernels/CMakeLists.txt):
a machine that proves these needs no compiler.

It runs before the native code is built, with no package but those that the build asks for.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock


def write(folder: Path) -> None:
    """Write each text to a file of its own, named by its digest; delete what lies there from earlier builds."""
    from distprove.stark.programs import PROGRAMS
    from kernels.cpu.goldilocks.row_source import host_text
    from kernels.host.compiler import digest

    programs = [entry.make({}, proving=False, prefer=how) for entry in PROGRAMS.values() for how in ("speed", "size")]
    texts = {host_text(rows.source) for program in programs for rows in program.row_functions}
    named = {f"{digest(text)}.cpp": text for text in texts}
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if file.name not in named:
            file.unlink()
    for name, text in named.items():
        file = folder / name
        if not file.exists():
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    unbuilt = sys.modules["kernels.host.native"] = ModuleType("kernels.host.native")
    unbuilt.native = MagicMock()  # type: ignore[attr-defined]  # some modules use it when they are imported
    write(Path(sys.argv[1]))
