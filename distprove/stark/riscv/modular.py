"""The tables `modular` and `modular384`: the host calls that multiply numbers of 256 bits, or of 384, and may add one,
modulo a third.

A row is one call: x y + a = q m + r over the integers, with r below m. The numbers are limbs of 16 bits, which are
looked up; a is words of 32, as memory has them. A modulus of 0 stands for 2^256, or 2^384.

The coefficients of both sides at each power of 2^32 are joined from those at two powers of 2^16. A product of limbs is
below 2^32 and there are at most 24 of one power, so such a coefficient is below 2^53 in size, and its carry below 2^21:
carries are looked up in 22 bits, with 2^21 added. No side of an equation comes round p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from distprove.stark.air import Air, CppRows, Expression, Table, total
from distprove.stark.riscv.accesses import accesses_of, calls_of_number
from distprove.stark.riscv.buses import HOST, KECCAK, in_range, words
from distprove.stark.riscv.calls import PRECOMPILES
from distprove.stark.riscv.numbers import constrain_below, constrain_zero, order_columns
from distprove.stark.riscv.record import Record, Words64
from kernels.maths.goldilocks import P

POINTERS = ("result", "x", "y", "addend")
"""The addresses with which the memory that a call names begins. The modulus follows."""


def columns_for(words: int) -> dict[str, int]:
    """The columns of the table for numbers of so many words."""
    limbs = 2 * words
    return {
        "on": 1,
        "adds": 1,  # 1 for a call with an addend
        "time": 1,
        "key": 1,  # of the first word that the argument names
        "pointers": len(POINTERS),
        "x": limbs,
        "y": limbs,
        "modulus": limbs,
        "quotient": limbs,
        "result": limbs,
        "addend": words,
        "before": words,  # what was where the result goes
        "low": limbs - 1,  # of a carry: bits 0 to 15, and then 16 to 21
        "high": limbs - 1,
        "whole": 1,  # 1 where the modulus is 0, which stands for 2^256 or 2^384
        "inverse": 1,  # of the sum of its limbs, elsewhere
        **order_columns(words),  # of result and modulus
    }


_CARRY_BITS = 22


class ModularAir(Air):
    """A row is a call."""

    name = "modular"
    words = 8
    """Words of a number, a multiple of four."""
    main: Mapping[str, int] = columns_for(words)

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.on)
        t.boolean(row.adds)
        t.always((1 - row.on) * row.adds, "an addend of a call")
        for name in ("x", "y", "modulus", "quotient", "result", "gap"):
            for k, limb in enumerate(row[name]):
                in_range(t, limb, 16, row.on, f"{name} {k}")
        for k, (low, high) in enumerate(zip(row.low, row.high, strict=True)):
            in_range(t, low, 16, row.on, f"carry {k}")
            in_range(t, high, _CARRY_BITS - 16, row.on, f"upper carry {k}")
        for k, limb in enumerate(row.addend):
            t.always((1 - row.adds) * limb, f"no addend {k}")
        modulus, result = words(row.modulus), words(row.result)
        self._constrain_product(t, result)

        total_modulus = total(list(row.modulus))
        t.boolean(row.whole)
        t.always(total_modulus * row.inverse + row.whole - row.on, "a modulus that is not 0")
        t.always(total_modulus * row.whole, "a modulus that is 0")
        constrain_below(t, result, modulus, (row.four, row.place, row.gap), row.on, row.whole)

        address = 4 * row.key
        number = row.on * min(PRECOMPILES[self.name].values()) + row.adds
        call = {"call": number, "argument": address, "time": row.time, "result": address, "exit": 0}
        t.receive(HOST, call, times=row.on, at_most=1)
        self._send_words(t, modulus, result)

    def _constrain_product(self, t: Table, result: Sequence[Expression]) -> None:
        """x y + a = q m + r, by powers of 2^32."""
        row = t.this
        x, y, m, q = (row[name] for name in ("x", "y", "modulus", "quotient"))
        limbs = len(x)
        at = [
            total([x[i] * y[k - i] - q[i] * m[k - i] for i in range(limbs) if 0 <= k - i < limbs])
            for k in range(2 * limbs - 1)
        ]

        def beside(k: int) -> Expression:
            own = k - self.words
            return row["addend"][k] - result[k] if own < 0 else -row["whole"][0] * words(q)[own]

        constrain_zero(t, at, beside, (row.low, row.high), _CARRY_BITS, row.on, "product")

    def _send_words(self, t: Table, modulus: Sequence[Expression], result: Sequence[Expression]) -> None:
        """All words that the call accesses: x at the cycle's first time, y at the second, what the argument names and
        the addend at the third, the result at the fourth."""
        row = t.this
        key = dict(zip(POINTERS, (pointer * pow(4, -1, P) for pointer in row.pointers), strict=True))
        unchanged = (
            (row.on, row.key, 0, [*row.pointers, *modulus]),
            (row.on, key["x"], -2, words(row.x)),
            (row.on, key["y"], -1, words(row.y)),
            (row.adds, key["addend"], 0, list(row.addend)),
        )
        for times, first, slot, content in unchanged:
            for k, value in enumerate(content):
                for end in (0, 1):
                    sent = {"time": row.time + slot, "end": end, "key": first + k, "value": value}
                    t.send(KECCAK, sent, times=times)
        for end, content in enumerate((row.before, result)):
            for k, value in enumerate(content):
                sent = {"time": row.time + 1, "end": end, "key": key["result"] + k, "value": value}
                t.send(KECCAK, sent, times=row.on)


class Modular384Air(ModularAir):
    """The same for numbers of 384 bits."""

    name = "modular384"
    words = 12
    main: Mapping[str, int] = columns_for(words)


_ROWS = """
    constexpr int LIMBS = 2 * WORDS;

    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const auto word = [&](int k) { return on ? in.words(k, i) : 0; };
      u64 x[LIMBS], y[LIMBS], m[LIMBS], q[LIMBS], r[LIMBS];
      const bool adds = on && in.calls(0, i) != 0;
      u64 total = 0;
      for (int k = 0; k < LIMBS; ++k) {
        const int at = k / 2, by = 16 * (k % 2);
        x[k] = word(at) >> by & 0xffff;
        y[k] = word(WORDS + at) >> by & 0xffff;
        m[k] = word(2 * WORDS + at) >> by & 0xffff;
        q[k] = word(3 * WORDS + at) >> by & 0xffff;
        r[k] = word(4 * WORDS + at) >> by & 0xffff;
        total += m[k];
        out[column::x + k] = x[k];
        out[column::y + k] = y[k];
        out[column::modulus + k] = m[k];
        out[column::quotient + k] = q[k];
        out[column::result + k] = r[k];
      }
      const bool whole = on & total == 0;
      out[column::on] = on;
      out[column::adds] = adds;
      out[column::time] = on ? in.calls(1, i) : 0;
      out[column::key] = on ? in.calls(2, i) : 0;
      for (int k = 0; k < 4; ++k) out[column::pointers + k] = on ? in.calls(3 + k, i) : 0;
      for (int k = 0; k < WORDS; ++k) {
        out[column::addend + k] = adds ? word(5 * WORDS + k) : 0;
        out[column::before + k] = word(6 * WORDS + k);
      }
      long long carry = 0;
      for (int k = 0; k < LIMBS - 1; ++k) {
        long long value = carry;
        for (int half = 0; half < 2; ++half)
          for (int j = 0; j < LIMBS; ++j) {
            const int other = 2 * k + half - j;
            if (other < 0 | other >= LIMBS) continue;
            value += ((long long)(x[j] * y[other]) - (long long)(q[j] * m[other])) * (half ? 65536 : 1);
          }
        if (k < WORDS)
          value += (long long)(adds ? word(5 * WORDS + k) : 0) - (long long)word(4 * WORDS + k);
        else if (whole)
          value -= (long long)word(3 * WORDS + k - WORDS);
        carry = value >> 32;
        const u64 shifted = (u64)(carry + (1 << 21));
        out[column::low + k] = on ? shifted & 0xffff : 0;
        out[column::high + k] = on ? shifted >> 16 & 0x3f : 0;
      }
      out[column::whole] = whole;
      out[column::inverse] = on & !whole ? dp::gl::inverse(total) : 0;
      int highest = 0;
      for (int k = 0; k < WORDS; ++k)
        if (word(2 * WORDS + k) != word(4 * WORDS + k)) highest = k;
      if (whole) highest = 0;
      for (int k = 0; k < WORDS / 4; ++k) out[column::four + k] = on & !whole & highest / 4 == k;
      for (int k = 0; k < 2; ++k) out[column::place + k] = highest >> k & 1;
      const u64 gap = on & !whole ? word(2 * WORDS + highest) - word(4 * WORDS + highest) - 1 : 0;
      out[column::gap] = gap & 0xffff;
      out[column::gap + 1] = gap >> 16 & 0xffff;
    }
    """


def rows_of(words: int) -> CppRows:
    """The function of the table's rows for numbers of so many words."""
    return CppRows(f"constexpr int WORDS = {words};{_ROWS}", columns_for(words), ("words", "calls", "count"))


