"""Values at the next row: only of columns that are read there, whichever matrix they are in and whatever reads them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest

from distprove.errors import InvalidProof
from distprove.stark import prover
from distprove.stark.air import Air, Bus, Table
from distprove.stark.params import Parameters
from distprove.stark.program import Program, Trace
from distprove.stark.programs import load_program
from distprove.stark.proving_key import ProvingKey, make_key
from distprove.stark.shape import ProofShape
from distprove.stark.statement import Statement
from distprove.stark.verifying_key import compile_program
from kernels.interface.row_program import Op
from tests.support import cheats
from tests.support.cheats import Job, plus_one, prove_job, quotient_values_that_fit
from tests.support.golden_verifiers import REFUSALS, VERIFIERS
from tests.support.stark_programs import Fibonacci, WithoutInputs

LOOP = Bus("loop", 1)
ROWS, FEW = 32, 8


class SparseAir(Air):
    """Columns that a constraint reads at the next row, that an interaction reads there, and that nothing does."""

    preprocessed: ClassVar = {"rest": 1, "power": 1, "factor": 1}
    main: ClassVar = {"idle": 2, "count": 1, "still": 1, "sent": 1, "last": 1}

    def define(self, t: Table) -> None:
        t.always(t.fixed_next.power * t.fixed.factor - t.fixed.power - t.fixed.rest)
        t.always(t.this.idle[0] - t.this.idle[1])
        t.first(t.this.count)
        t.transition(t.next.count - t.this.count - 1)
        t.always(t.this.still * t.this.still - t.this.last)
        t.send(LOOP, (t.next.sent,))
        t.receive(LOOP, (t.this.sent,), at_most=1)


class StillAir(Air):
    """Nothing is read at the next row."""

    main: ClassVar = {"x": 1, "square": 1}

    def define(self, t: Table) -> None:
        t.always(t.this.x * t.this.x - t.this.square)


class AllAir(Air):
    """Everything is read at the next row."""

    main: ClassVar = {"x": 2}

    def define(self, t: Table) -> None:
        t.always(t.next.x[0] - t.this.x[1])
        t.always(t.next.x[1] - t.this.x[0])


class Sparse(WithoutInputs):
    """The three tables; two of one height."""

    name = "test-sparse"
    tables = (StillAir(), SparseAir(), AllAir())
    buses = (LOOP,)
    statement = Statement(())

    def preprocessed(self) -> dict[str, np.ndarray]:
        power = np.array([1, 2] * (ROWS // 2), dtype=np.uint64)
        factor = np.array([1, 3] * (ROWS // 2), dtype=np.uint64)
        return {"SparseAir": np.stack((np.roll(power, -1) * factor - power, power, factor))}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        numbers = np.arange(ROWS, dtype=np.uint64)
        still = np.stack((numbers[:FEW], numbers[:FEW] ** 2))
        sparse = np.stack((numbers + 5, numbers + 5, numbers, numbers + 7, numbers**3, (numbers + 7) ** 2))
        both = np.array([[3, 4] * (FEW // 2), [4, 3] * (FEW // 2)], dtype=np.uint64)
        return Trace([backend.to_device(c) for c in (still, sparse, both)], ())


@pytest.fixture(scope="module")
def job() -> Job:
    return prove_job(Sparse())


def test_a_proof_holds_what_is_read_and_no_more(job: Job) -> None:
    """Of the sparse table: the preprocessed power, count, sent, and the running sum's three coordinates."""
    job.check()
    still, sparse, everything = job.key.tables
    assert (still.next_row, everything.next_row) == ((), (0, 1))
    assert (sparse.preprocessed_width, sparse.main_width, sparse.aux_width) == (3, 6, 6)
    assert sparse.next_row == (1, 3 + 2, 3 + 4, 9 + 3, 9 + 4, 9 + 5)
    (proof,) = job.proofs
    assert [len(v.after) for v in proof.values] == [0, 6, 2]
    shape = ProofShape(job.key, proof.log_heights)
    values = [len(v) // 24 for v in proof.to_record()["values"]]
    quotients = [3 * t.quotient_chunks for t in job.key.tables]
    assert values == [2 + quotients[0], 15 + 6 + quotients[1], 2 + 2 + quotients[2]]
    assert shape.weights == sum(values)


def test_every_power_of_gamma_is_taken_once(job: Job) -> None:
    shape = ProofShape(job.key, job.proofs[0].log_heights)
    taken = [k for t in shape.tables for weights in t.weights for k in weights]
    assert sorted(taken) == list(range(shape.weights))
    for t in shape.tables:
        near, rest, after, _ = t.weights
        assert [k + t.columns for k in near] == list(after)
        assert sorted([*t.next_row, *t.others]) == list(range(len(near) + len(rest))) == list(range(t.columns))


def record_of(job: Job) -> dict[str, Any]:
    parts = zip(job.names, job.publics, job.proofs, strict=True)
    partitions = [{"name": name, "public": list(public), "proof": proof.to_record()} for name, public, proof in parts]
    return {"key": job.key.to_record(), "partitions": partitions}


@pytest.mark.parametrize("verify", VERIFIERS)
@pytest.mark.parametrize("table", [0, 1, 2])
def test_a_value_left_out_or_added_is_refused(job: Job, table: int, verify: Callable[[Any], None]) -> None:
    honest = record_of(job)
    verify(honest)
    data: bytes = honest["partitions"][0]["proof"]["values"][table]
    words = [data[i : i + 24] for i in range(0, len(data), 24)]
    zero = bytes(24)
    for i in range(len(words) + 1):
        changes = [[*words[:i], zero, *words[i:]], words[:i] + words[i + 1 :], [*words[:i], zero, *words[i + 1 :]]]
        for other in changes:
            if other != words:
                forged = copy.deepcopy(honest)
                forged["partitions"][0]["proof"]["values"][table] = b"".join(other)
                with pytest.raises(REFUSALS):
                    verify(forged)


@pytest.mark.parametrize(("table", "value"), [(1, 0), (1, 1), (1, 2), (1, 3), (1, 5), (2, 1)])
def test_a_value_at_the_next_row_that_is_not_its_columns(table: int, value: int) -> None:
    """Of a preprocessed, a main and an auxiliary column; the quotient's values are made to fit."""
    honest = prover.out_of_domain_values

    def values(*args: Any) -> Any:
        given = honest(*args)
        plus_one(given[table].after, (value, 0))
        return given

    with mock.patch.object(prover, "out_of_domain_values", values):
        with pytest.raises(InvalidProof, match="constraints of table"):
            prove_job(Sparse()).check()
        with quotient_values_that_fit(), pytest.raises(InvalidProof, match="folding of FRI"):
            prove_job(Sparse()).check()


def test_values_of_two_columns_exchanged() -> None:
    honest = prover.out_of_domain_values

    def values(*args: Any) -> Any:
        given = honest(*args)
        given[1].after[[1, 2]] = given[1].after[[2, 1]]
        return given

    with mock.patch.object(prover, "out_of_domain_values", values), quotient_values_that_fit():
        job = prove_job(Sparse())
    with pytest.raises(InvalidProof, match="folding of FRI"):
        job.check()


def test_an_instruction_that_nothing_uses_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule looks at the code alone, so that every verifier comes to the same columns."""

    def make(*args: Any) -> ProvingKey:
        pk = make_key(*args)
        (table,) = pk.key.tables
        program = table.constraints
        code = np.concatenate([program.code, np.array([(Op.LOAD, 1, 0, 1)], dtype=np.int32)])
        return replace(pk, key=replace(pk.key, tables=(replace(table, constraints=replace(program, code=code)),)))

    class Still(Fibonacci):
        tables: ClassVar = (StillAir(),)  # type: ignore[assignment]
        statement = Statement(())  # type: ignore[assignment]

        def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
            return Trace([backend.to_device(np.ones((2, ROWS), dtype=np.uint64))], ())

    assert [len(v.after) for v in prove_job(Still()).proofs[0].values] == [0]
    monkeypatch.setattr(cheats, "make_key", make)
    job = prove_job(Still())
    job.check()
    assert [len(v.after) for v in job.proofs[0].values] == [1]


@pytest.mark.parametrize(
    "program", [load_program("range-check", {"values": 9, "bits": 4}), load_program("keccak-f", {})]
)
def test_compiled_code_reads_no_column_for_nothing(program: Program) -> None:
    """What the rule finds is what the outputs depend on."""
    for table in compile_program(program, Parameters(1, 1, 0, 0)).tables:
        code = table.constraints.code.tolist()
        used = set(table.constraints.outputs)
        for i in reversed(range(len(code))):
            if i in used and code[i][0] >= Op.ADD:
                used.update(code[i][1:3])
        first = np.cumsum([0, *table.constraints.widths]).tolist()
        read = {first[a] + b for i, (op, a, b, c) in enumerate(code) if i in used and op == Op.LOAD and c == 1}
        assert sorted(read) == list(table.next_row)
