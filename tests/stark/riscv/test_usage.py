"""What the executor counts while it runs is what the prover finds in the records, so the heights agree."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from distprove.stark.programs.keccak_slices import ROWS_EACH
from distprove.stark.riscv.calls import KECCAK_CALL
from distprove.stark.riscv.elf import Elf, parse_elf, read_elf
from distprove.stark.riscv.executor import NO_CLASS, CycleLimit, Execution, Inputs, Replay, Trap
from distprove.stark.riscv.keccak import keccak_log_height
from distprove.stark.riscv.lookup import LOG_ROWS
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.segment import ABSENT, Fixed, log_heights, operation_classes, usage_of
from tests.stark.riscv.test_executor import LIMIT, PROGRAMS
from tests.stark.riscv.test_guests import GUESTS
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import EXECUTE, READ, code_file, elf_file
from tests.support.riscv_programs import random_program
from tests.support.riscv_suites import NOT_OURS, riscv_tests

CLASSES = MACHINES[32].classes
WORDS = 100
TEXTS = {"json": b'[1, "a b"]', "words": b"a b a"}


def agree(elf: Elf, inputs: Inputs, segment: int) -> NDArray[np.int64]:
    """Compare what is counted of each segment, and return the sums of the classes."""
    fixed, replay = Fixed.of(elf.image()), Replay(elf)
    execution = Execution(elf, inputs, max_cycles=LIMIT, classes=operation_classes(fixed, elf.program))
    total = np.zeros(len(CLASSES), dtype=np.int64)
    try:
        for snapshot in execution.segments(segment):
            record = replay.record(snapshot)
            got, expected = execution.usage, usage_of(fixed, record, fixed.instructions(record))
            assert (got.cycles, got.touched) == (expected.cycles, expected.touched)
            assert got.classes[: len(CLASSES)].tolist() == expected.classes.tolist()
            assert not got.classes[len(CLASSES) :].any()
            assert got.calls[: len(expected.calls)].tolist() == expected.calls.tolist()
            assert not got.calls[len(expected.calls) :].any()
            total += expected.classes
    except (Trap, CycleLimit):
        pass
    return total


@given(PROGRAMS, st.sampled_from([1, 7, 64, 1000]), st.binary(max_size=9), st.binary(max_size=9))
@settings(max_examples=200, deadline=None)
def test_random_programs(code: list[int], segment: int, private: bytes, public: bytes) -> None:
    agree(parse_elf(code_file(code, data=bytes(range(64))), "random"), Inputs(private, public), segment)


@pytest.mark.parametrize("segment", [1, 13, 1 << 10])
def test_every_class_is_counted(segment: int) -> None:
    total = np.zeros(len(CLASSES), dtype=np.int64)
    for seed in range(12):
        image = random_program(seed, 400)
        data = b"".join(word.to_bytes(4, "little") for word in image.memory_word.tolist())
        elf = parse_elf(code_file(image.code_word.tolist(), data=data[:4096]), "random")
        total += agree(elf, Inputs(bytes(8), bytes(8)), segment)
    assert (total > 0).all()


@pytest.mark.parametrize("name", [name for name in riscv_tests() if name not in NOT_OURS])
def test_the_suite(name: str) -> None:
    agree(parse_elf(riscv_tests()[name], name), Inputs(), 32)


@pytest.mark.parametrize("name", ["quicksort", "sha256", "keccak", "json", "words"])
def test_the_cut_tells_the_heights_of_the_traces(name: str, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(
        b'[1, "a b"]' if name == "json" else random.Random(name).randbytes(64) if name != "words" else b"a b a"
    )
    program = RiscV(elf=str(GUESTS / f"{name}.elf"), input=str(path), segment=1 << 9)
    cut = program.cut(None, lambda heights: True)
    assert cut.log_heights is not None
    assert len(cut.slices) > 1
    for piece, heights in zip(cut.slices, cut.log_heights, strict=True):
        made = program.inputs(piece.source)["heights"].tolist()
        assert made == [ABSENT if height is None else height for height in heights]


@pytest.mark.parametrize(("idle", "calls"), [(0, 6000), (30, 6000), (60, 6000)])
def test_many_permutations_end_a_segment(idle: int, calls: int) -> None:
    """The table of Keccak-f has no more rows than the largest other one, however densely it is called."""
    loop = [asm.imm("addi", 10, 8, 0), *asm.call(6), *[asm.FENCE] * idle, asm.imm("addi", 9, 9, -1)]
    code = [*asm.li(8, 0x20000), *asm.li(9, calls), *loop, asm.branch("bne", 9, 0, -4 * len(loop)), *asm.leave()]
    elf = parse_elf(code_file(code), "many")
    fixed = Fixed.of(elf.image())
    execution = Execution(elf, max_cycles=1 << 20, classes=operation_classes(fixed, elf.program))
    made, last = 0, 0
    for snapshot in execution.segments(1 << 20):
        heights = log_heights(fixed, execution.usage, WORDS)
        others = [height for name, height in heights.items() if not name.startswith("keccak")]
        assert heights["keccak"] <= max(others)
        made, last = made + int(execution.usage.calls[KECCAK_CALL]), snapshot.first_cycle
    assert made == calls
    assert execution.outcome.segments > 1
    record = Replay(elf).record(snapshot)
    assert (record.first_cycle, record.pc_end) == (last, 0)


def test_the_bound_of_permutations_is_that_of_the_tables() -> None:
    """KECCAK_ROWS and ROWS_ALWAYS of riscv.h: a segment of few cycles takes as many calls as the lookups have rows."""
    most = ((1 << LOG_ROWS) - 1) // ROWS_EACH
    assert keccak_log_height(most) == LOG_ROWS
    assert keccak_log_height(most + 1) == LOG_ROWS + 1
    code = [*asm.li(10, 0x20000), *asm.call(6), *(most + 1) * [asm.ECALL], *asm.leave()]
    execution = Execution(parse_elf(code_file(code), "many"))
    next(execution.segments(1 << 20))
    assert execution.usage.calls[KECCAK_CALL] == most


def test_operations_of_two_ranges() -> None:
    """The operation behind a range, and words that are no instructions, ask no table."""
    words = [asm.op("xor", 5, 6, 7), 0, asm.load("lb", 5, 2, 0), asm.op("xor", 0, 6, 7)]
    code = b"".join(word.to_bytes(4, "little") for word in words)
    elf = parse_elf(elf_file([(at, code, READ | EXECUTE) for at in (0x10000, 0x20000)], 0x10000), "two ranges")
    bitwise, narrow = (list(CLASSES).index(name) for name in ("bitwise", "narrow"))
    classes = operation_classes(Fixed.of(elf.image()), elf.program)
    assert classes.tolist() == 2 * [bitwise, NO_CLASS, narrow, NO_CLASS, NO_CLASS]


def test_heights() -> None:
    """A table that nothing asks is absent, and one row is enough for as many as are asked."""
    elf = read_elf(GUESTS / "fibonacci.elf")
    fixed = Fixed.of(elf.image())
    execution = Execution(
        elf, Inputs(public=(1000).to_bytes(4, "little")), classes=operation_classes(fixed, elf.program)
    )
    for _ in execution.segments(1 << 10):
        heights = log_heights(fixed, execution.usage, WORDS)
        assert set(heights) <= {air.name for air in MACHINES[32].tables}
        assert heights["words"] == 7
        for name, asked in zip(CLASSES, execution.usage.classes.tolist(), strict=False):
            assert (name in heights) == (asked > 0)
            assert asked == 0 or 1 << heights[name] >= asked
