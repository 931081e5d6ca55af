from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from distprove.errors import (
    CalledOff,
    CurveMismatch,
    DistproveError,
    FormatError,
    WitnessGenerationError,
    WitnessMismatch,
)
from distprove.groth16 import witness as witness_module
from distprove.groth16.inputs import fnv1a, read_input
from distprove.groth16.witness import WitnessProgram, _Fault, _Instance
from distprove.groth16.wtns import read_wtns, write_wtns
from distprove.groth16.zkey import read_zkey
from distprove.wanted import unless
from kernels.maths.curves import BLS12_381, BN254
from kernels.maths.encoding import unpack
from tests.support.own_time import give_time
from tests.support.toy_program import ASSERTION, FOREVER, NON_CANONICAL, toy_program

R = BN254.fr.modulus
SECRET = 987654321987654321


def generate(inputs: dict[str, Any], **changes: Any) -> list[int]:
    return unpack(WitnessProgram(toy_program(**changes)).generate(inputs))


# -- inputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([3, 4], [3, 4]),
        (["3", "0x1F"], [3, 31]),
        ([-1, "-2"], [R - 1, R - 2]),
        ([[3], [[4]]], [3, 4]),
        ([2**53 + 1, 2**300], [2**53 + 1, 2**300 % R]),
        ([str(R), R + 7], [0, 7]),
        ([4.0, True], [4, 1]),
        (["-0x10", "0X0a"], [R - 16, 10]),
    ],
)
def test_values_are_taken_as_snarkjs_takes_them(value: Any, expected: list[int]) -> None:
    assert generate({"x": value}) == [1, *expected]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "takes 2 input values, 0 are given"),
        ({"x": [1]}, "signal 'x' takes 2 values, 1 is given"),
        ({"x": [1, 2, 3]}, "signal 'x' takes 2 values, 3 are given"),
        ({"x": 5}, "signal 'x' takes 2 values, 1 is given"),
        ({"x": [1, 2], "y": 5}, "'y' is not an input signal"),
        ({"y": 5, "x": [1, 2]}, "'y' is not an input signal"),
        ({"x": [1, None]}, "'x': null is not"),
        ({"x": [1, {"a": 1}]}, "'x': a list mixes objects and numbers"),
        ({"x" * 1001: 1}, "a signal name has 1001 characters"),
        ({"x": {"a": 1}}, r"'x\.a' is not an input signal"),
        ({"x": [1, 2.5]}, "'x': a number that is not an exact integer"),
        ({"x": [1, 1e30]}, "'x': a number that is not an exact integer"),
        ({"x": [1, ""]}, "'x': a string is not"),
        ({"x": [1, "0x"]}, "'x': a string is not"),
        ({"x": [1, "12 "]}, "'x': a string is not"),
        ({"x": [1, "٣"]}, "'x': a string is not"),
    ],
)
def test_bad_inputs_name_the_signal(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(WitnessGenerationError, match=message):
        generate(inputs)


def test_a_signal_of_no_values_is_none_of_the_circuits() -> None:
    """Programs of newer circom versions say so of a name that they do not have; those of others say -1."""
    with pytest.raises(WitnessGenerationError, match="'y' is not an input signal"):
        generate({"x": [1, 2], "y": 5}, size_of_unknown=0)


def test_programs_without_signal_sizes_are_checked_in_total() -> None:
    """Programs of the first circom 2 versions do not tell a signal's size."""
    assert generate({"x": [3, 4]}, input_size=False) == [1, 3, 4]
    with pytest.raises(WitnessGenerationError, match="takes 2 input values, 1 is given"):
        generate({"x": [3]}, input_size=False)
    with pytest.raises(WitnessGenerationError, match="'y': the signal is not an input of the circuit"):
        generate({"y": [3]}, input_size=False)


@pytest.mark.parametrize(
    ("signal", "inputs"),
    [
        ("p.x", {"p": {"x": [3, 4]}}),
        ("p.q.x", {"p": {"q": {"x": ["3", "4"]}}}),
        ("p[0].x", {"p": [{"x": [3, 4]}]}),
        ("p[0][0].x", {"p": [[{"x": [[3], [4]]}]]}),
    ],
)
def test_buses_go_by_qualified_names(signal: str, inputs: dict[str, Any]) -> None:
    """The names that circom 2.2's own witness_calculator.js makes of objects."""
    assert generate(inputs, signal=signal) == [1, 3, 4]


def test_a_list_that_contains_itself() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    with pytest.raises(WitnessGenerationError, match="nested more than"):
        generate({"x": endless})


def test_the_hash_is_fnv1a() -> None:
    """Published test vectors of 64-bit FNV-1a."""
    assert fnv1a("") == 0xCBF29CE484222325
    assert fnv1a("a") == 0xAF63DC4C8601EC8C
    assert fnv1a("foobar") == 0x85944171F73967E8


# -- programs that fail, or mean ill ----------------------------------------------------------------------------------


def test_a_failed_assertion_tells_circoms_line_and_no_value() -> None:
    trace = "Error in template Num2Bits_3 line: 42\\nError in template Main_7 line: 9"
    with pytest.raises(WitnessGenerationError) as caught:
        generate({"x": [SECRET, 1]}, message=trace, run=ASSERTION)
    text = str(caught.value)
    assert "does not hold" in text
    assert "Error in template Num2Bits_3 line: 42; Error in template Main_7 line: 9" in text
    assert "'x'" not in text
    assert str(SECRET) not in text


def test_a_program_that_makes_its_messages_of_its_inputs_tells_nothing() -> None:
    """Codes that circom does not have, and templates that the program's own text does not name."""
    program = WitnessProgram(toy_program(run="(call $fail (i32.const 1312754386))"))
    with pytest.raises(WitnessGenerationError) as caught:
        program.generate({"x": [SECRET, 1]})
    assert "1312754386" not in str(caught.value)
    instance = _Instance.__new__(_Instance)
    instance._name, instance._templates = "program", frozenset({"Main_7"})
    instance._message = list("Error in template AAAABIOOJAPP line: 3\nError in template Main_7 line: 9\n" * 50)
    told = str(instance._failure(_Fault(4)))
    assert "AAAABIOOJAPP" not in told
    assert told.count("Main_7") == 4


def test_other_messages_of_a_program_are_dropped() -> None:
    with pytest.raises(WitnessGenerationError) as caught:
        generate({"x": [1, 2]}, message=f"x[0] was {SECRET}", run=ASSERTION)
    assert str(SECRET) not in str(caught.value)


def test_an_endless_message_is_cut() -> None:
    with pytest.raises(WitnessGenerationError, match=r"does not hold for this input$"):
        generate({"x": [1, 2]}, run=ASSERTION, talk="(return (i32.const 65))")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init": FOREVER}, r"ran for 0\.2 s"),
        ({"run": FOREVER}, r"ran for 0\.2 s"),
        ({"run": "unreachable"}, "trapped: unreachable"),
        ({"init": "(drop (i32.load (i32.const -4)))"}, "trapped: memory out of bounds"),
        ({"run": NON_CANONICAL}, "not below the prime"),
        ({"wires": 3000}, "trapped: memory out of bounds"),
        ({"wires": 2**31}, "cannot run"),
        ({"run": ASSERTION, "talk": FOREVER}, r"ran for 0\.2 s"),
        ({"run": "(loop $again (call $print) (br $again))"}, r"ran for 0\.2 s"),
        ({"run": "(call $fail (i32.const 77))"}, "failed with a code that circom does not have"),
        ({"run": "(call $fail (i32.const 5))"}, "not enough memory"),
    ],
)
def test_programs_that_fail(changes: dict[str, Any], message: str) -> None:
    program = WitnessProgram(toy_program(**changes), deadline=0.2)
    with pytest.raises(WitnessGenerationError, match=message):
        program.generate({"x": [1, 2]})


