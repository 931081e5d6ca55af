"""The table `narrow`: loads and stores of bytes and halves, on the aligned word that `cpu` reads and writes."""

from __future__ import annotations

from distprove.stark.air import Air, CppRows, Table
from distprove.stark.riscv.buses import NARROW, NARROW_OPS, in_range
from kernels.maths.goldilocks import P

COLUMNS = {
    **{f"is_{name}": 1 for name in NARROW_OPS},
    "at": 4,  # whether the lowest byte meant is at offset 0, 1, 2, 3
    "before": 4,
    "lower": 1,  # that byte
    "upper": 1,  # of a half its upper byte
    "sign": 1,
    "b": 1,
    "value": 2,  # bytes 0 and 1 of b
    "result": 1,
}


class NarrowAir(Air):
    """A row is one access."""

    name = "narrow"
    main = COLUMNS

    def define(self, t: Table) -> None:
        row = t.this
        flags = {name: row[f"is_{name}"][0] for name in NARROW_OPS}
        lb, lbu, lh, lhu, sb, sh = flags.values()
        on = sum(flags.values())
        for flag in (*flags.values(), on, *row.at, row.sign):
            t.boolean(flag)
        t.always(sum(row.at) - on, "one offset")
        t.always((lh + lhu + sh) * (row.at[1] + row.at[3]), "halves are aligned")
        t.always(sum(at * byte for at, byte in zip(row.at, row.before, strict=True)) - row.lower, "lower byte")
        t.always(row.at[0] * row.before[1] + row.at[2] * row.before[3] - row.upper, "upper byte")
        for byte in row.before:
            in_range(t, byte, 8, on)

        signed = lb + lh
        t.always((1 - signed) * row.sign, "no sign")
        in_range(t, lb * row.lower + lh * row.upper - row.sign * 128, 7, signed, "sign")
        half = row.lower + 256 * row.upper
        t.always((lb + lbu) * (row.result - row.lower - row.sign * ((1 << 32) - (1 << 8))), "loaded byte")
        t.always((lh + lhu) * (row.result - half - row.sign * ((1 << 32) - (1 << 16))), "loaded half")

        low, high = row.value
        in_range(t, low, 8, sb + sh)
        in_range(t, high, 8, sb + sh)
        in_range(t, (row.b - low - 256 * high) * pow(1 << 16, -1, P), 16, sb + sh)
        before = sum(byte * 256**k for k, byte in enumerate(row.before))
        place = sum(at * 256**k for k, at in enumerate(row.at))
        t.always(sb * (row.result - before - (low - row.lower) * place), "stored byte")
        t.always(sh * (row.result - before - (low + 256 * high - half) * place), "stored half")
        access = {
            "op": sum(flag * NARROW_OPS[name] for name, flag in flags.items()),
            "offset": sum(at * k for k, at in enumerate(row.at)),
            "before": before,
            "b": row.b,
            "result": row.result,
        }
        t.receive(NARROW, access, times=on, at_most=1)


ROWS = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 op = on ? in.calls(0, i) : 0, offset = on ? in.calls(1, i) : 0, word = on ? in.calls(2, i) : 0;
      const u64 b = on ? in.calls(3, i) : 0, place = 8 * offset;
      const u64 byte = on ? word >> place & 0xff : 0, half = on ? word >> place & 0xffff : 0;
      const bool stores = op > 4;
      u64 sign = 0, result = 0;
      switch (op) {
        case 1: sign = byte >> 7, result = byte + sign * 0xffffff00; break;
        case 2: result = byte; break;
        case 3: sign = half >> 15, result = half + sign * 0xffff0000; break;
        case 4: result = half; break;
        case 5: result = word ^ (byte ^ b & 0xff) << place; break;
        case 6: result = word ^ (half ^ b & 0xffff) << place; break;
      }
      for (int k = 0; k < 6; ++k) out[column::is_lb + k] = op == k + 1;
      for (int k = 0; k < 4; ++k) {
        out[column::at + k] = on & (offset == k);
        out[column::before + k] = word >> 8 * k & 0xff;
      }
      out[column::lower] = byte;
      out[column::upper] = offset % 2 ? 0 : half >> 8;
      out[column::sign] = sign;
      out[column::b] = b;
      out[column::value] = stores ? b & 0xff : 0;
      out[column::value + 1] = stores ? b >> 8 & 0xff : 0;
      out[column::result] = result;
    }
    """,
    columns=COLUMNS,
    inputs=("calls", "count"),
)
