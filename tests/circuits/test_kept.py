"""Built circuits in the user's cache: read as they were built, built once on a machine, anew where a file is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kernels
from distprove.circuits import circuit_file, kept, registry
from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import WitnessProgram
from distprove.circuits.circuit_file import decode_system, decode_witness_program, encode_system
from distprove.circuits.registry import find_circuit
from distprove.errors import FormatError
from distprove.formats import kept_arrays
from distprove.formats.kept_arrays import Content
from distprove.groth16.templated import TemplatedSystem
from distprove.groth16.zkey import read_zkey
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254
from tests.cli.conftest import run
from tests.support import ROOT
from tests.support.row_digest import row_digest

NAME = "filecoin/window-post-2KiB"
ENTRY = repr(find_circuit(NAME))
ROWS = "3feca0c3c78f87c166be5ea9f4c9632b1fb6ab37d266926cf23bb978272319a7"
"""Of storage-proofs: `tests/circuits/filecoin/test_row_digests.py`."""


@pytest.fixture(scope="module")
def built() -> CircuitBuilder:
    return find_circuit(NAME).make()


@pytest.fixture(scope="module")
def content(built: CircuitBuilder) -> Content:
    made = circuit_file.encode_witness_program(built.witness_program())
    assert made is not None
    return made


def same_witness(one: WitnessProgram, other: WitnessProgram, backend: Backend) -> bool:
    inputs = find_circuit(NAME).random_inputs(Random(7))
    return np.array_equal(one.witness(inputs, backend), other.witness(inputs, backend))


def test_a_witness_program_is_read_as_it_was_written(built: CircuitBuilder, content: Content, backend: Backend) -> None:
    read, own = decode_witness_program(content), built.witness_program()
    assert same_witness(read, own, backend)
    assert [(s.name, s.first, s.lanes) for s in read.inputs] == [(s.name, s.first, s.lanes) for s in own.inputs]
    assert all(np.array_equal(a.wires, b.wires) for a, b in zip(read.inputs, own.inputs, strict=True))
    assert read.schedule.checks == own.schedule.checks
    assert len({id(step.program) for step in read.schedule.steps}) == len(  # type: ignore[union-attr]
        {id(step.program) for step in own.schedule.steps}  # type: ignore[union-attr]
    )
    assert (read.curve, read.public_inputs, read.order) == (own.curve, own.public_inputs, None)


def test_a_system_is_read_as_it_was_written(built: CircuitBuilder) -> None:
    read = decode_system(encode_system(built.system()))
    assert row_digest(read).sha256 == ROWS
    assert len({id(part.template) for part in read.a.parts}) < len(read.a.parts)


def test_wires_in_another_order() -> None:
    """Public wires that are declared late come first."""
    b = CircuitBuilder(BN254)
    x = b.private_input("x", 3)
    b.output("y", b.multiply(x, x))
    own = b.witness_program()
    assert own.order is not None
    content = circuit_file.encode_witness_program(own)
    assert content is not None
    read = decode_witness_program(content)
    assert read.order is not None
    assert np.array_equal(read.order, own.order)
    system = b.system()
    again = decode_system(encode_system(system))
    assert all(np.array_equal(getattr(again, s).csr().columns, getattr(system, s).csr().columns) for s in "abc")
    order, columns = content[1]["order"].copy(), encode_system(system)
    order[1] = order[2]
    with pytest.raises(FormatError, match="no order"):
        decode_witness_program((content[0], {**content[1], "order": order}))
    columns[1]["a position"] = columns[1]["a position"] + np.uint32(1 << 20)
    with pytest.raises(FormatError, match="position"):
        decode_system(columns)


def test_a_circuit_whose_steps_are_no_programs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    b = CircuitBuilder(BN254)
    b.inverse(b.private_input("x"))
    assert circuit_file.encode_witness_program(b.witness_program()) is None
    monkeypatch.setattr(kept_arrays, "as_loaded", lambda files: True)
    kept.kept_witness_program(ENTRY, lambda: b, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir() if path.suffix != ".lock"] == [".system"]


# -- the cache ---------------------------------------------------------------------------------------------------------


class Counting:
    """Builds the circuit, and counts how often."""

    def __init__(self, built: CircuitBuilder) -> None:
        self.built, self.count = built, 0

    def __call__(self) -> CircuitBuilder:
        self.count += 1
        return self.built


@pytest.fixture
def make(built: CircuitBuilder, monkeypatch: pytest.MonkeyPatch) -> Counting:
    monkeypatch.setattr(kept_arrays, "as_loaded", lambda files: True)  # whenever this code was changed
    monkeypatch.setattr(kept, "digest_of", lambda files: b"the code")
    return Counting(built)


def test_it_is_built_once(make: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend) -> None:
    first = kept.kept_witness_program(ENTRY, make, tmp_path)
    assert same_witness(kept.kept_witness_program(ENTRY, make, tmp_path), first, backend)
    assert row_digest(kept.kept_system(ENTRY, make, tmp_path)).sha256 == ROWS
    assert make.count == 1
    kept.kept_system(ENTRY + " and more", make, tmp_path)
    assert make.count == 2
    monkeypatch.setattr(kept, "digest_of", lambda files: b"changed code")
    kept.kept_system(ENTRY, make, tmp_path)
    assert make.count == 3
    monkeypatch.setattr(kept_arrays, "as_loaded", lambda files: False)
    for _ in range(2):
        kept.kept_system("one more", make, tmp_path)
    assert make.count == 5, "nothing is kept by a process whose code was replaced"


def test_a_damaged_file_is_made_anew(make: Counting, tmp_path: Path) -> None:
    kept.kept_system(ENTRY, make, tmp_path)
    (path,) = tmp_path.glob("*.system")
    content = path.read_bytes()
    for spoiled in (content[:-1] + bytes([content[-1] ^ 1]), content[: len(content) // 2], b""):
        path.write_bytes(spoiled)  # no longer of the digest in its name
        make.count = 0
        assert row_digest(kept.kept_system(ENTRY, make, tmp_path)).sha256 == ROWS
        assert make.count == 1
        assert path.read_bytes() == content


def test_a_file_of_its_digest_that_is_no_circuit(
    make: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as spoiling:
        spoiling.setattr(circuit_file, "encode_system", lambda system: ({}, {}))
        kept.kept_system(ENTRY, make, tmp_path)
    assert row_digest(kept.kept_system(ENTRY, make, tmp_path)).sha256 == ROWS
    assert make.count == 2


def test_a_file_or_a_folder_of_others_is_not_read(make: Counting, tmp_path: Path) -> None:
    kept.kept_system(ENTRY, make, tmp_path)
    (path,) = tmp_path.glob("*.system")
    path.chmod(0o666)
    kept.kept_system(ENTRY, make, tmp_path)
    assert make.count == 2
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="is not used"):
        kept.kept_system(ENTRY, make, tmp_path)
    assert make.count == 3


def test_changed_native_code_finds_no_file_of_the_code_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "BEGAN", time.time_ns() + 2 * 10**9)  # as if the files had been there for a while
    monkeypatch.setattr(kept, "code", kept.code.__wrapped__)  # not cached
    names = [kept.name_of(ENTRY)]
    for content in (b"one build", b"another"):
        library = tmp_path / content.decode() / "native.so"
        library.parent.mkdir()
        library.write_bytes(content)
        monkeypatch.setattr(kept, "native", SimpleNamespace(__file__=str(library)))
        names.append(kept.name_of(ENTRY))
        assert kept.name_of(ENTRY) == names[-1] != names[-2]


PROCESS = """
import sys, time
from distprove.circuits import kept, registry
from tests.support.row_digest import row_digest

