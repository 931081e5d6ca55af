"""Forged executions that the tables of the RISC-V machine refuse: changed cells, and executions that never were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from distprove.errors import InvalidProof, UsageError
from distprove.stark.output import MAX_OUTPUT_WORDS
from distprove.stark.riscv.calls import CALLS
from distprove.stark.riscv.cpu import HALTED
from distprove.stark.riscv.guest import Guest
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.record import FIRST_REGISTER
from distprove.stark.riscv.segment import Fixed, outputs_of, run_heights, usage_of
from kernels.maths.goldilocks import P
from tests.support import riscv_asm as asm
from tests.support.riscv_oracle import Interpreter, Run, run
from tests.support.riscv_programs import fibonacci, of_words, random_program
from tests.support.riscv_traces import DEFINITIONS, LAYOUT, Executed, Job, job_of

INPUT = bytes(range(64))
ELSEWHERE = ("rom", "image", "lookup", "keccak", "keccak_words")
"""Tables whose cells other tests change."""


@cache
def random_run() -> Run:
    return run(random_program(5, 700), INPUT, INPUT[::-1])


def cells(table: str, columns: dict[str, int]) -> Iterator[tuple[str, int]]:
    return ((name, k) for name, count in columns.items() for k in range(count))


@pytest.mark.parametrize("table", [air.name for air in MACHINES[32].tables if air.name not in ELSEWHERE])
def test_no_cell_can_be_changed(table: str) -> None:
    """Each column is changed in its first cell that is not zero, by one, and in a middle one, to 0."""
    job = job_of(random_run())
    for name, k in cells(table, DEFINITIONS[table].main):
        column = job.column(table, name, 0, k)
        used = np.flatnonzero(column)
        for row, to in ((used[:1], None), (used[len(used) // 2 :][:1], 0)):
            was = column[row].copy()
            column[row] = was + np.uint64(1) if to is None else to
            job.recount()
            assert job.failures() or not len(row), f"{table}.{name}[{k}], row {row}: {column[row]} instead of {was}"
            column[row] = was
    job.recount()
    assert job.failures() == []


@pytest.mark.parametrize("name", ["rom", "image", "lookup"])
def test_no_multiplicity_can_be_changed(name: str) -> None:
    job = job_of(random_run())
    row = int(np.flatnonzero(job.main[0][name][0])[0])
    job.main[0][name][0, row] += np.uint64(1)
    assert job.failures()


# -- executions that never were ---------------------------------------------------------------------------------------


def rules(job: Job) -> set[str]:
    """The constraints and buses that a forged job breaks, once all lookups are counted anew."""
    job.recount()
    return {failure.rule.removeprefix("partition 0: ") for failure in job.failures()}


def put(job: Job, table: str, row: int, **values: int) -> None:
    """Write cells; `name_1` is the second column of `name`."""
    for name, value in values.items():
        column, _, index = name.partition("_") if name[-1].isdecimal() else (name, "", "0")
        job.column(table, column, 0, int(index))[row] = value % P


def put_end(job: Job, key: int, value: int) -> None:
    """Change the value of a word at the end, in both tables that have it."""
    for table in ("touched", "words"):
        (row,) = np.flatnonzero(job.column(table, "key") == key)
        put(job, table, int(row), end=value)


def forge_result(job: Job, row: int, register: int, value: int) -> None:
    """Write another result of a row to a register that nothing reads afterwards."""
    put(job, "cpu", row, result=value)
    put_end(job, FIRST_REGISTER + register, value)


def add_5_7(*more: int) -> Job:
    """x5 = 5, x6 = 7, and then these instructions from row 2."""
    return job_of(run(of_words(asm.imm("addi", 5, 0, 5), asm.imm("addi", 6, 0, 7), *more)))


def test_a_wrong_sum() -> None:
    job = add_5_7(asm.op("add", 7, 5, 6))
    assert rules(job) == set()
    forge_result(job, 2, 7, 13)
    assert rules(job) == {"result of a sum"}
    put(job, "cpu", 2, low=13)
    assert rules(job) == {"sum"}
    put(job, "cpu", 2, low=13 - P, high=0)  # the same number of the field, and no 16 bits of the word
    assert rules(job) == {"sum"}


def test_a_sum_beyond_32_bits() -> None:
    job = add_5_7(asm.op("sub", 7, 5, 6))
    forge_result(job, 2, 7, P - 2)
    put(job, "cpu", 2, low=0xFFFE, high=(P - 2 - 0xFFFE) * pow(1 << 16, -1, P), carry=0)
    assert rules(job) == {"bus lookup"}


class Skipping(Interpreter):
    """Skips the instruction after the third cycle."""

    def step(self) -> None:
        super().step()
        if self.cycle == 3:
            self.pc += 4


def test_a_skipped_instruction() -> None:
    image = of_words(*[asm.imm("addi", 5, 5, 1)] * 5)
    forged = Skipping(image, [], [], 1 << 10).run(100)
    assert rules(job_of(forged)) == {"pc"}


def test_a_branch_not_taken() -> None:
    job = add_5_7(asm.branch("beq", 5, 5, 8), asm.imm("addi", 5, 5, 1))
    put(job, "cpu", 2, result=0, word=0)
    assert {"equal", "pc"} <= rules(job)
    job = add_5_7(asm.branch("beq", 5, 6, 8), asm.imm("addi", 5, 5, 1))
    put(job, "cpu", 2, result=1)
    assert {"not equal", "pc"} <= rules(job)


def test_a_jump_out_of_the_program() -> None:
    """Data that would be an instruction is none."""
    secret = {0x20000: asm.imm("addi", 10, 0, 99), 0x20004: asm.imm("addi", 17, 0, 1), 0x20008: asm.ECALL}
    code = [*asm.li(5, 0x20000), asm.jalr(0, 5), *asm.leave(1)]
    honest = asm.image(code, secret)
    address, word = (np.array(each, dtype=np.uint32) for each in zip(*secret.items(), strict=True))
    forged = replace(
        honest,
        code_address=np.concatenate((honest.code_address, address)),
        code_word=np.concatenate((honest.code_word, word)),
    )
    job = job_of(run(forged))
    assert rules(job) == set()
    assert job.public[0]["exit_code"] == 99
    job.fixed = Fixed.of(honest)
    del job.rows
    assert rules(job) == {"bus rom"}


MEMORY = 0x20000


def stored_twice() -> Job:
    """[m] = 5 in row 4, x7 = [m] in row 5, [m] = 7 in row 6."""
    code = [*asm.li(8, MEMORY), asm.store("sw", 5, 8), asm.load("lw", 7, 8), asm.store("sw", 6, 8)]
    job = add_5_7(*code)
    assert rules(job) == set()
    assert int(job.column("cpu", "result")[5]) == 5
    return job


def time_of(row: int) -> int:
    """The time of a row's access to memory."""
    return 4 * (row + 1) + 2


