"""docs/circuits.md: the circuit as it stands there, the files that its code writes, and the commands beneath them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import UnsatisfiedWitness
from distprove.groth16.r1cs import read_r1cs
from kernels.cpu.backend import CpuBackend
from tests.cli.conftest import run
from tests.support import ROOT

GUIDE = (ROOT / "docs" / "circuits.md").read_text().partition("## Lanes and templates")[0]
LOCAL = ("--local", "--no-isolate", "--threads", "2", "--backend", "cpu")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the guide's code defines, and `factors.py` in the folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.delitem(sys.modules, "factors", raising=False)
    circuit, files = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert circuit.startswith("# factors.py")
    (tmp_path / "factors.py").write_text(circuit)
    found: dict[str, Any] = {}
    exec(circuit + files, found)
    return found


def test_the_guide_runs(names: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"left": 641, "right": "6700417"}')
    names["write_files"](names["factors"](), {"left": 641, "right": 6700417}, tmp_path)
    commands = [line.split()[1:] for line in GUIDE.splitlines() if line.startswith("    distprove ")]
    assert [words[0] for words in commands] == ["setup", "prove", "verify", "prove", "verify"]
    for words in commands:
        done = run(*words, *(LOCAL if words[0] == "prove" else ()))
        assert done.exit_code == 0, done.output
        if words[0] == "verify":
            assert str((1 << 32) + 1) in done.stdout
    sys.modules.pop("factors", None)


def test_the_table_counts_right(names: dict[str, Any]) -> None:
    """b.bits takes count + 1 constraints, and every other call of the circuit one."""
    assert names["factors"]().build().r1cs.n_constraints == 2 * (33 + 1) + 1 + 1


@pytest.mark.parametrize(
    ("left", "right", "label"),
    [(1, 77, "invertible"), (77, 1, "invertible"), (1 << 32, 3, "fits 32 bits"), (3, -1, "fits 32 bits")],
)
def test_the_circuit_refuses_what_it_says(names: dict[str, Any], left: int, right: int, label: str) -> None:
    circuit = names["factors"]().build()
    with CpuBackend(threads=2) as backend, pytest.raises(UnsatisfiedWitness, match=label):
        circuit.witness({"left": left, "right": right}, backend)


def test_files_are_read_as_they_were_written(names: dict[str, Any], tmp_path: Path) -> None:
    names["write_files"](names["factors"](), {"left": 3, "right": 5}, tmp_path)
    assert read_r1cs(tmp_path / "c.r1cs").n_constraints == names["factors"]().build().r1cs.n_constraints
    assert (tmp_path / "c.wtns").stat().st_mode & 0o077 == 0
