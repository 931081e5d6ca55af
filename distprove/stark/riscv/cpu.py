"""The table `cpu`: one row for each cycle of a segment.

A row takes its instruction from `rom`, reads its registers and memory on the bus `access`, and computes what most
instructions are: sums, differences, jumps, equality, words of memory. The rest it asks of other tables, on `alu`,
`narrow` and `host`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Bus, CppRows, Expression, Table
from distprove.stark.riscv.buses import ACCESS, ALU, HOST, LOOKUP, NARROW, ROM, in_long_range, in_range, range_kind
from distprove.stark.riscv.decode import FLAGS
from distprove.stark.riscv.record import FIRST_REGISTER, Record, Words64

COLUMNS = {
    "on": 1,  # 1 in rows of cycles, which come first; 0 after them
    "pc": 1,
    "time": 1,
    **dict.fromkeys(FLAGS, 1),
    "op": 1,
    "rd": 1,
    "rs1": 1,
    "rs2": 1,
    "imm": 1,
    "disp": 1,
    "a": 1,
    "b": 1,
    "result": 1,  # goes to rd; of a store the word that memory gets, of a branch its condition
    "low": 1,  # of a sum, difference or address: bits 0 to 15; of an aligned one a quarter of them, rounded down
    "high": 1,  # its bits 16 to 31
    "carry": 1,
    "offset": 1,  # bits 0 and 1 of an aligned one; of an ecall 1 if it is the exit
    "word": 1,  # memory before the cycle; of a comparison the inverse of a - b
    "before": 1,  # rd before the cycle
    "previous": 4,  # times of the last accesses of rs1, rs2, memory and rd
    "since": 4,  # bits 0 to 15 of the time between those and these, less 1
}
HALTED = 1 << 32
"""`pc` after the exit, less the exit code. No instruction is there."""


class CpuAir(Air):
    """The rules of a cycle."""

    name = "cpu"
    main: Mapping[str, int] = COLUMNS
    public = ("pc_start", "pc_end", "cycles_start", "cycles_end", "final", "exit_code")
    flags: tuple[str, ...] = FLAGS
    rom: Bus = ROM

    def define(self, t: Table) -> None:
        row = t.this
        flags = [row[name][0] for name in self.flags]
        for flag in (row.on, row.carry, *flags, row.load + row.store):
            t.boolean(flag)
        t.transition(t.next.on * (1 - row.on), "no cycle after one that is not")
        t.always((1 - row.on) * sum(flags), "nothing without a cycle")
        values = {name: row[name][0] for name in self.rom.fields if name != "flags"}
        t.send(self.rom, {**values, "flags": sum(flag * (1 << k) for k, flag in enumerate(flags))}, times=row.on)

        t.first(row.time - 4, "time begins")
        t.transition(t.next.time - row.time - 4 * row.on, "time")
        t.last(row.time + 4 * row.on - 4 * (t.public.cycles_end - t.public.cycles_start + 1), "cycles")

        self._operands(t)
        after = self._next_pc(t)
        t.first(row.pc - t.public.pc_start, "pc at the start")
        t.transition(t.next.pc - after, "pc")
        t.last(after - t.public.pc_end, "pc at the end")
        t.last(t.public.final * (after - HALTED - t.public.exit_code), "exit")
        self._results(t)
        self._accesses(t)

    def _operands(self, t: Table) -> None:
        row = t.this
        t.always((1 - row.read1) * row.a, "a without a register")
        t.always((1 - row.read2) * (row.b - row.imm), "b without a register")
        narrow = (row.load + row.store) * row.narrow
        t.always((1 - row.jalr - row.ecall - narrow) * row.offset, "no offset")
        t.always(row.jalr * row.offset * (row.offset - 1), "bit 0 of a target")
        # Aligned values are multiples of 4, but for their offset, which the tables `narrow` and `host` bound, too.
        aligned = row.load + row.store + row.jalr
        kind = range_kind(16) - aligned * (range_kind(16) - range_kind(14))
        t.send(LOOKUP, {"kind": kind, "x": 0, "y": row.low, "z": 0}, name="low")
        in_range(t, row.high, 16, name="high")
        value = row.low * (1 + 3 * aligned) + row.offset + row.high * (1 << 16)
        carried = value + row.carry * (1 << 32)
        t.always((row.add + row.load + row.jalr) * (row.a + row.b - carried), "sum")
        t.always(row.store * (row.a + row.disp - carried), "address of a store")
        t.always(row.sub * (row.a - row.b - value + row.carry * (1 << 32)), "difference")
        t.always((row.add + row.sub) * (row.result - value), "result of a sum")

    def _next_pc(self, t: Table) -> Expression:
        """The `pc` after the row's cycle."""
        row = t.this
        condition = row.result + row.negate - 2 * row.result * row.negate
        after: Expression = row.pc + 4 * row.on
        after += (row.jal + row.branch * condition) * (row.disp - row.pc - 4)
        after += row.jalr * (4 * row.low + row.high * (1 << 16) - row.pc - 4)
        after += row.ecall * row.offset * (HALTED + row.b - row.pc - 4)
        return after

    def _results(self, t: Table) -> None:
        row = t.this
        t.always(row.jalr * (row.result - row.pc - 4), "result of a jump")
        t.always(row.load * (1 - row.narrow) * (row.result - row.word), "loaded word")
        t.always(row.store * (1 - row.narrow) * (row.result - row.b), "stored word")
        self._equality(t)
        t.send(ALU, {"op": row.op, "a": row.a, "b": row.b, "result": row.result}, times=row.alu)
        narrow = {"op": row.op, "offset": row.offset, "before": row.word, "b": row.b, "result": row.result}
        t.send(NARROW, narrow, times=row.narrow)
        call = {"call": row.a, "argument": row.b, "time": row.time, "result": row.result, "exit": row.offset}
        t.send(HOST, call, times=row.ecall)

    def _equality(self, t: Table) -> None:
        row = t.this
        difference = row.a - row.b
        t.always(row.eq * (difference * row.word + row.result - 1), "equal")
        t.always(row.eq * difference * row.result, "not equal")

    def _accesses(self, t: Table) -> None:
        """Each access takes the value with the time of the last one, and puts it back, or a new one, with its own."""
        row = t.this
        memory = row.low + row.high * (1 << 14)
        stored = row.word + row.store * (row.result - row.word)
        for k, (name, used, key, old, new) in enumerate(
            (
                ("rs1", row.read1, FIRST_REGISTER + row.rs1, row.a, row.a),
                ("rs2", row.read2, FIRST_REGISTER + row.rs2, row.b, row.b),
                ("memory", row.load + row.store, memory, row.word, stored),
                ("rd", row.write, FIRST_REGISTER + row.rd, row.before, row.result),
            )
        ):
            previous, low, now = row.previous[k], row.since[k], row.time + k
            t.receive(ACCESS, {"key": key, "value": old, "time": previous}, times=used, at_most=1, name=name)
            t.send(ACCESS, {"key": key, "value": new, "time": now}, times=used, name=name)
            in_long_range(t, now - previous - 1, low, 24, used, f"time of {name}")


