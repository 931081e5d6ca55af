"""The table `compare`: slt and sltu, which blt, bge, bltu and bgeu use as well."""

from __future__ import annotations

from distprove.stark.air import CppRows, Expression, Table
from distprove.stark.riscv.buses import AluAir, constrain_sign, in_range, word

COLUMNS = {"is_slt": 1, "is_sltu": 1, "a": 1, "b": 1, "less": 1, "sign": 2, "low": 2, "difference": 2}


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
