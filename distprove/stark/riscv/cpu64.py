"""The table `cpu` of RV64IM: that of RV32IM over the lower halves of values, and the upper halves beside them.

Both halves of a value are integers below 2^32, as docs/riscv.md derives. An instruction with the flag `sext` has a
result of 32 bits, whose sign its upper half repeats: one of the W forms, which compute on lower halves, a load of fewer
bits than 64, or a host call. One with `wide` asks the tables of 64 bits.
"""

from __future__ import annotations

from distprove.stark.air import CppRows, Table
from distprove.stark.riscv.buses import ACCESS_64, LOOKUP, ROM_64, WIDE, in_long_range, in_range, range_kind, word
from distprove.stark.riscv.cpu import COLUMNS, HELPERS, CpuAir, flag_constants
from distprove.stark.riscv.decode import FLAGS, FLAGS_64
from distprove.stark.riscv.record import FIELDS_OF, FIRST_REGISTER_OF

_PLACE = list(COLUMNS).index(FLAGS[-1]) + 1
COLUMNS_64 = {
    **dict(list(COLUMNS.items())[:_PLACE]),
    **dict.fromkeys(FLAGS_64[len(FLAGS) :], 1),
    **dict(list(COLUMNS.items())[_PLACE:]),
    "upper": 1,  # of the constant
    "page": 1,  # bits 32 to 36 of an address
    "a_upper": 1,
    "b_upper": 1,
    "result_upper": 1,
    "limbs": 2,  # of the upper half of a sum or difference; of a result with `sext` bits 0 to 15 and 16 to 30
    "carry_upper": 1,  # from the upper half
    "sign": 1,  # bit 31 of a result with `sext`
    "word_upper": 1,  # of an access of eight bytes the second word before the cycle; of a comparison a second inverse
    "before_upper": 1,
    "previous_upper": 1,  # of the second word
    "since_upper": 1,
}
_WORD = 1 << 32
PAGE_BITS = 5


