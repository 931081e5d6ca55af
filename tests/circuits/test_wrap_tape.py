"""The tape of a wrap's circuit: it gives the witness of the vectorised program, and refuses what that refuses."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import Circuit
from distprove.circuits.wrap.tape import WIDTH, Kind, Tape, record
from distprove.circuits.wrap.verifier import unchecked_circuit, verifier_inputs
from distprove.errors import FormatError, UnsatisfiedWitness, UsageError, WitnessGenerationError
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.wrap.kept import decode_tape, encode_tape
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BLS12_381, BN254
from tests.support.multilinear_golden import golden_job


@cache
def made() -> tuple[Circuit, Tape, list[dict[str, Any]]]:
    """The circuit of a golden job's shape, its tape, and the inputs of its two partitions."""
    job = golden_job("multilinear-bn254")
    shapes, inputs = [], []
    for part in job.proofs:
        proof, shape = MultilinearProof.from_record(part.data, job.key, part.name)
        shapes.append((shape, part.name, proof.challenge))
        inputs.append(verifier_inputs(shape, part.name, part.public, proof, bytes(range(32))))
    b, _ = unchecked_circuit(*shapes[0])
    return b.build(), record(b), inputs


def test_a_tape_gives_the_programs_witness() -> None:
    circuit, tape, (inputs, _) = made()
    with CpuBackend(threads=2) as cpu:
        witness = tape.witness(inputs, cpu)
        assert np.array_equal(witness, circuit.witness(inputs, cpu))
        assert circuit.r1cs.first_unsatisfied(witness, cpu) is None
    kinds = {Kind(row[0]) for row in tape.arrays["operations"].tolist()}
    assert kinds == set(Kind)  # each operation is compared


def test_a_tape_refuses_what_the_program_refuses() -> None:
    circuit, tape, (inputs, other) = made()
    changed = {**inputs, "root": str(int(str(inputs["root"])) + 1)}
    with CpuBackend(threads=1) as cpu:
        for wrong in (changed, other):
            with pytest.raises(UnsatisfiedWitness, match="the inputs do not satisfy the circuit: "):
                tape.witness(wrong, cpu)
            with pytest.raises(UnsatisfiedWitness):
                circuit.witness(wrong, cpu)
        for wrong in ({**inputs, "more": "1"}, {k: v for k, v in inputs.items() if k != "root"}):
            with pytest.raises(WitnessGenerationError):
                tape.witness(wrong, cpu)


def test_lanes_inverses_and_labels() -> None:
    """What a circuit of one lane a value has none of."""
    b = CircuitBuilder(BN254)
    x = b.private_input("x", 3)
    inverse = b.inverse(x - 1)
    b.assert_equal(x[2] - x[0], b.constant(2), "the last is two more")
    b.output("y", b.multiply_add(x, inverse, x))
    tape, circuit = record(b), b.build()
    with CpuBackend(threads=1) as cpu:
        given = {"x": ["5", "6", "7"]}
        assert np.array_equal(tape.witness(given, cpu), circuit.witness(given, cpu))
        with pytest.raises(UnsatisfiedWitness, match="the last is two more"):
            tape.witness({"x": ["5", "6", "8"]}, cpu)
        with pytest.raises(UnsatisfiedWitness, match="invertible"):
            tape.witness({"x": ["1", "6", "3"]}, cpu)


def test_a_tapes_file() -> None:
    _, tape, (inputs, _) = made()
    data = encode_tape(tape)
    again = decode_tape(data)
    assert encode_tape(again) == data
    with CpuBackend(threads=1) as cpu:
        assert np.array_equal(again.witness(inputs, cpu), tape.witness(inputs, cpu))
    for wrong in (data[:-1], data[1:], b""):
        with pytest.raises(FormatError):
            decode_tape(wrong)


def test_tables_that_are_no_tape_are_refused() -> None:
    """Native code reads and writes where a tape says, so each number that leads elsewhere is refused."""
    _, tape, _ = made()
    rows = len(tape.arrays["rows"])

    def with_operation(column: int, value: int, kind: Kind) -> dict[str, Any]:
        operations = tape.arrays["operations"].copy()
        operations[np.flatnonzero(operations[:, 0] == kind)[0], column] = value
        return {**tape.arrays, "operations": operations}

    wrong = [
        with_operation(0, len(Kind), Kind.CHECK),
        *(with_operation(2, tape.wires - 1, kind) for kind in (Kind.BITS, Kind.DIVIDE, Kind.DIGITS, Kind.PLACE)),
        *(with_operation(2, 0, kind) for kind in Kind if kind is not Kind.CHECK),
        *(with_operation(3, rows, kind) for kind in Kind),
        with_operation(1, tape.wires, Kind.MULTIPLY_ADD),
        with_operation(6, 255, Kind.BITS),
        with_operation(4, len(tape.arrays["runs"]), Kind.PLACE),
        {**tape.arrays, "columns": tape.arrays["columns"] + np.uint32(tape.wires)},
        {**tape.arrays, "index": tape.arrays["index"] + np.uint32(len(tape.arrays["values"]))},
        {**tape.arrays, "strides": tape.arrays["strides"][1:]},
        {**tape.arrays, "rows": tape.arrays["rows"][::-1]},
        {**tape.arrays, "operations": tape.arrays["operations"].reshape(-1)[: WIDTH - 1]},
    ]
    for arrays in wrong:
        with pytest.raises(ValueError, match=r"operation|combinations|whole elements"):
            replace(tape, arrays=arrays)


