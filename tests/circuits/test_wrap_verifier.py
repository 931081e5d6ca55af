"""The verifier as an R1CS: proofs that hold have a witness, and no change of an input has one."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import Circuit
from distprove.circuits.wrap.arithmetic import WrapArithmetic
from distprove.circuits.wrap.statement import SALT_WORDS, read_values, statement_digest
from distprove.circuits.wrap.verifier import (
    inputs_of,
    stated_values,
    unchecked_circuit,
    verifier_circuit,
    verifier_inputs,
)
from distprove.errors import InvalidProof, UnsatisfiedWitness, UsageError
from distprove.job import Job
from distprove.stark.air import Air, Table
from distprove.stark.arithmetic import NUMBERS
from distprove.stark.field import P
from distprove.stark.multilinear.opened import OpenedRows
from distprove.stark.multilinear.places import READ
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.verifier import verify_steps
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.statement import Statement
from kernels.interface.backend import Backend
from kernels.interface.tree_hash import TreeHash
from kernels.maths.curves import BN254
from kernels.maths.encoding import unpack
from tests.support import plain_poseidon2_bn254 as plain
from tests.support.multilinear_golden import golden_job
from tests.support.multilinear_jobs import prove_program

SALT = bytes(range(32))


@cache
def made() -> tuple[Circuit, list[dict[str, Any]]]:
    """The circuit of a golden job's shape, and the inputs of its two partitions by that of the first."""
    job = golden_job("multilinear-bn254")
    shapes, inputs = [], []
    for part in job.proofs:
        proof, shape = MultilinearProof.from_record(part.data, job.key, part.name)
        shapes.append((shape, part.name, proof.challenge))
        inputs.append(verifier_inputs(shape, part.name, part.public, proof, SALT))
    b, counts = unchecked_circuit(*shapes[0])
    assert sum(counts.values()) - counts["all"] > 0.99 * counts["all"]  # each constraint counts once
    assert sum(counts.values()) <= 2 * counts["all"]
    return b.build(), inputs


def test_a_proof_that_holds_has_a_witness(backend: Backend) -> None:
    circuit, inputs = made()
    witness = circuit.witness(inputs[0], backend)
    assert unpack(witness[1:2]) == [statement_digest(golden_job("multilinear-bn254").proofs[0].public, SALT)]
    assert circuit.r1cs.n_public == 1
    assert circuit.r1cs.first_unsatisfied(witness, backend) is None


def test_inputs_are_those_of_the_verifiers_queries() -> None:
    """They are found without verification: from the challenges alone."""
    job = golden_job("multilinear-bn254")
    for part, inputs in zip(job.proofs, made()[1], strict=True):
        proof, shape = MultilinearProof.from_record(part.data, job.key, part.name)
        opened, public = OpenedRows(shape, proof), np.array(part.public, dtype=np.uint64)
        verify_steps(NUMBERS, shape, job.key.digest, part.name.encode(), public, proof, opened)
        assert inputs == inputs_of(shape, part.public, proof, opened, SALT)


def test_an_opening_of_other_nodes_gives_no_inputs() -> None:
    job = golden_job("multilinear-bn254")
    part = job.proofs[0]
    proof, shape = MultilinearProof.from_record(part.data, job.key, part.name)
    first, *rest = proof.trees
    for path in (first.path[:-1], np.concatenate([first.path, first.path[:1]])):
        changed = replace(proof, trees=(replace(first, path=path), *rest))
        with pytest.raises(InvalidProof, match="other nodes"):
            verifier_inputs(shape, part.name, part.public, changed, SALT)


def test_proofs_that_hold_with_others_alone_have_no_circuit() -> None:
    """The golden job's key has a global bus: its circuit has a witness for a proof whose tuples nobody receives."""
    (part, *_), key = golden_job("multilinear-bn254").proofs, golden_job("multilinear-bn254").key
    proof, shape = MultilinearProof.from_record(part.data, key, part.name)
    with pytest.raises(UsageError, match="has a global bus"):
        verifier_circuit(shape, part.name, proof.challenge)


def test_a_shape_that_no_proof_may_have_has_no_circuit() -> None:
    """The verifier checks the bits of each proof; the circuit has one shape, so they are checked with that."""
    given = {
        "program": "fibonacci",
        "engine": "multilinear",
        "hash": "poseidon2-bn254",
        "security": 20,
        "partitions": 1,
    }
    key = Job.from_options("stark", **given, arguments={"rows": 16}).load().key
    low = Shape(replace(key, params=replace(key.params, security_bits=100)), (4,) * len(key.tables))
    with pytest.raises(UsageError, match=r"bits of security at these heights; the key asks for 100"):
        verifier_circuit(low, "part-0000", bytes(32))
    with pytest.raises(UsageError, match="not a partition's name"):
        verifier_circuit(Shape(key, low.log_heights), "a/b", bytes(32))
    b, counts = verifier_circuit(Shape(key, low.log_heights), "part-0000", bytes(32))
    assert counts["all"] == b.constraints


def test_a_proof_of_another_name_has_none(backend: Backend) -> None:
    """The name is absorbed: the other partition's proof, right under its own name, draws other challenges here."""
    circuit, inputs = made()
    with pytest.raises(UnsatisfiedWitness):
        circuit.witness(inputs[1], backend)


