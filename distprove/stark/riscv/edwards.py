"""The table `edwards`: the host call that adds two points of Ed25519.

The curve is -x^2 + y^2 = 1 + d x^2 y^2 modulo m = 2^255 - 19. A row is one call: p + q in affine coordinates by the
addition law (RFC 8032, 5.1.4), which also doubles. The row states six equations modulo m:

    xx = x1 x2      121666 dxx = -121665 xx     x3 (1 + product) = x1 y2 + x2 y1
    yy = y1 y2      product = dxx yy            y3 (1 - product) = yy + xx

Here dxx is d x1 x2, as d is -121665 / 121666. x3 and y3 are below m, and the other numbers any of 256 bits.

No divisor that is 0 leaves x3 or y3 free, as d is no square and -1 is one. With u = x1 y2 and v = x2 y1, `product` is
d u v: from 1 + d u v = 0 and u + v = 0 follows d u^2 = 1. From 1 - d xx yy = 0 and xx + yy = 0 follows -d xx^2 = 1.
So a row with such a divisor asks that 0 be a number that is not 0. The points need not be on the curve for this.

Numbers are limbs of 16 bits, which are looked up. 2^256 is 38 modulo m, so the coefficient of a product at
2^(256 + k) counts 38 times at 2^k. An equation has eight words of 32 bits then. The carry c out of the highest one, at
bit 255, enters the lowest one as 19 c: the left side less the right is c m over the integers. A coefficient at a power
of 2^16 is at most 1 + 15 * 38 products below 2^32, of at most two kinds with one sign. It is below 2^42.2 in size, two
of them joined below 2^58.2, and a carry below 2^27: carries are looked up in 28 bits, with 2^27 added. No side of an
equation comes round p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from distprove.stark.air import Air, CppRows, Expression, Table
from distprove.stark.air.definition import Value
from distprove.stark.riscv.accesses import accesses_of, calls_of_number, send_words
from distprove.stark.riscv.buses import HOST, in_range, words
from distprove.stark.riscv.calls import EDWARDS_CALLS
from distprove.stark.riscv.numbers import constrain_below, constrain_zero, order_columns, product_of
from distprove.stark.riscv.record import Record, Words64
from kernels.maths.goldilocks import P

WORDS = 8
"""Words of a coordinate."""
LIMBS = 2 * WORDS
MODULUS = (1 << 255) - 19
D_ABOVE, D_BELOW = 121665, 121666
"""d is the negative of their quotient."""
COORDINATES = ("x1", "y1", "x2", "y2", "x3", "y3")
BETWEEN = ("xx", "yy", "dxx", "product")
EQUATIONS = (*BETWEEN, "abscissa", "ordinate")
"""Each with 7 carries between words, and the one out of the highest."""
BELOW = ("x3", "y3")
"""The numbers that the modulus bounds."""
POINTERS = ("p", "q")
"""The addresses that the memory of the argument has."""
CARRY_BITS = 28
_HALF_CARRY = 1 << (CARRY_BITS - 1)
_COLUMNS = {
    "on": 1,
    "time": 1,
    "key": 1,  # of the first word that the argument names
    "pointers": len(POINTERS),
    **dict.fromkeys((*COORDINATES, *BETWEEN), LIMBS),
    "low": len(EQUATIONS) * WORDS,  # of a carry: bits 0 to 15, and then 16 to 27
    "high": len(EQUATIONS) * WORDS,
    **{name: len(BELOW) * count for name, count in order_columns(WORDS).items()},
}


class EdwardsAir(Air):
    """A row is a call."""

    name = "edwards"
    main: Mapping[str, int] = _COLUMNS

    def define(self, t: Table) -> None:
        row, on = t.this, t.this.on
        t.boolean(on)
        for name in (*COORDINATES, *BETWEEN, "gap", "low"):
            for k, limb in enumerate(row[name]):
                in_range(t, limb, 16, on, f"{name} {k}")
        for k, high in enumerate(row.high):
            in_range(t, high, CARRY_BITS - 16, on, f"upper carry {k}")
        for k, name in enumerate(BELOW):
            four, place, gap = (_part(row[each], k, len(BELOW)) for each in order_columns(WORDS))
            constrain_below(t, words(row[name]), _pieces(MODULUS, 32), (four, place, gap), on, name=f"{name}: ")
        self._constrain_sum(t)
        self._send_words(t)

    def _constrain_sum(self, t: Table) -> None:
        """The six equations, by powers of 2^32."""
        row, on = t.this, t.this.on
        x1, y1, x2, y2, x3, y3 = (row[name] for name in COORDINATES)
        xx, yy, dxx, product = (row[name] for name in BETWEEN)
        right = list(zip(product_of(x1, y2), product_of(x2, y1), strict=True))
        sides: tuple[tuple[Sequence[Expression], Sequence[Value]], ...] = (
            (product_of(x1, x2), [-each for each in words(xx)]),
            (product_of(y1, y2), [-each for each in words(yy)]),
            ([D_BELOW * one + D_ABOVE * other for one, other in zip(dxx, xx, strict=True)], WORDS * [0]),
            (product_of(dxx, yy), [-each for each in words(product)]),
            (
                [left - one - other for left, (one, other) in zip(product_of(x3, product), right, strict=True)],
                [*words(x3)],
            ),
            (
                [-each for each in product_of(y3, product)],
                [left - one - other for left, one, other in zip(words(y3), words(yy), words(xx), strict=True)],
            ),
        )
        for k, (at, beside) in enumerate(sides):
            low, high = (_part(row[name], k, len(EQUATIONS)) for name in ("low", "high"))
            out = low[-1] + (1 << 16) * high[-1] - _HALF_CARRY * on
            more = [beside[0] + 19 * out, *beside[1:-1], beside[-1] - (1 << 31) * out]
            carries = low[:-1], high[:-1]
            constrain_zero(t, _folded(at), more.__getitem__, carries, CARRY_BITS, on, EQUATIONS[k])

    def _send_words(self, t: Table) -> None:
        """All words that the call accesses: q at the cycle's first time, the pointers at the third, p at the fourth."""
        row = t.this
        p, q = (pointer * pow(4, -1, P) for pointer in row.pointers)
        x1, y1, x2, y2, x3, y3 = (words(row[name]) for name in COORDINATES)
        address = 4 * row.key
        number = row.on * EDWARDS_CALLS["ed25519_add"]
        call = {"call": number, "argument": address, "time": row.time, "result": address, "exit": 0}
        t.receive(HOST, call, times=row.on, at_most=1)
        send_words(t, row.on, -2, q, [*x2, *y2])
        send_words(t, row.on, 0, row.key, list(row.pointers))
        send_words(t, row.on, 1, p, [*x1, *y1], [*x3, *y3])