@pytest.mark.parametrize(("inputs", "own"), [(0, 0), (2**32 - 241, 240), (2**21, 240), (2**21, 1)])
def test_templates_of_no_wires_or_too_many_are_refused(inputs: int, own: int) -> None:
    """One without own wires once ended the process by a division, and one of many inputs by a write outside."""
    arrays = {
        "operations": np.array([[Kind.PLACE, 1, 1, 0, 0, 0, 0, 0]], dtype="<u4"),
        "rows": np.zeros(1, "<u4"),
        "columns": np.zeros(0, "<u4"),
        "strides": np.zeros(0, "<i4"),
        "index": np.zeros(0, "<u4"),
        "runs": np.zeros(2, "<i8"),
        "values": np.array([[1, 0, 0, 0]], dtype="<u8"),
    }
    template = (np.zeros(3 * own + 1, "<u4"), np.zeros(0, "<u4"), np.zeros(0, "<u4"), arrays["values"])
    with pytest.raises(ValueError, match="no own wires, or too many inputs"):
        Tape(4, (), (), (), arrays, ((inputs, template),))


@pytest.mark.parametrize("lanes", [2, 65])
@pytest.mark.parametrize("stride", [200, -2, 2**58, 2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_runs_that_wrap_are_refused(lanes: int, stride: int) -> None:
    """The last of 65 wires, 2^58 apart, has the number of the first one in 64 bits."""
    one = np.array([[1, 0, 0, 0]], dtype="<u8")
    words = [np.array(own, dtype="<u4") for own in ([0, 0, 0, 1], [1], [0])]  # its own wire is its input
    arrays = {
        "operations": np.array([[Kind.PLACE, lanes, 100, 0, 0, 0, 0, 0]], dtype="<u4"),
        "rows": np.zeros(1, "<u4"),
        "columns": np.zeros(0, "<u4"),
        "strides": np.zeros(0, "<i4"),
        "index": np.zeros(0, "<u4"),
        "values": one,
    }

    def made_with(stride: int) -> Tape:
        runs = np.array([1, stride], dtype="<i8")
        return Tape(200, (), (), ("x",), {**arrays, "runs": runs}, ((1, (*words, one)),))

    made_with(1)
    with pytest.raises(ValueError, match="a wire out of range"):
        made_with(stride)


def test_a_wire_is_set_once_and_before_it_is_read() -> None:
    """Threads wait for what the tape's order says, so that nothing may be set where others read."""
    _, tape, _ = made()
    operations = tape.arrays["operations"]
    adds = np.flatnonzero((operations[:, 0] == Kind.MULTIPLY_ADD) & (operations[:, 1] == 1))
    twice = operations.copy()
    twice[adds[1], 2] = twice[adds[0], 2]
    late = operations.copy()
    late[[adds[0], -1]] = late[[-1, adds[0]]]
    for wrong in (twice, late, operations[::-1].copy()):
        with pytest.raises(ValueError, match="a wire that was set or read before"):
            replace(tape, arrays={**tape.arrays, "operations": wrong})


def test_every_number_of_threads_gives_the_same_witness() -> None:
    _, tape, (inputs, other) = made()
    with CpuBackend(threads=1) as cpu:
        expected = tape.witness(inputs, cpu)
        with pytest.raises(UnsatisfiedWitness) as first:
            tape.witness(other, cpu)
    for threads in (2, 3, 7):
        with CpuBackend(threads=threads) as cpu:
            for _ in range(3):
                assert np.array_equal(tape.witness(inputs, cpu), expected)
            with pytest.raises(UnsatisfiedWitness) as again:
                tape.witness(other, cpu)
            assert str(again.value) == str(first.value)


def test_other_circuits_have_no_tape() -> None:
    for b in (CircuitBuilder(BLS12_381), CircuitBuilder(BN254)):
        b.public_input("x")
        with pytest.raises(UsageError, match="a tape is of a circuit over BN254"):
            record(b)
    b = CircuitBuilder(BN254)
    b.bits(b.private_input("x"), 4)
    with pytest.raises(UsageError, match="no operation for Decompose"):
        record(b)
