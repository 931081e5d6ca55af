"""The tables `divide` and `divide64`: div, divu, rem, remu.

For the magnitudes of a and b, a = quotient b + remainder with remainder < b. As quotient and b have at most 32 bits,
the right side is below p. A divisor 0 has the quotient 2^32 - 1 and leaves a. The result takes its sign back; of
-2^31 / -1 the quotient's magnitude is 2^31 and its sign +, which are the bits of -2^31, as the instruction set has it.

On 64 bits, magnitudes are limbs of 16 bits. A number with a sign and its magnitude sum to 2^64. By words, quotient b +
remainder = a has a carry of 19 bits between them, as in `multiply`: no side is above 2^52 in size. The coefficients
from 2^64 on are at least 0, and sum to 0. The gap is a difference by words, with a borrow.
"""

from __future__ import annotations

from distprove.stark.air import CppRows, Expression, Table
from distprove.stark.air.definition import Value
from distprove.stark.riscv.buses import ALU_TABLES, AluAir, Halves, WideAir, constrain_sign, in_range, word, words
from distprove.stark.riscv.multiply import coefficients

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


COLUMNS_64 = {
    **{f"is_{op}": 1 for op in ALU_TABLES["divide"]},
    "a": 2,
    "b": 2,
    "sign": 2,
    "low": 2,  # bits 0 to 15 of the upper halves
    "dividend": 4,  # magnitude of a
    "divisor": 4,
    "complement": 2,  # carries from the lower words of a and b plus their magnitudes, where they have a sign
    "quotient": 4,
    "remainder": 4,
    "carry": 1,  # bits 0 to 15 of the carry from the lower words of the product
    "more": 1,  # its bits 16 to 18
    "gap": 4,  # the divisor's magnitude less 1 and the remainder
    "borrow": 1,
    "zero": 1,  # whether the divisor is 0
    "inverse": 1,  # of the sum of the halves of b
    "negative": 1,  # whether the result is minus its magnitude
    "result": 4,
    "carries": 2,  # from the words of the result plus its magnitude, if it is negative
}


class Divide64Air(WideAir):
    """The same on 64 bits."""

    name = "divide64"
    main = COLUMNS_64

    def constrain(self, t: Table, on: Expression) -> tuple[Halves, Halves, Halves]:
        row = t.this
        signed, wants_quotient = row.is_div + row.is_rem, row.is_div + row.is_divu
        for flag in (*row.sign, *row.complement, row.borrow, row.zero, row.negative, *row.carries):
            t.boolean(flag)
        dividend, divisor, quotient, remainder, gap, result = (
            words(row[name]) for name in ("dividend", "divisor", "quotient", "remainder", "gap", "result")
        )
        for name, value, magnitude, sign, low, carry in zip(
            "ab", (row.a, row.b), (dividend, divisor), row.sign, row.low, row.complement, strict=True
        ):
            t.always((1 - signed) * sign, f"no sign of {name}")
            constrain_sign(t, value[1], sign, low, signed)
            for k, (half, part) in enumerate(zip(value, magnitude, strict=True)):
                t.always((1 - sign) * (part - half), f"{name} without a sign, half {k}")
            t.always(sign * (magnitude[0] + value[0] - carry * (1 << 32)), f"lower magnitude of {name}")
            t.always(sign * (magnitude[1] + value[1] + carry - (1 << 32)), f"upper magnitude of {name}")

        at = coefficients(row.quotient, row.divisor)
        carry = row.carry + row.more * (1 << 16)
        lower, upper = at[0] + at[1] * (1 << 16), at[2] + at[3] * (1 << 16)
        t.always(lower + remainder[0] - dividend[0] - carry * (1 << 32), "division, lower words")
        t.always(upper + remainder[1] + carry - dividend[1], "division, upper words")
        t.always(at[4] + at[5] + at[6], "division, beyond 64 bits")
        either_half = row.b[0] + row.b[1]
        t.always(either_half * row.inverse + row.zero - on, "divisor not 0")
        t.always(either_half * row.zero, "divisor 0")
        for k, half in enumerate(quotient):
            t.always(row.zero * (half - MAX), f"quotient by 0, half {k}")
        below = on - row.zero
        t.always(below * (divisor[0] - 1 - remainder[0] - gap[0] + row.borrow * (1 << 32)), "remainder below, lower")
        t.always(below * (divisor[1] - remainder[1] - row.borrow - gap[1]), "remainder below, upper")

        either = row.sign[0] + row.sign[1] - 2 * row.sign[0] * row.sign[1]
        negative = row.is_div * (1 - row.zero) * either + row.is_rem * row.sign[0]
        t.always(row.negative - negative, "sign of the result")
        before: Value = 0
        for k, carried in enumerate(row.carries):
            magnitude = wants_quotient * quotient[k] + (on - wants_quotient) * remainder[k]
            t.always((1 - row.negative) * (result[k] - magnitude), f"positive result {k}")
            t.always(row.negative * (result[k] + magnitude + before - carried * (1 << 32)), f"negative result {k}")
            before = carried
        for name in ("dividend", "divisor", "quotient", "remainder", "gap", "result", "carry"):
            for limb in row[name]:
                in_range(t, limb, 16, on)
        in_range(t, row.more, 3, on)
        return row.a, row.b, (result[0], result[1])


