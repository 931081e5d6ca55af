"""The table `bitwise`: and, or, xor by looking up the conjunctions of four pairs of bytes."""

from __future__ import annotations

from distprove.stark.air import CppRows, Expression, Table
from distprove.stark.riscv.buses import AND_KIND, LOOKUP, AluAir

COLUMNS = {"is_and": 1, "is_or": 1, "is_xor": 1, "a": 4, "b": 4, "both": 4}


class BitwiseAir(AluAir):
    """A row is one operation, on bytes."""

    name = "bitwise"
    main = COLUMNS

    def constrain(self, t: Table, on: Expression) -> tuple[Expression, Expression, Expression]:
        row = t.this
        a, b, both = (sum(byte * 256**k for k, byte in enumerate(row[name])) for name in ("a", "b", "both"))
        for x, y, z in zip(row.a, row.b, row.both, strict=True):
            t.send(LOOKUP, {"kind": AND_KIND, "x": x, "y": y, "z": z}, times=on)
        result = row.is_and * both + row.is_or * (a + b - both) + row.is_xor * (a + b - 2 * both)
        return a, b, result


ROWS = CppRows(
    """
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
    """,
    columns=COLUMNS,
    inputs=("calls", "count"),
)
