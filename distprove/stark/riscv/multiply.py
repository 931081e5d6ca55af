"""The table `multiply`: mul, mulh, mulhsu, mulhu.

The product of two numbers of 32 bits, as they stand, is at most (2^32 - 1)^2, below p. Its halves are fixed by
a b = lower + 2^32 upper modulo p as long as the upper one is not 2^32 - 1. What signs take off the upper half is
subtracted modulo 2^32.
"""

from __future__ import annotations

from distprove.stark.air import CppRows, Expression, Table
from distprove.stark.riscv.buses import ALU_TABLES, AluAir, constrain_sign, in_range, word

COLUMNS = {
    **{f"is_{op}": 1 for op in ALU_TABLES["multiply"]},
    "a": 1,
    "b": 1,
    "product": 4,
    "inverse": 1,  # of the upper half less 2^32 - 1
    "sign": 2,
    "low": 2,
    "result": 2,
    "wraps": 1,
}
MAX = (1 << 32) - 1


class MultiplyAir(AluAir):
    """A row is one multiplication."""

    name = "multiply"
    main = COLUMNS

    def constrain(self, t: Table, on: Expression) -> tuple[Expression, Expression, Expression]:
        row = t.this
        for sign in row.sign:
            t.boolean(sign)
        lower, upper = word(row.product[:2]), word(row.product[2:])
        t.always(row.a * row.b - lower - upper * (1 << 32), "product")
        t.always((upper - MAX) * row.inverse - on, "halves of the product")
        signed = row.is_mulh + row.is_mulhsu, row.is_mulh
        for name, value, times, sign, low in zip("ab", (row.a, row.b), signed, row.sign, row.low, strict=True):
            t.always((1 - times) * sign, f"no sign of {name}")
            constrain_sign(t, value, sign, low, times)
        result = word(row.result)
        t.always(row.is_mul * (result - lower), "lower half")
        taken = row.sign[0] * row.b + row.sign[1] * row.a
        t.always((on - row.is_mul) * (upper - taken + row.wraps * (1 << 32) - result), "upper half")
        t.always(row.wraps * (row.wraps - 1) * (row.wraps - 2), "wraps")
        for limb in (*row.product, *row.result):
            in_range(t, limb, 16, on)
        return row.a, row.b, result


ROWS = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, a = on ? in.calls(1, i) : 0, b = on ? in.calls(2, i) : 0;
      const u64 product = a * b, upper = product >> 32, mask = 0xffffffff;
      const bool sign_a = op == 10 | op == 11, sign_b = op == 10;
      const u64 sign[2] = {sign_a ? a >> 31 : 0, sign_b ? b >> 31 : 0};
      const u64 taken = sign[0] * b + sign[1] * a;
      const u64 wraps = op > 9 & taken > upper ? (taken - upper + mask) >> 32 : 0;
      const u64 result = op > 9 ? upper - taken & mask : product & mask;
      for (int k = 0; k < 4; ++k) {
        out[column::is_mul + k] = op == k + 9;
        out[column::product + k] = product >> 16 * k & 0xffff;
      }
      out[column::a] = a;
      out[column::b] = b;
      out[column::inverse] = on ? dp::gl::inverse(dp::gl::sub(upper, mask)) : 0;
      for (int k = 0; k < 2; ++k) {
        out[column::sign + k] = sign[k];
        out[column::low + k] = (k ? sign_b : sign_a) ? (k ? b : a) & 0xffff : 0;
        out[column::result + k] = result >> 16 * k & 0xffff;
      }
      out[column::wraps] = wraps;
    }
    """,
    columns=COLUMNS,
    inputs=("calls", "count"),
)
