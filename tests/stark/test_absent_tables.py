"""Tables that a partition does not have: bound before any challenge, free of cost, and of no use to a liar."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from distprove.errors import AirError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.stark.air import Air, Table
from distprove.stark.example import program_example
from distprove.stark.heights import ABSENT
from distprove.stark.keyfile import key_of
from distprove.stark.params import Parameters
from distprove.stark.program import Program, Trace
from distprove.stark.programs.binding import binds_the_same
from distprove.stark.proof import StarkProof
from distprove.stark.proving_key import make_key
from distprove.stark.security import choose_parameters, job_security
from distprove.stark.verifying_key import VerifyingKey
from kernels.cpu.backend import CpuBackend
from tests.stark.test_proofs import SMALL, check, prove_job
from tests.support import second_verifier
from tests.support.golden_jobs import golden
from tests.support.golden_verifiers import REFUSALS, VERIFIERS, Verify
from tests.support.stark_programs import CallerAir, Fibonacci, FibonacciAir, IdleAir, Sparse
from tests.support.stark_reference import ReferenceBackend

NIBBLE, CALLER, IDLE, MULTIPLY = range(4)


def refused(verify: Verify, job: dict[str, Any]) -> bool:
    try:
        verify(job)
    except REFUSALS:
        return True
    return False


def with_heights(job: dict[str, Any], partition: int, heights: bytes) -> dict[str, Any]:
    changed = copy.deepcopy(job)
    changed["partitions"][partition]["proof"]["heights"] = heights
    return changed


@pytest.mark.parametrize("verify", VERIFIERS)
def test_no_proof_may_say_otherwise_which_tables_there_are(verify: Verify) -> None:
    job = golden("sparse")
    verify(job)
    fixed = [4, 5, 7, 3]
    for partition in range(2):
        heights = job["partitions"][partition]["proof"]["heights"]
        assert ABSENT in heights
        for table, height in enumerate(heights):
            other = bytes([*heights[:table], fixed[table] if height == ABSENT else ABSENT, *heights[table + 1 :]])
            assert refused(verify, with_heights(job, partition, other)), (partition, table)
        assert refused(verify, with_heights(job, partition, bytes([ABSENT] * 4)))
        assert refused(verify, with_heights(job, partition, heights[:-1]))


@pytest.mark.parametrize("verify", VERIFIERS)
def test_a_partition_does_not_do_with_another_ones_tables(verify: Verify) -> None:
    job = golden("sparse")
    first, second = (part["proof"] for part in job["partitions"])
    swapped = with_heights(with_heights(job, 0, second["heights"]), 1, first["heights"])
    assert refused(verify, swapped)


class Lying(Sparse):
    """The first partition sends a false product, and leaves out the tables named."""

    def __init__(self, *absent: int, product: int = 99) -> None:
        self.absent, self.product = absent, product

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        made = super().trace(inputs, backend)
        own, count, before, after = made.public
        caller = made.main[CALLER]
        assert caller is not None
        if own == 0:
            caller[1, 5] += np.uint64(self.product)
            caller[3, 5:] += np.uint64(self.product)
            after += self.product
        elif self.product:
            caller[3] += np.uint64(self.product)
            before, after = before + self.product, after + self.product
        main = [None if i in self.absent else columns for i, columns in enumerate(made.main)]
        return Trace(main, (own, count, before, after))


@pytest.mark.parametrize(
    ("absent", "product"),
    [((), 99), ((MULTIPLY, NIBBLE), 99), ((MULTIPLY,), 99), ((MULTIPLY, NIBBLE), 0), ((NIBBLE,), 0), ((MULTIPLY,), 0)],
)
def test_leaving_out_the_table_that_receives_proves_nothing(absent: tuple[int, ...], product: int) -> None:
    key, names, publics, proofs = prove_job(Lying(*absent, product=product), 2)
    assert [h is None for h in proofs[0].log_heights] == [i in absent or i == IDLE for i in range(4)]
    with pytest.raises(InvalidProof, match="buses do not balance"):
        check(key, names, publics, proofs)
    records = [(n, list(v), p.to_record()) for n, v, p in zip(names, publics, proofs, strict=True)]
    with pytest.raises(second_verifier.Refused, match="buses do not balance"):
        second_verifier.verify_job(key.to_record(), records)


def test_the_honest_job_holds_and_a_false_product_is_all_that_was_wrong() -> None:
    check(*prove_job(Lying(product=0), 2))


def test_a_required_table_is_not_left_out() -> None:
    class Without(Sparse):
        def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
            made = super().trace(inputs, backend)
            return Trace([*made.main[:CALLER], None, *made.main[CALLER + 1 :]], made.public)

    with pytest.raises(AirError, match="CallerAir is absent"):
        prove_job(Without(), 1)
    with pytest.raises(AirError, match="CallerAir is absent"), CpuBackend(threads=1) as backend:
        program_example(Without(), 1, backend)


def test_the_debug_check_takes_absent_tables() -> None:
    with CpuBackend(threads=1) as backend:
        assert program_example(Sparse(), 2, backend).check() == []
        found = program_example(Lying(MULTIPLY, NIBBLE), 2, backend).check()
    assert [failure.rule for failure in found] == ["partition 0: bus product"]


# -- keys -------------------------------------------------------------------------------------------------------------


def test_a_table_that_reads_public_values_cannot_be_optional() -> None:
    """Its first and last rows would hold the public values to nothing where it is absent."""

    class Loose(Sparse):
        optional = ("CallerAir", "NibbleAir")

    with pytest.raises(UsageError, match="CallerAir reads public values"):
        key_of(Loose(), SMALL)


def test_only_tables_of_the_program_are_optional() -> None:
    class Misspelt(Sparse):
        optional = ("NibblesAir",)

    with pytest.raises(UsageError, match="NibblesAir"):
        key_of(Misspelt(), SMALL)


def optional(table: int, root: Any) -> Callable[[dict[str, Any]], None]:
    return lambda key: key["optional"].__setitem__(table, root)


def caller_optional(key: dict[str, Any]) -> None:
    key["optional"][CALLER], key["preprocessed_root"] = key["preprocessed_root"], b""


SPOILED: dict[str, Callable[[dict[str, Any]], None]] = {
    "none is optional": lambda key: key.update(optional=[None] * 4),
    "an empty list": lambda key: key.update(optional=[]),
    "no list": lambda key: key.update(optional=b""),
    "one too few": lambda key: key["optional"].pop(),
    "one too many": lambda key: key["optional"].append(None),
    "a root that is too short": optional(NIBBLE, bytes(31)),
    "no root": optional(NIBBLE, b""),
    "a root of no columns": optional(MULTIPLY, bytes(32)),
    "a truth": optional(MULTIPLY, True),
    "a string": optional(MULTIPLY, ""),
    "a table with public values": caller_optional,
    "a shared root of nothing": lambda key: key.update(preprocessed_root=b""),
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_a_key_may_not_say_of_optional_tables(name: str) -> None:
    record = copy.deepcopy(golden("sparse")["key"])
    VerifyingKey.from_record(record)
    second_verifier.Key(record)
    SPOILED[name](record)
    with pytest.raises(REFUSALS):
        VerifyingKey.from_record(record)
    with pytest.raises(second_verifier.Refused):
        second_verifier.Key(record)


@pytest.mark.parametrize("verify", VERIFIERS)
def test_another_set_of_optional_tables_is_another_key(verify: Verify) -> None:
    job = golden("sparse")
    job["key"]["optional"][MULTIPLY] = None
    assert refused(verify, job)


def test_a_key_without_optional_tables_is_written_as_ever() -> None:
    for name in ("fibonacci", "ring", "mixed"):
        assert "optional" not in golden(name)["key"]


def test_what_is_optional_tells_programs_apart() -> None:
    class Stricter(Sparse):
        optional = ("MultiplyAir",)

    assert binds_the_same(Sparse(), Sparse())
    assert not binds_the_same(Sparse(), Stricter())


# -- costs ------------------------------------------------------------------------------------------------------------


class Spare(Air):
    """One of many tables that nobody uses; every other one has preprocessed columns."""

    main: Mapping[str, int] = {"bit": 1}

    def __init__(self, number: int) -> None:
        self.number = number
        self.preprocessed = {"value": 1} if number % 2 else {}

    @property
    def name(self) -> str:
        return f"spare-{self.number}"

    def define(self, t: Table) -> None:
        t.boolean(t.this.bit, name=f"bit of {self.number}")


class Crowded(Fibonacci):
    """Fibonacci, with many tables that are always absent."""

    name = "test-crowded"

    def __init__(self, spare: int, log_rows: int = 5) -> None:
        super().__init__(log_rows)
        self.spare = spare

    @property
    def tables(self) -> Sequence[Air]:
        return (FibonacciAir(), *map(Spare, range(self.spare)))

    @property
    def optional(self) -> Sequence[str]:
        return [f"spare-{i}" for i in range(self.spare)]

    def preprocessed(self) -> Mapping[str, np.ndarray]:
        return {f"spare-{i}": np.zeros((1, 8), dtype=np.uint64) for i in range(1, self.spare, 2)}

    def log_heights(self, partitions: int) -> Sequence[Sequence[int | None]]:
        return [(self.log_rows, *[None] * self.spare)] * partitions

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        made = super().trace(inputs, backend)
        return Trace([*made.main, *[None] * self.spare], made.public)


def size(program: Program) -> int:
    """Bytes of a proof of one partition, which must hold, at as many queries as rows."""
    key, names, publics, proofs = prove_job(program, 1, Parameters(1, 200, 0, 1), CpuBackend(threads=1))
    check(key, names, publics, proofs)
    return len(canonical.encode(proofs[0].to_record()))


def test_absent_tables_cost_a_byte_of_a_proof_each() -> None:
    """The queries see every row of these small trees, so that sizes do not depend on chance."""
    assert size(Crowded(511)) <= size(Crowded(0)) + 511 + 8


def test_absent_tables_take_no_bits_queries_or_memory() -> None:
    alone, crowded = Crowded(0, 12), Crowded(300, 12)
    heights = [list(p.log_heights(3)) for p in (alone, crowded)]
    params = choose_parameters(crowded, 3)
    assert params == choose_parameters(alone, 3)
    told = [job_security(key_of(p, params), h).to_record() for p, h in zip((alone, crowded), heights, strict=True)]
    assert told[0] == told[1]


def test_kernels_are_prepared_for_the_tables_that_there_are() -> None:
    """A key of hundreds of tables is loaded without compiling those that no partition has."""
    backend, prepared = ReferenceBackend(), []
    backend.goldilocks.prepare = lambda programs=(), sources=(): prepared.extend(programs)  # type: ignore[method-assign]
    pk = make_key(Sparse(), SMALL, backend)
    nibble, caller, idle, multiply = pk.key.tables
    assert {id(p) for p in prepared} == {id(p) for p in caller.programs}
    prove_job(Sparse(), 2, backend=backend)
    names = {p.code.tobytes() for p in prepared}
    assert all(p.code.tobytes() in names for air in (nibble, caller, multiply) for p in air.programs)
    assert not any(p.code.tobytes() in names for p in idle.programs)


def test_the_examples_are_what_they_are_called() -> None:
    assert Sparse().tables[CALLER].public == CallerAir.public
    assert isinstance(Sparse().tables[IDLE], IdleAir)
    key = VerifyingKey.from_record(golden("sparse")["key"])
    proofs = [StarkProof.from_record(p["proof"], key)[0] for p in golden("sparse")["partitions"]]
    assert [p.log_heights for p in proofs] == list(Sparse().log_heights(2))