def test_endless_recursion_is_a_trap() -> None:
    wasm = toy_program(imports="(func $deep (call $deep)) (start $deep)")
    with pytest.raises(WitnessGenerationError, match="trapped: stack overflow"):
        WitnessProgram(wasm)


def test_callbacks_of_another_type() -> None:
    """The protocol does not fix the imports' parameters as strictly as wasm does; whatever they are, no crash."""
    odd = '(import "runtime" "exceptionHandler" (func $odd (param i64 f32)))'
    odd += " (func $go (call $odd (i64.const 1) (f32.const 2)))"
    with pytest.raises(WitnessGenerationError, match="not an input of the circuit"):
        WitnessProgram(toy_program(imports=f"{odd} (start $go)"))
    none = '(import "runtime" "exceptionHandler" (func $none)) (func $go (call $none)) (start $go)'
    with pytest.raises(WitnessGenerationError, match="a code that circom does not have"):
        WitnessProgram(toy_program(imports=none))


def test_an_endless_start_function_ends_at_the_deadline() -> None:
    with pytest.raises(WitnessGenerationError, match="ran for"):
        WitnessProgram(toy_program(imports=f"(func $start {FOREVER}) (start $start)"), deadline=0.2)


def test_a_program_has_a_second_to_be_loaded_behind_which_others_wait() -> None:
    with pytest.raises(WitnessGenerationError, match="ran for 1 s of CPU time"):
        WitnessProgram(toy_program(imports=f"(func $start {FOREVER}) (start $start)"))


