"""The tables `points` and `points384`: the host calls that add and double points of short Weierstrass curves.

A row is one call: p + q or 2 p, in affine coordinates, by the chord and tangent rule (SEC 1, 2.2.1). With the slope s
it states three equations over the integers, each with a quotient of its own times the field's modulus m:

    s (x2 - x1) = y2 - y1       s (2 y1) = 3 x1^2 + a  for a double
    s^2 = x1 + x2 + x3          with x2 = x1 for a double
    s (x1 - x3) = y1 + y3

All coordinates are below m. A sum has x1 and x2 that differ, and a double a y1 that is not 0, so that the slope is one
modulo m, which is prime. The curves' moduli are constants of the table, not words of memory.

Numbers are limbs of 16 bits, which are looked up, but for y2: it is words of 32, as memory has it. A coefficient of an
equation at a power of 2^16 is the sum of products of limbs: 24 at most of each kind, of size below 2^32 for each of
s (x2 - x1) and quotient times m, 2^33 for s (2 y1), and 3 times 2^32 for 3 x1^2. At most 4 times 2^32 have one sign,
so such a coefficient is below 2^39 in size, two of them joined below 2^55 + 2^40, and a carry below 2^23: carries are
looked up in 24 bits, with 2^23 added. No side of an equation comes round p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from distprove.stark.air import Air, CppRows, Expression, Table, total
from distprove.stark.air.definition import Value
from distprove.stark.riscv.accesses import accesses_of, calls_of_number, send_words
from distprove.stark.riscv.buses import HOST, in_range, words
from distprove.stark.riscv.calls import POINT_384_CALLS, POINT_CALLS
from distprove.stark.riscv.numbers import constrain_below, constrain_zero, order_columns, product_of, square_of
from distprove.stark.riscv.record import Record, Words64
from kernels.maths import curves
from kernels.maths.goldilocks import P

COORDINATES = ("x1", "y1", "x2", "y2", "x3", "y3")
EQUATIONS = ("slope", "abscissa", "ordinate")
POINTERS = ("p", "q")
"""The addresses that the memory of a sum's argument has."""
CARRY_BITS = 24
TOP_BITS = 3
"""A quotient is limbs, and above them a number of so many bits less half of what it can be: it may be negative."""
_HALF_TOP = 1 << (TOP_BITS - 1)


@dataclass(frozen=True)
class Curve:
    """A curve y^2 = x^3 + a x + b over a prime field, without b, which the rule does not take."""

    modulus: int
    a: int
    add: int
    """The number of the call that adds; the next one doubles."""


CURVES = (
    Curve((1 << 256) - (1 << 32) - 977, 0, POINT_CALLS["secp256k1_add"]),
    Curve(
        (1 << 256) - (1 << 224) + (1 << 192) + (1 << 96) - 1,
        (1 << 256) - (1 << 224) + (1 << 192) + (1 << 96) - 4,
        POINT_CALLS["secp256r1_add"],
    ),
    Curve(curves.BN254.fq.modulus, 0, POINT_CALLS["bn254_add"]),
)
CURVES_384 = (Curve(curves.BLS12_381.fq.modulus, 0, POINT_384_CALLS["bls12_381_add"]),)


def columns_for(words: int, curves: int) -> dict[str, int]:
    """The columns of the table for coordinates of so many words, of so many curves."""
    limbs = 2 * words
    return {
        "curve": curves,  # 1 for that of the call
        "adds": 1,  # 1 for a sum
        "doubles": 1,  # 1 for a double
        "time": 1,
        "key": 1,  # of the first word that the argument names
        "pointers": len(POINTERS),
        **{name: words if name == "y2" else limbs for name in COORDINATES},
        "slope": limbs,
        "quotient": len(EQUATIONS) * limbs,
        "top": len(EQUATIONS),
        "low": len(EQUATIONS) * (limbs - 1),  # of a carry: bits 0 to 15, and then 16 to 23
        "high": len(EQUATIONS) * (limbs - 1),
        **{name: len(COORDINATES) * count for name, count in order_columns(words).items()},
        "inverse": 1,  # of the squares of the differences of x1 and x2, or of the sum of the limbs of y1
    }


