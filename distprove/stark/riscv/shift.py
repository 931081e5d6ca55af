"""The table `shift`: sll, srl, sra as multiplications by a power of two that is looked up.

With s = b mod 32, shifting left is a 2^s = result + 2^32 rest, and shifting right a 2^(31 - s) = 2^31 result + rest,
with rest below 2^31. For sra both a and the result have 2^32 taken off where a is negative. All sides are below 2^63 in
size, so that what holds modulo p holds.
"""

from __future__ import annotations

from distprove.stark.air import CppRows, Expression, Table
from distprove.stark.riscv.buses import LOOKUP, POWER_KIND, AluAir, constrain_sign, in_long_range, in_range, word
from kernels.maths.goldilocks import P

COLUMNS = {
    "is_sll": 1,
    "is_srl": 1,
    "is_sra": 1,
    "a": 1,
    "b": 1,
    "amount": 1,  # s for a shift to the left, 31 - s for one to the right
    "power": 1,
    "above": 1,  # bits 5 to 20 of b
    "sign": 1,
    "low": 1,
    "result": 2,
    "rest": 2,
}


class ShiftAir(AluAir):
    """A row is one shift."""

    name = "shift"
    main = COLUMNS

    def constrain(self, t: Table, on: Expression) -> tuple[Expression, Expression, Expression]:
        row = t.this
        right = row.is_srl + row.is_sra
        t.boolean(row.sign)
        t.send(LOOKUP, {"kind": POWER_KIND, "x": 0, "y": row.amount, "z": row.power}, times=on)
        shifted = row.amount + right * (31 - 2 * row.amount)  # s
        quotient = (row.b - shifted) * pow(32, -1, P)
        in_long_range(t, quotient, row.above, 27, on)
        t.always((1 - row.is_sra) * row.sign, "no sign")
        constrain_sign(t, row.a, row.sign, row.low, row.is_sra)
        result, rest = word(row.result), word(row.rest)
        a = row.a - row.sign * (1 << 32)
        t.always(row.is_sll * (a * row.power - result - rest * (1 << 32)), "left")
        t.always(right * (a * row.power - (result - row.sign * (1 << 32)) * (1 << 31) - rest), "right")
        for limb, bits in zip((*row.result, *row.rest), (16, 16, 16, 15), strict=True):
            in_range(t, limb, bits, on)
        return row.a, row.b, result


ROWS = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, a = on ? in.calls(1, i) : 0, b = on ? in.calls(2, i) : 0;
      const u64 s = b & 31, sign = op == 8 ? a >> 31 : 0, amount = op > 6 ? 31 - s : s;
      u64 result = 0, rest = 0;
      if (op == 6) {
        result = a << s & 0xffffffff;
        rest = a << s >> 32;
      } else if (op) {
        const long long number = (long long)a - ((long long)sign << 32);
        result = (u64)(number >> s) & 0xffffffff;
        rest = (a << 31 - s) & 0x7fffffff;
      }
      for (int k = 0; k < 3; ++k) out[column::is_sll + k] = op == k + 6;
      out[column::a] = a;
      out[column::b] = b;
      out[column::amount] = amount;
      out[column::power] = on ? (u64)1 << amount : 0;
      out[column::above] = b >> 5 & 0xffff;
      out[column::sign] = sign;
      out[column::low] = op == 8 ? a & 0xffff : 0;
      out[column::result] = result & 0xffff;
      out[column::result + 1] = result >> 16;
      out[column::rest] = rest & 0xffff;
      out[column::rest + 1] = rest >> 16;
    }
    """,
    columns=COLUMNS,
    inputs=("calls", "count"),
)
