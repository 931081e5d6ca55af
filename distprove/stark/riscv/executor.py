"""Execution of guests: runs, profiles, snapshots of segments, and the execution record of a segment.

docs/riscv.md specifies the machine, the host calls, segments and the record. The machine itself is C++
(kernels/cpu/src/riscv*).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import DistproveError, FormatError, InputError
from distprove.formats import canonical
from distprove.formats.shapes import fits
from distprove.formats.visible import MAX_NAME, bounded, visible
from distprove.stark.riscv.calls import answered, precompiles_in
from distprove.stark.riscv.elf import LOWEST_ADDRESS, Elf
from distprove.stark.riscv.record import (
    FIELDS_OF,
    FIRST_REGISTER_OF,
    REGISTERS,
    STATE_WORDS,
    U32,
    Record,
    Usage,
    Words64,
)
from kernels.host.native import native
from kernels.host.units import count_of

PAGE = 4096
"""Bytes of a page, the unit in which the memory that a guest touches is counted."""
MOST_SEGMENT_CYCLES = 1 << 28
MAX_CYCLES = 1 << 36
"""Cycles after which a run is given up, unless the caller says otherwise."""
MEMORY = 1 << 30
"""Bytes of memory that a guest may touch, unless the caller says otherwise, in pages."""
MORE_BITS = 5
"""Bits of an address of data in RV64IM above 32."""
NOT_USED = (1 << 32) - 1
"""What a snapshot has in place of an earlier segment's number for a register that its segment does not use."""
NO_CLASS = 255
"""The class of operations that `Execution` does not count."""
_SLICE = 1 << 28
"""Cycles between two looks at signals, such as Ctrl-C."""


class Stop(enum.IntEnum):
    """Why the machine stands still: the numbers of `Stop` in riscv.h, and of a trap what its message says."""

    reason: str

    def __new__(cls, number: int, reason: str = "") -> Stop:
        stop = int.__new__(cls, number)
        stop._value_, stop.reason = number, reason
        return stop

    LIMIT = 0
    EXIT = 1
    ILLEGAL = 2, "an illegal instruction"
    EBREAK = 3, "ebreak"
    UNALIGNED_LOAD = 4, "an unaligned load"
    UNALIGNED_STORE = 5, "an unaligned store"
    UNALIGNED_JUMP = 6, "a jump to an unaligned address"
    OUTSIDE = 7, "a jump to where there is no program"
    SELF_JUMP = 8, "a jump to itself, which would never end"
    LOW_ADDRESS = 9, f"an access below address {LOWEST_ADDRESS}, where the machine has nothing"
    READ_ONLY = 10, "a store to memory that is not writable: code, constants, or beyond the end of the stack"
    UNKNOWN_CALL = 11, "an unknown host call"
    PRIVATE_END = 12, "a read beyond the end of the private input"
    PUBLIC_END = 13, "a read beyond the end of the public input"
    MEMORY_LIMIT = 14, f"more memory is touched than a run may have, {MEMORY >> 30} GiB in pages of 4 KiB by default"
    OUTPUT_LIMIT = 15, "more output is written than a run may have"
    BEYOND = 16, "an access beyond the end of memory"
    OVERLAP = 17, "a host call whose addend and modulus overlap"
    QUOTIENT = 18, "a product modulo a number that neither factor is below: its quotient has more bits than they"
    COORDINATE = 19, "a sum of points with a coordinate that is not below the field's modulus"
    NO_SUM = (
        20,
        "a sum of points that the formula does not give: two points with one x, a point to double with y 0, or points "
        "off the curve of Ed25519",
    )