def test_a_stale_read() -> None:
    """The load takes what was there before the first store: two accesses then have one predecessor."""
    job = stored_twice()
    forge_result(job, 5, 7, 0)
    put(job, "cpu", 5, word=0, previous_2=0, since_2=time_of(5) - 1)
    assert rules(job) == {"bus access"}


def test_a_read_of_the_future() -> None:
    """The load takes what is stored after it. All accesses balance: only times, which must rise, tell."""
    job = stored_twice()
    forge_result(job, 5, 7, 7)
    put(job, "cpu", 5, word=7, previous_2=time_of(6), since_2=time_of(5) - time_of(6) - 1)
    put(job, "cpu", 6, word=5, previous_2=time_of(4), since_2=time_of(6) - time_of(4) - 1)
    (row,) = np.flatnonzero(job.column("touched", "key") == MEMORY // 4)
    put(job, "touched", int(row), time=time_of(5))
    assert rules(job) == {"bus lookup"}


def test_a_word_with_two_lives() -> None:
    """The load takes the start value of a second row of its word. Everything balances: only keys, which rise, tell."""
    job = stored_twice()
    forge_result(job, 5, 7, 0)
    put(job, "cpu", 5, word=0, previous_2=0, since_2=time_of(5) - 1)
    put(job, "cpu", 6, word=5, previous_2=time_of(4), since_2=time_of(6) - time_of(4) - 1)
    for table in ("touched", "words"):
        columns = job.main[0][table]
        (row,) = np.flatnonzero(job.column(table, "key") == MEMORY // 4)
        columns[:, row + 1 :] = columns[:, row:-1].copy()
        put(job, table, int(row), end=0)
    (row,) = np.flatnonzero(job.column("touched", "end") == 0)[:1]
    put(job, "touched", int(row), time=time_of(5))
    put(job, "words", int(np.flatnonzero(job.column("words", "key") == MEMORY // 4)[0]), end=0)
    job.main[0]["image"][0, job.rows["image"][0] == job.column("words", "low")[row]] += np.uint64(1)
    broken = rules(job)
    assert "order" in broken
    assert not {"bus access", "bus words", "bus image"} & broken


def test_x0_is_zero() -> None:
    job = add_5_7(asm.op("add", 0, 5, 6), asm.op("add", 7, 0, 0))
    forge_result(job, 3, 7, 12)
    put(job, "cpu", 3, a=12, low=12)
    assert rules(job) == {"a without a register"}
    job = add_5_7(asm.op("add", 0, 5, 6), asm.op("add", 7, 0, 0))
    put(job, "cpu", 2, write=1, before=0, previous_3=0, since_3=4 * 3 + 2)
    assert {"bus rom", "bus access"} <= rules(job)


def operation_of(name: str, a: int, b: int) -> Job:
    """x5 = a, x6 = b, and x7 = the result of the operation in row 4."""
    return job_of(run(of_words(*asm.li(5, a), *asm.li(6, b), asm.op(name, 7, 5, 6))))


@pytest.mark.parametrize(
    ("name", "a", "b", "quotient", "remainder", "rule"),
    [
        ("divu", 7, 2, 2, 3, "bus lookup"),  # a remainder that is not below the divisor
        ("remu", 7, 2, 2, 3, "bus lookup"),
        ("divu", 7, 2, 4, -1, "bus lookup"),  # a negative remainder
        ("divu", 7, 2, 7 * pow(2, -1, P), 0, "bus lookup"),  # a quotient of the field
        ("divu", 7, 0, 5, 7, "quotient by 0"),
        ("remu", 7, 0, (1 << 32) - 1, 6, "division"),
        ("divu", 7, 2, 3, 0, "division"),
    ],
)
def test_wrong_quotients(name: str, a: int, b: int, quotient: int, remainder: int, rule: str) -> None:
    job = operation_of(name, a, b)
    result = quotient if name == "divu" else remainder
    forge_result(job, 4, 7, result % P)
    for column, value in (("quotient", quotient), ("remainder", remainder), ("result", result)):
        split = value & 0xFFFF if 0 <= value < 1 << 32 else value % P
        put(job, "divide", 0, **{column: split, f"{column}_1": value >> 16 if 0 <= value < 1 << 32 else 0})
    if b:
        put(job, "divide", 0, gap=b - 1 - remainder, gap_1=0)
    assert rules(job) == {rule}


def test_a_divisor_that_is_said_to_be_zero() -> None:
    job = operation_of("divu", 7, 2)
    forge_result(job, 4, 7, (1 << 32) - 1)
    put(job, "divide", 0, zero=1, inverse=0, quotient=0xFFFF, quotient_1=0xFFFF, result=0xFFFF, result_1=0xFFFF)
    assert "divisor 0" in rules(job)


def test_signs_of_a_division() -> None:
    """-7 / 2 is -3, and not the quotient of 2^32 - 7."""
    job = operation_of("div", -7 & 0xFFFFFFFF, 2)
    assert rules(job) == set()
    assert int(job.column("cpu", "result")[4]) == 0xFFFFFFFD
    value, low = 0x7FFFFFFC, 0xFFF9
    forge_result(job, 4, 7, value)
    put(job, "divide", 0, sign=0, low=low, quotient=0xFFFC, quotient_1=0x7FFF, remainder=1, gap=0, negative=0, carry=0)
    put(job, "divide", 0, result=0xFFFC, result_1=0x7FFF)
    assert rules(job) == {"bus lookup"}


def test_a_product_that_wraps_around_the_field() -> None:
    """0 = p = 1 + 2^32 (2^32 - 1): the upper half of 0 * 5 is not 2^32 - 1."""
    job = operation_of("mulhu", 0, 5)
    forge_result(job, 4, 7, 0xFFFFFFFF)
    halves = {"product": 1, "product_1": 0, "product_2": 0xFFFF, "product_3": 0xFFFF}
    put(job, "multiply", 0, **halves, inverse=0, result=0xFFFF, result_1=0xFFFF)
    assert rules(job) == {"halves of the product"}


def test_a_shift_by_more() -> None:
    job = operation_of("sll", 3, 33)
    assert int(job.column("cpu", "result")[4]) == 6
    forge_result(job, 4, 7, 12)
    put(job, "shift", 0, amount=2, power=4, result=12, above=0xFFFF)
    assert rules(job) == {"bus lookup"}


def test_a_sign_that_is_shifted_in() -> None:
    job = operation_of("sra", 0x40000000, 4)
    forge_result(job, 4, 7, 0xF4000000)
    put(job, "shift", 0, sign=1, low=0, result=0, result_1=0xF400)
    assert "bus lookup" in rules(job)


def test_the_wrong_byte() -> None:
    job = job_of(run(of_words(*asm.li(8, MEMORY), asm.load("lbu", 7, 8, 1), data={MEMORY: 0x04030201})))
    forge_result(job, 2, 7, 3)
    put(job, "narrow", 0, at_1=0, at_2=1, lower=3, upper=4, result=3)
    assert rules(job) == {"bus narrow"}
    assert rules(job)


def test_memory_that_was_not_there() -> None:
    job = job_of(run(of_words(*asm.li(8, MEMORY), asm.load("lw", 7, 8), data={MEMORY: 5})))
    forge_result(job, 2, 7, 6)
    put(job, "cpu", 2, word=6)
    put_end(job, MEMORY // 4, 6)
    for table in ("touched", "words"):
        put(job, table, int(np.flatnonzero(job.column(table, "key") == MEMORY // 4)[0]), start=6)
    assert rules(job) == {"bus image"}


# -- what the statement says ------------------------------------------------------------------------------------------


def writing() -> Job:
    """Reads a word of either input and writes both."""
    code = [word for call in (3, 4) for word in (*asm.call(call), *asm.call(2))]
    return job_of(run(of_words(*code), b"", b""))


def test_another_output() -> None:
    job = job_of(run(fibonacci(5)))
    job.output = (6).to_bytes(4, "little")
    assert rules(job) == {"bus output"}
    (row,) = np.flatnonzero(job.column("host", "is_write"))
    put(job, "host", int(row), argument=6, result=6)
    assert rules(job) == {"bus host"}


def test_output_that_nobody_wrote() -> None:
    job = job_of(run(fibonacci(5)))
    for more in (b"\0", bytes(4), b"\t\0\0\0"):
        job.output = (5).to_bytes(4, "little") + more
        assert rules(job) == {"bus output"}
    job.public[0]["outputs_end"] = 2
    assert "all outputs" in rules(job)


def test_a_length_that_was_not_written() -> None:
    """The exit sends the count of words, which the rows of calls must have counted."""
    job = job_of(run(fibonacci(5)))
    job.output += bytes(4)
    (row,) = np.flatnonzero(job.column("host", "is_exit"))
    put(job, "host", int(row), outputs=2)
    assert rules(job) == {"outputs", "bus output"}


@pytest.mark.parametrize("call", ["exit", "write"])
def test_a_call_after_the_exit(call: str) -> None:
    """A second length, even an equal one, or a word behind the length is one tuple too many, and no cycle calls it."""
    job = job_of(run(fibonacci(5)))
    (row,) = np.flatnonzero(job.column("host", "is_exit"))
    time = int(job.column("host", "time")[row])
    assert row + 1 < len(job.column("host", "time"))
    put(job, "host", int(row) + 1, time=time + 4, gap=3, argument=9, result=9)
    job.column("host", f"is_{call}")[row + 1] = 1
    count = int(call == "write")
    job.column("host", "outputs")[row + 2 :] += np.uint64(count)
    job.public[0]["outputs_end"] += count
    assert rules(job) == {"bus host", "bus output"}
    if call == "write":  # an output that has the word has no length that was sent
        job.output += b"\t\0\0\0"
        assert rules(job) == {"bus host", "bus output"}


def test_an_exit_that_sends_no_length() -> None:
    job = job_of(run(fibonacci(5)))
    (row,) = np.flatnonzero(job.column("host", "is_exit"))
    job.column("host", "is_exit")[row] = 0
    assert rules(job) == {"bus host", "bus output"}


def test_words_that_are_counted_from_the_start_again() -> None:
    """Each segment counts on from the one before: with equal counts two words would have one place."""
    code = [word for value in (1, 2) for word in (asm.imm("addi", 10, 0, value), *asm.call(2))]
    job = job_of(run(of_words(*code), segment=3))
    assert [p["outputs_start"] for p in job.public][:2] == [0, 1]
    assert job.failures() == []
    column = job.column("host", "outputs", 1)
    column -= np.uint64(1)
    for name in ("outputs_start", "outputs_end"):
        job.public[1][name] -= 1
    assert rules(job) == {"bus output"}
    statement = RiscV(guest=str(Guest(bytes(32), asm.BASE, 6, 6))).statement
    publics = [tuple(int(v) for value in p.values() for v in np.ravel([value])) for p in job.public]
    assert "outputs_start of partition 1" in (statement.violation(publics) or "")


def test_more_output_than_a_statement_once_had_room_for() -> None:
    job = job_of(run(of_words(asm.imm("addi", 10, 0, 5), *(200 * asm.call(2)))))
    assert job.failures() == []
    assert job.output == 200 * b"\5\0\0\0"


def test_more_output_than_a_proof_states() -> None:
    """The bound is on the run, and is seen before anything is proven."""
    found = run(fibonacci(5))
    fixed, record = Fixed.of(found.image), found.records[0]
    usage = usage_of(fixed, record, fixed.instructions(record))
    calls = usage.calls.copy()
    calls[CALLS["write"]] = MAX_OUTPUT_WORDS // 2
    half = replace(usage, calls=calls)
    assert len(run_heights(fixed, [half, half], 10)) == 2
    assert outputs_of([half, half]) == [0, 1 << 21, 1 << 22]
    with pytest.raises(UsageError, match="the run writes 4194305 words of output, and a proof states 4194304 at most"):
        run_heights(fixed, [half, half, usage], 10)


def test_more_public_input_than_there_are_places() -> None:
    with pytest.raises(UsageError, match="reads 65 words of public input, and its statement has room for 64"):
        job_of(run(of_words(*(65 * asm.call(4))), b"", bytes(300)))


def test_two_words_in_the_other_order() -> None:
    """The calls stand in the table in the other order: only times, which must rise, tell."""
    code = [word for value in (1, 2) for word in (asm.imm("addi", 10, 0, value), *asm.call(2))]
    job = job_of(run(of_words(*code)))
    for name in ("time", "argument", "result"):
        column = job.column("host", name)
        column[:2] = column[1::-1]
    job.output = job.output[4:] + job.output[:4]
    first, second, third = (int(time) for time in job.column("host", "time")[:3])
    put(job, "host", 1, gap=second - first - 1, gap_1=0)
    put(job, "host", 2, gap=third - second - 1, gap_1=0)
    assert rules(job) == {"bus lookup"}


@pytest.mark.parametrize("table", MACHINES[32].classes)
def test_a_table_that_is_asked_and_left_out(table: str) -> None:
    operations = [asm.op(name, 7, 5, 6) for name in ("and", "slt", "sll", "mul", "div")]
    job = add_5_7(*asm.li(8, MEMORY), asm.load("lb", 7, 8), *operations)
    assert rules(job) == set()
    del job.main[0][table]
    assert rules(job) == {"bus narrow" if table == "narrow" else "bus alu"}


def test_a_segment_that_is_passed_over() -> None:
    """The third segment takes a register as the first left it; and the second as the third will leave it."""
    key = FIRST_REGISTER + 5
    for at, source in ((2, 0), (1, 2)):
        job = job_of(run(fibonacci(20), segment=32))
        here, there = (int(np.flatnonzero(job.column("touched", "key", s) == key)[0]) for s in (at, source))
        job.column("touched", "segment", at)[here] = source + 1
        job.column("touched", "start", at)[here] = job.column("touched", "end", source)[there]
        job.recount()
        broken = {failure.rule for failure in job.failures()}
        assert "bus words" in broken
        assert source < at or f"partition {at}: bus lookup" in broken


def test_words_beyond_32_bits() -> None:
    job = writing()
    (row,) = np.flatnonzero(job.column("host", "is_private"))
    put(job, "host", int(row), limbs=1 << 32, result=1 << 32)
    assert {"bus lookup", "bus host"} <= rules(job)


def test_another_exit_code() -> None:
    job = job_of(run(fibonacci(5)))
    job.public[0]["exit_code"] = 8
    assert rules(job) == {"exit", "a word of exit code"}
    job.column("stated", "exit")[:] = 8
    assert rules(job) == {"exit"}
    job.public[0]["pc_end"] = HALTED + 8
    assert rules(job) == {"exit", "pc at the end"}


def test_an_end_before_the_exit() -> None:
    """The last segment must come to the exit, whatever `pc` it says that it ends at."""
    job = job_of(run(fibonacci(20), segment=64))
    job.main, job.public = job.main[:1], job.public[:1]
    job.public[0] |= {"final": 1, "exit_code": 0}
    assert "exit" in rules(job)


def test_two_segments_that_are_final() -> None:
    """A segment says that it is the last one only if it comes to the exit, whether another one does or not."""
    job = job_of(run(fibonacci(20), segment=64))
    assert [int(public["final"]) for public in job.public[-2:]] == [0, 1]
    job.public[0]["final"] = 1
    assert rules(job) == {"exit"}


def test_an_exit_code_of_the_field() -> None:
    """A run without its last segment: where that ends, `pc` is 2^32 + an exit code modulo p."""
    whole = run(fibonacci(20), segment=64)
    job = job_of(Executed(whole.image, whole.records[:1]))
    assert job.public[0]["final"] == 1
    code = (job.public[0]["pc_end"] - HALTED) % P
    job.public[0]["exit_code"] = code
    assert rules(job) == {"a word of exit code", "bus output"}  # nor did it come to the exit, which sends the length
    job.column("stated", "exit", 0, 0)[:] = code
    job.column("stated", "exit", 0, 1)[:] = 0
    assert rules(job) == {"bus lookup", "bus output"}


def test_cycles_after_the_exit() -> None:
    job = job_of(run(fibonacci(5)))
    row = int(job.column("cpu", "on").sum())
    job.main[0]["cpu"][:, row] = job.main[0]["cpu"][:, row - 1]
    put(job, "cpu", row, pc=HALTED + 7, time=4 * (row + 1))
    assert "bus rom" in rules(job)


def test_another_count_of_cycles() -> None:
    job = job_of(run(fibonacci(5)))
    job.public[0]["cycles_end"] += 1
    assert rules(job) == {"cycles"}


def test_a_segment_that_begins_with_other_values() -> None:
    """The second segment takes a register that the first did not leave."""
    job = job_of(run(fibonacci(20), segment=32))
    start = job.column("touched", "start", 1)
    row = int(np.flatnonzero(start)[0])
    key, time = int(job.column("touched", "key", 1)[row]), job.column("touched", "time", 1)
    assert key >= FIRST_REGISTER
    assert int(time[row])
    start[row] += np.uint64(1)
    job.recount()
    assert {failure.rule for failure in job.failures()} >= {"partition 1: bus access", "bus words"}


def test_the_statement_binds_the_segments() -> None:
    """Order, number and completeness of the segments, and where they begin."""
    statement = RiscV(guest=str(Guest(bytes(32), asm.BASE, 6, 6))).statement
    job = job_of(run(fibonacci(20), segment=32))
    publics = [tuple(int(v) for value in p.values() for v in np.ravel([value])) for p in job.public]
    assert len(publics) > 3
    assert statement.violation(publics) is None
    for wrong in (publics[1:], publics[:-1], publics[:1] + publics[2:], publics[::-1], publics[:2] + publics[1:]):
        assert statement.violation(wrong) is not None
    moved = RiscV(guest=str(Guest(bytes(32), asm.BASE + 4, 6, 6))).statement
    assert moved.violation(publics) is not None


def test_words_that_only_other_tables_allow() -> None:
    """Whoever makes up a guest's name chooses its lookups: a proof for it holds, and has no words to tell."""
    program = RiscV(guest=str(Guest(bytes(32), asm.BASE, 6, 6)))
    public = [0] * program.statement.public_values
    assert program.explain([public], [])["public input read"] == "none"
    for name, index, value in (
        ("stated", 0, 1 << 32),
        ("stated", 63, P - 1),
        ("inputs", 0, P - 1),
    ):
        forged = list(public)
        forged[LAYOUT[name][0] + index] = value
        with pytest.raises(InvalidProof, match="tables other than the machine's"):
            program.explain([forged], [])
