"""The public suites riscv-tests (rv32ui, rv32um, rv64ui, rv64um) and riscv-arch-test (I and M of rv32i_m)."""

from __future__ import annotations

import pytest

from distprove.stark.riscv.elf import parse_elf
from distprove.stark.riscv.executor import Execution, Replay, Stop, Trap
from tests.support.riscv_suites import NOT_OURS, arch_tests, riscv_tests, riscv_tests_64

RISCV_TESTS, ARCH_TESTS = {**riscv_tests(), **riscv_tests_64()}, arch_tests()
TRAPS = {name: Stop.ILLEGAL if name.endswith("fence_i") else Stop.UNALIGNED_LOAD for name in NOT_OURS}
OPCODE, FUNCTION = 0x7F, 0xFE007000


def test_the_suites_are_whole() -> None:
    assert len(riscv_tests()) == 42 + 8
    assert len(riscv_tests_64()) == 54 + 13
    assert len(ARCH_TESTS) == 38 + 8
    assert all(len(expected) >= 16 for _, expected in ARCH_TESTS.values())


@pytest.mark.parametrize("name", RISCV_TESTS)
def test_riscv_tests(name: str) -> None:
    elf = parse_elf(RISCV_TESTS[name], name)
    if name in NOT_OURS:
        with pytest.raises(Trap) as trapped:
            Execution(elf).run()
        assert trapped.value.state is not None
        assert trapped.value.state.stop == TRAPS[name]
        return
    outcome = Execution(elf, max_cycles=100_000).run()
    assert outcome.exit_code == 0, f"case {outcome.exit_code} failed"
    execution, replay, cycles = Execution(elf), Replay(elf), 0
    for snapshot in execution.segments(32):
        record = replay.record(snapshot)
        cycles += record.cycles
    assert record.pc_end == 0
    assert execution.outcome.exit_code == 0
    assert cycles == outcome.cycles


@pytest.mark.parametrize("name", ARCH_TESTS)
def test_riscv_arch_test(name: str) -> None:
    data, expected = ARCH_TESTS[name]
    outcome = Execution(parse_elf(data, name), max_cycles=1 << 20).run()
    assert (outcome.exit_code, outcome.output) == (0, expected)


WRONG = {  # an instruction with registers, and bits that make another of it
    "rv32ui/add": (0, 0x40000000),
    "rv32ui/slt": (0x2000, 0x1000),
    "rv32um/mulh": (0x02001000, 0x2000),
    "rv32um/remu": (0x02007000, 0x2000),
    "rv64ui/sub": (0x40000000, 0x40000000),
    "rv64um/mulh": (0x02001000, 0x2000),
    "I/sra-01": (0x40005000, 0x40000000),
    "M/mulhsu-01": (0x02002000, 0x1000),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_instruction_fails_its_test(name: str) -> None:
    code, flipped = WRONG[name]
    data, expected = ARCH_TESTS[name] if name in ARCH_TESTS else (RISCV_TESTS[name], b"")
    changed = bytearray(data)
    elf = parse_elf(data, name)
    (segment,) = (segment for segment in elf.segments if segment.executable)
    ((_, words),) = elf.program
    places = [i for i, word in enumerate(words.tolist()) if word & OPCODE == 0x33 and word & FUNCTION == code]
    assert len(places) > 5
    for i in places:
        at = segment.offset + 4 * i
        changed[at : at + 4] = (int(words[i]) ^ flipped).to_bytes(4, "little")
    outcome = Execution(parse_elf(bytes(changed), name), max_cycles=1 << 20).run()
    assert (outcome.exit_code, outcome.output) != (0, expected)
