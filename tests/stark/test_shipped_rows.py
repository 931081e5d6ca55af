"""The row functions of programs that ship are compiled when distprove is built: who proves these needs no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distprove.stark.programs import PROGRAMS
from distprove.stark.riscv.calls import PRECOMPILES
from distprove.stark.riscv.machine import MACHINES
from kernels.cpu.goldilocks.row_source import host_text
from kernels.host import compiler
from kernels.host.native import native
from tests.stark.riscv.test_guests import GUESTS

SHIPPED = Path(native.__file__).with_name("rows")
ENDS = ("--local", "--threads", "2", "--backend", "cpu", "--security", "1", "--grinding", "0")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("prefer", ["speed", "size"])
def test_each_is_there(name: str, prefer: str) -> None:
    """Those of today's AIRs; `make setup` compiles them again after a change."""
    rows = PROGRAMS[name].make({}, proving=False, prefer=prefer).row_functions
    if name == "riscv":
        assert {*rows} == {
            each for machine in MACHINES.values() for each in machine.row_functions_of(tuple(PRECOMPILES))
        }
    for each in rows:
        assert (SHIPPED / f"{compiler.digest(host_text(each.source))}.so").is_file(), each.source.name


def without_compiler(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """A command where no program is on the PATH, and nothing in the user's cache."""
    (folder / "empty").mkdir()
    env = {**os.environ, "PATH": str(folder / "empty"), "XDG_CACHE_HOME": str(folder / "cache")}
    full = [sys.executable, "-m", "distprove", *map(str, command)]
    done = subprocess.run(full, env=env, capture_output=True, text=True, timeout=280, cwd=folder)
    assert not list((folder / "cache").rglob("*.so"))
    return done


@pytest.mark.parametrize(
    "what",
    [("riscv", "--elf", GUESTS / "sha256.elf"), ("file-root", "--file", __file__), ("keccak-f", "--permutations", 1)],
    ids=str,
)
def test_a_program_that_ships_is_proven_without_a_compiler(what: tuple[object, ...], tmp_path: Path) -> None:
    done = without_compiler(tmp_path, "prove", "stark", *what, "--out", tmp_path / "run", *ENDS)
    assert done.returncode == 0, done.stderr


OWN = """
from distprove.stark.air import CppRows
from distprove.stark.program import Trace
from distprove.stark.programs.fibonacci import Fibonacci

ROWS = CppRows("DP_ROW void row(const Inputs&, u64, Row& out) { out[0] = out[1] = 0; }", {"left": 1, "right": 1}, ())


class Zeros(Fibonacci):
    name = "zeros"
    row_functions = (ROWS,)

    def trace(self, inputs, backend):
        return Trace([ROWS.make(backend, self.rows)], (0, 0, 0, 0))
"""


def test_a_program_of_ones_own_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "zeros.py").write_text(OWN)
    own = ("zeros:Zeros", "--with", "rows=32", "--with", "second=0")
    done = without_compiler(tmp_path, "prove", "stark", *own, "--out", tmp_path / "run", *ENDS)
    assert done.returncode == 3
    assert "install, for example, the package g++" in " ".join((done.stdout + done.stderr).split())
