"""The executor against a plain interpreter, which knows nothing of it: results, traps and every field of the record."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from distprove.errors import FormatError, InputError
from distprove.stark.riscv.elf import Elf, parse_elf, read_elf
from distprove.stark.riscv.executor import (
    CycleLimit,
    Execution,
    Inputs,
    Outcome,
    Replay,
    Snapshot,
    Stop,
    Trap,
    TrapState,
    input_words,
)
from distprove.stark.riscv.record import Record
from tests.support import riscv_asm as asm
from tests.support.plain_keccak import keccak_f
from tests.support.riscv_elf import code_file
from tests.support.riscv_oracle import M32, Interpreter, Trapped
from tests.support.riscv_oracle import run as plain_run

DATA, LIMIT, STATE_BYTES = 0x20000, 600, 200
MOST_BYTES = 256
"""Of an operand of a host call, at most."""
REGISTER = st.integers(0, 31)
CORNERS = st.sampled_from(
    [0, 1, 2, 31, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, DATA, DATA + 3, 4092]
)
STATES = st.sampled_from(
    [DATA, DATA, DATA + 4, DATA + 64, DATA + 4000, DATA + 2, DATA - 4, 4092, 0xFFFFFF38, 0xFFFFFF3C]
)
NEAR = st.integers(-6, 12).map(lambda words: 4 * words)
BASE_REGISTERS = st.sampled_from([8, 8, 8, 9])


def sequence(*words: int | list[int]) -> list[int]:
    return [word for each in words for word in (each if isinstance(each, list) else [each])]


INSTRUCTIONS = st.one_of(
    st.builds(asm.op, st.sampled_from(asm.REGISTER_OPS), REGISTER, REGISTER, REGISTER),
    st.builds(asm.imm, st.sampled_from(asm.IMMEDIATE_OPS), REGISTER, REGISTER, st.integers(-2048, 2047)),
    st.builds(asm.load, st.sampled_from(asm.LOADS), REGISTER, BASE_REGISTERS, st.integers(0, 15).map(lambda k: 4 * k)),
    st.builds(asm.load, st.sampled_from(asm.LOADS), REGISTER, BASE_REGISTERS, st.integers(-4, 20)),
    st.builds(
        asm.store, st.sampled_from(asm.STORES), REGISTER, BASE_REGISTERS, st.integers(0, 15).map(lambda k: 4 * k)
    ),
    st.builds(asm.store, st.sampled_from(asm.STORES), REGISTER, BASE_REGISTERS, st.integers(-4, 20)),
    st.builds(asm.store, st.sampled_from(asm.STORES), REGISTER, REGISTER, st.just(0)),
    st.builds(asm.branch, st.sampled_from(asm.BRANCHES), REGISTER, REGISTER, NEAR),
    st.builds(asm.branch, st.sampled_from(asm.BRANCHES), REGISTER, REGISTER, st.sampled_from([2, 4094, -4096])),
    st.builds(asm.jal, REGISTER, NEAR | st.sampled_from([6, 1 << 19])),
    st.builds(lambda rd, rs, k: [asm.auipc(rs, 0), asm.jalr(rd, rs, 4 * k)], REGISTER, REGISTER, st.integers(0, 6)),
    st.builds(asm.jalr, REGISTER, REGISTER, st.integers(-2048, 2047)),
    st.builds(asm.lui, REGISTER, st.integers(0, 0xFFFFFFFF)),
    st.builds(asm.auipc, REGISTER, st.integers(0, 0xFFFFFFFF)),
    st.builds(asm.li, REGISTER, CORNERS | st.integers(0, 0xFFFFFFFF)),
    st.builds(asm.call, st.integers(0, 14)),
    st.builds(lambda number, address: [*asm.li(asm.A0, address), *asm.call(number)], st.integers(7, 13), STATES),
    st.builds(lambda address: [*asm.li(asm.A0, address), *asm.call(6)], STATES),
    st.just(asm.FENCE),
    st.integers(0, 0xFFFFFFFF),  # mostly illegal
)
PROGRAMS = st.builds(
    lambda values, body: sequence(
        *(asm.li(5 + i, value) for i, value in enumerate(values)),
        asm.li(8, DATA),
        asm.li(9, DATA + 64),
        *body,
        asm.leave(7),
    ),
    st.lists(CORNERS, min_size=12, max_size=12),
    st.lists(INSTRUCTIONS, max_size=40),
)


def same(got: Record, expected: Record) -> None:
    for field in fields(Record):
        left, right = getattr(got, field.name), getattr(expected, field.name)
        assert np.array_equal(left, right), f"{field.name}: {left} is not {right}"


@given(PROGRAMS, st.sampled_from([1, 7, 16, 1000]), st.binary(max_size=9), st.binary(max_size=9))
@example(sequence(asm.li(5, 0x80000000), asm.li(6, 0xFFFFFFFF), asm.op("div", 7, 5, 6), asm.leave()), 16, b"", b"")
@example([asm.imm("addi", 17, 0, 11), asm.ECALL, *asm.leave()], 1, b"", b"")  # low addresses, and they overlap
@example(sequence(asm.call(3), asm.call(3), asm.call(3), asm.call(4), asm.call(2), asm.leave()), 7, b"abcd", b"")
@settings(max_examples=400, deadline=None)
def test_random_programs(code: list[int], segment: int, private: bytes, public: bytes) -> None:
    check_run(parse_elf(code_file(code, data=bytes(range(64))), "random"), segment, private, public)


def check_run(elf: Elf, segment: int, private: bytes = b"", public: bytes = b"") -> None:
    """A run of `LIMIT` cycles at most, in segments, does what the plain interpreter does."""
    inputs = Inputs(private, public)
    execution = Execution(elf, inputs, max_cycles=LIMIT)
    snapshots: list[Snapshot] = []
    trap: TrapState | None = None
    try:
        snapshots.extend(execution.segments(segment))
    except Trap as found:
        trap = found.state
    except CycleLimit:
        assert execution.cycles == LIMIT
    oracle = Interpreter(elf.image(), input_words(private).tolist(), input_words(public).tolist(), segment)
    while oracle.cycle < execution.cycles:
        oracle.step()
        if len(oracle.now.rows) == segment or not oracle.pc:
            oracle._close()
    replay = Replay(elf)
    last: dict[int, int] = {}
    for snapshot, expected in zip(snapshots, oracle.records, strict=True):
        again = Snapshot.from_bytes(snapshot.to_bytes(), "a snapshot")
        record = replay.record(again)
        same(record, expected)
        used = [
            *(record.memory_address // np.uint64(4)).tolist(),
            *(np.flatnonzero(record.registers_time) + oracle.first).tolist(),
        ]
        assert again.earlier().tolist() == [last.get(key, 0) for key in used]
        last.update(dict.fromkeys(used, snapshot.index + 1))
    assert execution.output == b"".join(word.to_bytes(4, "little") for word in oracle.output)
    if trap is None and not oracle.pc:
        keys, *rest = execution.words()
        each = zip(keys.tolist(), *(part.tolist() for part in rest), strict=True)
        words = {key: (low | high << 32, n) for key, low, n, high in each}
        assert words == {key: (oracle.words.get(key, 0), n) for key, n in oracle.last.items()}
        assert keys.tolist() == sorted(words)
        exit_code = oracle.words.get(oracle.first + 10, 0) & M32
        assert execution.outcome == Outcome(exit_code, execution.output, oracle.cycle, len(snapshots))
        assert Execution(elf, inputs).run() == Outcome(exit_code, execution.output, oracle.cycle, 1)
    event(trap.stop.name if trap else "EXIT" if not oracle.pc else "LIMIT")
    if trap is not None:
        check_trap(trap, oracle)


def check_trap(trap: TrapState, oracle: Interpreter) -> None:
    """The plain interpreter stands before the instruction that trapped: it traps too, or sees why."""
    assert (trap.cycle, trap.pc) == (oracle.cycle, oracle.pc)
    assert trap.word == oracle.code.get(trap.pc, 0)
    assert trap.registers[1:] == tuple(oracle.words.get(oracle.first + i, 0) for i in range(1, 32))
    jumped = trap.word & 0x7F in (0x63, 0x67, 0x6F) and trap.stop in (Stop.OUTSIDE, Stop.SELF_JUMP)
    if trap.stop in (Stop.LOW_ADDRESS, Stop.READ_ONLY) or jumped:
        # A call may be wrong in several ways, and the interpreter see another one first.
        with suppress(Trapped) if trap.word == asm.ECALL else nullcontext():
            oracle.step()
        first = trap.about if trap.word == asm.ECALL else oracle.row.get("address", 0)
        accessed = range(first, first + (MOST_BYTES if trap.word == asm.ECALL else 1), 4)
        if trap.stop is Stop.LOW_ADDRESS:
            assert first < 4096
        elif trap.stop is Stop.READ_ONLY:
            assert any(address in oracle.code for address in accessed)
        elif trap.stop is Stop.SELF_JUMP:
            assert oracle.pc == trap.pc
        else:
            assert oracle.pc not in oracle.code
            assert oracle.pc == trap.about
        return
    with pytest.raises(Trapped):
        oracle.step()


@pytest.mark.parametrize("segment", [255, 256, 257, 1000, 1024, 1 << 20])
def test_long_segments(segment: int) -> None:
    """A whole guest, over the edges of the blocks in which records are written."""
    elf = read_elf(Path(__file__).parent / "guests" / "json.elf")
    text = b'{"a": [1, -20, 3.5e1, true, null], "b\\u00e9": {"c": "\\n"}}'
    run = plain_run(elf.image(), text, segment=segment)
    assert run.cycles > 2000
    execution, replay = Execution(elf, Inputs(text)), Replay(elf)
    for snapshot, expected in zip(execution.segments(segment), run.records, strict=True):
        same(replay.record(snapshot), expected)
    assert execution.outcome == Outcome(run.exit_code, execution.output, run.cycles, len(run.records))


SPIN = asm.branch("beq", 0, 0, 0)
TRAPS = {
    "nothing": ([0], Stop.ILLEGAL, 0x10000, 0),
    "all bits": ([0xFFFFFFFF], Stop.ILLEGAL, 0x10000, 0),
    "a csr": ([0xC0001073], Stop.ILLEGAL, 0x10000, 0),
    "fence.i": ([0x0000100F], Stop.ILLEGAL, 0x10000, 0),
    "a hint of mret": ([0x30200073], Stop.ILLEGAL, 0x10000, 0),
    "an ecall with a register": ([0x000000F3], Stop.ILLEGAL, 0x10000, 0),
    "slli by 32": ([asm.imm("slli", 5, 5, 0) | 1 << 25], Stop.ILLEGAL, 0x10000, 0),
    "srai with a wrong bit": ([asm.imm("srai", 5, 5, 1) | 1 << 31], Stop.ILLEGAL, 0x10000, 0),
    "ebreak": ([0x00100073], Stop.EBREAK, 0x10000, 0),
    "lw": ([*asm.li(5, DATA + 2), asm.load("lw", 6, 5)], Stop.UNALIGNED_LOAD, 0x10008, 2),
    "lh": ([*asm.li(5, DATA + 1), asm.load("lh", 6, 5)], Stop.UNALIGNED_LOAD, 0x10008, 2),
    "lhu": ([*asm.li(5, DATA + 3), asm.load("lhu", 6, 5)], Stop.UNALIGNED_LOAD, 0x10008, 2),
    "sw": ([*asm.li(5, DATA + 1), asm.store("sw", 6, 5)], Stop.UNALIGNED_STORE, 0x10008, 2),
    "sh": ([*asm.li(5, DATA + 1), asm.store("sh", 6, 5)], Stop.UNALIGNED_STORE, 0x10008, 2),
    "jalr to 2": ([*asm.li(5, 0x10002), asm.jalr(1, 5)], Stop.UNALIGNED_JUMP, 0x10008, 2),
    "jal to 2": ([asm.jal(1, 6)], Stop.UNALIGNED_JUMP, 0x10000, 0),
    "branch to 2": ([asm.branch("beq", 0, 0, 6)], Stop.UNALIGNED_JUMP, 0x10000, 0),
    "jal out": ([asm.jal(1, 1 << 16)], Stop.OUTSIDE, 0x10000, 0),
    "jal to the end": ([asm.jal(1, 8), asm.FENCE], Stop.OUTSIDE, 0x10000, 0),
    "jal to before": ([asm.jal(1, -4)], Stop.OUTSIDE, 0x10000, 0),
    "branch out": ([asm.branch("bgeu", 0, 0, -4096)], Stop.OUTSIDE, 0x10000, 0),
    "jalr to data": ([*asm.li(5, DATA), asm.jalr(0, 5)], Stop.OUTSIDE, 0x10008, 2),
    "jalr to 0": ([asm.jalr(0, 0)], Stop.OUTSIDE, 0x10000, 0),
    "past the end": ([asm.FENCE], Stop.OUTSIDE, 0x10004, 1),
    "jal to itself": ([asm.FENCE, asm.jal(1, 0)], Stop.SELF_JUMP, 0x10004, 1),
    "branch to itself": ([SPIN], Stop.SELF_JUMP, 0x10000, 0),
    "jalr to itself": ([*asm.li(5, 0x10008), asm.jalr(0, 5)], Stop.SELF_JUMP, 0x10008, 2),
    "a null pointer": ([asm.load("lw", 5, 0)], Stop.LOW_ADDRESS, 0x10000, 0),
    "a store below 4096": ([asm.store("sb", 0, 0, 2047)], Stop.LOW_ADDRESS, 0x10000, 0),
    "a store to the program": ([asm.auipc(5, 0), asm.store("sw", 0, 5)], Stop.READ_ONLY, 0x10004, 1),
    "call 0": ([asm.ECALL], Stop.UNKNOWN_CALL, 0x10000, 0),
    "call 23": (asm.call(23), Stop.UNKNOWN_CALL, 0x10004, 1),
    "call 7 of a program that does not show it": (
        [asm.imm("addi", 17, 0, 6), asm.imm("addi", 17, 17, 1), *asm.li(10, DATA), asm.ECALL],
        Stop.UNKNOWN_CALL,
        0x10010,
        4,
    ),
    "an unaligned schedule": ([*asm.li(10, DATA + 2), *asm.call(8)], Stop.UNALIGNED_STORE, 0x1000C, 3),
    "a schedule over the end of memory": ([*asm.li(10, 0xFFFFFF04), *asm.call(8)], Stop.BEYOND, 0x1000C, 3),
    "a schedule over the program": ([*asm.li(10, 0x10000 - 252), *asm.call(8)], Stop.READ_ONLY, 0x1000C, 3),
    "a message below 4096": ([*asm.li(10, DATA), *asm.call(7)], Stop.LOW_ADDRESS, 0x1000C, 3),
    "a state of SHA-256 below 4096": ([*asm.li(10, 4092), *asm.call(9)], Stop.LOW_ADDRESS, 0x1000C, 3),
    "factors at an odd address": ([*asm.li(10, DATA + 1), *asm.call(10)], Stop.UNALIGNED_LOAD, 0x1000C, 3),
    "a factor below 4096": ([*asm.li(10, DATA), *asm.call(10)], Stop.LOW_ADDRESS, 0x1000C, 3),
    "an unaligned state": ([*asm.li(10, DATA + 2), *asm.call(6)], Stop.UNALIGNED_STORE, 0x1000C, 3),
    "a state below 4096": ([*asm.li(10, 4092), *asm.call(6)], Stop.LOW_ADDRESS, 0x1000C, 3),
    "a state over the end of memory": ([*asm.li(10, 0xFFFFFF3C), *asm.call(6)], Stop.BEYOND, 0x1000C, 3),
    "a state over the program": ([*asm.li(10, 0x10000 - 196), *asm.call(6)], Stop.READ_ONLY, 0x1000C, 3),
    "private input": (asm.call(3) * 2, Stop.PRIVATE_END, 0x1000C, 3),
    "public input": (asm.call(4) * 2, Stop.PUBLIC_END, 0x1000C, 3),
}


@pytest.mark.parametrize("name", TRAPS)
def test_traps(name: str) -> None:
    code, stop, pc, cycle = TRAPS[name]
    for run in (Execution.run, Execution.count, lambda execution: [*execution.segments(1)]):
        with pytest.raises(Trap) as trapped:
            run(Execution(parse_elf(code_file(code), name), max_cycles=100))
        trap = trapped.value.state
        assert trap is not None
        assert (trap.stop, trap.pc, trap.cycle) == (stop, pc, cycle)
        word = code[(pc - 0x10000) // 4] if pc < 0x10000 + 4 * len(code) else 0
        assert trap.word == word
        assert f"at pc {pc:#010x} (instruction {word:#010x})" in str(trapped.value)


def test_a_jump_to_itself_that_ends_goes_on() -> None:
    """A branch that is not taken, and a jalr that changes its own register."""
    code = [asm.branch("bne", 0, 0, 0), *asm.li(5, 0x1000C), asm.jalr(5, 5), *asm.leave(3)]
    assert Execution(parse_elf(code_file(code), "jump")).run().exit_code == 3


def test_a_trap_keeps_what_may_be_secret_to_its_process() -> None:
    code = [*asm.li(5, 0x12345679), asm.load("lw", 6, 5)]
    with pytest.raises(Trap) as trapped:
        Execution(parse_elf(code_file(code), "secret")).run()
    trap = trapped.value
    assert trap.state is not None
    shown = "\n".join(trap.state.lines())
    assert "t0 0x12345679" in shown
    assert "address 0x12345679" in shown
    sent = pickle.dumps(trap)
    for told in (str(trap), repr(trap), repr(trap.state), repr(sent)):
        assert "12345679" not in told
        assert str(0x12345679) not in told
    assert (0x12345679).to_bytes(4, "little") not in sent
    again = pickle.loads(sent)
    assert (str(again), again.state) == (str(trap), None)


LOOP = [*asm.li(5, 0), *asm.li(6, 1000), asm.imm("addi", 5, 5, 1), asm.branch("bne", 5, 6, -4), *asm.leave()]


def test_the_limit_of_cycles() -> None:
    elf = parse_elf(code_file(LOOP), "loop")
    cycles = Execution(elf).run().cycles
    assert cycles == 4 + 2000 + 3
    assert Execution(elf, max_cycles=cycles).run().cycles == cycles
    with pytest.raises(CycleLimit, match=f"within {cycles - 1} cycles"):
        Execution(elf, max_cycles=cycles - 1).run()
    for segment, whole in ((500, 4), (1003, 2), (4000, 0)):
        snapshots = Execution(elf, max_cycles=cycles - 1).segments(segment)
        assert [next(snapshots).cycles for _ in range(whole)] == [segment] * whole
        with pytest.raises(CycleLimit):
            next(snapshots)


def test_counts() -> None:
    counts = Execution(parse_elf(code_file(LOOP), "loop")).count()
    assert counts.tolist() == [1, 1, 1, 1, 1000, 1000, 1, 1, 1]


def test_the_limit_of_memory() -> None:
    """Each page that is touched counts, once."""
    code = [*asm.li(5, 1 << 20), *asm.li(6, 4096), *asm.li(7, 1 << 24)]
    loop = [asm.store("sw", 5, 5), asm.load("lw", 8, 5, 4), asm.op("add", 5, 5, 6), asm.branch("bne", 5, 7, -12)]
    elf = parse_elf(code_file([*code, *loop, *asm.leave()]), "pages")
    assert Execution(elf, memory=4096 * (4096 - 256)).run().exit_code == 0
    with pytest.raises(Trap) as trapped:
        Execution(elf, memory=4096 * (4096 - 257)).run()
    assert trapped.value.state is not None
    assert trapped.value.state.stop is Stop.MEMORY_LIMIT


def test_all_of_the_memory_above_4096_is_there() -> None:
    code = sequence(
        asm.li(5, 4096), asm.store("sw", 5, 5), asm.imm("addi", 6, 0, -4), asm.store("sw", 6, 6), asm.load("lw", 7, 6)
    )
    code += [asm.load("lbu", 8, 6, 3), asm.op("sub", 10, 8, 7), *asm.call(1)]
    assert Execution(parse_elf(code_file(code), "memory")).run().exit_code == 255 - 0xFFFFFFFC + (1 << 32)


FORGED = ("registers", "memory_start", "memory_address", "pc", "cycles", "private", "public")


@pytest.mark.parametrize("what", FORGED)
def test_forged_snapshots(what: str) -> None:
    """A snapshot that does not fit the guest is refused, or replayed as what it says: the tables refuse it then."""
    code = sequence(asm.call(3), asm.call(4), asm.li(5, DATA), asm.load("lw", 6, 5), asm.store("sw", 10, 5, 4), LOOP)
    elf = parse_elf(code_file(code), "guest")
    (snapshot,) = Execution(elf, Inputs(b"abcd", b"abcd")).segments(1 << 20)
    replay = Replay(elf)
    good = replay.record(snapshot)
    assert good.pc_end == 0
    change = {
        "pc": 0x1000,
        "cycles": snapshot.cycles + 1,
        "memory_address": snapshot.memory_address[:1],
        "private": snapshot.private[:0],
        "public": np.append(snapshot.public, np.uint32(1)),
        "registers": np.arange(32, dtype=np.uint32),
        "memory_start": snapshot.memory_start ^ np.uint32(1),
    }[what]
    changed = {what: change}
    if what == "memory_address":
        changed |= {"memory_start": snapshot.memory_start[:1], "memory_earlier": snapshot.memory_earlier[:1]}
    forged = replace(snapshot, **changed)
    if what in ("registers", "memory_start"):
        record = replay.record(forged)
        assert getattr(record, "registers_start" if what == "registers" else what).tolist() == change.tolist()
        return
    with pytest.raises(InputError, match="segment 0"):
        replay.record(forged)
    same(replay.record(snapshot), good)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_spoiled_snapshots(data: st.DataObject) -> None:
    """Bytes that are no snapshot are a FormatError; those that are one are replayed or refused."""
    file = bytearray(SNAPSHOT.to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.none() | st.integers(0, len(file)))
    try:
        snapshot = Snapshot.from_bytes(bytes(file[:cut]), "a snapshot")
    except FormatError:
        return
    try:
        Replay(GUEST).record(replace(snapshot, cycles=min(snapshot.cycles, 1 << 12)))
    except InputError:
        return


GUEST = parse_elf(
    code_file(sequence(asm.call(3), asm.li(5, DATA), asm.load("lw", 6, 5), asm.store("sw", 10, 5), LOOP)), "guest"
)
SNAPSHOT = next(Execution(GUEST, Inputs(b"abcd")).segments(64))


def test_a_record_goes_where_it_is_asked_for() -> None:
    columns = np.zeros((14, 64), dtype=np.uint32)
    record = Replay(GUEST).record(SNAPSHOT, columns)
    assert record.columns is columns
    same(record, Replay(GUEST).record(SNAPSHOT))
    unaligned = np.zeros(14 * 64 + 1, dtype=np.uint32)[1:].reshape(14, 64)
    same(Replay(GUEST).record(SNAPSHOT, unaligned), record)
    for wrong in (columns[:, :63], columns.T, columns.astype(np.int32), np.zeros((64, 14), dtype=np.uint32)):
        with pytest.raises(InputError, match="shape"):
            Replay(GUEST).record(SNAPSHOT, wrong)


def test_a_run_is_made_once_and_tells_its_end_after_it() -> None:
    execution = Execution(GUEST, Inputs(b""))
    with pytest.raises(ValueError, match="end"):
        _ = execution.outcome
    execution.run()
    with pytest.raises(ValueError, match="once"):
        execution.run()
    with pytest.raises(InputError, match="cycles"):
        next(Execution(GUEST).segments(0))


def test_segments_are_replayed_in_any_order_and_at_once() -> None:
    """What one replay leaves behind is nothing to the next, and machines share nothing."""
    snapshots = list(Execution(GUEST, Inputs(b"abcd")).segments(300))
    assert len(snapshots) > 5
    alone = [Replay(GUEST).record(snapshot) for snapshot in snapshots]

    def backwards(_: int) -> list[Record]:
        replay = Replay(GUEST)
        return [replay.record(snapshot) for snapshot in reversed(snapshots)]

    with ThreadPoolExecutor(4) as pool:
        for records in pool.map(backwards, range(8)):
            for record, expected in zip(reversed(records), alone, strict=True):
                same(record, expected)


@pytest.mark.parametrize("address", [DATA, 0x30000 - 100, (1 << 32) - STATE_BYTES])
def test_keccak_f(address: int) -> None:
    """In place, over the edge of a page too, and in the last words of memory."""
    lanes = np.random.default_rng(address).integers(0, 1 << 64, 25, dtype=np.uint64)
    expected = b"".join(lane.to_bytes(8, "little") for lane in keccak_f(lanes.tolist()))
    code = [*asm.li(6, address), *asm.li(7, address)]
    for word in lanes.view(np.uint32).tolist():
        code += [*asm.li(5, word), asm.store("sw", 5, 6), asm.imm("addi", 6, 6, 4)]
    code += [asm.imm("addi", 10, 7, 0), *asm.call(6), asm.op("sub", 9, 10, 7)]
    for k in range(0, STATE_BYTES, 4):
        code += [asm.load("lw", 10, 7, k), *asm.call(2)]
    elf = parse_elf(code_file([*code, asm.imm("addi", 10, 9, 0), *asm.call(1)]), "keccak")
    assert Execution(elf).run().output == expected
    execution = Execution(elf)
    assert execution.count().sum() == execution.outcome.cycles
    assert execution.call_counts().tolist() == [0, 1, 50, 0, 0, 0, 1, *[0] * 16]
    assert (execution.outcome.exit_code, execution.output) == (0, expected)
    for segment in (1 << 20, 160):
        replay, snapshots = Replay(elf), list(Execution(elf).segments(segment))
        records = [replay.record(snapshot) for snapshot in snapshots]
        for record, plain in zip(records, plain_run(elf.image(), segment=segment).records, strict=True):
            same(record, plain)
        before, after = (np.concatenate([getattr(r, f"permuted_{w}") for r in records]) for w in ("before", "after"))
        assert (before.tobytes(), after.tobytes()) == (lanes.tobytes(), expected)


@pytest.mark.parametrize(("address", "pages"), [(0x30000, 1), (0x30000 - 4, 2)])
def test_a_state_takes_the_pages_that_it_lies_in(address: int, pages: int) -> None:
    elf = parse_elf(code_file([*asm.li(10, address), *asm.call(6), *asm.leave()]), "pages")
    assert Execution(elf, memory=4096 * pages).run().exit_code == 0
    if pages > 1:
        with pytest.raises(Trap) as trapped:
            Execution(elf, memory=4096 * (pages - 1)).run()
        assert trapped.value.state is not None
        assert trapped.value.state.stop is Stop.MEMORY_LIMIT
