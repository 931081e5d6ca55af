"""Multiplicities that the prover counts: the same as an author's own, on every backend, and trusted by nobody."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from distprove.errors import AirError, InvalidProof
from distprove.formats import canonical
from distprove.stark.air import Air, Bus, Table
from distprove.stark.example import fixed_columns, placed, program_example
from distprove.stark.field import P
from distprove.stark.keyfile import key_of
from distprove.stark.params import Parameters
from distprove.stark.program import Program, Trace, whole_trace
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.interface.tree_hash import TreeHash
from tests.stark.test_proofs import SMALL, check, prove_job
from tests.stark.test_streamed import streaming_budget
from tests.support.counted_program import NIBBLE, Computer, Machine
from tests.support.stark_reference import ReferenceBackend

FAR = Bus("far", 1, "global")


def made(program: Program, backend: Backend, source: int = 0) -> Trace:
    fixed = placed(fixed_columns(program), backend)
    return whole_trace(program, program.inputs({"seed": source}), fixed, backend)


@pytest.mark.parametrize("backend", [CpuBackend, ReferenceBackend])
def test_counts_are_those_of_a_loop(backend: type[Backend]) -> None:
    program = Computer()
    with backend() as used:
        nibbles, machine, pairs, _ = made(program, used).main
    assert nibbles is not None
    assert pairs is not None
    wanted, of_pairs = np.zeros(16, dtype=int), np.zeros((2, 256), dtype=int)
    for op, a, b, _, on, alone in np.asarray(machine).T.tolist():
        of_pairs[op, 16 * a + b] += on
        wanted[a - 5] += alone
        wanted[b] += alone
    for a in range(16):
        wanted[a] += of_pairs[1, 16 * a : 16 * a + 16].sum()
    assert np.asarray(pairs).tolist() == of_pairs.tolist()
    assert np.asarray(nibbles)[0].tolist() == wanted.tolist()


@pytest.mark.parametrize("program", [Computer(), Computer(0), Computer(kinds=(0,), alone=False)])
def test_proofs_with_counted_columns_hold(program: Computer) -> None:
    check(*prove_job(program, 2))
    with CpuBackend(threads=1) as backend:
        assert program_example(program, 2, backend).check() == []


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        (Computer(), [False] * 4),
        (Computer(0), [True, False, True, True]),
        (Computer(kinds=(0,), alone=False), [True, False, False, False]),
    ],
)
def test_an_optional_table_that_nobody_looks_up_is_absent(program: Computer, absent: list[bool]) -> None:
    with CpuBackend(threads=1) as backend:
        assert [columns is None for columns in made(program, backend).main] == absent


def test_a_required_table_of_counts_is_made_of_zeros() -> None:
    class Required(Computer):
        optional: Sequence[str] = ("Dispatch",)

    with CpuBackend(threads=1) as backend:
        main = made(Required(0), backend).main
    assert [None if m is None else np.asarray(m).shape for m in main] == [(1, 16), (6, 32), (2, 256), None]
    assert not np.asarray(main[0]).any()
    check(*prove_job(Required(0), 1))


def test_streamed_proofs_are_the_same() -> None:
    params = Parameters(1, 9, 3, 1, log_final=1)
    encoded = []
    for budget in (None, streaming_budget(Computer(), params, 1)):
        with CpuBackend(budget=budget) as backend:
            job = prove_job(Computer(), 1, params, backend)
        check(*job)
        encoded.append([canonical.encode(proof.to_record()) for proof in job[3]])
    assert encoded[0] == encoded[1]


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [(1, 3, 9), (0, 3, P - 1), (2, 3, 16), (5, 3, 1 << 40), (4, 0, 2), (4, 0, P - 1)],
)
def test_what_is_in_no_row_of_the_table_does_not_balance(row: int, column: int, value: int) -> None:
    """A result, a nibble out of range, a multiplicity: whatever is counted, the proof does not hold."""

    class Wrong(Computer):
        def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
            inputs = super().inputs(source)
            inputs["machine"][row, column] = value
            return inputs

    with pytest.raises(InvalidProof, match=r"buses do not balance|constraints of table"):
        check(*prove_job(Wrong(), 1))


def test_inputs_that_cannot_be_written_are_left_as_they_are() -> None:
    class Given(Computer):
        """Gives the table of counts itself, with something else in it."""

        def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
            counts = np.full((1, 16), 77, dtype=np.uint64)
            counts.flags.writeable = False
            return {**super().inputs(source), "counts": counts}

        def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
            trace = super().trace(inputs, backend)
            return Trace([inputs["counts"], *trace.main[1:]], trace.public)

    with CpuBackend(threads=1) as backend:
        given, plain = (np.asarray(made(program, backend).main[0]) for program in (Given(), Computer()))
    assert given.tolist() == plain.tolist()


def test_a_key_does_not_say_who_counts() -> None:
    class ByHand(Computer):
        @property
        def tables(self) -> Sequence[Air]:
            class Nibbles(Air):
                main: ClassVar = {"used": 1}
                preprocessed: ClassVar = {"value": 1}

                def define(self, t: Table) -> None:
                    t.receive(NIBBLE, [t.fixed.value], times=t.this.used)

            return (Nibbles(), *super().tables[1:])

    assert len(ByHand().counting.counts) == len(Computer().counting.counts) - 1
    assert key_of(ByHand(), SMALL).digest == key_of(Computer(), SMALL).digest


def test_a_program_travels_with_what_it_counts() -> None:
    program = Computer()
    counts = program.counting.counts
    again = pickle.loads(pickle.dumps(program))
    assert [(c.bus, c.table, c.column, len(c.senders)) for c in again.counting.counts] == [
        (c.bus, c.table, c.column, len(c.senders)) for c in counts
    ]


# -- what cannot be counted -------------------------------------------------------------------------------------------


def receiving(define: Callable[[Table], None], name: str = "Looked") -> Air:
    class Looked(Air):
        main: ClassVar = {"used": 1, "more": 1}
        preprocessed: ClassVar = {"value": 1}

        def define(self, t: Table) -> None:
            define(t)

    Looked.__name__ = name
    return Looked()


def takes(t: Table, bus: Bus = NIBBLE, **options: Any) -> None:
    t.receive(bus, [t.fixed.value], **{"times": t.this.used, "row_of": lambda v: v, **options})


def both(t: Table) -> None:
    takes(t)
    takes(t, OTHER)


def around(t: Table) -> None:
    takes(t)
    t.send(NIBBLE, [t.fixed.value], times=t.this.used, at_most=5)


OTHER = Bus("other", 1)
REFUSED: dict[str, tuple[list[Air], str]] = {
    "a global bus": ([receiving(lambda t: takes(t, FAR))], "global bus"),
    "a sum of columns": ([receiving(lambda t: takes(t, times=t.this.used + t.this.more))], "main column in this row"),
    "the next row": ([receiving(lambda t: takes(t, times=t.next.used))], "main column in this row"),
    "a preprocessed column": ([receiving(lambda t: takes(t, times=t.fixed.value))], "main column in this row"),
    "a constant": ([receiving(lambda t: takes(t, times=1))], "main column in this row"),
    "two that receive": ([receiving(takes), receiving(takes, "Second")], "receives on this bus too"),
    "one column for two buses": ([receiving(both)], "two buses"),
    "counts of counts": ([receiving(around)], "depends on the counts themselves"),
    "a row that is none": ([receiving(lambda t: takes(t, row_of=lambda v: "v"))], "str"),
    "no function": ([receiving(lambda t: takes(t, row_of=3))], "row_of is a function"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_counted_is_refused(name: str) -> None:
    airs, message = REFUSED[name]

    class Refused(Computer):
        @property
        def tables(self) -> Sequence[Air]:
            return [*airs, Machine()]

    with pytest.raises(AirError, match=message):
        _ = Refused().counting


# -- tables that all partitions share ---------------------------------------------------------------------------------


def test_preprocessed_columns_are_extended_and_committed_to_once_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition opens them at its queries; their extension and tree stay with the key."""
    with CpuBackend(threads=1) as backend:
        kernels = backend.goldilocks
        extended: list[int] = []
        lde_all, commit_to = kernels._lde_all, kernels._commit

        def extends(jobs: Sequence[Any], log_blowup: int) -> Any:
            extended.extend(len(job.columns) for job in jobs)
            return lde_all(jobs, log_blowup)

        committed: list[int] = []

        def commits(matrices: Sequence[Any], log_arity: int, tree_hash: TreeHash) -> Any:
            committed.append(sum(len(m) for m in matrices) if log_arity == 0 else 0)
            return commit_to(matrices, log_arity, tree_hash)

        monkeypatch.setattr(kernels, "_lde_all", extends)
        monkeypatch.setattr(kernels, "_commit", commits)
        program = Computer()
        fixed = sum(air.preprocessed_width for air in program.compiled_tables)
        of_a_proof = sum(t.main_width + t.aux_width + 3 * t.quotient_chunks for t in program.compiled_tables)
        check(*prove_job(program, 3, backend=backend))
    assert sum(extended) == fixed + 3 * of_a_proof
    assert sum(committed) == fixed + 3 * of_a_proof
