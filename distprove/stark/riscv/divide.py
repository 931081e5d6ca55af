"""The table `divide`: div, divu, rem, remu.

For the magnitudes of a and b, a = quotient b + remainder with remainder < b. As quotient and b have at most 32 bits,
the right side is below p. A divisor 0 has the quotient 2^32 - 1 and leaves a. The result takes its sign back; of
-2^31 / -1 the quotient's magnitude is 2^31 and its sign +, which are the bits of -2^31, as the instruction set has it.
"""

from __future__ import annotations

from distprove.stark.air import CppRows, Expression, Table
from distprove.stark.riscv.buses import ALU_TABLES, AluAir, constrain_sign, in_range, word

COLUMNS = {
    **{f"is_{op}": 1 for op in ALU_TABLES["divide"]},
    "a": 1,
    "b": 1,
    "sign": 2,
    "low": 2,
    "quotient": 2,
    "remainder": 2,
    "gap": 2,  # the divisor's magnitude less 1 and the remainder
    "zero": 1,  # whether the divisor is 0
    "inverse": 1,  # of b
    "negative": 1,  # whether the result is minus its magnitude
    "result": 2,
    "carry": 1,
}
MAX = (1 << 32) - 1


class DivideAir(AluAir):
    """A row is one division."""

    name = "divide"
    main = COLUMNS

    def constrain(self, t: Table, on: Expression) -> tuple[Expression, Expression, Expression]:
        row = t.this
        signed, wants_quotient = row.is_div + row.is_rem, row.is_div + row.is_divu
        for flag in (*row.sign, row.zero, row.negative, row.carry):
            t.boolean(flag)
        magnitudes = []
        for name, value, sign, low in zip("ab", (row.a, row.b), row.sign, row.low, strict=True):
            t.always((1 - signed) * sign, f"no sign of {name}")
            constrain_sign(t, value, sign, low, signed)
            magnitudes.append(value + sign * ((1 << 32) - 2 * value))
        dividend, divisor = magnitudes
        quotient, remainder, result = word(row.quotient), word(row.remainder), word(row.result)
        t.always(quotient * divisor + remainder - dividend, "division")
        t.always(row.b * row.inverse + row.zero - on, "divisor not 0")
        t.always(row.b * row.zero, "divisor 0")
        t.always(row.zero * (quotient - MAX), "quotient by 0")
        t.always((on - row.zero) * (divisor - 1 - remainder - word(row.gap)), "remainder below the divisor")

        either = row.sign[0] + row.sign[1] - 2 * row.sign[0] * row.sign[1]
        negative = row.is_div * (1 - row.zero) * either + row.is_rem * row.sign[0]
        t.always(row.negative - negative, "sign of the result")
        magnitude = wants_quotient * quotient + (on - wants_quotient) * remainder
        t.always((1 - row.negative) * (result - magnitude), "positive result")
        t.always(row.negative * (result + magnitude - row.carry * (1 << 32)), "negative result")
        for limb in (*row.quotient, *row.remainder, *row.gap, *row.result):
            in_range(t, limb, 16, on)
        return row.a, row.b, result


ROWS = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, a = on ? in.calls(1, i) : 0, b = on ? in.calls(2, i) : 0;
      const u64 mask = 0xffffffff;
      const bool is_signed = op == 13 | op == 15, zero = on & (b == 0), wants_quotient = op < 15;
      const u64 sign[2] = {is_signed ? a >> 31 : 0, is_signed ? b >> 31 : 0};
      const u64 dividend = sign[0] ? (1ull << 32) - a : a, divisor = sign[1] ? (1ull << 32) - b : b;
      const u64 quotient = zero ? mask : on ? dividend / divisor : 0;
      const u64 remainder = zero ? dividend : on ? dividend % divisor : 0;
      const u64 gap = zero | !on ? 0 : divisor - 1 - remainder;
      const u64 magnitude = on ? wants_quotient ? quotient : remainder : 0;
      const bool negative = wants_quotient ? (sign[0] != sign[1]) & !zero : sign[0];
      const u64 result = (negative ? -magnitude : magnitude) & mask;
      for (int k = 0; k < 4; ++k) out[column::is_div + k] = op == k + 13;
      out[column::a] = a;
      out[column::b] = b;
      for (int k = 0; k < 2; ++k) {
        out[column::sign + k] = sign[k];
        out[column::low + k] = is_signed ? (k ? b : a) & 0xffff : 0;
        out[column::quotient + k] = quotient >> 16 * k & 0xffff;
        out[column::remainder + k] = remainder >> 16 * k & 0xffff;
        out[column::gap + k] = gap >> 16 * k & 0xffff;
        out[column::result + k] = result >> 16 * k & 0xffff;
      }
      out[column::zero] = zero;
      out[column::inverse] = b ? dp::gl::inverse(b) : 0;
      out[column::negative] = negative;
      out[column::carry] = negative & (magnitude != 0);
    }
    """,
    columns=COLUMNS,
    inputs=("calls", "count"),
)
