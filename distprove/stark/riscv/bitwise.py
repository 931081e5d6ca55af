"""The tables `bitwise` and `bitwise64`: and, or, xor by looking up the conjunctions of pairs of bytes.

Bytes are looked up, so operands and results are below 2^32 in each half."""

from __future__ import annotations

from distprove.stark.air import CppRows, Expression, Table
from distprove.stark.riscv.buses import AND_KIND, LOOKUP, AluAir, Halves, WideAir

COLUMNS = {"is_and": 1, "is_or": 1, "is_xor": 1, "a": 4, "b": 4, "both": 4}
COLUMNS_64 = {"is_and": 1, "is_or": 1, "is_xor": 1, "a": 8, "b": 8, "both": 8}


class BitwiseAir(AluAir):
    """A row is one operation, on bytes."""

    name = "bitwise"
    main = COLUMNS

    def constrain(self, t: Table, on: Expression) -> tuple[Expression, Expression, Expression]:
        return _word(t, on, 0)


class Bitwise64Air(WideAir):
    """The same on 64 bits."""

    name = "bitwise64"
    main = COLUMNS_64

    def constrain(self, t: Table, on: Expression) -> tuple[Halves, Halves, Halves]:
        (a, b, result), (a_upper, b_upper, upper) = _word(t, on, 0), _word(t, on, 4)
        return (a, a_upper), (b, b_upper), (result, upper)


def _word(t: Table, on: Expression, first: int) -> tuple[Expression, Expression, Expression]:
    """The operands and the result of four bytes, from byte `first` on."""
    row, places = t.this, slice(first, first + 4)
    a, b, both = (sum(byte * 256**k for k, byte in enumerate(row[name][places])) for name in ("a", "b", "both"))
    for x, y, z in zip(row.a[places], row.b[places], row.both[places], strict=True):
        t.send(LOOKUP, {"kind": AND_KIND, "x": x, "y": y, "z": z}, times=on)
    result = row.is_and * both + row.is_or * (a + b - both) + row.is_xor * (a + b - 2 * both)
    return a, b, result


_SOURCE = """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, a = on ? in.calls(1, i) : 0, b = on ? in.calls(2, i) : 0;
      for (int k = 0; k < 3; ++k) out[column::is_and + k] = op == k + 1;
      for (int k = 0; k < 4; ++k) {
        out[column::a + k] = a >> 8 * k & 255;
        out[column::b + k] = b >> 8 * k & 255;
        out[column::both + k] = (a & b) >> 8 * k & 255;
      }
    }
    """
ROWS = CppRows(_SOURCE, columns=COLUMNS, inputs=("calls", "count"))
ROWS_64 = CppRows(_SOURCE.replace("k < 4", "k < 8"), columns=COLUMNS_64, inputs=("calls", "count"))
