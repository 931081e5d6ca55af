"""The table `keccak_words`: the accesses of memory by the host calls that compute on it.

It is named after the first of them, as keys have the name. The table that computes a call sends each word on the bus
`keccak` twice, as it was and as it becomes, with the time of its access less 2; a row takes both and makes the access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from distprove.stark.air import Air, Bus, CppRows, Expression, Table
from distprove.stark.riscv.buses import ACCESS, ACCESS_64, KECCAK, in_long_range
from distprove.stark.riscv.calls import CALL_WORDS, KECCAK_CALL
from distprove.stark.riscv.record import STATE_WORDS, U32, Record, Usage, Words64

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


class KeccakWordsAir(Air):
    """A row is a word that a call accesses, at `time` + 2."""

    name = "keccak_words"
    main = WORD_COLUMNS
    bus: Bus = ACCESS
    upper: Mapping[str, int] = {}
    """What a tuple of a word has beside its fields here."""

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.on)
        for end, value in enumerate((row.before, row.after)):
            word = {"time": row.time, "end": end, "key": row.key, "value": value}
            t.receive(KECCAK, word, times=row.on, at_most=1)
        in_long_range(t, row.key, row.low, 30, row.on, "key")
        now = row.time + 2
        before = {"key": row.key, "value": row.before, "time": row.previous, **self.upper}
        t.receive(self.bus, before, times=row.on, at_most=1)
        t.send(self.bus, {"key": row.key, "value": row.after, "time": now, **self.upper}, times=row.on)
        in_long_range(t, now - row.previous - 1, row.since, 24, row.on, "time")


class KeccakWords64Air(KeccakWordsAir):
    """The same for RV64IM."""

    bus = ACCESS_64
    upper: Mapping[str, int] = {"upper": 0}


def send_words(
    t: Table,
    times: Expression,
    slot: int,
    first: Expression,
    before: Sequence[Expression],
    after: Sequence[Expression] | None = None,
) -> None:
    """Send consecutive words that a call accesses, from the key `first` on, where `times` is 1.

    The access is at `time` + 2 + `slot`, where the column `time` is the base time of the call's cycle. A call that only
    reads the words has no `after`.
    """
    time = t.this.time + slot
    for end, content in enumerate((before, before if after is None else after)):
        for k, value in enumerate(content):
            t.send(KECCAK, {"time": time, "end": end, "key": first + k, "value": value}, times=times)


WORD_ROWS = CppRows(
    """
    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      const bool on = i < in.count[0];
      const u64 key = on ? in.words(0, i) : 0, time = on ? in.words(1, i) : 0, previous = on ? in.words(4, i) : 0;
      out[column::on] = on;
      out[column::time] = time;
      out[column::key] = key;
      out[column::low] = key & 0xffff;
      out[column::before] = on ? in.words(2, i) : 0;
      out[column::after] = on ? in.words(3, i) : 0;
      out[column::previous] = previous;
      out[column::since] = on ? time + 1 - previous & 0xffff : 0;
    }
    """,
    columns=WORD_COLUMNS,
    inputs=("words", "count"),
)


def words_accessed(usage: Usage) -> int:
    """The words that a segment's calls access, each as often as it is."""
    return sum(int(usage.calls[number]) * words for number, words in CALL_WORDS.items())


def accessed_words(record: Record) -> Words64:
    """The rows of the table, (5, n): key, time less 2, word before and after, time before."""
    address, cycle = calls_of_number(record, KECCAK_CALL)
    states = len(record.permuted_before)
    key = address[:states, None] // np.uint32(4) + np.arange(STATE_WORDS, dtype=np.uint32)
    time = np.repeat(4 * (cycle[:states] + 1), STATE_WORDS)
    permuted = (record.permuted_before, record.permuted_after, record.permuted_previous)
    first = np.stack((key.ravel(), time, *(each.ravel() for each in permuted))).astype(np.uint64)
    at, before, after, now, previous = record.accesses.T.astype(np.uint64)
    rest = np.stack((at // np.uint64(4), now - np.uint64(2), before, after, previous))
    return np.concatenate((first, rest), axis=1)


def calls_of_number(record: Record, number: int) -> tuple[U32, Words64]:
    """The arguments of the calls of a number, and their cycles."""
    cycle = record.call_cycle[record.call_number == number].astype(np.uint64)
    return record.field("rs2")[cycle.astype(np.int64)], cycle


def accesses_of(record: Record, number: int) -> U32:
    """What each call of a number, not Keccak-f's, accesses, in the order of `Record.accesses`: (calls, words, 5)."""
    words = np.array([CALL_WORDS[n] if n > KECCAK_CALL else 0 for n in record.call_number.tolist()], dtype=np.int64)
    starts = (np.cumsum(words) - words)[record.call_number == number]
    taken: U32 = record.accesses[starts[:, None] + np.arange(CALL_WORDS[number])]
    return taken