_ABOUT = {
    **dict.fromkeys((Stop.UNALIGNED_JUMP, Stop.OUTSIDE, Stop.SELF_JUMP), "target of the jump"),
    **dict.fromkeys((Stop.UNALIGNED_LOAD, Stop.UNALIGNED_STORE, Stop.LOW_ADDRESS, Stop.READ_ONLY), "address"),
    **dict.fromkeys((Stop.MEMORY_LIMIT, Stop.BEYOND, Stop.OVERLAP, Stop.QUOTIENT), "address"),
    **dict.fromkeys((Stop.COORDINATE, Stop.NO_SUM), "address"),
    Stop.UNKNOWN_CALL: "number of the call",
}
"""What `TrapState.about` is, for the traps that have one."""

_NAMES = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{i}" for i in range(8)),
    *(f"s{i}" for i in range(2, 12)),
    *(f"t{i}" for i in range(3, 7)),
)


@dataclass(frozen=True)
class TrapState:
    """The machine before the instruction that trapped."""

    stop: Stop
    cycle: int
    pc: int
    word: int
    about: int = field(repr=False)
    """The address, jump target or number of the host call that is at fault. It may follow from private input."""
    registers: tuple[int, ...] = field(repr=False)
    """They may hold private input."""
    xlen: int = 32

    def lines(self) -> list[str]:
        """What the message leaves out, for the one who runs the guest: the registers, four a line, and `about`, named
        as what it is; nothing of it for a trap that has none, as beyond the end of an input."""
        digits = self.xlen // 4 + 2
        named = [f"{name:>4} {value:#0{digits}x}" for name, value in zip(_NAMES, self.registers, strict=True)]
        told = _ABOUT.get(self.stop)
        about = [f"{told} {self.about:#010x}"] if told else []
        return [*("  ".join(named[i : i + 4]) for i in range(0, REGISTERS, 4)), *about]


class Trap(DistproveError):
    """A guest did what ends its execution. The message says cycle, pc, instruction and reason, and nothing that may
    follow from private input; the state, which may, stays in this process."""

    def __init__(self, message: str, state: TrapState | None = None) -> None:
        super().__init__(message)
        self.state = state

    def __reduce__(self) -> tuple[type[Trap], tuple[str]]:
        return Trap, (str(self),)


class CycleLimit(DistproveError):
    """A guest did not end within the cycles that it was given."""


@dataclass(frozen=True)
class Inputs:
    """What a guest reads. `private` is secret and is in no message."""

    private: bytes = field(default=b"", repr=False)
    public: bytes = b""


def input_words(data: bytes) -> U32:
    """The stream of words that a guest reads of an input: its length in bytes, then the bytes, filled up with zeros."""
    padded = struct.pack("<I", len(data)) + data + bytes(-len(data) % 4)
    return np.frombuffer(padded, dtype="<u4").astype(np.uint32)


