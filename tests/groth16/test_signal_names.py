"""Names of a circuit's signals in errors, with a circuit that circom 2.2.3 compiled (`circom/pay.circom`, --O1)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, WitnessGenerationError
from distprove.groth16.constraint_text import constraint_rows
from distprove.groth16.r1cs import read_r1cs
from distprove.groth16.symbols import input_signals, read_symbols, symbols_beside, wire_names
from distprove.groth16.witness import WitnessProgram
from distprove.groth16.wtns import read_wtns, write_wtns
from kernels.maths.curves import BN254
from tests.cli.conftest import run, why_refused

CIRCOM = Path(__file__).parent / "circom"
SECRET = 918273645546372819
GOOD: dict[str, Any] = {
    "amount": 3,
    "pathIndices": [0, 1, 0],
    "grid": [[SECRET, 2], [3, 4]],
    "unused": SECRET,
    "p": [{"x": SECRET, "y": [2, 3]}, {"x": 4, "y": [5, 6]}],
}


@pytest.fixture(scope="module")
def program() -> WitnessProgram:
    return WitnessProgram(CIRCOM / "pay_js" / "pay.wasm")


@pytest.fixture(scope="module")
def nameless() -> WitnessProgram:
    """The program without a `.sym` file."""
    return WitnessProgram((CIRCOM / "pay_js" / "pay.wasm").read_bytes())


def but(*left_out: str, **changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**GOOD, **changed}.items() if name not in left_out}


def refused(program: WitnessProgram, inputs: dict[str, Any]) -> str:
    with pytest.raises(WitnessGenerationError) as caught:
        program.generate(inputs)
    assert str(SECRET) not in str(caught.value)
    return str(caught.value).partition(": ")[2]


def test_a_good_input_makes_a_witness(program: WitnessProgram, nameless: WitnessProgram) -> None:
    assert np.array_equal(program.generate(GOOD), nameless.generate(GOOD))
    flat = program.generate({**GOOD, "p": [SECRET, 2, 3, 4, 5, 6]})  # circom's programs take a bus in a row, too
    assert np.array_equal(flat, program.generate(GOOD))


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (but("grid"), "the circuit takes 15 input values, 11 are given; missing: 'grid'[2][2]"),
        (but("unused", "p"), "8 are given; missing: 'unused', 'p[0].x', 'p[0].y'[2], 'p[1].x', 'p[1].y'[2]"),
        (but("unused", p=[1, 2, 3, 4, 5, 6]), "14 are given; missing: 'unused'"),
        (
            but("pathIndices", path_indices=[0, 1, 0]),
            "'path_indices' is not an input signal of the circuit (is 'pathIndices' meant?); the circuit takes 15 "
            "input values, 12 are given; missing: 'pathIndices'[3]",
        ),
        (but("amount", amuont=3), "'amuont' is not an input signal of the circuit (is 'amount' meant?)"),
        (but(mid=1), "'mid' is not an input signal of the circuit"),
        (but(root=SECRET), "'root' is not an input signal of the circuit"),
        (but(grid=[1, 2, SECRET]), "signal 'grid' takes 4 values, as 'grid'[2][2], 3 are given"),
        (but(grid=[[1, 2], [3, 4], [5, 6]]), "signal 'grid' takes 4 values, as 'grid'[2][2], 6 are given"),
        (but("unused", amount=[3, 3]), "signal 'amount' takes 1 value, 2 are given; the circuit takes 15"),
        (but(p=[{"x": 1, "y": [2]}, {"x": 4, "y": [5, 6]}]), "signal 'p[0].y' takes 2 values, as 'p[0].y'[2], 1 is"),
    ],
)
def test_an_input_that_does_not_fit(program: WitnessProgram, inputs: dict[str, Any], said: str) -> None:
    assert said in refused(program, inputs)


def test_without_names_the_program_is_asked(nameless: WitnessProgram) -> None:
    assert "(is 'pathIndices' meant?)" in refused(nameless, but("pathIndices", path_indices=[0, 1, 0]))
    assert "(is 'unused' meant?)" in refused(nameless, but("unused", unsed=1))
    missing = refused(nameless, but("unused"))
    assert "takes 15 input values, 14 are given" in missing
    assert "the circuit's .sym file beside it has (circom --sym)" in missing
    assert "'unused'" not in missing


def test_where_the_file_is_looked_for(tmp_path: Path) -> None:
    assert symbols_beside(CIRCOM / "pay_js" / "pay.wasm") == CIRCOM / "pay.sym"
    assert symbols_beside(CIRCOM / "pay.r1cs") == CIRCOM / "pay.sym"
    assert symbols_beside(tmp_path / "pay_js" / "pay.wasm") is symbols_beside(None) is None
    shutil.copy(CIRCOM / "pay.sym", tmp_path / "circuit.sym")
    assert symbols_beside(tmp_path / "circuit.wasm") == tmp_path / "circuit.sym"


def test_the_file_is_read_as_circom_writes_it() -> None:
    symbols = list(read_symbols(CIRCOM / "pay.sym"))
    assert len(symbols) == 22
    assert symbols[0] == (1, 1, 1, "main.root")
    assert symbols[-1] == (22, -1, 0, "main.sum.in[2]")
    sizes = {"grid": 4, "p[0].y": 2}
    found = input_signals(CIRCOM / "pay.sym", lambda name: sizes.get(name, -1))
    assert [str(signal) for signal in found] == ["'grid'[2][2]", "'p[0].y'[2]"]


@pytest.mark.parametrize("text", ["1,1,1\n", "1,1,1,main.\x1b[2J\n", "1,-2,1,main.a\n", "1,1,1,other.a\n", "x" * 5000])
def test_another_file_costs_names_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "pay.sym").write_text(text)
    with pytest.raises(FormatError):
        list(read_symbols(tmp_path / "pay.sym"))
    shutil.copy(CIRCOM / "pay_js" / "pay.wasm", tmp_path)
    assert "takes 15 input values, 14 are given" in refused(WitnessProgram(tmp_path / "pay.wasm"), but("unused"))


def test_a_constraint_is_named_by_its_signals(tmp_path: Path) -> None:
    """The last constraint of the source, whose `p[0].x` and `mid` the witness has as wires."""
    circuit = read_r1cs(CIRCOM / "pay.r1cs")
    text = [str(constraint_rows(circuit, row)) for row in range(circuit.n_constraints)]
    assert sum("main.pathIndices[1]" in each for each in text) >= 2  # it is boolean, and in the sum
    squares = [each for each in text if each.count("main.amount") == 3]
    assert len(squares) == 1
    assert {"main.mid", "main.p[0].x"} <= set(re.findall(r"main\.[\w.\[\]]*\w\]?", squares[0]))
    shutil.copy(CIRCOM / "pay.r1cs", tmp_path)
    bare = read_r1cs(tmp_path / "pay.r1cs")
    assert "wire 2" in str(constraint_rows(bare, text.index(squares[0])))
    other = [f"{s.label + 1},{s.wire},{s.component},{s.name}" for s in read_symbols(CIRCOM / "pay.sym")]
    (tmp_path / "pay.sym").write_text("\n".join(other))  # of a circuit with another signal in front
    assert wire_names(tmp_path / "pay.sym", {2}, lambda wire: wire) is None
    assert "wire 2" in str(constraint_rows(bare, text.index(squares[0])))


def test_a_witness_that_does_not_satisfy(program: WitnessProgram, tmp_path: Path) -> None:
    """`wtns check`, and a job with the circuit: both name the constraint, and no value of the witness."""
    witness, circuit = program.generate(GOOD), read_r1cs(CIRCOM / "pay.r1cs")
    names = wire_names(CIRCOM / "pay.sym", range(len(witness)), lambda wire: int(circuit.wire_labels[wire]))
    assert names is not None
    [mid] = [wire for wire, name in names.items() if name == "main.mid"]
    write_wtns(tmp_path / "good.wtns", BN254, witness)
    witness[mid, 0] += np.uint64(1)
    write_wtns(tmp_path / "bad.wtns", BN254, witness)
    check = ("wtns", "check", "--r1cs", CIRCOM / "pay.r1cs", "--backend", "cpu", "--threads", 2)
    assert run(*check, tmp_path / "good.wtns").exit_code == 0
    told = run(*check, tmp_path / "bad.wtns", "--json")
    found = json.loads(told.stdout)
    assert told.exit_code == 1
    assert any("main.mid" in row for row in found["signals"].values())
    assert found["text"] in " ".join(told.stderr.split())

    key = tmp_path / "pay.zkey"
    setup = ("setup", "groth16", "--r1cs", CIRCOM / "pay.r1cs", "--insecure-dev", "--out", key, "--backend", "cpu")
    assert run(*setup).exit_code == 0
    prove = ("prove", "groth16", "--zkey", key, "--local", "--threads", 2, "--gpus", 0)
    job = (*prove, "--r1cs", CIRCOM / "pay.r1cs", "--wtns", tmp_path / "bad.wtns", "--out", tmp_path / "run")
    failed = " ".join(run(*job).output.split())
    assert f"does not satisfy constraint {found['constraint']} of the circuit: {found['text']}" in failed
    for value in {*map(int, read_wtns(tmp_path / "bad.wtns").values[:, 0])} - {*range(100)}:
        assert str(value) not in failed + told.output

    (tmp_path / "in.json").write_text(json.dumps(but("unused")))
    wasm = ("--wasm", CIRCOM / "pay_js" / "pay.wasm", "--input", tmp_path / "in.json")
    failed = " ".join(run(*prove, *wasm, "--out", tmp_path / "other").output.split())
    assert "missing: 'unused'" in failed
    refused = why_refused(run("wtns", "calculate", *wasm, "--out", tmp_path / "x.wtns"))
    assert "missing: 'unused'" in refused