class PointsAir(Air):
    """A row is a call."""

    name = "points"
    words = 8
    """Words of a coordinate, a multiple of four."""
    curves: Sequence[Curve] = CURVES
    main: Mapping[str, int] = columns_for(words, len(CURVES))

    def define(self, t: Table) -> None:
        row = t.this
        curve, doubles = row["curve"], row.doubles
        on = total(list(curve))
        for flag in (*curve, row.adds, doubles):
            t.boolean(flag)
        t.boolean(on, "a call of one curve")
        t.always(row.adds + doubles - on, "a call is a sum or a double")
        for name in (*COORDINATES, "slope", "quotient", "gap", "low"):
            if name != "y2":
                for k, limb in enumerate(row[name]):
                    in_range(t, limb, 16, on, f"{name} {k}")
        for k, high in enumerate(row.high):
            in_range(t, high, CARRY_BITS - 16, on, f"upper carry {k}")
        for k, top in enumerate(row.top):
            in_range(t, top, TOP_BITS, on, f"top {k}")

        numbers = {name: list(row[name]) if name == "y2" else list(words(row[name])) for name in COORDINATES}
        modulus = self._constants(t, [each.modulus for each in self.curves], 32)
        for k, name in enumerate(COORDINATES):
            columns = tuple(_part(row[each], k, len(COORDINATES)) for each in order_columns(self.words))
            constrain_below(t, numbers[name], modulus, (columns[0], columns[1], columns[2]), on, name=f"{name}: ")
        for first, second in (("x1", "x2"), ("y1", "y2")):
            for k, (one, other) in enumerate(zip(numbers[first], numbers[second], strict=True)):
                t.always(doubles * (one - other), f"{second} is {first}, {k}")
        apart = total([(one - other) * (one - other) for one, other in zip(row.x1, row.x2, strict=True)])
        divisor = apart + doubles * (total(list(row.y1)) - apart)
        t.always(divisor * row.inverse - on, "the slope has a divisor")
        self._constrain_slope(t, numbers, on)
        self._send_words(t, numbers, on)

    def _constants(self, t: Table, values: Sequence[int], bits: int) -> list[Expression]:
        """The pieces, of so many bits, of the number that the row's curve has; 0 in a row without a call."""
        flags, mask = t.this["curve"], (1 << bits) - 1
        return [
            total([flag * (value >> at & mask) for flag, value in zip(flags, values, strict=True)])
            for at in range(0, 32 * self.words, bits)
        ]

    def _constrain_slope(self, t: Table, numbers: Mapping[str, list[Expression]], on: Expression) -> None:
        """The three equations, by powers of 2^32."""
        row, doubles = t.this, t.this.doubles
        x1, y1, x2, x3, slope = (row[name] for name in ("x1", "y1", "x2", "x3", "slope"))
        modulus = self._constants(t, [each.modulus for each in self.curves], 16)
        a = self._constants(t, [each.a for each in self.curves], 32)
        # Of a double x2 - x1 and y2 - y1 are 0.
        run = [other - one + 2 * doubles * y for one, other, y in zip(x1, x2, y1, strict=True)]
        chord, square = product_of(slope, run), square_of(x1)
        tangent = [one - 3 * doubles * other for one, other in zip(chord, square, strict=True)]
        back = product_of(slope, [one - other for one, other in zip(x1, x3, strict=True)])
        beside = (
            [one - other - doubles * own for one, other, own in zip(numbers["y1"], numbers["y2"], a, strict=True)],
            [-(one + two + three) for one, two, three in zip(*(numbers[n] for n in ("x1", "x2", "x3")), strict=True)],
            [-(one + two) for one, two in zip(numbers["y1"], numbers["y3"], strict=True)],
        )
        limbs = len(slope)
        for k, (at, more) in enumerate(zip((tangent, square_of(slope), back), beside, strict=True)):
            quotient = list(_part(row.quotient, k, len(EQUATIONS)))
            multiple = product_of(quotient, modulus)
            top = row.top[k] - _HALF_TOP * on
            upper = [top * limb for limb in modulus]
            both = [
                [*multiple[:limbs]],
                [one + other for one, other in zip(multiple[limbs:], upper[:-1], strict=True)],
                [upper[-1]],
            ]
            taken = [each for part in both for each in part]
            left = [one - other for one, other in zip(at, taken[:-1], strict=True)] + [-taken[-1]]
            carries = _part(row.low, k, len(EQUATIONS)), _part(row.high, k, len(EQUATIONS))
            constrain_zero(t, left, partial(_entry, more), carries, CARRY_BITS, on, EQUATIONS[k])

    def _send_words(self, t: Table, numbers: Mapping[str, list[Expression]], on: Expression) -> None:
        """All words that the call accesses: q at the cycle's first time, the pointers at the third, p at the fourth."""
        row = t.this
        quarter = pow(4, -1, P)
        p, q = (pointer * quarter for pointer in row.pointers)
        t.always(row.doubles * (p - row.key), "a double is given its point")
        numbered = total([flag * each.add for flag, each in zip(row["curve"], self.curves, strict=True)])
        address = 4 * row.key
        call = {"call": numbered + row.doubles, "argument": address, "time": row.time, "result": address, "exit": 0}
        t.receive(HOST, call, times=on, at_most=1)
        send_words(t, row.adds, -2, q, numbers["x2"] + numbers["y2"])
        send_words(t, row.adds, 0, row.key, list(row.pointers))
        send_words(t, on, 1, p, numbers["x1"] + numbers["y1"], numbers["x3"] + numbers["y3"])