def flag_constants(names: Sequence[str]) -> str:
    """Lines of C++ that name the places of these flags."""
    return f"""
    constexpr int {", ".join(f"{name.upper()} = {bit}" for bit, name in enumerate(names))};
    """


HELPERS = """
    DP_ROW u64 cell(const Inputs& in, int k, u64 i) { return in.record(k, i / 2) >> 32 * (i & 1) & 0xffffffff; }

    DP_ROW u64 narrow_result(u64 op, u64 offset, u64 word, u64 b) {
      const u64 shift = 8 * offset, byte = word >> shift & 0xff, half = word >> shift & 0xffff;
      switch (op) {
        case 1: return (byte ^ 0x80) - 0x80 & 0xffffffff;
        case 2: return byte;
        case 3: return (half ^ 0x8000) - 0x8000 & 0xffffffff;
        case 4: return half;
        case 5: return word ^ (byte ^ b & 0xff) << shift;
        default: return word ^ (half ^ b & 0xffff) << shift;
      }
    }
"""
ROWS = CppRows(
    flag_constants(FLAGS)
    + HELPERS
    + """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const u64 cycles = in.end[0];
      const bool on = i < cycles;
      const u64 entry = on ? in.index[i] : 0, time = 4 * ((on ? i : cycles) + 1), mask = 0xffffffff;
      const u64 flags = on ? in.rom(1, entry) : 0, op = on ? in.rom(2, entry) : 0;
      const auto is = [&](int flag) { return flags >> flag & 1; };
      const u64 imm = on ? in.rom(6, entry) : 0, disp = on ? in.rom(7, entry) : 0;
      const u64 pc = on ? cell(in, 0, i) : in.end[1];
      const u64 a = on ? cell(in, 2, i) : 0, b = on ? is(READ2) ? cell(in, 3, i) : imm : 0;
      const u64 word = on ? cell(in, 8, i) : 0;

      u64 value = 0, carry = 0;
      if (is(SUB)) value = a - b & mask, carry = a < b;
      else if (is(STORE)) value = a + disp & mask, carry = a + disp >> 32;
      else if (is(ADD) | is(LOAD) | is(JALR)) value = a + b & mask, carry = a + b >> 32;
      const bool aligned = is(LOAD) | is(STORE) | is(JALR);
      const u64 offset = aligned ? value & 3 : is(ECALL) & (a == 1);

      u64 result = on ? cell(in, 5, i) : 0, inverse = word;
      if (is(ADD) | is(SUB)) result = value;
      else if (is(JALR)) result = pc + 4;
      else if (is(NARROW)) result = narrow_result(op, offset, word, b);
      else if (is(LOAD)) result = word;
      else if (is(STORE)) result = b;
      else if (is(EQ)) result = a == b, inverse = a == b ? 0 : dp::gl::inverse(dp::gl::sub(a, b));
      else if (is(BRANCH)) result = op == SLT_OP ? (int)(u32)a < (int)(u32)b : a < b;

      out[column::on] = on;
      out[column::pc] = pc;
      out[column::time] = time;
      for (int k = 0; k < FLAG_COUNT; ++k) out[column::add + k] = flags >> k & 1;
      out[column::op] = op;
      out[column::rd] = on ? in.rom(3, entry) : 0;
      out[column::rs1] = on ? in.rom(4, entry) : 0;
      out[column::rs2] = on ? in.rom(5, entry) : 0;
      out[column::imm] = imm;
      out[column::disp] = disp;
      out[column::a] = a;
      out[column::b] = b;
      out[column::result] = result;
      out[column::low] = aligned ? (value & 0xffff) >> 2 : value & 0xffff;
      out[column::high] = value >> 16;
      out[column::carry] = carry;
      out[column::offset] = offset;
      out[column::word] = inverse;
      out[column::before] = on ? cell(in, 4, i) : 0;
      const u64 used[4] = {is(READ1), is(READ2), is(LOAD) | is(STORE), is(WRITE)};
      const int field[4] = {10, 11, 13, 12};
      for (int k = 0; k < 4; ++k) {
        const u64 previous = used[k] ? cell(in, field[k], i) : 0;
        out[column::previous + k] = previous;
        out[column::since + k] = used[k] ? time + k - previous - 1 & 0xffff : 0;
      }
    }
    """.replace("SLT_OP", "4").replace("FLAG_COUNT", str(len(FLAGS))),
    columns=COLUMNS,
    inputs=("record", "index", "rom", "end"),
)


def cpu_inputs(record: Record, rom: Words64, index: NDArray[np.int64]) -> dict[str, Words64]:
    """The arrays from which `ROWS` makes the table. `rom` comes from `decode`, `index` is its column of each
    cycle."""
    n = record.cycles
    columns = record.columns
    if n % 2 or not columns.flags.c_contiguous:
        columns = np.ascontiguousarray(np.pad(columns, ((0, 0), (0, n % 2))))
    return {
        "record": columns.view(np.uint64),
        "index": index.view(np.uint64),
        "rom": rom,
        "end": np.array([n, pc_after(record)], dtype=np.uint64),
    }


def pc_after(record: Record) -> int:
    """The `pc` after a segment as the tables have it: after the exit `HALTED` and the exit code."""
    return record.pc_end or HALTED + int(record.registers_end[10])