kept.as_loaded, kept.digest_of = (lambda files: True), (lambda files: b"the code")
made = registry.CircuitEntry.make

def building(entry):
    print("built")
    return made(entry)

registry.CircuitEntry.make = building
registry.witness_program(sys.argv[1])
print(row_digest(registry.constraint_system(sys.argv[1])).sha256)
"""


def test_two_processes_at_once_build_it_once_and_a_third_is_served(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}

    def started() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROCESS, NAME]
        return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    both = [started(), started()]
    told = sorted(process.communicate()[0].split() for process in both)
    assert told == [[ROWS], ["built", ROWS]]
    assert started().communicate()[0].split() == [ROWS]


def test_a_key_is_made_without_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The circuit decides what a key's proofs show: whatever lies in the cache, set-up builds it by its code."""

    def foreign(*_: Any) -> None:
        raise AssertionError("the cache was asked")

    for name in ("kept_system", "kept_witness_program"):
        monkeypatch.setattr(kept, name, foreign)
    key = tmp_path / "key.zkey"
    assert run("setup", "groth16", "--circuit", NAME, "--insecure-dev", "--out", key, "--backend", "cpu").exit_code == 0
    assert read_zkey(key).n_vars == 22151
    with pytest.raises(AssertionError):
        registry.constraint_system.__wrapped__(NAME)