class Points384Air(PointsAir):
    """The same for coordinates of 384 bits."""

    name = "points384"
    words = 12
    curves = CURVES_384
    main: Mapping[str, int] = columns_for(words, len(CURVES_384))


def _part(cells: Sequence[Expression], k: int, parts: int) -> Sequence[Expression]:
    """Part k of so many equal ones."""
    each = len(cells) // parts
    return cells[k * each : (k + 1) * each]


def _entry(values: Sequence[Expression], k: int) -> Value:
    """Entry k, or 0 behind the last."""
    return values[k] if k < len(values) else 0


_NUMBERS = (*COORDINATES, "slope", "first", "second", "third", "modulus", "a")
"""The numbers in the rows' input, in order; three are quotients."""
_ROWS = """
    constexpr int LIMBS = 2 * WORDS;
    enum Number { X1, Y1, X2, Y2, X3, Y3, SLOPE, FIRST, SECOND, THIRD, MODULUS, A, NUMBERS };

    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const auto word = [&](int number, int k) -> u64 { return on ? in.words(number * WORDS + k, i) : 0; };
      const auto call = [&](int k) -> u64 { return on ? in.calls(k, i) : 0; };
      long long n[NUMBERS][LIMBS];
      for (int number = 0; number < NUMBERS; ++number)
        for (int k = 0; k < LIMBS; ++k) n[number][k] = word(number, k / 2) >> 16 * (k % 2) & 0xffff;
      const bool doubles = call(1) != 0;
      for (int k = 0; k < CURVES; ++k) out[column::curve + k] = on & call(0) == (u64)k;
      out[column::adds] = on & !doubles;
      out[column::doubles] = doubles;
      out[column::time] = call(2);
      out[column::key] = call(3);
      for (int k = 0; k < 2; ++k) out[column::pointers + k] = call(4 + k);
      u64 apart = 0, ordinate = 0;
      for (int k = 0; k < LIMBS; ++k) {
        out[column::x1 + k] = n[X1][k];
        out[column::y1 + k] = n[Y1][k];
        out[column::x2 + k] = n[X2][k];
        out[column::x3 + k] = n[X3][k];
        out[column::y3 + k] = n[Y3][k];
        out[column::slope + k] = n[SLOPE][k];
        for (int e = 0; e < 3; ++e) out[column::quotient + e * LIMBS + k] = n[FIRST + e][k];
        apart += (n[X1][k] - n[X2][k]) * (n[X1][k] - n[X2][k]);
        ordinate += n[Y1][k];
      }
      for (int k = 0; k < WORDS; ++k) out[column::y2 + k] = word(Y2, k);
      out[column::inverse] = on ? dp::gl::inverse(doubles ? ordinate : apart) : 0;
      for (int e = 0; e < 3; ++e) {
        out[column::top + e] = call(6 + e);
        const long long top = on ? (long long)call(6 + e) - 4 : 0;
        const long long* const q = n[FIRST + e];
        long long right[LIMBS];
        for (int k = 0; k < LIMBS; ++k)
          right[k] = e == 1   ? n[SLOPE][k]
                     : e == 2 ? n[X1][k] - n[X3][k]
                              : n[X2][k] - n[X1][k] + (doubles ? 2 * n[Y1][k] : 0);
        long long carry = 0;
        for (int k = 0; k < LIMBS - 1; ++k) {
          long long value = carry;
          for (int half = 0; half < 2; ++half) {
            const int at = 2 * k + half;
            long long sum = at < LIMBS ? 0 : -top * n[MODULUS][at - LIMBS];
            for (int j = 0; j < LIMBS; ++j) {
              const int other = at - j;
              if (other < 0 | other >= LIMBS) continue;
              sum += n[SLOPE][j] * right[other] - q[j] * n[MODULUS][other];
              if (e == 0 & doubles) sum -= 3 * n[X1][j] * n[X1][other];
            }
            value += half ? 65536 * sum : sum;
          }
          if (k < WORDS) {
            const auto whole = [&](int number) -> long long { return (long long)word(number, k); };
            if (e == 0) value += whole(Y1) - whole(Y2) - (doubles ? whole(A) : 0);
            if (e == 1) value -= whole(X1) + whole(X2) + whole(X3);
            if (e == 2) value -= whole(Y1) + whole(Y3);
          }
          carry = value >> 32;
          const u64 shifted = (u64)(carry + (1 << 23));
          out[column::low + e * (LIMBS - 1) + k] = on ? shifted & 0xffff : 0;
          out[column::high + e * (LIMBS - 1) + k] = on ? shifted >> 16 & 0xff : 0;
        }
      }
      for (int number = X1; number <= Y3; ++number) {
        int highest = 0;
        for (int k = 0; k < WORDS; ++k)
          if (word(MODULUS, k) != word(number, k)) highest = k;
        for (int k = 0; k < WORDS / 4; ++k) out[column::four + number * (WORDS / 4) + k] = on & highest / 4 == k;
        for (int k = 0; k < 2; ++k) out[column::place + 2 * number + k] = highest >> k & 1;
        const u64 gap = on ? word(MODULUS, highest) - word(number, highest) - 1 : 0;
        out[column::gap + 2 * number] = gap & 0xffff;
        out[column::gap + 2 * number + 1] = gap >> 16 & 0xffff;
      }
    }
    """


