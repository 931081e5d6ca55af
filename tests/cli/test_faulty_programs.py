"""Mistakes of a program's author: `air check` and `prove` say what is wrong and where, in the same words."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.support import ROOT

LOCAL = ("--local", "--no-isolate", "--threads", "2", "--backend", "cpu")
GUIDE = (ROOT / "docs" / "airs.md").read_text()
FAULTY = """
import dataclasses
from walk import *

class Unlisted(Walk):
    buses = (STATE,)

class OtherValue(Walk):
    @property
    def statement(self):
        return dataclasses.replace(
            Walk.statement.fget(self), boundary=(Boundary("state", (PublicRef("cuont"), 0), -1, "last"),)
        )

class OtherPlace(Walk):
    @property
    def statement(self):
        return dataclasses.replace(Walk.statement.fget(self), boundary=(Boundary("state", (0, 0), 1, "frist"),))

class HalfDone(Program):
    name = "half-done"
    tables = ()

class NoDefine(Air):
    main = {"x": 1}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that commands run in, with the guide's program and the faulty ones; nothing that is imported stays."""
    (text,) = re.findall(r"```python\n(# walk\.py\n.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "walk.py").write_text(text)
    (tmp_path / "faulty.py").write_text(FAULTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    yield tmp_path
    for name in ("walk", "faulty"):
        sys.modules.pop(name, None)


MESSAGES = {
    "Unlisted": "Steps: bus byte is none of its program's: add it to Program.buses",
    "OtherValue": "the boundary on bus state names 'cuont', which is none of them (it has: index, count, end)",
    "OtherPlace": "the boundary on bus state is where='frist', expected one of first, last, every",
    "HalfDone": "faulty:HalfDone does not define arguments, inputs, statement, trace, which every Program needs",
}
"""Programs with a fault that neither command's other checks find, and the message of both commands."""


@pytest.mark.parametrize("name", MESSAGES)
def test_air_check_says_what_is_wrong(name: str) -> None:
    done = run("air", "check", f"faulty:{name}")
    told = " ".join(done.output.split())
    assert done.exit_code == 2, told
    assert MESSAGES[name] in told
    assert "fault in distprove" not in told
    assert "holds" not in told


@pytest.mark.parametrize("name", MESSAGES)
def test_prove_refuses_the_same(name: str) -> None:
    done = run("prove", "stark", f"faulty:{name}", "--out", "run", *LOCAL)
    assert done.exit_code == 2, done.output
    assert MESSAGES[name] in " ".join(done.output.split())


def test_an_air_without_rules_says_so() -> None:
    done = run("air", "check", "faulty:NoDefine")
    assert done.exit_code == 2
    assert "faulty:NoDefine does not define define, which every Air needs" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("t.always(t.this.srted)", "no main column is named 'srted'"),
        ("t.always(t.this.x if t.this.x == 1 else 0)", "expressions cannot be compared"),
        ("t.always(t.this.x - t.this.x)", "constraint always[0] is the constant 0"),
        ("t.always(t.this.x * 0.5)", "expected an expression or an int, not float"),
        ("t.always(t.this.x.y)", "AttributeError"),
    ],
)
def test_errors_in_define_name_table_and_line(folder: Path, line: str, says: str) -> None:
    text = (folder / "walk.py").read_text()
    (folder / "walk.py").write_text(text.replace("after = t.this.x + t.this.step\n", f"after = 0\n        {line}\n", 1))
    for command in (("air", "check", "walk:Walk"), ("security", "walk:Walk")):
        done = run(*command)
        told = " ".join(done.output.split())
        assert done.exit_code == 2, told
        assert f"Steps.define failed: {says}" in told
        assert re.search(r"walk\.py:27, in define: " + re.escape(line), told)


def test_names_of_files_and_modules_that_hide_others(folder: Path) -> None:
    done = run("air", "check", "walk.py:Walk")
    assert done.exit_code == 2
    assert "name the module without .py: walk:Walk" in " ".join(done.stderr.split())
    (folder / "kernels.py").write_text("from walk import Walk\n")
    done = run("air", "check", "kernels:Walk")
    assert done.exit_code == 2
    told = "".join(done.stderr.split())
    assert f"themoduleofthatnameis{ROOT / 'kernels' / '__init__.py'}" in told
