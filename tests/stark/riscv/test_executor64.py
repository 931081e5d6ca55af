"""The executor of RV64IM against the plain interpreter, and the traps that only it has."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.errors import InputError
from distprove.stark.riscv.elf import parse_elf
from distprove.stark.riscv.executor import Execution, Stop, Trap
from distprove.stark.riscv.program import RiscV
from tests.stark.riscv.test_executor import BASE_REGISTERS, DATA, NEAR, REGISTER, STATES, check_run, sequence
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import EXECUTE, READ, code_file, elf64_file, elf_file
from tests.support.riscv_oracle import Trapped
from tests.support.riscv_oracle import run as plain_run

CORNERS = st.sampled_from(
    [
        *(
            0,
            1,
            2,
            63,
            0x7FFFFFFF,
            0x80000000,
            0xFFFFFFFF,
            1 << 32,
            (1 << 63) - 1,
            1 << 63,
            (1 << 64) - 1,
            (1 << 64) - 2,
        ),
        *(
            1 << 32 | DATA,
            (1 << 37) - 8,
            1 << 37,
            0x123456789ABCDEF0,
            0xFFFFFFFF80000000,
            0xFFFFFFFF00000000,
            DATA,
            DATA + 3,
            4092,
        ),
    ]
)
OFFSETS = st.integers(0, 7).map(lambda k: 8 * k)
INSTRUCTIONS = st.one_of(
    st.builds(asm.op, st.sampled_from(asm.REGISTER_OPS_64), REGISTER, REGISTER, REGISTER),
    st.builds(asm.op, st.sampled_from(asm.REGISTER_OPS_64), REGISTER, REGISTER, REGISTER),
    st.builds(
        asm.imm, st.sampled_from(asm.IMMEDIATE_OPS_64), REGISTER, REGISTER, st.integers(-2048, 2047), st.just(64)
    ),
    st.builds(asm.load, st.sampled_from(asm.LOADS_64), REGISTER, BASE_REGISTERS, OFFSETS),
    st.builds(asm.load, st.sampled_from(asm.LOADS_64), REGISTER, BASE_REGISTERS, st.integers(-4, 20)),
    st.builds(asm.store, st.sampled_from(asm.STORES_64), REGISTER, BASE_REGISTERS, OFFSETS),
    st.builds(asm.store, st.sampled_from(asm.STORES_64), REGISTER, BASE_REGISTERS, st.integers(-4, 20)),
    st.builds(asm.store, st.sampled_from(asm.STORES_64), REGISTER, REGISTER, st.just(0)),
    st.builds(asm.branch, st.sampled_from(asm.BRANCHES), REGISTER, REGISTER, NEAR),
    st.builds(asm.jal, REGISTER, NEAR | st.sampled_from([6, 1 << 19])),
    st.builds(lambda rd, rs, k: [asm.auipc(rs, 0), asm.jalr(rd, rs, 4 * k)], REGISTER, REGISTER, st.integers(0, 6)),
    st.builds(asm.jalr, REGISTER, REGISTER, st.integers(-2048, 2047)),
    st.builds(asm.lui, REGISTER, st.integers(0, 0xFFFFFFFF)),
    st.builds(asm.auipc, REGISTER, st.integers(0, 0xFFFFFFFF)),
    st.builds(asm.li_64, REGISTER, CORNERS | st.integers(0, (1 << 64) - 1)),
    st.builds(asm.call, st.integers(0, 14)),
    st.builds(lambda number, address: [*asm.li(asm.A0, address), *asm.call(number)], st.integers(6, 13), STATES),
    st.just(asm.FENCE),
    st.integers(0, 0xFFFFFFFF),
)
PROGRAMS = st.builds(
    lambda values, body: sequence(
        *(asm.li_64(5 + i, value) for i, value in enumerate(values)),
        asm.li(8, DATA),
        asm.li(9, DATA + 64),
        *body,
        asm.leave(7),
    ),
    st.lists(CORNERS, min_size=12, max_size=12),
    st.lists(INSTRUCTIONS, max_size=40),
)


@given(PROGRAMS, st.sampled_from([1, 7, 16, 1000]), st.binary(max_size=9), st.binary(max_size=9))
@settings(max_examples=120, deadline=None)
def test_random_programs(code: list[int], segment: int, private: bytes, public: bytes) -> None:
    check_run(parse_elf(code_file(code, data=bytes(range(64)), xlen=64), "random"), segment, private, public)


TRAPS = {
    "a W form of an operation that has none": ([asm.op("sltu", 5, 5, 5) | 8], Stop.ILLEGAL, None),
    "slliw by 32": ([asm.imm("slliw", 5, 5, 0) | 1 << 25], Stop.ILLEGAL, None),
    "slli by 64": ([asm.imm("slli", 5, 5, 0) | 1 << 26], Stop.ILLEGAL, None),
    "an unaligned ld": ([*asm.li(5, DATA + 4), asm.load("ld", 6, 5)], Stop.UNALIGNED_LOAD, DATA + 4),
    "an unaligned sd": ([*asm.li(5, DATA + 4), asm.store("sd", 6, 5)], Stop.UNALIGNED_STORE, DATA + 4),
    "a load at 2^37": ([*asm.li_64(5, 1 << 37), asm.load("lw", 6, 5)], Stop.BEYOND, 1 << 37),
    "a store at the end of 64 bits": ([asm.store("sd", 6, 0, -8)], Stop.BEYOND, (1 << 64) - 8),
    "a jump beyond 2^32": ([*asm.li_64(5, 1 << 40), asm.jalr(0, 5)], Stop.OUTSIDE, 1 << 40),
    "a state beyond 2^32": ([*asm.li_64(10, 1 << 32 | DATA), *asm.call(6)], Stop.BEYOND, 1 << 32 | DATA),
    "a message beyond 2^32": ([*asm.li_64(10, 1 << 63 | DATA), *asm.call(7)], Stop.BEYOND, 1 << 63 | DATA),
    "a product beyond 2^32": ([*asm.li_64(10, 1 << 36 | DATA), *asm.call(12)], Stop.BEYOND, 1 << 36 | DATA),
    "a product beyond 2^63": ([*asm.li_64(10, 1 << 63 | DATA), *asm.call(10)], Stop.BEYOND, 1 << 63 | DATA),
    "a call whose number is 1 and 2^32": ([*asm.li_64(17, 1 | 1 << 32), asm.ECALL], Stop.UNKNOWN_CALL, 1 | 1 << 32),
}


@pytest.mark.parametrize("name", TRAPS)
def test_traps(name: str) -> None:
    code, stop, about = TRAPS[name]
    with pytest.raises(Trap) as trapped:
        Execution(parse_elf(code_file(code, xlen=64), name), max_cycles=100).run()
    state = trapped.value.state
    assert state is not None
    assert state.stop == stop
    assert about is None or state.about == about
    assert all(len(line.split()[1]) == 18 for line in state.lines()[:1])


@pytest.mark.parametrize(("at", "to"), [(0xFFFFFF00, 0x1000), (0x1000, 0xFFFFFF00)])
def test_a_target_does_not_come_round_2_to_the_32(at: int, to: int) -> None:
    """A jump over an end of the addresses of 32 bits leads to a program in RV32IM, and to none in RV64IM, whose tables
    know no such target. The nearest program is too far for a branch."""
    offset = (to - at + (1 << 31)) % (1 << 32) - (1 << 31)
    codes = (at, [asm.jal(1, offset), *asm.leave(3)]), (to, asm.leave(7))
    segments = [(address, struct.pack(f"<{len(code)}I", *code), READ | EXECUTE) for address, code in codes]
    assert Execution(parse_elf(elf_file(segments, at), "narrow")).run().exit_code == 7
    wide = parse_elf(elf64_file(segments, at), "wide")
    with pytest.raises(Trapped, match="no instruction"):
        plain_run(wide.image())
    with pytest.raises(Trap) as trapped:
        Execution(wide).run()
    state = trapped.value.state
    assert state is not None
    assert (state.stop, state.about) == (Stop.OUTSIDE, (at + offset) % (1 << 64))


def test_the_same_word_is_another_instruction() -> None:
    """`slli` by 33 is one of RV64 alone, and `sra` of a lower half is another than that of a register."""
    code = [*asm.li(5, 1), asm.imm("slli", 5, 5, 33, 64), asm.imm("srai", 10, 5, 32, 64), *asm.call(1)]
    assert Execution(parse_elf(code_file(code, xlen=64), "wide")).run().exit_code == 2
    with pytest.raises(Trap, match="an illegal instruction"):
        Execution(parse_elf(code_file(code), "narrow")).run()


def test_calls_of_other_systems_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "guest.elf"
    path.write_bytes(code_file(asm.leave(), xlen=64))
    with pytest.raises(InputError, match="calls openvm is for guests of RV32IM"):
        RiscV(elf=str(path), calls="openvm")