def point_rows(words: int, curves: int) -> CppRows:
    """The function of the table's rows for coordinates of so many words, of so many curves."""
    text = f"constexpr int WORDS = {words}, CURVES = {curves};{_ROWS}"
    return CppRows(text, columns_for(words, curves), ("words", "calls", "count"))


def point_inputs(record: Record, curves: Sequence[Curve], words: int) -> dict[str, Words64]:
    """The arrays from which `point_rows` makes the rows of a segment's calls.

    `words`, (12 words, n): coordinates, slope, quotients, modulus and a of each call. `calls`, (9, n): curve, whether
    it is a double, time, key, the two pointers, and the quotients' tops. `count`, (1,).
    """
    numbers, calls = list[list[int]](), list[list[int]]()
    for index, curve in enumerate(curves):
        for doubles in (0, 1):
            argument, cycle = calls_of_number(record, curve.add + doubles)
            if not len(cycle):
                continue
            accesses = accesses_of(record, curve.add + doubles)
            for place, time, access in zip(argument.tolist(), (4 * cycle + 4).tolist(), accesses, strict=True):
                before = access[:, 1].astype("<u4")
                pointers = [place, 0] if doubles else before[2 * words : 2 * words + 2].tolist()
                p, result = (access[-2 * words :, k].astype("<u4").tobytes() for k in (1, 2))
                q = p if doubles else before[: 2 * words].tobytes()
                given = [int.from_bytes(n[at:][: 4 * words], "little") for n in (p, q, result) for at in (0, 4 * words)]
                slope, quotients = _slope(curve, doubles, given)
                tops = [(quotient >> 32 * words) + _HALF_TOP for quotient in quotients]
                numbers.append([*given, slope, *quotients, curve.modulus, curve.a])
                calls.append([index, doubles, time, place // 4, *pointers, *tops])
    joined = (number % (1 << 32 * words) for row in numbers for number in row)
    data = b"".join(number.to_bytes(4 * words, "little") for number in joined)
    content = np.frombuffer(data, dtype="<u4").reshape(len(numbers), len(_NUMBERS) * words)
    listed = np.array(calls, dtype=np.uint64).reshape(len(calls), 6 + len(EQUATIONS))
    count = np.array([len(calls)], dtype=np.uint64)
    return {"words": content.T.astype(np.uint64), "calls": listed.T.copy(), "count": count}


def _slope(curve: Curve, doubles: int, coordinates: Sequence[int]) -> tuple[int, list[int]]:
    """The slope of the line, and the quotients of the three equations."""
    x1, y1, x2, y2, x3, y3 = coordinates
    run, rise = (2 * y1, 3 * x1 * x1 + curve.a) if doubles else (x2 - x1, y2 - y1)
    slope = rise * pow(run, -1, curve.modulus) % curve.modulus
    zeros = slope * run - rise, slope * slope - x1 - x2 - x3, slope * (x1 - x3) - y1 - y3
    return slope, [zero // curve.modulus for zero in zeros]
