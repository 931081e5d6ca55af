"""The tables `shift` and `shift64`: sll, srl, sra as multiplications by a power of two that is looked up.

With s = b mod 32, shifting left is a 2^s = result + 2^32 rest, and shifting right a 2^(31 - s) = 2^31 result + rest,
with rest below 2^31. For sra both a and the result have 2^32 taken off where a is negative. All sides are below 2^63 in
size, so that what holds modulo p holds.

On 64 bits, s = t + 32 half, and both halves of a are shifted by t as above:

- to the left, a_0 2^t = part_0 + 2^32 rest_0 and a_1 2^t + rest_0 = part_1 + 2^32 rest_1; rest_0 is below 2^t, so the
  second left side is below 2^63, too;
- to the right, a_k 2^(31 - t) = 2^31 part_k + rest_k. So rest_1 is a_1 mod 2^t times 2^(31 - t), and part_0 + 2 rest_1,
  which is below 2^32, are the lower 32 bits of a shifted by t.

With `half` the result is the one of its halves that is left, in the other place, beside 0 or 32 bits of the sign.
"""

from __future__ import annotations

from distprove.stark.air import CppRows, Expression, Table
from distprove.stark.riscv.buses import (
    LOOKUP,
    POWER_KIND,
    AluAir,
    Halves,
    WideAir,
    constrain_sign,
    in_long_range,
    in_range,
    word,
    words,
)
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


COLUMNS_64 = {
    **{"is_sll": 1, "is_srl": 1, "is_sra": 1, "a": 2, "b": 2},
    "amount": 1,  # t for a shift to the left, 31 - t for one to the right
    "half": 1,  # bit 5 of b
    "power": 1,
    "above": 1,  # bits 6 to 21 of b
    "sign": 1,
    "low": 1,  # bits 0 to 15 of the upper half of a
    "part": 4,
    "rest": 4,
    "result": 2,
}


class Shift64Air(WideAir):
    """The same on 64 bits."""

    name = "shift64"
    main = COLUMNS_64

    def constrain(self, t: Table, on: Expression) -> tuple[Halves, Halves, Halves]:
        row = t.this
        left, right = row.is_sll, row.is_srl + row.is_sra
        t.boolean(row.sign)
        t.boolean(row.half)
        t.send(LOOKUP, {"kind": POWER_KIND, "x": 0, "y": row.amount, "z": row.power}, times=on)
        shifted = row.amount + right * (31 - 2 * row.amount) + 32 * row.half  # s
        in_long_range(t, (row.b[0] - shifted) * pow(64, -1, P), row.above, 26, on)
        t.always((1 - row.is_sra) * row.sign, "no sign")
        constrain_sign(t, row.a[1], row.sign, row.low, row.is_sra)
        (lower, upper), (rest, more) = words(row.part), words(row.rest)
        t.always(left * (row.a[0] * row.power - lower - rest * (1 << 32)), "left, lower half")
        t.always(left * (row.a[1] * row.power + rest - upper - more * (1 << 32)), "left, upper half")
        t.always(right * (row.a[0] * row.power - lower * (1 << 31) - rest), "right, lower half")
        a_upper, upper_signed = (each - row.sign * (1 << 32) for each in (row.a[1], upper))
        t.always(right * (a_upper * row.power - upper_signed * (1 << 31) - more), "right, upper half")
        for limb, bits in zip((*row.part, *row.rest), (16, 16, 16, 16, 16, 15, 16, 15), strict=True):
            in_range(t, limb, bits, on)
        result, result_upper = row.result
        t.always((1 - row.half) * (lower + 2 * right * more - result), "lower result")
        t.always((1 - row.half) * (upper - result_upper), "upper result")
        t.always(row.half * (right * upper - result), "lower result from the upper half")
        signs = row.sign * ((1 << 32) - 1)
        t.always(row.half * (left * lower + signs - result_upper), "upper result from the lower half")
        return row.a, row.b, row.result


ROWS_64 = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, a = on ? in.calls(1, i) : 0, b = on ? in.calls(2, i) : 0;
      const u64 mask = 0xffffffff, t = b & 31, half = b >> 5 & 1, sign = op == 8 ? a >> 63 : 0;
      const u64 amount = op > 6 ? 31 - t : t;
      u64 part[2] = {0, 0}, rest[2] = {0, 0}, result = 0;
      if (op == 6) {
        const u64 lower = (a & mask) << t, upper = ((a >> 32) << t) + (lower >> 32);
        part[0] = lower & mask, rest[0] = lower >> 32;
        part[1] = upper & mask, rest[1] = upper >> 32;
        result = a << (b & 63);
      } else if (op) {
        part[0] = (a & mask) >> t;
        part[1] = (u64)((long long)(a >> 32) - (long long)(sign << 32) >> t) & mask;
        for (int k = 0; k < 2; ++k) rest[k] = (a >> 32 * k) << 31 - t & 0x7fffffff;
        result = sign ? (u64)((long long)a >> (b & 63)) : a >> (b & 63);
      }
      for (int k = 0; k < 3; ++k) out[column::is_sll + k] = op == k + 6;
      out[column::amount] = amount;
      out[column::half] = half;
      out[column::power] = on ? (u64)1 << amount : 0;
      out[column::above] = b >> 6 & 0xffff;
      out[column::sign] = sign;
      out[column::low] = op == 8 ? a >> 32 & 0xffff : 0;
      for (int k = 0; k < 2; ++k) {
        out[column::a + k] = a >> 32 * k & mask;
        out[column::b + k] = b >> 32 * k & mask;
        out[column::result + k] = result >> 32 * k & mask;
      }
      for (int k = 0; k < 4; ++k) {
        out[column::part + k] = part[k / 2] >> 16 * (k % 2) & 0xffff;
        out[column::rest + k] = rest[k / 2] >> 16 * (k % 2) & 0xffff;
      }
    }
    """,
    columns=COLUMNS_64,
    inputs=("calls", "count"),
)
