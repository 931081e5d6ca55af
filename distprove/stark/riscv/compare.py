"""The tables `compare` and `compare64`: slt and sltu, which blt, bge, bltu and bgeu use as well.

On 64 bits, halves are subtracted one after the other, with `borrow` between them: with the signs taken off, a - b =
difference - 2^64 less. No side of the two equations is above 2^34 in size, so each holds over the integers.
"""

from __future__ import annotations

from distprove.stark.air import CppRows, Expression, Table
from distprove.stark.riscv.buses import AluAir, Halves, WideAir, constrain_sign, in_range, word, words

COLUMNS = {"is_slt": 1, "is_sltu": 1, "a": 1, "b": 1, "less": 1, "sign": 2, "low": 2, "difference": 2}
COLUMNS_64 = {
    **{"is_slt": 1, "is_sltu": 1, "a": 2, "b": 2, "less": 1, "borrow": 1},
    "sign": 2,
    "low": 2,  # bits 0 to 15 of the upper halves
    "difference": 4,
}


class CompareAir(AluAir):
    """A row is one comparison. With the signs taken off, a - b = difference - 2^32 less."""

    name = "compare"
    main = COLUMNS

    def constrain(self, t: Table, on: Expression) -> tuple[Expression, Expression, Expression]:
        row = t.this
        for flag in (row.less, *row.sign):
            t.boolean(flag)
        for value, sign, low in zip((row.a, row.b), row.sign, row.low, strict=True):
            t.always((1 - row.is_slt) * sign, f"{'a' if value is row.a else 'b'} has no sign")
            constrain_sign(t, value, sign, low, row.is_slt)
        a, b = (value - sign * (1 << 32) for value, sign in zip((row.a, row.b), row.sign, strict=True))
        t.always(a - b - word(row.difference) + row.less * (1 << 32), "difference")
        for limb in row.difference:
            in_range(t, limb, 16, on)
        return row.a, row.b, row.less


ROWS = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, values[2] = {on ? in.calls(1, i) : 0, on ? in.calls(2, i) : 0};
      const bool is_signed = op == 4;
      long long difference = 0;
      for (int k = 0; k < 2; ++k) {
        const u64 value = values[k], sign = is_signed ? value >> 31 : 0;
        out[column::a + k] = value;
        out[column::sign + k] = sign;
        out[column::low + k] = is_signed ? value & 0xffff : 0;
        const long long number = (long long)value - ((long long)sign << 32);
        difference += k ? -number : number;
      }
      out[column::is_slt] = is_signed;
      out[column::is_sltu] = op == 5;
      out[column::less] = difference < 0;
      out[column::difference] = (u64)difference & 0xffff;
      out[column::difference + 1] = (u64)difference >> 16 & 0xffff;
    }
    """,
    columns=COLUMNS,
    inputs=("calls", "count"),
)


class Compare64Air(WideAir):
    """The same on 64 bits."""

    name = "compare64"
    main = COLUMNS_64

    def constrain(self, t: Table, on: Expression) -> tuple[Halves, Halves, Halves]:
        row = t.this
        for flag in (row.less, row.borrow, *row.sign):
            t.boolean(flag)
        (a, a_upper), (b, b_upper) = row.a, row.b
        for name, value, sign, low in zip("ab", (a_upper, b_upper), row.sign, row.low, strict=True):
            t.always((1 - row.is_slt) * sign, f"{name} has no sign")
            constrain_sign(t, value, sign, low, row.is_slt)
        lower, upper = words(row.difference)
        t.always(a - b - lower + row.borrow * (1 << 32), "lower difference")
        signs = (row.sign[0] - row.sign[1]) * (1 << 32)
        t.always(a_upper - b_upper - signs - row.borrow - upper + row.less * (1 << 32), "upper difference")
        for limb in row.difference:
            in_range(t, limb, 16, on)
        return row.a, row.b, (row.less, 0)


ROWS_64 = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, a = on ? in.calls(1, i) : 0, b = on ? in.calls(2, i) : 0;
      const bool is_signed = op == 4;
      const u64 difference = a - b;
      out[column::is_slt] = is_signed;
      out[column::is_sltu] = op == 5;
      for (int k = 0; k < 2; ++k) {
        const u64 upper = (k ? b : a) >> 32;
        out[column::a + k] = a >> 32 * k & 0xffffffff;
        out[column::b + k] = b >> 32 * k & 0xffffffff;
        out[column::sign + k] = is_signed ? upper >> 31 : 0;
        out[column::low + k] = is_signed ? upper & 0xffff : 0;
      }
      out[column::less] = is_signed ? (long long)a < (long long)b : a < b;
      out[column::borrow] = (a & 0xffffffff) < (b & 0xffffffff);
      for (int k = 0; k < 4; ++k) out[column::difference + k] = difference >> 16 * k & 0xffff;
    }
    """,
    columns=COLUMNS_64,
    inputs=("calls", "count"),
)
