"""The public suite riscv-tests (rv32ui, rv32um), built as conformance/Makefile says."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from distprove.stark.riscv.elf import parse_elf
from distprove.stark.riscv.executor import Execution, Replay, Stop, Trap

ARCHIVE = Path(__file__).parent / "conformance" / "riscv-tests.zip"
TRAPS = {
    "rv32ui/fence_i.elf": Stop.ILLEGAL,  # fence.i, of the extension Zifencei
    "rv32ui/ma_data.elf": Stop.UNALIGNED_LOAD,  # unaligned accesses, which an environment may have or not
}
OPCODE, FUNCTION = 0x7F, 0xFE007000


def names() -> list[str]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return [name for name in archive.namelist() if name != "LICENSE"]


def read(name: str) -> bytes:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return archive.read(name)


def test_the_suite_is_whole() -> None:
    assert len(names()) == 42 + 8
    assert set(names()) > set(TRAPS)


@pytest.mark.parametrize("name", names())
def test_riscv_tests(name: str) -> None:
    elf = parse_elf(read(name), name)
    if name in TRAPS:
        with pytest.raises(Trap) as trapped:
            Execution(elf).run()
        assert trapped.value.stop == TRAPS[name]
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


@pytest.mark.parametrize(
    ("name", "flipped"), [("add", 0x40000000), ("slt", 0x1000), ("mulh", 0x2000), ("remu", 0x2000)]
)
def test_a_wrong_instruction_fails_its_test(name: str, flipped: int) -> None:
    """`flipped`: bits that make one instruction with registers of another."""
    folder = "rv32um" if name in ("mulh", "remu") else "rv32ui"
    data = bytearray(read(f"{folder}/{name}.elf"))
    elf = parse_elf(bytes(data), name)
    function = {"add": 0, "slt": 0x2000, "mulh": 0x02001000, "remu": 0x02007000}[name]
    found = 0
    (segment,) = (segment for segment in elf.segments if segment.executable)
    for i, word in enumerate(elf.program[0][1].tolist()):
        if word & OPCODE == 0x33 and word & FUNCTION == function:
            at = segment.offset + 4 * i
            data[at : at + 4] = (word ^ flipped).to_bytes(4, "little")
            found += 1
    assert found > 5
    assert Execution(parse_elf(bytes(data), name), max_cycles=100_000).run().exit_code != 0