class Cpu64Air(CpuAir):
    """The rules of a cycle of RV64IM."""

    main = COLUMNS_64
    flags = FLAGS_64
    rom = ROM_64

    def define(self, t: Table) -> None:
        super().define(t)
        row = t.this
        for flag in (row.carry_upper, row.sign):
            t.boolean(flag)
        self._upper_operands(t)
        self._upper_sums(t)
        self._upper_results(t)

    def _upper_operands(self, t: Table) -> None:
        row = t.this
        t.always((1 - row.read1) * row.a_upper, "upper a without a register")
        # Of a store the constant belongs to the address.
        t.always((1 - row.read2) * (row.b_upper - (1 - row.store) * row.upper), "upper b without a register")
        t.always(row.ecall * row.a_upper, "number of a call")

    def _upper_sums(self, t: Table) -> None:
        """The carry from the lower halves is `carry`. Addresses have 37 bits, and targets of `jalr` 32."""
        row = t.this
        value, carried = word(row.limbs), row.carry_upper * _WORD
        whole = 1 - row.sext
        t.always(row.add * whole * (row.a_upper + row.b_upper + row.carry - value - carried), "upper sum")
        t.always(row.sub * whole * (row.a_upper - row.b_upper - row.carry - value + carried), "upper difference")
        t.always(row.jalr * (row.a_upper + row.b_upper + row.carry - carried), "target below 2^32")
        t.always(row.load * (row.a_upper + row.b_upper + row.carry - row.page - carried), "upper address")
        t.always(row.store * (row.a_upper + row.upper + row.carry - row.page - carried), "upper address of a store")
        in_range(t, row.page, PAGE_BITS, row.load + row.store, "page")
        t.always((row.add + row.sub) * whole * (row.result_upper - value), "upper result of a sum")
        in_range(t, row.limbs[0], 16, name="lower limb")
        kind = range_kind(16) - row.sext * (range_kind(16) - range_kind(15))
        t.send(LOOKUP, {"kind": kind, "x": 0, "y": row.limbs[1], "z": 0}, name="upper limb")

    def _upper_results(self, t: Table) -> None:
        row = t.this
        extended = word(row.limbs) + row.sign * (1 << 31)
        t.always(row.sext * (row.result - extended), "a result with its sign")
        t.always(row.sext * (row.result_upper - row.sign * (_WORD - 1)), "its sign extended")
        t.always(row.jalr * row.result_upper, "upper result of a jump")
        t.always((row.load + row.store) * (1 - row.pair) * row.word_upper, "no second word")
        t.always(row.load * (1 - row.sext) * (row.result_upper - row.word_upper), "second loaded word")
        t.always(row.store * row.pair * (row.result_upper - row.b_upper), "second stored word")
        t.always(row.pair * (row.low - 2 * row.limbs[0]), "aligned to eight bytes")
        wide = {name: row[name][0] for name in WIDE.fields}
        t.send(WIDE, wide, times=row.wide)

    def _equality(self, t: Table) -> None:
        row = t.this
        lower, upper = row.a - row.b, row.a_upper - row.b_upper
        t.always(row.eq * (lower * row.word + upper * row.word_upper + row.result - 1), "equal")
        t.always(row.eq * lower * row.result, "not equal")
        t.always(row.eq * upper * row.result, "not equal, upper halves")

    def _accesses(self, t: Table) -> None:
        """As those of RV32IM. An access of eight bytes is one of two words, at one time."""
        row = t.this
        memory = row.low + row.high * (1 << 14) + row.page * (1 << 30)
        stored = row.word + row.store * (row.result - row.word)
        second = row.word_upper + row.store * (row.result_upper - row.word_upper)
        a, b, more = (row.a, row.a_upper), (row.b, row.b_upper), (row.previous_upper, row.since_upper)
        for name, used, key, old, new, slot, previous, low in (
            ("rs1", row.read1, FIRST_REGISTER_OF[64] + row.rs1, a, a, 0, row.previous[0], row.since[0]),
            ("rs2", row.read2, FIRST_REGISTER_OF[64] + row.rs2, b, b, 1, row.previous[1], row.since[1]),
            ("memory", row.load + row.store, memory, (row.word, 0), (stored, 0), 2, row.previous[2], row.since[2]),
            (
                *("rd", row.write, FIRST_REGISTER_OF[64] + row.rd, (row.before, row.before_upper)),
                *((row.result, row.result_upper), 3, row.previous[3], row.since[3]),
            ),
            ("second word", row.pair, memory + 1, (row.word_upper, 0), (second, 0), 2, *more),
        ):
            now = row.time + slot
            before, after = ({"key": key, "value": value, "upper": upper} for value, upper in (old, new))
            t.receive(ACCESS_64, {**before, "time": previous}, times=used, at_most=1, name=name)
            t.send(ACCESS_64, {**after, "time": now}, times=used, name=name)
            in_long_range(t, now - previous - 1, low, 24, used, f"time of {name}")


