"""The tables `keccak` and `keccak_words`: the host call that permutes a state of 50 words in memory by Keccak-f[1600].

`keccak` holds the permutations, in the narrow layout of `keccak_slices`. It answers the calls on `host`, and sends each
word of a state, before and after, on the bus `keccak`. `keccak_words` has a row for each word, which takes both and
makes the access of memory.
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
from distprove.stark.riscv.buses import ACCESS, HOST, KECCAK, KECCAK_CALL, in_long_range
from distprove.stark.riscv.record import STATE_WORDS, Record, Words64
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
WORD_COLUMNS = {
    "on": 1,
    "time": 1,
    "key": 1,
    "low": 1,  # bits 0 to 15 of the key
    "before": 1,
    "after": 1,
    "previous": 1,  # time of the word's last access
    "since": 1,  # bits 0 to 15 of the time between that and this, less 1
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


class KeccakWordsAir(Air):
    """A row is a word of a state. It is accessed at the time at which a cycle accesses memory."""

    name = "keccak_words"
    main = WORD_COLUMNS

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.on)
        for end, value in enumerate((row.before, row.after)):
            word = {"time": row.time, "end": end, "key": row.key, "value": value}
            t.receive(KECCAK, word, times=row.on, at_most=1)
        in_long_range(t, row.key, row.low, 30, row.on, "key")
        now = row.time + 2
        before = {"key": row.key, "value": row.before, "time": row.previous}
        t.receive(ACCESS, before, times=row.on, at_most=1)
        t.send(ACCESS, {"key": row.key, "value": row.after, "time": now}, times=row.on)
        in_long_range(t, now - row.previous - 1, row.since, 24, row.on, "time")


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
WORD_ROWS = CppRows(
    """
    constexpr u64 WORDS = 50;

    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const u64 call = i / WORDS;
      const bool on = call < in.count[0];
      const u64 key = on ? in.calls(0, call) + i % WORDS : 0, time = on ? in.calls(1, call) : 0;
      const u64 previous = on ? in.words(2, i) : 0;
      out[column::on] = on;
      out[column::time] = time;
      out[column::key] = key;
      out[column::low] = key & 0xffff;
      out[column::before] = on ? in.words(0, i) : 0;
      out[column::after] = on ? in.words(1, i) : 0;
      out[column::previous] = previous;
      out[column::since] = on ? time + 1 - previous & 0xffff : 0;
    }
    """,
    columns=WORD_COLUMNS,
    inputs=("words", "calls", "count"),
)


def keccak_log_heights(permutations: int) -> dict[str, int]:
    """log2 of the rows of the tables for so many calls; none for none."""
    if not permutations:
        return {}
    return {
        "keccak": rows_for(permutations).bit_length() - 1,
        "keccak_words": (STATE_WORDS * permutations - 1).bit_length(),
    }


def keccak_inputs(record: Record, log_rows: int) -> dict[str, Words64]:
    """The arrays from which `keccak_columns` makes the tables, of which `keccak` has 2^log_rows rows."""
    before = record.permuted_before.astype(np.uint64)
    n = len(before)
    cycle = record.call_cycle[record.call_number == KECCAK_CALL].astype(np.int64)
    states = np.zeros((LANES, blocks_for(1 << log_rows)), dtype=np.uint64)
    states[:, :n] = (before[:, ::2] | before[:, 1::2] << np.uint64(32)).T
    rest = (each.astype(np.uint64).ravel() for each in (record.permuted_after, record.permuted_previous))
    calls = np.stack((record.field("rs2")[cycle] // np.uint32(4), 4 * (cycle + 1))).astype(np.uint64)
    return {
        "keccak_states": states,
        "keccak_words": some(np.stack((before.ravel(), *rest))),
        "keccak_calls": some(calls),
        "keccak_count": np.array([n], dtype=np.uint64),
    }


def some(columns: Words64) -> Words64:
    """The columns, or one of zeros in place of none: what a table of padding alone is made of."""
    return columns if columns.shape[1] else np.zeros((len(columns), 1), dtype=np.uint64)


def keccak_columns(backend: Backend, log_heights: Mapping[str, int], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Both tables, from the arrays of `keccak_inputs`."""
    used = int(backend.to_host(inputs["keccak_count"])[0])
    states, words, calls, count = (inputs[f"keccak_{name}"] for name in ("states", "words", "calls", "count"))
    columns = backend.empty((sum(KeccakAir.main.values()), 1 << log_heights["keccak"]))
    fill_slices(columns, states, used, backend)
    own = columns[WIDTH + len(FLAGS) :]
    CALL_ROWS.make(backend, columns.shape[1], out=own, states=states, calls=calls, count=count)
    rows = WORD_ROWS.make(backend, 1 << log_heights["keccak_words"], words=words, calls=calls, count=count)
    return {"keccak": columns, "keccak_words": rows}
