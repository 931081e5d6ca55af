"""Mistakes of a program's author: `air check` and `prove` say what is wrong and where, in the same words."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.support import ROOT

LOCAL = ("--local", "--no-isolate", "--threads", "2", "--backend", "cpu")
GUIDE = (ROOT / "docs" / "airs.md").read_text()
SECRET = 918273
FAULTY = f"""
import dataclasses
from distprove.errors import UsageError
from walk import *

def changed(change):
    def trace(self, inputs, backend):
        made = Walk.trace(self, inputs, backend)
        return change(made)
    return trace

class OneTable(Walk):
    trace = changed(lambda made: Trace(made.main[:1], made.public))

class NoTrace(Walk):
    trace = changed(lambda made: None)

class NoList(Walk):
    trace = changed(lambda made: Trace(None, made.public))

class NoArray(Walk):
    trace = changed(lambda made: Trace([made.main[0].tolist(), None], made.public))

class TenRows(Walk):
    trace = changed(lambda made: Trace([made.main[0][:, :10], None], made.public))

class Signed(Walk):
    trace = changed(lambda made: Trace([made.main[0].astype(np.int64), None], made.public))

class OneColumn(Walk):
    trace = changed(lambda made: Trace([made.main[0][:1], None], made.public))

class NoPublic(Walk):
    trace = changed(lambda made: Trace(made.main, None))

class Refuses(Walk):
    def trace(self, inputs, backend):
        raise UsageError("rows must be more")

class NoColumns(Walk):
    def preprocessed(self):
        return {{}}

class OtherName(Walk):
    def preprocessed(self):
        return {{"Bytes": np.arange(256, dtype=np.uint64)[None]}}

class OddColumns(Walk):
    def preprocessed(self):
        return {{"ByteTable": np.arange(250, dtype=np.uint64)[None]}}

class NoLogarithm(Walk):
    @property
    def fixed_heights(self):
        return {{"Steps": self.rows}}

    def log_heights(self, partitions):
        raise UsageError("unsaid")

class TooTall(Walk):
    def log_heights(self, partitions):
        return [(5, 8)] * partitions

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

class Unbalanced(Walk):
    @property
    def statement(self):
        whole = Walk.statement.fget(self)
        return dataclasses.replace(whole, boundary=whole.boundary[:1])

class Broken(Walk):
    def trace(self, inputs, backend):
        made = super().trace(inputs, backend)
        made.main[0][1, 3] = {SECRET}
        return made

class OnBus(Walk):
    '''A step that is no byte, and all constraints hold.'''
    def steps(self, index):
        return super().steps(index) + np.array([0] * 3 + [{SECRET}] + [0] * 12)

class AtTrace(Walk):
    def trace(self, inputs, backend):
        return self.no_such_method({SECRET})

class AtSlices(Walk):
    def slices(self, partitions):
        return self.no_such_method({SECRET})

class AtColumns(Walk):
    counts = (1, 2)

    @property
    def fixed_heights(self):
        raise ArithmeticError("no height is fixed")

class AtInputs(Walk):
    def inputs(self, source):
        return {{}}[str(source["index"] + {SECRET})]

class HalfDone(Program):
    name = "half-done"
    tables = ()