def _pieces(number: int, bits: int) -> list[int]:
    """The pieces, of so many bits, of a number of 256."""
    return [number >> at & (1 << bits) - 1 for at in range(0, 32 * WORDS, bits)]


def _part(cells: Sequence[Expression], k: int, parts: int) -> Sequence[Expression]:
    """Part k of so many equal ones."""
    each = len(cells) // parts
    return cells[k * each : (k + 1) * each]


def _folded(at: Sequence[Expression]) -> list[Expression]:
    """The coefficients at the powers of 2^16 below 2^256, where 2^256 counts as 38."""
    return [at[k] + 38 * at[LIMBS + k] if LIMBS + k < len(at) else at[k] for k in range(LIMBS)]


EDWARDS_ROWS = CppRows(
    f"""
    constexpr int WORDS = {WORDS}, LIMBS = 2 * WORDS, EQUATIONS = {len(EQUATIONS)}, BELOW = {len(BELOW)};
    constexpr u64 MODULUS[WORDS] = {{{", ".join(map(hex, _pieces(MODULUS, 32)))}}};
    constexpr long long D_ABOVE = {D_ABOVE}, D_BELOW = {D_BELOW};
    """
    """
    enum Number { X1, Y1, X2, Y2, X3, Y3, XX, YY, DXX, PRODUCT, NUMBERS };

    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const auto word = [&](int number, int k) -> u64 { return on ? in.words(number * WORDS + k, i) : 0; };
      const auto call = [&](int k) -> u64 { return on ? in.calls(k, i) : 0; };
      long long n[NUMBERS][LIMBS];
      for (int number = 0; number < NUMBERS; ++number)
        for (int k = 0; k < LIMBS; ++k)
          out[column::x1 + number * LIMBS + k] = n[number][k] = word(number, k / 2) >> 16 * (k % 2) & 0xffff;
      out[column::on] = on;
      out[column::time] = call(0);
      out[column::key] = call(1);
      for (int k = 0; k < 2; ++k) out[column::pointers + k] = call(2 + k);
      for (int e = 0; e < EQUATIONS; ++e) {
        // The coefficient of a product at 2^(16 at), where 2^256 counts as 38.
        const auto product = [&](int x, int y, int at) -> long long {
          long long sum = 0;
          for (int j = 0; j < LIMBS; ++j) sum += (j <= at ? 1 : 38) * n[x][j] * n[y][j <= at ? at - j : LIMBS + at - j];
          return sum;
        };
        const auto limb = [&](int at) -> long long {
          if (e == 0) return product(X1, X2, at);
          if (e == 1) return product(Y1, Y2, at);
          if (e == 2) return D_BELOW * n[DXX][at] + D_ABOVE * n[XX][at];
          if (e == 3) return product(DXX, YY, at);
          if (e == 4) return product(X3, PRODUCT, at) - product(X1, Y2, at) - product(X2, Y1, at);
          return -product(Y3, PRODUCT, at);
        };
        const auto whole = [&](int number, int k) -> long long { return (long long)word(number, k); };
        long long value[WORDS];
        for (int k = 0; k < WORDS; ++k) {
          value[k] = limb(2 * k) + 65536 * limb(2 * k + 1);
          if (e == 4) value[k] += whole(X3, k);
          else if (e == 5) value[k] += whole(Y3, k) - whole(YY, k) - whole(XX, k);
          else if (e != 2) value[k] -= whole(e == 3 ? PRODUCT : XX + e, k);
        }
        // The value is c 2^256 + rest, and a multiple of the modulus. The quotient is 2 c and 0, 1 or 2, as rest is
        // near 0, 2^255 or 2^256.
        long long carry = 0, quotient = 0;
        for (int k = 0; k < WORDS; ++k) {
          const long long sum = value[k] + carry;
          carry = sum >> 32;
          if (k == WORDS - 1) quotient = 2 * carry + (((sum & 0xffffffff) + (1ll << 30)) >> 31);
        }
        carry = 19 * quotient;
        for (int k = 0; k < WORDS; ++k) {
          carry = value[k] + carry >> 32;
          const u64 shifted = (u64)((k < WORDS - 1 ? carry : quotient) + (1 << 27));
          out[column::low + e * WORDS + k] = on ? shifted & 0xffff : 0;
          out[column::high + e * WORDS + k] = on ? shifted >> 16 & 0xfff : 0;
        }
      }
      for (int b = 0; b < BELOW; ++b) {
        int highest = 0;
        for (int k = 0; k < WORDS; ++k)
          if (MODULUS[k] != word(X3 + b, k)) highest = k;
        for (int k = 0; k < WORDS / 4; ++k) out[column::four + b * (WORDS / 4) + k] = on & highest / 4 == k;
        for (int k = 0; k < 2; ++k) out[column::place + 2 * b + k] = on ? highest >> k & 1 : 0;
        const u64 gap = on ? MODULUS[highest] - word(X3 + b, highest) - 1 : 0;
        out[column::gap + 2 * b] = gap & 0xffff;
        out[column::gap + 2 * b + 1] = gap >> 16 & 0xffff;
      }
    }
    """,
    _COLUMNS,
    ("words", "calls", "count"),
)