def modular_inputs(record: Record, name: str, words: int) -> dict[str, Words64]:
    """The arrays from which `rows_of` makes the rows of a segment's calls: the words of x, y, modulus, quotient,
    result, addend and of what was in the result's place; whether there is an addend, time, key, and the pointers."""
    numbers, calls = list[Words64](), list[Words64]()
    for adds, call in enumerate(PRECOMPILES[name].values()):
        argument, cycle = calls_of_number(record, call)
        accesses = accesses_of(record, call).astype(np.uint64)
        before, n, pointers = accesses[:, :, 1], len(accesses), len(POINTERS)
        x, y, rest = before[:, :words], before[:, words : 2 * words], before[:, 2 * words :]
        modulus = rest[:, pointers : pointers + words]
        addend = rest[:, pointers + words :][:, :words] if adds else np.zeros((n, words), dtype=np.uint64)
        result = accesses[:, -words:, 2]
        quotient = quotients(x, y, addend, modulus)
        numbers.append(np.concatenate((x, y, modulus, quotient, result, addend, before[:, -words:]), axis=1))
        ends = np.full(n, adds, dtype=np.uint64), 4 * (cycle + np.uint64(1)), argument.astype(np.uint64) // np.uint64(4)
        calls.append(np.concatenate((np.stack(ends, axis=1), rest[:, :pointers]), axis=1))
    joined = {what: np.concatenate(each).T.copy() for what, each in (("words", numbers), ("calls", calls))}
    return {**joined, "count": np.array([joined["calls"].shape[1]], dtype=np.uint64)}


def quotients(x: Words64, y: Words64, addend: Words64, modulus: Words64) -> Words64:
    """(x y + addend) / modulus without the remainder, of numbers (n, words); a modulus of 0 stands for 2^(32 words)."""
    words = x.shape[1]
    parts = ([int.from_bytes(row, "little") for row in each.astype("<u4")] for each in (x, y, addend, modulus))
    found = [(a * b + c) // (m or 1 << 32 * words) for a, b, c, m in zip(*parts, strict=True)]
    data = b"".join(number.to_bytes(4 * words, "little") for number in found)
    return np.frombuffer(data, dtype="<u4").reshape(-1, words).astype(np.uint64)