class NoDefine(Air):
    main = {{"x": 1}}
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
    "OneTable": "the trace has 1 table; the program has 2",
    "NoTrace": "program walk: trace gave a NoneType, expected a Trace",
    "NoList": "the main columns of a trace are a list, one entry for each table, not a NoneType",
    "NoArray": "table Steps: the trace: expected an array of shape (4, rows), not a list",
    "TenRows": "table Steps: the trace: 10 rows, expected a power of two",
    "Signed": "table Steps: the trace is of int64, expected uint64",
    "OneColumn": "table Steps: the trace: an array of shape (1, 16), expected (4, rows)",
    "NoPublic": "the public values of a trace are a tuple of integers, not a NoneType",
    "Refuses": "rows must be more",
    "NoColumns": "table ByteTable: its preprocessed columns are missing in Program.preprocessed",
    "OtherName": "Program.preprocessed gave columns of Bytes, which is none of its tables (Steps, ByteTable)",
    "OddColumns": "table ByteTable: preprocessed columns: 250 rows, expected a power of two",
    "NoLogarithm": "table Steps has 2^4 rows, and the program fixes it to 2^16 (by Program.fixed_heights, which gives "
    "log2 of the rows",
    "TooTall": "log_heights, or its cut, is wrong: table Steps has 2^5 rows, and the program fixes it to 2^4",
    "Unlisted": "Steps: bus byte is none of its program's: add it to Program.buses",
    "OtherValue": "the boundary on bus state names 'cuont', which is none of them (it has: index, count, end)",
    "OtherPlace": "the boundary on bus state is where='frist', expected one of first, last, every",
    "HalfDone": "faulty:HalfDone does not define inputs, statement, trace, which every Program needs",
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
def test_prove_refuses_the_same_without_a_second_try(folder: Path, name: str) -> None:
    queries = ("--queries", "226") if name == "NoLogarithm" else ()
    done = run("prove", "stark", f"faulty:{name}", "--out", "run", *queries, *LOCAL)
    told = " ".join(done.output.split())
    assert done.exit_code == 2, told
    assert MESSAGES[name] in told
    assert "tries the rest again" not in told
    if (folder / "run" / "report.json").exists():
        report = json.loads((folder / "run" / "report.json").read_text())
        assert report["counters"]["retries"] == 0
        assert not [worker for worker in report["workers"] if worker.get("retired")]
        assert "hint: run `distprove air check faulty:" in told


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
    for alone in ("walk", "walk.py"):
        assert "walk.py is in this folder: name its class, walk:CLASS" in run("air", "check", alone).output
    done = run("air", "check", "walk.py:Walk")
    assert done.exit_code == 2
    assert "name the module without .py: walk:Walk" in " ".join(done.stderr.split())
    (folder / "kernels.py").write_text("from walk import Walk\n")
    done = run("air", "check", "kernels:Walk")
    assert done.exit_code == 2
    told = "".join(done.stderr.split())
    assert f"themoduleofthatnameis{ROOT / 'kernels' / '__init__.py'}" in told


@pytest.mark.parametrize(("name", "kind"), [("AtTrace", "AttributeError"), ("AtInputs", "KeyError")])
def test_errors_are_told_with_their_place_and_in_full_by_the_check_alone(folder: Path, name: str, kind: str) -> None:
    at = name.removeprefix("At").lower()
    done = run("prove", "stark", f"faulty:{name}", "--partitions", "2", "--out", "run", *LOCAL)
    told = " ".join(done.output.split())
    assert done.exit_code != 0
    assert f"faulty raised {kind}: its message may quote the inputs, and is left out" in told
    assert re.search(rf"faulty\.py:\d+, in {at}: ", told)
    assert "hint: run `distprove air check faulty:" in told
    assert "tries the rest again" not in told
    checked = run("air", "check", f"faulty:{name}")
    assert checked.exit_code == 2
    full = " ".join(checked.output.split())
    assert re.search(rf"faulty\.py:\d+, in {at}: ", full)
    assert ("no_such_method" if name == "AtTrace" else str(SECRET)) in full


def test_errors_of_a_key_that_a_cut_asks_for_are_told_in_full() -> None:
    """It is made from the program alone, while the job is cut: it has no inputs that the message could quote."""
    done = run("prove", "stark", "faulty:AtColumns", "--out", "run", *LOCAL)
    told = " ".join(done.output.split())
    assert done.exit_code == 2
    assert "faulty raised ArithmeticError: no height is fixed" in told
    assert re.search(r"faulty\.py:\d+, in fixed_heights: ", told)