def test_no_change_of_an_input_has_a_witness(backend: Backend) -> None:
    """A word of each input at a time. The witness program makes all wires that follow. Another salt has a witness,
    and another public value."""
    circuit, (inputs, _) = made()
    unchecked = replace(circuit, schedule=replace(circuit.schedule, checks=()))
    changes: list[tuple[str, dict[str, Any]]] = []
    rng = random.Random(4)
    for name, value in inputs.items():
        words = list(value) if isinstance(value, list) else [value]
        at = rng.randrange(len(words))
        changed = [*words[:at], str(int(words[at]) + 1), *words[at + 1 :]]
        changes.append((name, {**inputs, name: changed if isinstance(value, list) else changed[0]}))
    assert {name for name, _ in changes} == {signal.name for signal in circuit.inputs}
    for start in range(0, len(changes), 8):
        own = changes[start : start + 8]
        for (name, _), witness in zip(own, unchecked.witnesses([c for _, c in own], backend), strict=True):
            bad = circuit.r1cs.first_unsatisfied(np.ascontiguousarray(witness), backend)
            assert (bad is None) == (name == "salt"), name


def test_each_word_of_the_salt_changes_the_public_value(backend: Backend) -> None:
    circuit, (inputs, _) = made()
    words, public = [int(word) for word in inputs["salt"]], golden_job("multilinear-bn254").proofs[0].public
    assert len(words) == SALT_WORDS
    salts = [[*words[:at], words[at] ^ 1, *words[at + 1 :]] for at in range(len(words))]
    given = [{**inputs, "salt": [str(word) for word in changed]} for changed in salts]
    for changed, witness in zip(salts, circuit.witnesses(given, backend), strict=True):
        assert unpack(witness[1:2]) == [statement_digest(public, struct.pack("<8I", *changed))]
    beyond = [str(words[0] + (1 << 64)), *inputs["salt"][1:]]  # the same packed element in another way, were it a word
    with pytest.raises(UnsatisfiedWitness):
        circuit.witness({**inputs, "salt": beyond}, backend)


class TellsAir(Air):
    name = "tells"
    main: ClassVar = {"x": 1}

    def define(self, t: Table) -> None:
        t.boolean(t.this.x)


class Tells(Program):
    """States any values of the form that a contract reads."""

    name = "test-tells"

    def __init__(self, values: tuple[int, ...] = ()) -> None:
        self.values = values

    @property
    def tables(self) -> Sequence[Air]:
        return (TellsAir(),)

    @property
    def statement(self) -> Statement:
        return Statement(public=READ)

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [(2,)] * partitions

    def slices(self, partitions: int) -> list[Slice]:
        return [Slice("part-0", {})]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {"x": np.zeros((1, 4), dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        return Trace([inputs["x"]], self.values)


def test_what_a_contract_reads_is_stated_in_five_numbers(backend: Backend) -> None:
    """Of any values, and of no others: the words of a proof that the circuit verifies."""
    values = (P - 1, 2, 3, P - 4, 7, 32, *range(2**32 - 8, 2**32))
    given = {"security": 1, "grinding": 0, "hash": "poseidon2-bn254", "blowup": 2}
    job = prove_program(Tells(values), partitions=1, **given)
    (part,) = job.proofs
    proof, shape = MultilinearProof.from_record(part.data, job.key, part.name)
    b, _ = verifier_circuit(shape, part.name, proof.challenge)
    circuit, inputs = b.build(), verifier_inputs(shape, part.name, part.public, proof, None)
    assert "salt" not in {signal.name for signal in circuit.inputs}
    assert circuit.r1cs.n_public == 5
    witness = circuit.witness(inputs, backend)
    assert tuple(unpack(witness[1:6])) == read_values(values) == stated_values(values, None)
    assert circuit.r1cs.first_unsatisfied(witness, backend) is None
    for place in range(1, 6):
        other = witness.copy()
        other[place, 0] ^= np.uint64(1)
        assert circuit.r1cs.first_unsatisfied(other, backend) is not None
    for place in range(len(values)):  # a proof of zeros is one for any values, which the circuit then states
        changed = [(value + (k == place)) % P for k, value in enumerate(values)]
        made = circuit.witness({**inputs, "public": list(map(str, changed))}, backend)
        assert tuple(unpack(made[1:6])) == read_values(changed) != read_values(values)
        twice = [str(value + P * (k == place)) for k, value in enumerate(values)]  # the same element
        with pytest.raises(UnsatisfiedWitness):
            circuit.witness({**inputs, "public": twice}, backend)


def test_statements_have_digests_of_their_own() -> None:
    lists, salts = ([], [0], [0, 0], [1], [0, 1], [1, 0], [0] * 7), (SALT, bytes(32), bytes([1]) + bytes(31))
    assert len({statement_digest(words, salt) for words in lists for salt in salts}) == len(lists) * len(salts)
    assert statement_digest([5, P - 1], SALT) == plain.sponge([5, P - 1, *struct.unpack("<8I", SALT)])


def test_keys_under_another_hash_are_refused() -> None:
    with pytest.raises(UsageError, match="a wrap is of keys under Poseidon2 over BN254"):
        WrapArithmetic(CircuitBuilder(BN254)).transcript(b"test", TreeHash.POSEIDON2)