def edwards_inputs(record: Record) -> dict[str, Words64]:
    """The arrays from which `EDWARDS_ROWS` makes the rows of a segment's calls.

    `words`, (80, n): the coordinates and then the numbers between, 8 words each. `calls`, (4, n): time, key, and the
    two pointers. `count`, (1,).
    """
    number = EDWARDS_CALLS["ed25519_add"]
    argument, cycle = calls_of_number(record, number)
    accessed = accesses_of(record, number)
    before, after = accessed[:, :, 1], accessed[:, :, 2]
    q, pointers, p = before[:, : 2 * WORDS], before[:, 2 * WORDS : -2 * WORDS], before[:, -2 * WORDS :]
    given = np.concatenate((p, q), axis=1).astype("<u4")
    data = b"".join(n.to_bytes(4 * WORDS, "little") for row in given for n in _between(row.tobytes()))
    between = np.frombuffer(data, dtype="<u4").reshape(len(cycle), len(BETWEEN) * WORDS)
    content = np.concatenate((given, after[:, -2 * WORDS :], between), axis=1)
    calls = np.stack((4 * cycle + 4, argument // 4, *pointers.T)).astype(np.uint64)
    return {"words": content.T.astype(np.uint64), "calls": calls, "count": np.array([len(cycle)], dtype=np.uint64)}


def _between(points: bytes) -> tuple[int, ...]:
    """The numbers of `BETWEEN` of two points, one after the other."""
    x1, y1, x2, y2 = (int.from_bytes(points[at:][: 4 * WORDS], "little") for at in range(0, 16 * WORDS, 4 * WORDS))
    xx, yy = x1 * x2 % MODULUS, y1 * y2 % MODULUS
    dxx = -D_ABOVE * pow(D_BELOW, -1, MODULUS) * xx % MODULUS
    return xx, yy, dxx, dxx * yy % MODULUS