@dataclass(frozen=True)
class Outcome:
    """How a run ended that came to its exit."""

    exit_code: int
    output: bytes
    cycles: int
    segments: int
    """Segments of which snapshots were made; 1 for a run without them."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What replaying a segment needs beside the ELF. It may hold private input, and is as secret."""

    index: int
    first_cycle: int
    cycles: int
    pc: int
    registers: U32 = field(repr=False)
    registers_earlier: U32 = field(repr=False)
    """(32,): one more than the number of the last earlier segment that used the register; 0 if none did; `NOT_USED` if
    this one does not use it."""
    memory_address: U32 = field(repr=False)
    """Bits 0 to 31 of the byte addresses (m,) of the words that the segment accesses, in the order of their first
    access."""
    memory_start: U32 = field(repr=False)
    """Their values at the start of the segment."""
    memory_earlier: U32 = field(repr=False)
    """One more than the number of the last earlier segment that accessed each; 0 if none did."""
    private: U32 = field(repr=False)
    """Words of the private input that the segment reads."""
    public: U32 = field(repr=False)
    registers_upper: U32 = field(repr=False)
    """(32,): bits 32 to 63 of the registers; zeros for RV32IM."""
    memory_upper: U32 = field(repr=False)
    """The bits of the addresses above those of `memory_address`, (m,); (0,) if all are 0."""

    @property
    def addresses(self) -> Words64:
        """Byte addresses (m,) of the words that the segment accesses, in the order of their first access."""
        lower = self.memory_address.astype(np.uint64)
        return lower | self.memory_upper.astype(np.uint64) << np.uint64(32) if len(self.memory_upper) else lower

    def earlier(self) -> U32:
        """The last earlier segments, plus 1, of the words and then of the registers that the segment uses, each by
        ascending address or number; 0 where there is none."""
        used = self.registers_earlier != NOT_USED
        return np.concatenate([self.memory_earlier[np.argsort(self.addresses)], self.registers_earlier[used]])

    def to_bytes(self) -> bytes:
        """The snapshot as a file."""
        arrays = {name: getattr(self, name).astype("<u4", copy=False).tobytes() for name in _ARRAYS}
        return canonical.encode({**{name: getattr(self, name) for name in _NUMBERS}, **arrays})

    @classmethod
    def from_bytes(cls, data: bytes, what: str) -> Snapshot:
        """The snapshot in a file's bytes; `what` names it in errors. Raises FormatError."""
        content = canonical.decode(data, what)
        shape = {**dict.fromkeys(_NUMBERS, int), **dict.fromkeys(_ARRAYS, bytes)}
        if not fits(content, shape) or content.keys() != shape.keys() or any(len(content[n]) % 4 for n in _ARRAYS):
            raise FormatError(f"{what}: not a snapshot of a segment")
        index, first, cycles, pc = (content[name] for name in _NUMBERS)
        arrays = [np.frombuffer(content[name], dtype="<u4").astype(np.uint32) for name in _ARRAYS]
        lengths = [len(array) for array in arrays]
        whole = lengths[:2] + lengths[7:8] == 3 * [REGISTERS] and len(set(lengths[2:5])) == 1
        if not whole or lengths[8] not in (0, lengths[2]):
            raise FormatError(f"{what}: the parts of the snapshot do not fit each other")
        if arrays[0][0] != 0 or arrays[7][0] != 0 or (arrays[2] % 4).any() or (arrays[8] >> MORE_BITS).any():
            raise FormatError(f"{what}: the parts of the snapshot do not fit each other")
        if not (
            0 < cycles <= MOST_SEGMENT_CYCLES and 0 <= index < 1 << 32 and 0 <= pc < 1 << 32 and 0 <= first < 1 << 62
        ):
            raise FormatError(
                f"{what}: a segment of {count_of(cycles, 'cycle')} from cycle {first}, number {index}, at {pc:#x}"
            )
        return cls(index, first, cycles, pc, *arrays)


_FIELDS = tuple(each.name for each in fields(Snapshot))
_NUMBERS, _ARRAYS = _FIELDS[:4], _FIELDS[4:]