_FIELD = {name: k for k, name in enumerate(FIELDS_OF[64])}
ROWS_64 = CppRows(
    flag_constants(FLAGS_64)
    + f"""
    constexpr int {", ".join(f"{name.upper()}_FIELD = {k}" for name, k in _FIELD.items())};
    """
    + HELPERS
    + """
    // The number of two rows of the record.
    DP_ROW u64 joined(const Inputs& in, int lower, int upper, u64 i) {
      return cell(in, lower, i) | cell(in, upper, i) << 32;
    }

    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const u64 cycles = in.end[0];
      const bool on = i < cycles;
      const u64 entry = on ? in.index[i] : 0, time = 4 * ((on ? i : cycles) + 1), mask = 0xffffffff;
      const u64 flags = on ? in.rom(1, entry) : 0, op = on ? in.rom(2, entry) : 0;
      const auto is = [&](int flag) { return flags >> flag & 1; };
      const u64 imm = on ? in.rom(6, entry) : 0, disp = on ? in.rom(7, entry) : 0, upper = on ? in.rom(8, entry) : 0;
      const u64 pc = on ? cell(in, PC_FIELD, i) : in.end[1];
      const u64 a = on ? joined(in, RS1_FIELD, RS1_UPPER_FIELD, i) : 0;
      u64 b = 0;
      if (on) b = is(READ2) ? joined(in, RS2_FIELD, RS2_UPPER_FIELD, i) : is(STORE) ? imm : imm | upper << 32;
      const u64 word = on ? cell(in, MEMORY_BEFORE_FIELD, i) : 0;
      const u64 second = on ? cell(in, MEMORY_BEFORE_UPPER_FIELD, i) : 0;

      const bool aligned = is(LOAD) | is(STORE) | is(JALR), sums = is(ADD) | aligned;
      const u64 addend = is(STORE) ? disp | upper << 32 : b;
      u64 value = 0, carry = 0, carry_upper = 0;
      if (is(SUB)) {
        value = a - b;
        carry = (a & mask) < (b & mask);
        carry_upper = a < b;
      } else if (sums) {
        value = a + addend;
        carry = (a & mask) + (addend & mask) >> 32;
        carry_upper = value < a;
      }
      if (is(SEXT) & !aligned) carry_upper = 0;
      const u64 offset = aligned ? value & 3 : is(ECALL) & (a == 1);

      u64 result = on ? joined(in, RD_AFTER_FIELD, RD_AFTER_UPPER_FIELD, i) : 0, inverse = word, inverse2 = second;
      if (is(ADD) | is(SUB)) result = value;
      else if (is(JALR)) result = pc + 4;
      else if (is(NARROW)) result = narrow_result(op, offset, word, b & mask);
      else if (is(LOAD)) result = word | second << 32;
      else if (is(STORE)) result = is(PAIR) ? b : b & mask;
      else if (is(EQ)) {
        const u64 lower = dp::gl::sub(a & mask, b & mask), more = dp::gl::sub(a >> 32, b >> 32);
        result = a == b;
        inverse = lower ? dp::gl::inverse(lower) : 0;
        inverse2 = !lower & (more != 0) ? dp::gl::inverse(more) : 0;
      } else if (is(BRANCH)) result = op == SLT_OP ? (long long)a < (long long)b : a < b;
      const u64 sign = is(SEXT) ? result >> 31 & 1 : 0;
      if (is(SEXT)) result = result & mask | (sign ? mask << 32 : 0);
      const u64 extra = is(SEXT) ? result & 0x7fffffff : (is(ADD) | is(SUB)) ? value >> 32 : 0;
      const u64 low = aligned ? (value & 0xffff) >> 2 : value & 0xffff;

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
      out[column::upper] = upper;
      out[column::page] = is(LOAD) | is(STORE) ? value >> 32 : 0;
      out[column::a] = a & mask;
      out[column::a_upper] = a >> 32;
      out[column::b] = b & mask;
      out[column::b_upper] = b >> 32;
      out[column::result] = result & mask;
      out[column::result_upper] = result >> 32;
      out[column::low] = low;
      out[column::high] = value >> 16 & 0xffff;
      out[column::limbs] = is(PAIR) ? low / 2 : extra & 0xffff;
      out[column::limbs + 1] = extra >> 16;
      out[column::carry] = carry;
      out[column::carry_upper] = carry_upper;
      out[column::sign] = sign;
      out[column::offset] = offset;
      out[column::word] = inverse;
      out[column::word_upper] = inverse2;
      const u64 before = on ? joined(in, RD_BEFORE_FIELD, RD_BEFORE_UPPER_FIELD, i) : 0;
      out[column::before] = before & mask;
      out[column::before_upper] = before >> 32;
      const u64 used[5] = {is(READ1), is(READ2), is(LOAD) | is(STORE), is(WRITE), is(PAIR)};
      const int field[5] = {RS1_PREVIOUS_FIELD, RS2_PREVIOUS_FIELD, MEMORY_PREVIOUS_FIELD, RD_PREVIOUS_FIELD,
                            MEMORY_UPPER_PREVIOUS_FIELD};
      for (int k = 0; k < 5; ++k) {
        const u64 previous = used[k] ? cell(in, field[k], i) : 0, now = time + (k == 4 ? 2 : k);
        const u64 since = used[k] ? now - previous - 1 & 0xffff : 0;
        out[k == 4 ? column::previous_upper : column::previous + k] = previous;
        out[k == 4 ? column::since_upper : column::since + k] = since;
      }
    }
    """.replace("SLT_OP", "4").replace("FLAG_COUNT", str(len(FLAGS_64))),
    columns=COLUMNS_64,
    inputs=("record", "index", "rom", "end"),
)
