"""The table `keccak`: the host call that permutes a state of 50 words in memory by Keccak-f[1600].

It holds the permutations, in the narrow layout of `keccak_slices`. It answers the calls on `host`, and sends each word
of a state, before and after, on the bus `keccak`, to the table of `accesses`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from distprove.stark.air import Air, CppRows, Table
from distprove.stark.programs.keccak_rounds import LANES
from distprove.stark.programs.keccak_slices import (
    COLUMNS,
    FLAGS,
    WIDTH,
    blocks_for,
    constrain_slices,
    fill_slices,
    rows_for,
)
from distprove.stark.riscv.accesses import calls_of_number
from distprove.stark.riscv.buses import HOST, KECCAK
from distprove.stark.riscv.calls import KECCAK_CALL
from distprove.stark.riscv.record import Record, Words64
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

CALL_COLUMNS = {
    "on": 1,
    "key": 1,  # of the state's first word
    "time": 1,
    # At the input and the result of a permutation in use: of parts 0 and 2 the lower and the upper words of the
    # lanes, of parts 1 and 3 the upper halves of these. Elsewhere nothing is said of them.
    "words": LANES,
}
_HALF = 1 << 16


class KeccakAir(Air):
    """100 rows are a permutation. One that is in use is a call."""

    name = "keccak"
    main: Mapping[str, int] = {**COLUMNS, **FLAGS, **CALL_COLUMNS}

    def define(self, t: Table) -> None:
        slices = constrain_slices(t, ("on",))
        row, after = t.this, t.next
        for name in ("key", "time"):
            t.transition((1 - slices.ends) * (after[name][0] - row[name][0]), f"one {name} for a permutation")
        first, upper = row.slices[0], row.slices[2]
        ends, words = slices.begins + slices.closes, first + upper
        for flag in (first, words, ends):
            t.boolean(flag)
        for lane, cell in enumerate(row.words):
            halves = slices.number(lane) + words * _HALF * after.words[lane]
            t.always(ends * (cell - halves), f"word of lane {lane}")
        address = 4 * row.key
        call = {"call": KECCAK_CALL, "argument": address, "time": row.time, "result": address, "exit": 0}
        t.receive(HOST, call, times=slices.begins * first, at_most=1)
        for lane, cell in enumerate(row.words):
            word = {"time": row.time, "end": slices.closes, "key": row.key + 2 * lane + upper, "value": cell}
            t.send(KECCAK, word, times=ends * words)


CALL_ROWS = CppRows(
    """
    #include "hash/keccak.h"

    constexpr int LANES = 25, PARTS = 4, ROWS_EACH = 100;

    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const u64 call = i / ROWS_EACH, at = i % ROWS_EACH;
      const bool on = call < in.count[0], begins = at < PARTS, closes = at >= ROWS_EACH - PARTS;
      const int part = (int)(at % PARTS);
      u64 state[LANES];
    #pragma unroll
      for (int lane = 0; lane < LANES; ++lane) state[lane] = on & (begins | closes) ? in.states(lane, call) : 0;
      if (on & closes) dp::keccak::permute(state);
      out[column::on] = on;
      out[column::key] = on ? in.calls(0, call) : 0;
      out[column::time] = on ? in.calls(1, call) : 0;
      const u64 bits = part % 2 ? 0xffff : 0xffffffff;
    #pragma unroll
      for (int lane = 0; lane < LANES; ++lane) out[column::words + lane] = state[lane] >> 16 * part & bits;
    }
    """,
    columns=CALL_COLUMNS,
    inputs=("states", "calls", "count"),
)


def keccak_log_height(permutations: int) -> int:
    """log2 of the rows of the table for so many calls."""
    return rows_for(permutations).bit_length() - 1


def keccak_inputs(record: Record, log_rows: int) -> dict[str, Words64]:
    """The arrays from which `keccak_columns` makes the table, of 2^log_rows rows."""
    before = record.permuted_before.astype(np.uint64)
    n = len(before)
    states = np.zeros((LANES, blocks_for(1 << log_rows)), dtype=np.uint64)
    states[:, :n] = (before[:, ::2] | before[:, 1::2] << np.uint64(32)).T
    argument, cycle = calls_of_number(record, KECCAK_CALL)
    calls = np.stack((argument // np.uint32(4), 4 * (cycle + np.uint64(1)))).astype(np.uint64)
    return {
        "keccak_states": states,
        "keccak_calls": some(calls),
        "keccak_count": np.array([n], dtype=np.uint64),
    }


def some(columns: Words64) -> Words64:
    """The columns, or one of zeros in place of none: what a table of padding alone is made of."""
    return columns if columns.shape[1] else np.zeros((len(columns), 1), dtype=np.uint64)


def keccak_columns(backend: Backend, log_rows: int, inputs: Mapping[str, Array]) -> Array:
    """The table, from the arrays of `keccak_inputs`."""
    used = int(backend.to_host(inputs["keccak_count"])[0])
    states, calls, count = (inputs[f"keccak_{name}"] for name in ("states", "calls", "count"))
    columns = backend.empty((sum(KeccakAir.main.values()), 1 << log_rows))
    fill_slices(columns, states, used, backend)
    own = columns[WIDTH + len(FLAGS) :]
    CALL_ROWS.make(backend, columns.shape[1], out=own, states=states, calls=calls, count=count)
    return columns