class Execution:
    """One run of a guest on its inputs. It runs once: to its end, to its end with counts, or segment by segment."""

    def __init__(
        self,
        elf: Elf,
        inputs: Inputs | None = None,
        *,
        max_cycles: int = MAX_CYCLES,
        memory: int = MEMORY,
        classes: NDArray[np.uint8] | None = None,
    ) -> None:
        """`max_cycles`: after which the run is given up. `memory`: bytes that the guest may touch, in pages. `classes`:
        from `segment.operation_classes`, for `usage`. Raises InputError."""
        inputs = inputs or Inputs()
        if max(len(inputs.private), len(inputs.public)) >= 1 << 32:
            raise InputError("an input of a guest has at most 2^32 - 1 bytes")
        self._private, self._public = input_words(inputs.private), input_words(inputs.public)
        self._elf, self._machine = elf, _machine(elf, max(memory // PAGE, 1))
        self._machine.start(_flat(self._private), _flat(self._public))
        if classes is not None:
            self._machine.classify(classes)
        self._usage: Usage | None = None
        self._left = max_cycles
        self._begun = False
        self._counts = np.zeros(0, dtype=np.uint64)
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        """How the run ended. Raises ValueError before it did."""
        if self._outcome is None:
            raise ValueError("the run has not come to its end")
        return self._outcome

    @property
    def cycles(self) -> int:
        """Cycles so far."""
        return int(self._machine.cycle)

    @property
    def output(self) -> bytes:
        """Output so far."""
        return bytes(self._machine.output())

    def run(self) -> Outcome:
        """Run to the end. Raises Trap, CycleLimit."""
        self._begin()
        while self._advance(self._machine.run, _SLICE) is not Stop.EXIT:
            pass
        return self._end(1)

    def run_on(self, private: bytes = b"") -> Outcome | None:
        """Append whole words to the private input, and run to the end. Returns None at a read behind those words: then
        the run goes on with the next call. The size of `Inputs.private`, which a guest reads first, does not change.
        Raises Trap, CycleLimit."""
        self._begun = True
        self._machine.feed(_flat(np.frombuffer(private, dtype="<u4").astype(np.uint32)))
        try:
            while self._advance(self._machine.run, _SLICE) is not Stop.EXIT:
                pass
        except Trap as trap:
            if trap.state is not None and trap.state.stop is Stop.PRIVATE_END:
                return None
            raise
        return self._end(1)

    def count(self) -> NDArray[np.uint64]:
        """Run to the end, and count how often each word of `Elf.program` is executed, range after range. Raises Trap,
        CycleLimit."""
        self._begin()
        self._counts = np.zeros(self._machine.operations, dtype=np.uint64)
        view = self._counts.view(np.uint8)
        while self._advance(lambda cycles: self._machine.run_counting(cycles, view), _SLICE) is not Stop.EXIT:
            pass
        self._end(1)
        return self.counted()

    def counted(self) -> NDArray[np.uint64]:
        """What `count` returns, of a run by `count` that is at its end or was stopped by a trap or its limit."""
        ends = np.cumsum([len(words) + 1 for _, words in self._elf.program]) - 1  # see operations() in riscv.h
        return np.delete(self._counts, ends)

    def call_counts(self) -> NDArray[np.uint64]:
        """How often the run that `count` made made the host call of each number."""
        return np.frombuffer(self._machine.call_counts(), dtype=np.uint64)

    def segments(self, cycles: int) -> Iterator[Snapshot]:
        """Run to the end, and give the snapshot of each segment of `cycles` cycles, or fewer where many calls
        that access memory end it earlier (`full` in riscv.h); `usage` is that of the last one. A trap comes after the
        snapshots of the segments before it. Raises Trap, CycleLimit, InputError."""
        if not 0 < cycles <= MOST_SEGMENT_CYCLES:
            raise InputError(f"a segment has 1 to {MOST_SEGMENT_CYCLES} cycles, not {cycles}")
        self._begin()
        machine, stop, index = self._machine, Stop.LIMIT, 0
        while stop is not Stop.EXIT:
            first, pc, (registers, upper) = machine.cycle, machine.pc, _registers(machine)
            private, public = machine.private_read, machine.public_read
            stop = self._advance(machine.run_segment, cycles)
            addresses, values, segments = _touched(machine)
            earlier, used = _array(machine.register_segments_before()), _array(machine.register_segments()) == index + 1
            classes, calls = _array(machine.segment_classes()), _array(machine.segment_calls())
            self._usage = Usage(machine.cycle - first, classes, calls, len(addresses) + int(np.count_nonzero(used)))
            yield Snapshot(
                index,
                first,
                machine.cycle - first,
                pc,
                registers,
                np.where(used, earlier, NOT_USED).astype(np.uint32),
                addresses.astype(np.uint32),
                values,
                segments,
                self._private[private : machine.private_read],
                self._public[public : machine.public_read],
                upper,
                _upper_bits(addresses),
            )
            index += 1
        self._end(index)

    @property
    def usage(self) -> Usage:
        """What the last segment asks of each table; its `classes` are all 0 unless `classes` were given. Raises
        ValueError before the first."""
        if self._usage is None:
            raise ValueError("no segment was run")
        return self._usage

    @property
    def xlen(self) -> int:
        """Bits of a register."""
        return self._elf.xlen

    def memory(self, address: int, size: int) -> bytes:
        """So many bytes of the memory as it is now, from an address that is a multiple of 4."""
        at = np.arange(address, address + size, 4, dtype=np.uint64)
        content: bytes = self._machine.words_at(_flat(at))[0]
        return content[:size]

    def words(self) -> tuple[Words64, U32, U32, U32]:
        """Return all words and registers that a run used, which came to its end by segments.

        Keys (k,) ascend: a quarter of the byte address; FIRST_REGISTER_OF + i for register i. Then come the values at
        the end (of registers bits 0 to 31), for each one more than the number of the last segment that used it, and
        bits 32 to 63 of the values, which only registers of RV64IM have. Raises ValueError.
        """
        self.outcome  # noqa: B018  that there is one
        addresses = np.sort(np.frombuffer(self._machine.all_words(), dtype=np.uint64))
        values, segments = map(_array, self._machine.words_at(_flat(addresses)))
        (registers, upper), last = _registers(self._machine), _array(self._machine.register_segments())
        used = np.flatnonzero(last).astype(np.uint64)
        return (
            np.concatenate([addresses // np.uint64(4), used + np.uint64(FIRST_REGISTER_OF[self._elf.xlen])]),
            np.concatenate([values, registers[used]]),
            np.concatenate([segments, last[used]]),
            np.concatenate([np.zeros_like(values), upper[used]]),
        )

    def _begin(self) -> None:
        if self._begun:
            raise ValueError("a run is made once")
        self._begun = True

    def _advance(self, run: Any, cycles: int) -> Stop:
        """Run for so many cycles, or fewer at the end. Raises Trap, CycleLimit."""
        allowed = min(cycles, self._left)
        before = self._machine.cycle
        stop = Stop(run(allowed))
        self._left -= self._machine.cycle - before
        if stop not in (Stop.LIMIT, Stop.EXIT):
            raise _trap(self._machine, stop, self._elf)
        if stop is Stop.LIMIT and allowed < cycles and self._left == 0:
            pc = int(self._machine.pc)
            raise CycleLimit(
                f"the guest did not end within {count_of(self.cycles, 'cycle')}: it is at {_place(self._elf, pc)}"
            )
        return stop

    def _end(self, segments: int) -> Outcome:
        exit_code = int(_registers(self._machine)[0][10])
        self._outcome = Outcome(exit_code, self.output, self.cycles, segments)
        return self._outcome


class Replay:
    """Makes execution records of the segments of a guest, one at a time."""

    def __init__(self, elf: Elf) -> None:
        self._machine, self._fields = _machine(elf, 1 << 22), FIELDS_OF[elf.xlen]

    def record(self, snapshot: Snapshot, columns: U32 | None = None) -> Record:
        """The record of a segment. `columns`: a contiguous (14, n) uint32 array to write to, of RV64IM (21, n), n the
        cycles of the segment; a new one otherwise. Raises InputError if the snapshot is not one of this guest."""
        shape = (len(self._fields), snapshot.cycles)
        if columns is None:
            columns = np.empty(shape, dtype=np.uint32)
        if columns.shape != shape or columns.dtype != np.uint32 or not columns.flags.c_contiguous:
            raise InputError(f"a record of this segment has shape {shape} and dtype uint32")
        machine = self._machine
        registers = snapshot.registers.astype(np.uint64) | snapshot.registers_upper.astype(np.uint64) << np.uint64(32)
        machine.restore(
            _flat(registers),
            snapshot.pc,
            snapshot.first_cycle,
            _flat(snapshot.addresses),
            _flat(snapshot.memory_start),
            _flat(snapshot.private),
            _flat(snapshot.public),
        )
        stop = Stop(machine.run_recording(snapshot.cycles, columns.reshape(-1).view(np.uint8)))
        cycles = machine.cycle - snapshot.first_cycle
        touched, _, _ = _touched(machine)
        if (
            stop not in (Stop.LIMIT, Stop.EXIT)
            or cycles != snapshot.cycles
            or not np.array_equal(touched, snapshot.addresses)
            or (machine.private_read, machine.public_read) != (len(snapshot.private), len(snapshot.public))
        ):
            raise InputError(f"segment {snapshot.index}: the snapshot is not one of this guest")
        registers_end, registers_end_upper = _registers(machine)
        order = np.argsort(touched)
        addresses = touched[order]
        ends, times = map(_array, machine.words_at(_flat(addresses)))
        return Record(
            columns=columns,
            first_cycle=snapshot.first_cycle,
            pc_start=snapshot.pc,
            pc_end=machine.pc,
            registers_start=snapshot.registers,
            registers_end=registers_end,
            registers_time=_array(machine.register_times()),
            memory_address=addresses,
            memory_start=snapshot.memory_start[order],
            memory_end=ends,
            memory_time=times,
            **dict(zip(("call_cycle", "call_number", "call_word"), map(_array, machine.host_calls()), strict=True)),
            **{
                f"permuted_{what}": _array(words).reshape(-1, STATE_WORDS)
                for what, words in zip(("before", "after", "previous"), machine.permuted(), strict=True)
            },
            accesses=_array(machine.accesses()).reshape(-1, 5),
            registers_start_upper=snapshot.registers_upper,
            registers_end_upper=registers_end_upper,
        )


def _machine(elf: Elf, pages: int) -> Any:
    table = [(s.address, s.size, s.offset, s.data_size, s.writable, s.executable) for s in elf.segments]
    packed = np.array(table, dtype=np.int64).astype(np.uint32)
    patches = np.array(elf.patches, dtype=np.uint32)
    pieces = [(start + 4 * np.arange(len(words), dtype=np.int64), words) for start, words in elf.program]
    calls = answered(precompiles_in(pieces))
    file = np.frombuffer(elf.data, dtype=np.uint8)
    return native.RiscvMachine(_flat(packed), file, _flat(patches), elf.entry, pages, calls, elf.xlen == 64)


def _touched(machine: Any) -> tuple[Words64, U32, U32]:
    """Addresses, values at the start, and segments of the words that the last segment or record accessed."""
    addresses, values, segments = machine.touched()
    return np.frombuffer(addresses, dtype=np.uint64), _array(values), _array(segments)


def _upper_bits(addresses: Words64) -> U32:
    """Bits 32 and above of addresses; an empty array if they are all 0."""
    upper = (addresses >> np.uint64(32)).astype(np.uint32)
    return upper if upper.any() else np.zeros(0, dtype=np.uint32)


def _registers(machine: Any) -> tuple[U32, U32]:
    """The lower and upper halves of the registers, (32,) each."""
    values = np.frombuffer(machine.registers(), dtype=np.uint64)
    return values.astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)


def _place(elf: Elf, pc: int) -> str:
    """A place in the program in words, with the function that the file names there."""
    name = elf.function_at(pc)
    return f"pc {pc:#010x}" + (f" in `{bounded(visible(name), MAX_NAME)}`" if name else "")


def _trap(machine: Any, stop: Stop, elf: Elf) -> Trap:
    registers = tuple(int(value) for value in np.frombuffer(machine.registers(), dtype=np.uint64))
    state = TrapState(stop, machine.cycle, machine.pc, machine.word, machine.fault, registers, elf.xlen)
    where = f"cycle {state.cycle} at {_place(elf, state.pc)} (instruction {state.word:#010x})"
    return Trap(f"the guest trapped in {where}: {stop.reason}", state)


def _flat(words: U32 | Words64) -> NDArray[np.uint8]:
    return np.ascontiguousarray(words).reshape(-1).view(np.uint8)


def _array(data: bytes) -> U32:
    return np.frombuffer(data, dtype=np.uint32)