ROWS_64 = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, a = on ? in.calls(1, i) : 0, b = on ? in.calls(2, i) : 0;
      const u64 mask = 0xffffffff;
      const bool is_signed = op == 13 | op == 15, zero = on & (b == 0), wants_quotient = op < 15;
      const u64 sign[2] = {is_signed ? a >> 63 : 0, is_signed ? b >> 63 : 0};
      const u64 dividend = sign[0] ? -a : a, divisor = sign[1] ? -b : b;
      const u64 quotient = zero ? ~(u64)0 : on ? dividend / divisor : 0;
      const u64 remainder = zero ? dividend : on ? dividend % divisor : 0;
      const u64 gap = zero | !on ? 0 : divisor - 1 - remainder;
      const u64 magnitude = on ? wants_quotient ? quotient : remainder : 0;
      const bool negative = wants_quotient ? (sign[0] != sign[1]) & !zero : sign[0];
      const u64 result = negative ? -magnitude : magnitude;
      u64 at[2] = {0, 0};
      for (int k = 0; k < 2; ++k)
        for (int j = 0; j <= k; ++j) at[k] += (quotient >> 16 * j & 0xffff) * (divisor >> 16 * (k - j) & 0xffff);
      const u64 carry = at[0] + (at[1] << 16) + (remainder & mask) >> 32;
      for (int k = 0; k < 4; ++k) out[column::is_div + k] = op == k + 13;
      for (int k = 0; k < 2; ++k) {
        const u64 value = k ? b : a;
        out[column::a + k] = a >> 32 * k & mask;
        out[column::b + k] = b >> 32 * k & mask;
        out[column::sign + k] = sign[k];
        out[column::low + k] = is_signed ? value >> 32 & 0xffff : 0;
        out[column::complement + k] = sign[k] & ((value & mask) != 0);
      }
      for (int k = 0; k < 4; ++k) {
        out[column::dividend + k] = dividend >> 16 * k & 0xffff;
        out[column::divisor + k] = divisor >> 16 * k & 0xffff;
        out[column::quotient + k] = quotient >> 16 * k & 0xffff;
        out[column::remainder + k] = remainder >> 16 * k & 0xffff;
        out[column::gap + k] = gap >> 16 * k & 0xffff;
        out[column::result + k] = result >> 16 * k & 0xffff;
      }
      out[column::carry] = carry & 0xffff;
      out[column::more] = carry >> 16;
      out[column::borrow] = on & !zero & ((divisor & mask) < (remainder & mask) + 1);
      out[column::zero] = zero;
      const u64 either = (b & mask) + (b >> 32);
      out[column::inverse] = either ? dp::gl::inverse(either) : 0;
      out[column::negative] = negative;
      out[column::carries] = negative & ((magnitude & mask) != 0);
      out[column::carries + 1] = negative & (magnitude != 0);
    }
    """,
    columns=COLUMNS_64,
    inputs=("calls", "count"),
)
