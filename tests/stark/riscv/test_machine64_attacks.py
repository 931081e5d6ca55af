"""Forged executions of RV64IM that its tables refuse: changed cells, and executions that never were."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.record import FIRST_REGISTER_OF
from kernels.maths.goldilocks import P
from tests.stark.riscv.test_machine_attacks import put, put_end, rules, time_of
from tests.support import riscv_asm as asm
from tests.support.riscv_oracle import Run, run
from tests.support.riscv_programs import random_program_64
from tests.support.riscv_traces import Job, job_of

INPUT = bytes(range(64))
NARROW = {type(air) for air in MACHINES[32].tables}
OURS = [air.name for air in MACHINES[64].tables if type(air) not in NARROW and air.name not in ("rom", "keccak_words")]
"""Tables that RV32IM has not, whose tests change the cells of the others."""
MEMORY = 0x20000
M32 = (1 << 32) - 1
FIRST_REGISTER = FIRST_REGISTER_OF[64]


@cache
def random_run(length: int, segment: int) -> Run:
    image = random_program_64(7, length)
    first = [*asm.li_64(5, M32 * M32), *asm.li_64(6, M32), asm.op("divu", 7, 5, 6)]  # with the largest carry
    first += [*asm.li_64(5, (1 << 64) - 5), *asm.li_64(6, 5 << 61), asm.op("remu", 7, 5, 6), asm.op("mulh", 7, 5, 6)]
    first += [asm.op("div", 7, 5, 6), asm.jal(1, 8), asm.FENCE, asm.auipc(1, 0), asm.jalr(1, 1, 8)]
    words = zip(image.memory_address.tolist(), image.memory_word.tolist(), strict=True)
    data = {address: word for address, word in words if address >= MEMORY}
    whole = asm.image([*first, *image.code_word.tolist()], data, xlen=64)
    return run(whole, INPUT, INPUT[::-1], segment=segment)


@pytest.mark.parametrize("table", OURS)
def test_no_cell_can_be_changed(table: str) -> None:
    """Each column is changed in its first cell that is not zero, by one."""
    job = job_of(random_run(*((250, 128) if table in ("touched", "words") else (900, 1 << 12))))
    for name, count in job.airs[table].main.items():
        for k in range(count):
            columns = (job.column(table, name, segment, k) for segment in range(len(job.main)))
            column = next((each for each in columns if each.any()), None)
            assert column is not None, f"{table}.{name}[{k}] is not used"
            used = np.flatnonzero(column)
            was = int(column[used[0]])
            column[used[0]] = was + 1
            job.recount()
            assert job.failures(), f"{table}.{name}[{k}], row {used[0]}: {was + 1} instead of {was}"
            column[used[0]] = was
    job.recount()
    assert job.failures() == []


def job_64(*code: int, data: dict[int, int] | None = None) -> Job:
    job = job_of(run(asm.image([*code, *asm.leave()], data, xlen=64)))
    assert rules(job) == set()
    return job


def operation_of(name: str, a: int, b: int) -> tuple[Job, int]:
    """x5 = a, x6 = b, and x7 = the result of the operation, in the row that is given."""
    code = [*asm.li_64(5, a), *asm.li_64(6, b), asm.op(name, 7, 5, 6)]
    return job_64(*code), len(code) - 1


def forge(job: Job, row: int, value: int) -> None:
    """Write another result of a row to x7, which nothing reads afterwards."""
    put(job, "cpu", row, result=value & M32, result_upper=value >> 32)
    put_x7(job, value)


def put_x7(job: Job, value: int) -> None:
    put_end(job, FIRST_REGISTER + 7, value & M32)
    for table in ("touched", "words"):
        (at,) = np.flatnonzero(job.column(table, "key") == FIRST_REGISTER + 7)
        put(job, table, int(at), end_upper=value >> 32)


def limbs(name: str, value: int, count: int = 4) -> dict[str, int]:
    """The limbs of a number, as `put` takes them."""
    return {f"{name}_{k}" if k else name: value >> 16 * k & 0xFFFF for k in range(count)}


def test_a_wrong_upper_sum() -> None:
    """The carry between the halves is left out; then it is taken where there is none."""
    job, row = operation_of("add", M32, 1)
    forge(job, row, 0)
    assert rules(job) == {"upper result of a sum"}
    put(job, "cpu", row, limbs=0)
    assert rules(job) == {"upper sum"}
    put(job, "cpu", row, carry=0)
    assert rules(job) == {"upper sum", "sum"} - {"upper sum"}
    job, row = operation_of("sub", 0, 1)
    forge(job, row, M32)
    put(job, "cpu", row, limbs=0, limbs_1=0)
    assert rules(job) == {"upper difference"}


def test_an_upper_half_beyond_32_bits() -> None:
    job, row = operation_of("add", 1 << 63, 1 << 63)
    put(job, "cpu", row, result_upper=1 << 32, limbs_1=1 << 16, carry_upper=0)
    put_x7(job, 1 << 64)
    assert rules(job) == {"bus lookup"}


@pytest.mark.parametrize(("name", "a", "b"), [("addw", 0x7FFFFFFF, 1), ("subw", 0, 1), ("mulw", 0x10000, 0x8000)])
def test_a_word_without_its_sign(name: str, a: int, b: int) -> None:
    """The result of a W form is said to be positive: bit 31 then needs a limb of 16 bits, and there are 15."""
    job, row = operation_of(name, a, b)
    result = int(job.column("cpu", "result")[row])
    assert result >> 31 == 1
    forge(job, row, result)
    assert rules(job) == {"its sign extended"}
    put(job, "cpu", row, sign=0)
    assert rules(job) == {"a result with its sign"}
    put(job, "cpu", row, limbs_1=result >> 16)
    assert rules(job) == {"bus lookup"}


def test_a_positive_word_with_a_sign() -> None:
    job, row = operation_of("addw", 1, 1)
    forge(job, row, 2 | M32 << 32)
    put(job, "cpu", row, sign=1, limbs=2 - (1 << 31))
    assert rules(job) == {"bus lookup"}


def test_equality_of_one_half() -> None:
    """beq of numbers that differ in their upper halves, and bne of equal ones."""
    for a, b in ((5, 5 | 1 << 32), (5 | 1 << 32, 6 | 1 << 32)):
        code = [*asm.li_64(5, a), *asm.li_64(6, b)]
        job = job_64(*code, asm.branch("beq", 5, 6, 8), asm.FENCE)
        put(job, "cpu", len(code), result=1)
        broken = rules(job)
        assert "pc" in broken
        assert broken & {"not equal", "not equal, upper halves"}
    job = job_64(asm.branch("beq", 5, 5, 8), asm.FENCE)
    put(job, "cpu", 0, result=0)
    assert {"equal", "pc"} <= rules(job)


def test_an_upper_half_that_a_register_has_not() -> None:
    job = job_64(asm.imm("addi", 7, 0, -1))
    forge(job, 0, M32)
    put(job, "cpu", 0, b_upper=0, limbs=0, limbs_1=0)
    assert rules(job) == {"upper b without a register"}
    job = job_64(asm.op("add", 7, 0, 0))
    forge(job, 0, 1 << 32)
    put(job, "cpu", 0, a_upper=1, limbs=1)
    assert rules(job) == {"upper a without a register"}


def test_an_upper_half_of_the_start() -> None:
    """A register that nobody wrote has an upper half: the run begins without any."""
    job = job_64(asm.op("add", 7, 7, 0))
    (row,) = np.flatnonzero(job.column("touched", "key") == FIRST_REGISTER + 7)
    put(job, "cpu", 0, a_upper=1, limbs=1, result_upper=1, before_upper=1)
    put(job, "touched", int(row), start_upper=1)
    put_x7(job, 1 << 32)
    assert rules(job) == {"bus words"}


def test_an_upper_half_that_no_segment_left() -> None:
    """The second segment takes a register with an upper half that the first left otherwise, or from another segment."""
    code = [*asm.li_64(5, 1 << 40), *[asm.FENCE] * 16, asm.op("add", 7, 5, 0), *asm.leave()]
    for change, rule in (({"start_upper": 1 << 9}, "bus access"), ({"segment": 0}, "bus words")):
        job = job_of(run(asm.image(code, xlen=64), segment=16))
        assert job.failures() == []
        (row,) = np.flatnonzero(job.column("touched", "key", 1) == FIRST_REGISTER + 5)
        assert int(job.column("touched", "start_upper", 1)[row]) == 1 << 8
        for name, value in change.items():
            job.column("touched", name, 1)[row] = value
        job.recount()
        broken = {failure.rule.removeprefix("partition 1: ") for failure in job.failures()}
        assert {rule, "bus words"} <= broken


def test_a_word_with_two_keys() -> None:
    """The gap to the next key has 37 bits: none of more makes a key come round p, to one that was there."""
    job = job_64(*asm.li_64(8, 1 << 36), asm.load("lw", 7, 8), asm.load("lw", 6, 8, 4))
    rows = np.flatnonzero(job.column("touched", "key") >> np.uint64(30))
    assert len(rows) > 2
    row = int(rows[1])
    assert int(job.column("touched", "gap_upper")[rows[2]]) > 0
    put(job, "touched", row, gap=int(job.column("touched", "gap")[row]) - (32 << 32), gap_upper=32)
    assert rules(job) == {"bus lookup"}


def pairs() -> tuple[Job, int]:
    """[m] = x5 of eight bytes, x7 = [m] in the row that is given, [m] = x6; x5 = 2^32 + 1, x6 = 2^33 + 2."""
    start = [*asm.li(8, MEMORY), *asm.li_64(5, 1 | 1 << 32), *asm.li_64(6, 2 | 2 << 32)]
    code = [*start, asm.store("sd", 5, 8), asm.load("ld", 7, 8), asm.store("sd", 6, 8)]
    return job_64(*code), len(start) + 1


def test_a_stale_second_word() -> None:
    job, row = pairs()
    forge(job, row, 1)
    put(job, "cpu", row, word_upper=0, previous_upper=0, since_upper=time_of(row) - 1)
    assert rules(job) == {"bus access"}


def test_a_second_word_of_the_future() -> None:
    """All accesses balance; only times, which must rise, tell."""
    job, row = pairs()
    forge(job, row, 1 | 2 << 32)
    after = row + 1
    put(job, "cpu", row, word_upper=2, previous_upper=time_of(after), since_upper=time_of(row) - time_of(after) - 1)
    put(
        job,
        "cpu",
        after,
        word_upper=1,
        previous_upper=time_of(row - 1),
        since_upper=time_of(after) - time_of(row - 1) - 1,
    )
    (at,) = np.flatnonzero(job.column("touched", "key") == MEMORY // 4 + 1)
    put(job, "touched", int(at), time=time_of(row))
    assert rules(job) == {"bus lookup"}


def test_second_words_that_are_not_those() -> None:
    job, row = pairs()
    forge(job, row, 1)
    assert rules(job) == {"second loaded word"}
    job, row = pairs()
    put(job, "cpu", row + 1, result_upper=3)
    put_end(job, MEMORY // 4 + 1, 3)
    assert rules(job) == {"second stored word"}
    job = job_64(*asm.li(8, MEMORY), asm.load("lwu", 7, 8), data={MEMORY: 5})
    forge(job, 2, 5 | 1 << 32)
    assert rules(job) == {"second loaded word"}
    put(job, "cpu", 2, word_upper=1)
    assert rules(job) == {"no second word"}


def test_eight_bytes_at_an_odd_word() -> None:
    """ld from m + 4: the executor traps, and the tables refuse it."""
    words = {MEMORY: 1, MEMORY + 4: 2, MEMORY + 8: 3}
    job = job_64(*asm.li(8, MEMORY), asm.imm("addi", 9, 0, 4), asm.load("ld", 7, 8), data=words)
    row = 3
    low = int(job.column("cpu", "low")[row])
    assert rules(job) == set()
    put(job, "cpu", row, low=low + 1, limbs=(low + 1) * pow(2, -1, P))
    broken = rules(job)
    assert {"sum", "bus lookup", "bus access"} <= broken
    put(job, "cpu", row, limbs=low // 2)
    assert "aligned to eight bytes" in rules(job)


@pytest.mark.parametrize("store", [False, True])
def test_another_upper_address(store: bool) -> None:
    """The base is said to have an upper half: the address then has it, too, and not more than 37 bits."""
    access = asm.store("sw", 0, 8) if store else asm.load("lw", 7, 8)
    job = job_64(*asm.li(8, MEMORY), access)
    put(job, "cpu", 2, a_upper=1)
    expected = "upper address of a store" if store else "upper address"
    assert rules(job) == {expected, "bus access"}
    put(job, "cpu", 2, page=1)
    assert rules(job) == {"bus access"}
    put(job, "cpu", 2, a_upper=32, page=32)
    assert rules(job) == {"bus access", "bus lookup"}


def test_a_target_beyond_32_bits() -> None:
    job = job_64(asm.auipc(5, 0), asm.jalr(0, 5, 8))
    put(job, "cpu", 1, a_upper=1)
    assert rules(job) == {"target below 2^32", "bus access"}


def test_a_call_with_a_number_of_64_bits() -> None:
    job = job_64(asm.FENCE)
    (row,) = np.flatnonzero(job.column("cpu", "ecall"))
    put(job, "cpu", int(row), a_upper=1)
    assert rules(job) == {"number of a call", "bus access"}


def test_comparisons() -> None:
    for name, a, b in (("sltu", 1 << 32, 1), ("slt", 1, 1 << 63), ("sltu", 1, 1)):
        job, row = operation_of(name, a, b)
        forge(job, row, 1)
        put(job, "compare64", 0, less=1)
        assert rules(job) == {"upper difference"}
    job, row = operation_of("slt", 1, 1 << 63)  # -2^63 without its sign is larger than 1
    forge(job, row, 1)
    put(job, "compare64", 0, less=1, sign_1=0, **limbs("difference", 1 - (1 << 63) & (1 << 64) - 1))
    put(job, "compare64", 0, low_1=0)
    assert rules(job) == {"bus lookup"}
    job, row = operation_of("sltu", 1 << 32, 1 << 32)  # a borrow that there is not
    forge(job, row, 1)
    put(job, "compare64", 0, borrow=1, less=1, difference_2=0xFFFF, difference_3=0xFFFF)
    assert rules(job) == {"lower difference"}


def last(job: Job) -> int:
    """The row of the last shift; those before it make constants."""
    return int(np.flatnonzero(job.column("shift64", "power"))[-1])


def test_shifts() -> None:
    job, row = operation_of("sll", 3, 33)
    forge(job, row, 6)  # by 1
    put(job, "shift64", last(job), half=0, result=6, result_1=0)
    assert rules(job) == {"bus lookup"}
    put(job, "shift64", last(job), above=1 << 15)  # b - s is no multiple of 64
    assert rules(job) == {"bus lookup"}
    job, row = operation_of("srl", 1 << 63 | 5, 4)
    forge(job, row, (1 << 63 | 5) >> 4 | 0xF << 60)  # as if it were sra
    put(job, "shift64", last(job), sign=1, low=0, part_3=0xF800, result_1=0xF8000000)
    assert "no sign" in rules(job)
    job, row = operation_of("sra", 1 << 62, 40)
    forge(job, row, 1 << 22 | M32 << 32)
    put(job, "shift64", last(job), sign=1, low=0, result_1=M32)
    assert "bus lookup" in rules(job)
    job, row = operation_of("srl", 3 << 31, 1)  # the bit that goes from the upper half to the lower one is dropped
    forge(job, row, 1 << 30)
    put(job, "shift64", last(job), result=1 << 30)
    assert rules(job) == {"lower result"}
    put(job, "shift64", last(job), rest_2=0, rest_3=0)
    assert rules(job) == {"right, upper half"}


def test_products() -> None:
    """A carry of the field: the word of the product is any number then, but for the lookups of carries."""
    job, row = operation_of("mul", 3, 5)
    forge(job, row, 16)
    put(job, "multiply64", 0, product=16)
    assert rules(job) == {"word 0 of the product"}
    carry = (15 - 16) * pow(1 << 32, -1, P) % P
    put(job, "multiply64", 0, carry=carry + 4, more=0)
    assert rules(job) == {"bus lookup", "word 1 of the product"}
    job, row = operation_of("mulhu", 1 << 63, 2)
    forge(job, row, 0)
    put(job, "multiply64", 0, product_4=0, more_1=0, carry_1=4)
    assert rules(job) == {"word 1 of the product", "word 2 of the product"} - {"word 2 of the product"}
    job, row = operation_of("mulh", (1 << 64) - 1, 5)  # -1 without its sign
    forge(job, row, 4)
    put(job, "multiply64", 0, sign=0, wraps=0, **{f"product_{k + 4}": 4 * (k == 0) for k in range(4)})
    assert "bus lookup" in rules(job)
    job, row = operation_of("mulhu", M32 << 32 | M32, 3)  # a carry from the highest word that there is not
    put(job, "multiply64", 0, wraps=1)
    assert rules(job) == {"word 3 of the product"}


WORDS_OF = [("division", half) for half in ("lower words", "upper words")]
WORDS_OF += [("remainder below", half) for half in ("lower", "upper")]
QUOTIENTS = [
    ("divu", 7, 2, 2, 3, {"bus lookup", "remainder below, lower"}),  # a remainder that is not below the divisor
    ("divu", 7, 2, 4, (1 << 64) - 1, {f"{rule}, {half}" for rule, half in WORDS_OF}),
    ("divu", 1 << 33, 1 << 32, 1, 1 << 32, {"remainder below, upper"}),
    ("divu", 7, 0, 5, 7, {"quotient by 0, half 0", "quotient by 0, half 1"}),
    ("remu", 7, 0, (1 << 64) - 1, 6, {"division, lower words"}),
    ("divu", 5, 3, 1 + (1 << 63), 2, {"division, upper words", "division, beyond 64 bits"}),
    ("divu", 0, 1 << 32, 1 << 32, 0, {"division, beyond 64 bits"}),  # 2^64 is not 0
]


@pytest.mark.parametrize(("name", "a", "b", "quotient", "remainder", "broken"), QUOTIENTS)
def test_wrong_quotients(name: str, a: int, b: int, quotient: int, remainder: int, broken: set[str]) -> None:
    job, row = operation_of(name, a, b)
    result = quotient if name == "divu" else remainder
    forge(job, row, result)
    for column, value in (("quotient", quotient), ("remainder", remainder), ("result", result)):
        put(job, "divide64", 0, **limbs(column, value))
    found = rules(job)
    assert found
    assert found <= broken, found


def test_a_gap_of_the_field() -> None:
    """A remainder that is not below the divisor, with the gap that the rule asks for."""
    job, row = operation_of("divu", 7, 2)
    forge(job, row, 2)
    for column, value in (("quotient", 2), ("remainder", 3), ("result", 2)):
        put(job, "divide64", 0, **limbs(column, value))
    put(job, "divide64", 0, gap=-2, gap_1=0, borrow=0)
    assert rules(job) == {"bus lookup"}
    put(job, "divide64", 0, gap=0xFFFE, gap_1=0xFFFF, borrow=1, gap_2=-1)
    assert rules(job) == {"bus lookup"}


def test_signs_of_a_division() -> None:
    """-7 / 2 is -3, and not the quotient of 2^64 - 7."""
    job, row = operation_of("div", (1 << 64) - 7, 2)
    value = ((1 << 64) - 7) // 2
    forge(job, row, value)
    put(job, "divide64", 0, sign=0, complement=0, negative=0, carries=0, carries_1=0, low=0xFFFF)
    for column, number in (("dividend", (1 << 64) - 7), ("quotient", value), ("remainder", 1), ("result", value)):
        put(job, "divide64", 0, **limbs(column, number))
    carry = ((value & M32) * 2 + 1) >> 32
    put(job, "divide64", 0, gap=0, carry=carry)
    assert rules(job) == {"bus lookup"}
    job, row = operation_of("div", (1 << 64) - 7, 2)  # the magnitude is said to be another
    forge(job, row, (1 << 64) - 2)
    for column, number in (("dividend", 5), ("quotient", 2), ("remainder", 1), ("result", (1 << 64) - 2)):
        put(job, "divide64", 0, **limbs(column, number))
    assert rules(job) == {"lower magnitude of a"}


def test_bytes_of_the_upper_half() -> None:
    job, row = operation_of("xor", 1 << 40, 1 << 41)
    forge(job, row, 1 << 40)
    assert rules(job) == {"bus wide"}
    put(job, "bitwise64", 0, b_5=0)
    assert {"bus wide"} == rules(job) - {"bus lookup"}


@pytest.mark.parametrize("table", [name for name in MACHINES[64].classes if name.endswith("64")])
def test_a_table_that_is_asked_and_left_out(table: str) -> None:
    job = job_64(*(asm.op(name, 7, 5, 6) for name in ("and", "slt", "sll", "mul", "div")))
    del job.main[0][table]
    assert rules(job) == {"bus wide"}