def test_errors_of_slices_are_told_with_their_place() -> None:
    done = run("prove", "stark", "faulty:AtSlices", "--partitions", "2", "--out", "run", *LOCAL)
    assert done.exit_code == 2
    told = " ".join(done.output.split())
    assert "`distprove air check` shows it" in told
    assert re.search(r"faulty\.py:\d+, in slices: ", told)
    assert "has no attribute 'no_such_method'" in " ".join(run("air", "check", "faulty:AtSlices").output.split())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Broken", "the trace breaks a rule: Steps: transition[0], row 3"),
        ("OnBus", "the trace breaks a rule: bus byte, Steps row 3"),
        ("Unbalanced", "the global buses do not balance"),
    ],
)
def test_a_trace_that_breaks_a_rule_is_not_tried_again(folder: Path, name: str, says: str) -> None:
    """The rule and its row are named, and no value; the command that shows values is."""
    program = f"faulty:{name}"
    done = run("prove", "stark", program, "--with", "seed=7", "--partitions", "2", "--out", "run", *LOCAL)
    told = " ".join(done.output.split())
    assert done.exit_code in (1, 2)
    assert says in told
    assert f"hint: run `distprove air check {program} --with seed=7 --partitions 2`" in told
    assert "names the rule and the row, and with --show-values the values" in told
    assert "tries the rest again" not in told
    for text in (told, *(path.read_text(errors="replace") for path in (folder / "run").rglob("*.json*"))):
        assert str(SECRET) not in text
    assert run("air", "check", program, "--with", "seed=7", "--partitions", "2").exit_code == 1


@pytest.mark.parametrize(
    ("name", "rule", "says"),
    [
        (
            "Broken",
            "t.transition(t.next.x - after",
            r"Steps: transition\[0\], row 3: reads x, step, next.x; at walk\.py:{line}",
        ),
        (
            "OnBus",
            "t.send(BYTE",
            r"bus byte: a tuple is sent once by .*Steps at walk\.py:{line}; never received; first at .*Steps row \d+",
        ),
        ("Unbalanced", "STATE", r"bus state: a tuple is (never sent; received|sent) once by .*Steps.* at walk\.py:"),
    ],
)
def test_the_check_names_rules_by_file_and_line_and_shows_values_on_demand(
    folder: Path, name: str, rule: str, says: str
) -> None:
    lines = (folder / "walk.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if rule in text)
    args = ("air", "check", f"faulty:{name}", "--with", "seed=7", "--partitions", "2")
    hidden, shown = run(*args), run(*args, "--show-values")
    assert hidden.exit_code == shown.exit_code == 1
    told = " ".join(hidden.output.split())
    assert re.search(says.format(line=line), told), told
    assert " = " not in told
    assert "--show-values" in told
    values = re.findall(r"\w+ = (\d{5,})", shown.output)  # the secret, and sums with it
    assert bool(values) == (name != "Unbalanced")
    for value in values:
        assert value not in told + run(*args, "--json").output
        assert value in run(*args, "--json", "--show-values").output
    record = json.loads(run(*args, "--json").stdout)["failures"][0]
    assert record["source"] or [party["table"] for party in record["parties"]]


@pytest.mark.parametrize("name", ["Broken", "OnBus", "Unbalanced"])
def test_prove_with_check_proves_nothing_that_fails(folder: Path, name: str) -> None:
    done = run("prove", "stark", f"faulty:{name}", "--partitions", "2", "--check", "--out", "run", *LOCAL)
    told = " ".join(done.output.split())
    assert done.exit_code == 2
    assert "nothing was proven: rules do not hold" in told
    assert "walk.py:" in told
    assert str(SECRET) not in told
    assert not (folder / "run").exists()


def test_prove_with_check_proves_what_holds_and_quotes_no_input(folder: Path) -> None:
    done = run("prove", "stark", "fibonacci", "--rows", "2^4", "--check", "--out", "run", *LOCAL)
    assert done.exit_code == 0, done.output
    assert "holds on every row: fibonacci (16 rows)" in " ".join(done.stderr.split())
    for name in ("AtTrace", "AtInputs", "AtSlices"):
        refused = run("prove", "stark", f"faulty:{name}", "--partitions", "2", "--check", "--out", "other", *LOCAL)
        assert refused.exit_code == 2
        assert "its message may quote the inputs, and is left out" in " ".join(refused.output.split())