def test_memory_is_bounded() -> None:
    with pytest.raises(WitnessGenerationError, match="cannot run"):
        WitnessProgram(toy_program(memory=2000), memory_limit=1 << 20)
    with pytest.raises(WitnessGenerationError, match="cannot run"):
        WitnessProgram(toy_program(imports="(table 4000000000 funcref)"))
    grow = "(if (i32.eq (memory.grow (i32.const 2000)) (i32.const -1)) (then (call $fail (i32.const 5))))"
    program = WitnessProgram(toy_program(run=grow), memory_limit=1 << 20)
    with pytest.raises(WitnessGenerationError, match="not enough memory"):
        program.generate({"x": [1, 2]})


def test_a_program_is_usable_after_a_failure() -> None:
    program = WitnessProgram(toy_program())
    with pytest.raises(WitnessGenerationError):
        program.generate({"x": [1]})
    assert unpack(program.generate({"x": [1, 2]})) == [1, 1, 2]


@pytest.mark.parametrize(
    ("wasm", "message"),
    [
        (b"", "not a WebAssembly module"),
        (b"\0asm", "not a WebAssembly module"),
        (b"\0asm\1\0\0\0", "does not export getFieldNumLen32"),
        (toy_program(words=7), "neither BN254's nor BLS12-381's"),
        (toy_program(words=65), "65 words"),
        (toy_program(words=9), "neither|9 words"),
        (toy_program(prime=2**255 - 19), "neither BN254's nor BLS12-381's"),
        (toy_program(imports='(import "env" "steal" (func))'), "it imports env.steal"),
        (toy_program(imports='(import "runtime" "give" (func (result i32)))'), "it imports runtime.give"),
    ],
)
def test_files_that_are_not_witness_programs(wasm: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        WitnessProgram(wasm)


def test_the_other_curve() -> None:
    program = WitnessProgram(toy_program(curve=BLS12_381))
    assert (program.curve, program.n_vars) == (BLS12_381, 3)
    assert unpack(program.generate({"x": [-1, 2]})) == [1, BLS12_381.fr.modulus - 1, 2]


def test_a_program_is_held_against_a_circuit() -> None:
    program = WitnessProgram(toy_program())
    program.check_for(SimpleNamespace(curve=BN254, n_vars=3))
    with pytest.raises(CurveMismatch, match=r"for BN254, the key for BLS12-381"):
        program.check_for(SimpleNamespace(curve=BLS12_381, n_vars=3))
    with pytest.raises(WitnessMismatch, match="the program is of 3 wires, the circuit of the key of 4"):
        program.check_for(SimpleNamespace(curve=BN254, n_vars=4))


def test_threads_share_a_program() -> None:
    program = WitnessProgram(toy_program())
    with ThreadPoolExecutor(max_workers=2) as pool:
        witnesses = list(pool.map(program.generate, [{"x": [i, i * i]} for i in range(40)]))
        wrong = pool.submit(program.generate, {"x": [1, 2, 3]})
        assert unpack(program.generate({"x": [1, 2]})) == [1, 1, 2]
    assert [unpack(w) for w in witnesses] == [[1, i, i * i] for i in range(40)]
    with pytest.raises(WitnessGenerationError, match="3 are given"):
        wrong.result()


# -- real circuits ----------------------------------------------------------------------------------------------------

CIRCUITS = ("tiny", "epochKeyLite", "signup", "reputation", "userStateTransition", "sha256_256", "chain_bls12381")

# All of a circuit's witnesses in one Node process: its program is compiled once.
_REFERENCE = """
const snarkjs = require(process.argv[1]);
const fs = require("fs");
(async () => {
  const [wasm, out, ...inputs] = process.argv.slice(2);
  for (const path of inputs) {
    const name = out + "/" + path.split("/").pop() + ".wtns";
    await snarkjs.wtns.calculate(JSON.parse(fs.readFileSync(path, "utf8")), wasm, name);
  }
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
"""


@pytest.mark.node
@pytest.mark.parametrize("circuit", CIRCUITS)
def test_witnesses_equal_snarkjs(shared_data: Path, snarkjs: Any, tmp_path: Path, circuit: str) -> None:
    """Every input, byte for byte; and each witness fits its key."""
    folder = shared_data / "circom" / circuit
    inputs = sorted((folder / "inputs").glob("*.json"))
    library = snarkjs.program.with_name("main.cjs")
    command = ["node", "-e", _REFERENCE, str(library), str(folder / "circuit.wasm"), str(tmp_path), *map(str, inputs)]
    subprocess.run(command, check=True, timeout=280)
    program, key = WitnessProgram(folder / "circuit.wasm"), read_zkey(folder / "circuit.zkey")
    program.check_for(key)
    for path in inputs:
        write_wtns(tmp_path / "ours.wtns", program.curve, program.generate(read_input(path)))
        assert (tmp_path / "ours.wtns").read_bytes() == (tmp_path / f"{path.name}.wtns").read_bytes(), path.name
        read_wtns(tmp_path / "ours.wtns").check_for(key)


def test_a_real_assertion(shared_data: Path) -> None:
    """sha256_256 takes bits: anything else breaks a constraint, and circom says where."""
    folder = shared_data / "circom" / "sha256_256"
    inputs = json.loads((folder / "inputs" / "input_00.json").read_text())
    inputs["in"][5] = str(SECRET)
    with pytest.raises(WitnessGenerationError) as caught:
        WitnessProgram(folder / "circuit.wasm").generate(inputs)
    assert str(SECRET) not in str(caught.value)


def test_mutated_programs(shared_data: Path, tmp_path: Path) -> None:
    """Bytes of a real program changed at random: an error or a witness, never a crash or a hang."""
    wasm = bytearray((shared_data / "circom" / "tiny" / "circuit.wasm").read_bytes())
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(60):
        mutated = bytearray(wasm)
        for at in rng.integers(8, len(wasm), 3):
            mutated[at] = rng.integers(0, 256)
        try:
            program = WitnessProgram(bytes(mutated), deadline=0.3, memory_limit=64 << 20, cache_dir=tmp_path)
            assert program.generate({"a": 3, "b": 5}).shape == (program.n_vars, 4)
        except DistproveError:
            refused += 1
    assert refused > 0


def test_importing_does_not_start_anything() -> None:
    code = "import threading, distprove.groth16.witness; assert threading.active_count() == 1"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- time -------------------------------------------------------------------------------------------------------------


class Clock:
    """CPU time of any thread, as a test says."""

    def __init__(self) -> None:
        self.now, self.looks = 0.0, 0

    def __call__(self, clock: int) -> float:
        self.looks += 1
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    give_time(monkeypatch, witness_module, clock_gettime=made)
    return made


def made_beside(program: WitnessProgram, called_off: threading.Event) -> Future[Any]:
    """A witness that another thread makes."""

    def make() -> Any:
        with unless(called_off.is_set):
            return program.generate({"x": [1, 2]})

    return ThreadPoolExecutor(1).submit(make)


def test_a_program_has_its_limit_of_cpu_time_however_long_that_takes(clock: Clock) -> None:
    """A machine with much else to do fails no honest program; a loop uses CPU time and ends."""
    program = WitnessProgram(toy_program(run=FOREVER), deadline=0.2)
    made, before = made_beside(program, threading.Event()), clock.looks
    while clock.looks < before + 10:  # twice the limit, by ticks
        assert not made.done()
        time.sleep(0.01)
    clock.now = 0.3
    with pytest.raises(WitnessGenerationError, match=r"ran for 0\.2 s of CPU time, its limit"):
        made.result(60)


@pytest.mark.parametrize("place", ["run", "init"])
def test_a_program_that_is_called_off_is_interrupted(clock: Clock, place: str) -> None:
    program, called_off = WitnessProgram(toy_program(**{place: FOREVER})), threading.Event()
    made, before = made_beside(program, called_off), clock.looks
    while clock.looks < before + 2:
        time.sleep(0.01)
    called_off.set()
    with pytest.raises(CalledOff):
        made.result(60)


def test_others_of_a_program_go_on_when_one_is_interrupted() -> None:
    """An epoch interrupts all that runs on an engine."""
    loops = f"(if (i32.eq (i32.load (i32.const 288)) (i32.const 1)) (then {FOREVER}))"
    program, called_off = WitnessProgram(toy_program(run=loops)), threading.Event()
    made = made_beside(program, called_off)
    assert unpack(program.generate({"x": [3, 4]})) == [1, 3, 4]
    called_off.set()
    for _ in range(20):
        assert unpack(program.generate({"x": [3, 4]})) == [1, 3, 4]
    with pytest.raises(CalledOff):
        made.result(60)
    assert unpack(program.generate({"x": [3, 4]})) == [1, 3, 4]


def test_a_program_that_does_not_come_to_say_what_it_is_is_called_off(clock: Clock) -> None:
    called_off = threading.Event()

    def load() -> None:
        with unless(called_off.is_set):
            WitnessProgram(toy_program(imports=f"(func $start {FOREVER}) (start $start)"))

    loaded = ThreadPoolExecutor(1).submit(load)
    while clock.looks < 2:
        time.sleep(0.01)
    called_off.set()
    with pytest.raises(CalledOff):
        loaded.result(60)
