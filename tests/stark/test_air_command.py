"""`distprove air report` and `distprove air check`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from typer.testing import CliRunner

from distprove.cli.app import app
from distprove.stark.air.check import Example, PartitionTrace
from kernels.cuda.compiler import KernelResources, KernelRow
from kernels.source import KernelSource
from tests.support.air_examples import Fibonacci, Limbs, LimbsProgram


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["air", *args])


class Broken(Fibonacci):
    def example(self) -> Example:
        (partition,) = super().example().partitions
        return Example([self], [PartitionTrace(partition.main, {**partition.public, "last": 1})])


class NotAnExample(Fibonacci):
    def example(self) -> Any:
        return []


def test_report() -> None:
    done = run("report", "tests.support.air_examples:Limbs", "--with", "bits=4")
    assert done.exit_code == 0
    for text in ("5 main", "logup sum: global", "degree 3: 2 quotient chunks", "range"):
        assert text in done.stdout
    tables = json.loads(run("report", "tests.support.air_examples:LimbsProgram", "--json").stdout)
    assert [table["name"] for table in tables] == ["Limbs", "Ranges"]


def test_check() -> None:
    done = run("check", "tests.support.air_examples:LimbsProgram")
    assert done.exit_code == 0
    assert "holds on every row: Limbs (16 rows), Ranges (8 rows)" in done.stdout
    assert run("check", "tests.support.air_examples:Fibonacci").exit_code == 0


@pytest.mark.parametrize("program", ["fibonacci", "distprove.stark.programs.wide_fibonacci:WideFibonacci"])
def test_the_traces_of_a_program(program: str) -> None:
    done = run("check", program, "--with", "rows=2^5", "--partitions", "3")
    assert done.exit_code == 0
    assert "(32 rows); 3 partitions" in done.stdout
    assert run("report", program, "--with", "rows=32", "--json").exit_code == 0


def test_check_names_what_fails() -> None:
    done = run("check", "tests.stark.test_air_command:Broken")
    assert done.exit_code == 1
    assert "Broken: last[0], row 7" in done.stdout
    document = json.loads(run("check", "tests.stark.test_air_command:Broken", "--json").stdout)
    assert [failure["rule"] for failure in document["failures"]] == ["last[0]"]
    assert document["checked"] is True


def test_an_air_without_an_example_is_only_compiled() -> None:
    document = json.loads(run("check", "tests.support.air_examples:Limbs", "--json").stdout)
    assert (document["checked"], document["failures"]) == (False, [])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("air_examples",), "no program"),
        (("fibonacci", "--with", "rows=3"), "power of two"),
        (("no.such.module:X",), "cannot import"),
        (("tests.support.air_examples:Nothing",), "Nothing"),
        (("tests.support.air_examples:RANGE",), "neither an Air"),
        (("tests.support.air_examples:Limbs", "--with", "bits"), "NAME=VALUE"),
        (("tests.support.air_examples:Limbs", "--with", "size=3"), "parameters"),
        (("tests.support.air_examples:Limbs", "--with", "bits=x"), "integer"),
        (("tests.support.air_examples:Limbs", "--with", "bits=0"), "at least one bit"),
        (("tests.stark.test_air_command:NotAnExample",), "expected an Example"),
    ],
)
def test_what_cannot_be_checked_says_why(args: tuple[str, ...], message: str) -> None:
    done = run("check", *args)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text that proving the program takes is asked for, once, for each architecture; no input file is."""
    asked: list[tuple[str, list[str]]] = []

    def listed(arch: str, sources: Sequence[KernelSource], *, done: Callable[[], None], **_: Any) -> list[KernelRow]:
        asked.append((arch, [source.title for source in sources]))
        for _source in sources:
            done()
        resources = KernelResources("kernel", 40, 0, 0, 0, 0)
        return [KernelRow(source.title, arch, resources, 1.5, cached=False) for source in sources]

    monkeypatch.setattr("kernels.cuda.compiler.list_kernels", listed)
    done = run("compile", "file-root", "--arch", "90", "--arch", "sm_100")
    assert done.exit_code == 0, done.stderr
    assert [arch for arch, _ in asked] == ["sm_90", "sm_100"]
    titles = asked[0][1]
    assert len(set(titles)) == len(titles)
    for part in ("gl_rows(", "row_program_", "trace_", "goldilocks_lde("):
        assert any(title.startswith(part) for title in titles), part
    assert f"{len(titles)} sources" in done.stdout
    document = json.loads(run("compile", "fibonacci", "--arch", "90", "--json").stdout)
    assert document[0]["registers"] == 40


def test_an_air_alone_is_not_proven() -> None:
    done = run("compile", "tests.support.air_examples:Limbs")
    assert done.exit_code == 2
    assert "no program" in done.stderr


def test_examples_are_examples() -> None:
    assert LimbsProgram().example().check() == []
    assert Limbs(5).bits == 5
