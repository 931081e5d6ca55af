"""Row functions for the tests of every backend, and what they must make, by Python's integers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kernels.interface.row_source import RowSource
from kernels.maths.goldilocks import P

Words = NDArray[np.uint64]

CASE = RowSource(
    "case.cpp",
    """
#include "hash/keccak.h"

namespace {
DP_ROW u64 power(u64 base, u64 exponent) { return dp::gl::pow(base, exponent); }
}

namespace mine {
DP_ROW void row(const Inputs& in, u64 i, Row& out) {
  const u64 value = in.table(i % 3, i % in.table.n);
  out[column::value] = value;
  for (int k = 0; k < 4; ++k) out[column::limb + k] = value >> 16 * k & 0xffff;
  out[column::power] = power(value, i);
  out[column::turned] = dp::keccak::rotl(in.keys[0], 9) >> 1;
  out[column::last] = i + 1 == in.rows;
  in.seen.add(value >> 62, 1 + (i & 1));
  in.seen.add(in.seen.n + i);
  in.rows_of.add(0);
}
}  // namespace mine
""",
    (("value", 1), ("limb", 4), ("power", 1), ("turned", 1), ("last", 1)),
    ("table", "keys"),
    "mine::row",
    ("seen", "rows_of"),
)


def case_inputs() -> dict[str, Words]:
    rng = np.random.default_rng(8)
    return {
        "table": rng.integers(0, P, (3, 7), dtype=np.uint64),
        "keys": np.array([0x123456789ABCDEF], np.uint64),
        "seen": np.arange(3, dtype=np.uint64),
        "rows_of": np.zeros(1, dtype=np.uint64),
    }


def case_sums(inputs: Mapping[str, Words], rows: int) -> dict[str, list[int]]:
    """What CASE makes of `case_inputs`' sums."""
    seen = list(range(3))
    for i in range(rows):
        place = int(inputs["table"][i % 3, i % 7]) >> 62
        if place < 3:
            seen[place] += 1 + i % 2
    return {"seen": seen, "rows_of": [rows]}


def case_columns(inputs: Mapping[str, Words], rows: int) -> Words:
    """What CASE makes."""
    (key,) = inputs["keys"].tolist()
    turned = (key << 9 | key >> 55) % 2**64 >> 1
    made = []
    for i in range(rows):
        value = int(inputs["table"][i % 3, i % 7])
        limbs = [value >> 16 * k & 0xFFFF for k in range(4)]
        made.append([value, *limbs, pow(value, i, P), turned, int(i + 1 == rows)])
    return np.array(made, dtype=np.uint64).T
