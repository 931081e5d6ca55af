"""The tables `multiply` and `multiply64`: mul, mulh, mulhsu, mulhu.

The product of two numbers of 32 bits, as they stand, is at most (2^32 - 1)^2, below p. Its halves are fixed by
a b = lower + 2^32 upper modulo p as long as the upper one is not 2^32 - 1. What signs take off the upper half is
subtracted modulo 2^32.

On 64 bits, operands are limbs of 16 bits. The coefficients at 2^(32 k) and 2^(32 k + 16) are joined, with the carry
from below, and come to a word of the product and 2^32 times the carry to the next. From 2^64 on, what signs take off
the product is subtracted: the other operand for each sign. A coefficient is the sum of at most four products of limbs,
below 2^34; joined, with carry and words, below 2^51 in size. A carry has 20 bits, less 4, so no side comes round p, and
each equation holds over the integers. With signs taken off, the product is at least -2^128 and below 2^128, so the last
carry is 0 or -1.
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.stark.air import CppRows, Expression, Table, total
from distprove.stark.air.definition import Value
from distprove.stark.riscv.buses import ALU_TABLES, AluAir, Halves, WideAir, constrain_sign, in_range, word, words

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


COLUMNS_64 = {
    **{f"is_{op}": 1 for op in ALU_TABLES["multiply"]},
    "a": 4,
    "b": 4,
    "product": 8,
    "sign": 2,
    "carry": 3,  # bits 0 to 15 of the carries from the lower three words, plus 4
    "more": 3,  # their bits 16 to 19
    "wraps": 1,  # minus the carry from the highest word
}
LEAST_CARRY = 4


def coefficients(a: Sequence[Expression], b: Sequence[Expression]) -> list[Expression]:
    """Those of the product of two numbers of four limbs, the lowest first."""
    return [total([a[i] * b[k - i] for i in range(4) if 0 <= k - i < 4]) for k in range(7)]


class Multiply64Air(WideAir):
    """The same on 64 bits."""

    name = "multiply64"
    main = COLUMNS_64

    def constrain(self, t: Table, on: Expression) -> tuple[Halves, Halves, Halves]:
        row = t.this
        signed = row.is_mulh + row.is_mulhsu, row.is_mulh
        for name, limbs, times, sign in zip("ab", (row.a, row.b), signed, row.sign, strict=True):
            t.boolean(sign)
            t.always((1 - times) * sign, f"no sign of {name}")
            in_range(t, limbs[3] - sign * (1 << 15), 15, times)
        a, b, product, at = words(row.a), words(row.b), words(row.product), coefficients(row.a, row.b)
        carry: Value = 0
        for k in range(4):
            value = at[2 * k] + carry
            if 2 * k + 1 < len(at):
                value = value + at[2 * k + 1] * (1 << 16)
            if k >= 2:
                value = value - row.sign[0] * b[k - 2] - row.sign[1] * a[k - 2]
            carry = row.carry[k] + row.more[k] * (1 << 16) - LEAST_CARRY * on if k < 3 else -row.wraps
            t.always(value - product[k] - carry * (1 << 32), f"word {k} of the product")
        t.boolean(row.wraps)
        for limb in (*row.a, *row.b, *row.product, *row.carry):
            in_range(t, limb, 16, on)
        for high in row.more:
            in_range(t, high, 4, on)
        upper = on - row.is_mul
        lower_result, upper_result = (row.is_mul * product[k] + upper * product[k + 2] for k in (0, 1))
        return (a[0], a[1]), (b[0], b[1]), (lower_result, upper_result)


ROWS_64 = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, a = on ? in.calls(1, i) : 0, b = on ? in.calls(2, i) : 0;
      const u64 mask = 0xffffffff;
      const u64 sign[2] = {(op == 10 | op == 11) ? a >> 63 : 0, op == 10 ? b >> 63 : 0};
      u64 at[8] = {0, 0, 0, 0, 0, 0, 0, 0};
      for (int k = 0; k < 4; ++k)
        for (int j = 0; j < 4; ++j) at[k + j] += (a >> 16 * k & 0xffff) * (b >> 16 * j & 0xffff);
      long long carry = 0;
      for (int k = 0; k < 4; ++k) {
        long long value = (long long)(at[2 * k] + (at[2 * k + 1] << 16)) + carry;
        if (k >= 2)
          value -= (long long)(sign[0] * (b >> 32 * (k - 2) & mask) + sign[1] * (a >> 32 * (k - 2) & mask));
        const u64 word = (u64)value & mask;
        carry = value >> 32;
        out[column::product + 2 * k] = word & 0xffff;
        out[column::product + 2 * k + 1] = word >> 16;
        if (k < 3) {
          out[column::carry + k] = on ? (u64)(carry + 4) & 0xffff : 0;
          out[column::more + k] = on ? (u64)(carry + 4) >> 16 : 0;
        }
      }
      out[column::wraps] = (u64)-carry;
      for (int k = 0; k < 4; ++k) {
        out[column::is_mul + k] = op == k + 9;
        out[column::a + k] = a >> 16 * k & 0xffff;
        out[column::b + k] = b >> 16 * k & 0xffff;
      }
      for (int k = 0; k < 2; ++k) out[column::sign + k] = sign[k];
    }
    """,
    columns=COLUMNS_64,
    inputs=("calls", "count"),
)