# -- content that is no circuit ----------------------------------------------------------------------------------------


def other(array: str, place: int, value: int) -> Callable[[Content], Content]:
    """Another number at one place of an array."""

    def changed(content: Content) -> Content:
        record, arrays = content
        spoiled = arrays[array].copy()
        spoiled.reshape(-1)[place] = np.array(value).astype(np.int64).astype(spoiled.dtype)
        return record, {**arrays, array: spoiled}

    return changed


def cut(array: str) -> Callable[[Content], Content]:
    return lambda content: (content[0], {**content[1], array: content[1][array].reshape(-1)[:-1]})


def without(array: str) -> Callable[[Content], Content]:
    return lambda content: (content[0], {name: own for name, own in content[1].items() if name != array})


def retyped(array: str) -> Callable[[Content], Content]:
    return lambda content: (content[0], {**content[1], array: content[1][array].astype(np.uint8)})


def told(name: str, value: Any) -> Callable[[Content], Content]:
    return lambda content: ({**content[0], name: value}, content[1])


COMBINATIONS = ("row_ptr", "columns", "value_index", "values")
WITNESS_ARRAYS = ("signal", "steps", "runs", "own_runs", "checks", "terms", "factors", "programs", *COMBINATIONS)


@pytest.mark.parametrize(
    "change",
    [
        *(each(name) for each in (cut, without, retyped) for name in WITNESS_ARRAYS),
        other("signal", 0, 1 << 40),
        other("signal", 0, 0),
        other("steps", 0, -1),
        other("steps", 0, 1 << 20),
        other("steps", 1, 1 << 40),
        other("steps", 2, 0),
        other("steps", 2, 1 << 40),
        other("runs", 0, -5),
        other("runs", 0, 1 << 40),
        other("own_runs", 0, 0),
        other("own_runs", 0, 1 << 40),
        other("checks", 0, 1 << 40),
        other("checks", 2, 1 << 40),
        other("terms", 0, 1 << 40),
        other("programs", 0, 9),
        other("programs", 1, 1 << 20),
        other("programs", 2, 1 << 20),
        other("programs", 3, -1),
        other("row_ptr", 1, 1 << 20),
        other("columns", 0, 1 << 20),
        other("value_index", 0, 1 << 20),
        told("curve", "none"),
        told("wires", 3),
        told("wires", "3"),
        told("public_inputs", 99),
        told("labels", []),
        told("inputs", [["name", 1]]),
        told("inputs", []),
        told("more", 1),
    ],
)
def test_content_that_is_no_witness_program(content: Content, change: Callable[[Content], Content]) -> None:
    with pytest.raises(FormatError):
        decode_witness_program(change(content))


SYSTEM_ARRAYS = [f"{side} {name}" for side in "ac" for name in ("parts", "runs", "templates", "row_ptr", "columns")]


@pytest.mark.parametrize(
    "change",
    [
        *(each(name) for each in (cut, without, retyped) for name in (*SYSTEM_ARRAYS, "b value_index", "b values")),
        other("a parts", 0, 1 << 20),
        other("a parts", 0, -1),
        other("a parts", 1, 1 << 20),
        other("a parts", 4, 0),
        other("a parts", 5, 3),
        other("a runs", 0, 1 << 40),
        other("a runs", 0, -(1 << 40)),
        other("b templates", 0, 1 << 20),
        other("b templates", 1, -1),
        other("b row_ptr", 1, 1 << 20),
        other("c columns", 0, 1 << 31),
        other("c value_index", 0, 1 << 31),
        told("curve", "none"),
        told("n_vars", 3),
        told("n_public_inputs", -1),
        told("n_outputs", 1 << 40),
        told("more", 1),
    ],
)
def test_content_that_is_no_system(built: CircuitBuilder, change: Callable[[Content], Content]) -> None:
    system: TemplatedSystem = built.system()
    with pytest.raises(FormatError):
        decode_system(change(encode_system(system)))
