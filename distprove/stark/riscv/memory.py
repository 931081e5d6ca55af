"""The tables of memory at the ends of segments and of the run: `touched`, `words` and `image`.

Registers count as words of memory here, with keys from `FIRST_REGISTER_OF`; a word of memory has a quarter of its
address as its key.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from distprove.stark.air import Air, Expression, Table
from distprove.stark.air.definition import Columns
from distprove.stark.riscv.buses import (
    ACCESS,
    ACCESS_64,
    IMAGE,
    WORDS,
    WORDS_64,
    in_long_range,
    in_range,
    word,
)
from distprove.stark.riscv.links import Words, keys_of, upper_halves_of, values_of
from distprove.stark.riscv.record import FIRST_REGISTER_OF, REGISTERS, U32, Image, Record, Words64
from kernels.maths.goldilocks import P

LIMB = np.uint64(16)
LOW = np.uint64(0xFFFF)
NO_KEY = 1 << 40
"""The key of rows that fill `image` up, which nothing accesses."""

TOUCHED = {"on": 1, "key": 1, "gap": 2, "start": 1, "end": 1, "time": 1, "segment": 1}
WORDS_COLUMNS = {
    "on": 1,
    "key": 1,
    "gap": 2,
    "start": 1,
    "end": 1,
    "segment": 1,
    "low": 1,
    "high": 1,
    "above": 1,
    "below": 1,
}
UPPER_TOUCHED = {"start_upper": 1, "end_upper": 1, "gap_upper": 1}
UPPER_WORDS = {"end_upper": 1, "gap_upper": 1}
"""Columns of RV64IM alone: bits 32 to 63 of registers, 0 for words of memory, as the image has none of them; bits 32 to
36 of a gap between keys."""
GAP_BITS = 5
MOST_RANGE = 1 << 32
"""Keys of a range of `image`."""


class TouchedAir(Air):
    """A row is a word that the segment accesses: from where it has its value, and to whom it gives the last one.

    Keys ascend, so that no word has two rows.
    """

    name = "touched"
    main: Mapping[str, int] = TOUCHED
    public = ("segment",)

    def define(self, t: Table) -> None:
        row, after = t.this, t.next
        t.boolean(row.on)
        t.transition(after.on * (1 - row.on), "no word after a row without")
        t.transition(after.on * (after.key - row.key - 1 - self._gap(after)), "order")
        for limb in row.gap:
            in_range(t, limb, 16, row.on)
        in_range(t, t.public.segment - row.segment, 16, row.on, "an earlier segment")
        self._link(t)

    def _gap(self, row: Columns) -> Expression:
        """The keys between that of the row before and this one."""
        return word(row.gap)

    def _link(self, t: Table) -> None:
        row = t.this
        t.send(ACCESS, {"key": row.key, "value": row.start, "time": 0}, times=row.on, name="start")
        t.receive(ACCESS, {"key": row.key, "value": row.end, "time": row.time}, times=row.on, at_most=1, name="end")
        t.receive(WORDS, {"key": row.key, "value": row.start, "segment": row.segment}, times=row.on, at_most=1)
        t.send(WORDS, {"key": row.key, "value": row.end, "segment": t.public.segment + 1}, times=row.on)


class Touched64Air(TouchedAir):
    """The same for RV64IM."""

    main: Mapping[str, int] = {**TOUCHED, **UPPER_TOUCHED}

    def _gap(self, row: Columns) -> Expression:
        gap: Expression = word(row.gap) + row.gap_upper * (1 << 32)
        return gap

    def _link(self, t: Table) -> None:
        row, key = t.this, t.this.key
        in_range(t, row.gap_upper, GAP_BITS, row.on)
        start = {"key": key, "value": row.start, "upper": row.start_upper}
        end = {"key": key, "value": row.end, "upper": row.end_upper}
        t.send(ACCESS_64, {**start, "time": 0}, times=row.on, name="start")
        t.receive(ACCESS_64, {**end, "time": row.time}, times=row.on, at_most=1, name="end")
        t.receive(WORDS_64, {**start, "segment": row.segment}, times=row.on, at_most=1)
        t.send(WORDS_64, {**end, "segment": t.public.segment + 1}, times=row.on)


class WordsAir(Air):
    """A row is a word that the run accesses: its value in the image, and the one that the last segment left.

    Keys ascend over the tables of all partitions, so that every word of the run has one beginning.
    """

    name = "words"
    main: Mapping[str, int] = WORDS_COLUMNS
    public = ("words_start", "words_end")

    def define(self, t: Table) -> None:
        row, after = t.this, t.next
        t.boolean(row.on)
        t.first(row.on * (row.key - t.public.words_start - 1 - self._gap(row)), "order at the start")
        t.first((1 - row.on) * (row.key - t.public.words_start), "no word at the start")
        t.transition(after.on * (after.key - row.key - 1 - self._gap(after)), "order")
        t.transition((1 - after.on) * (after.key - row.key), "no word")
        t.last(row.key - t.public.words_end, "last key")
        for limb in row.gap:
            in_range(t, limb, 16, row.on)
        for distance, low in ((row.key - row.low, row.above), (row.high - row.key, row.below)):
            in_long_range(t, distance, low, 32, row.on)
        t.send(IMAGE, {"low": row.low, "high": row.high, "value": row.start}, times=row.on)
        self._link(t)

    def _gap(self, row: Columns) -> Expression:
        return word(row.gap)

    def _link(self, t: Table) -> None:
        row = t.this
        t.send(WORDS, {"key": row.key, "value": row.start, "segment": 0}, times=row.on)
        t.receive(WORDS, {"key": row.key, "value": row.end, "segment": row.segment}, times=row.on, at_most=1)


class Words64Air(WordsAir):
    """The same for RV64IM. All upper halves are 0 at the beginning."""

    main: Mapping[str, int] = {**WORDS_COLUMNS, **UPPER_WORDS}

    def _gap(self, row: Columns) -> Expression:
        gap: Expression = word(row.gap) + row.gap_upper * (1 << 32)
        return gap

    def _link(self, t: Table) -> None:
        row = t.this
        in_range(t, row.gap_upper, GAP_BITS, row.on)
        t.send(WORDS_64, {"key": row.key, "value": row.start, "upper": 0, "segment": 0}, times=row.on)
        end = {"key": row.key, "value": row.end, "upper": row.end_upper, "segment": row.segment}
        t.receive(WORDS_64, end, times=row.on, at_most=1)


class ImageAir(Air):
    """The table of the initial memory: ranges of keys, ends included, whose words have one value. All keys are in."""

    name = "image"
    preprocessed: Mapping[str, int] = {"low": 1, "high": 1, "value": 1}
    main: Mapping[str, int] = {"used": 1}

    def define(self, t: Table) -> None:
        row = t.fixed
        t.receive(IMAGE, {"low": row.low, "high": row.high, "value": row.value}, times=t.this.used)


def image_rows(image: Image) -> Words64:
    """The rows of `image`, (3, n): each word of the program that is not zero, and the ranges of zeros between them."""
    given = image.memory_word != 0
    key, value = image.memory_address[given].astype(np.int64) // 4, image.memory_word[given]
    ends = np.append(key - 1, FIRST_REGISTER_OF[image.xlen] + REGISTERS - 1)
    starts = np.concatenate(([0], key + 1))
    zeros = starts <= ends
    starts, ends = starts[zeros], ends[zeros]
    # Only the last range can be longer than a table tells: behind the program, which lies below 2^32.
    more = np.arange(starts[-1] + MOST_RANGE, ends[-1] + 1, MOST_RANGE)
    starts, ends = np.concatenate((starts, more)), np.concatenate((ends[:-1], more - 1, ends[-1:]))
    low, high = np.concatenate((key, starts)), np.concatenate((key, ends))
    values = np.concatenate((value.astype(np.int64), np.zeros(len(starts), dtype=np.int64)))
    order = np.argsort(low)
    return np.stack((low, high, values))[:, order].astype(np.uint64)


def touched_columns(record: Record, earlier: U32, log_rows: int) -> Words64:
    """The columns of `touched`; `earlier` comes from `Snapshot.earlier`."""
    key = keys_of(record).astype(np.uint64)
    wide = record.xlen == 64
    out = np.zeros((sum(TOUCHED.values()) + wide * len(UPPER_TOUCHED), 1 << log_rows), dtype=np.uint64)
    n = len(key)
    gap = np.diff(key) - np.uint64(1)
    out[0, :n], out[1, :n] = 1, key
    out[2, 1:n], out[3, 1:n] = gap & LOW, gap >> LIMB & LOW
    for k, which in enumerate(("start", "end", "time")):
        out[4 + k, :n] = values_of(record, which)
    out[7, :n] = earlier
    if wide:
        out[8, :n], out[9, :n] = upper_halves_of(record, "start"), upper_halves_of(record, "end")
        out[10, 1:n] = gap >> np.uint64(32)
    return out


def words_columns(words: Words, image: Words64, start: int, log_rows: int, xlen: int = 32) -> Words64:
    """The columns of `words`. `start` is the key before the first; `image` comes from `image_rows`."""
    wide = xlen == 64
    key = words.key.astype(np.uint64)
    n = len(key)
    where = np.searchsorted(image[0], key, side="right") - 1
    low, high, value = image[:, where]
    gap = np.diff(key.astype(np.int64), prepend=start if start < P - 1 else -1).astype(np.uint64) - np.uint64(1)
    out = np.zeros((sum(WORDS_COLUMNS.values()) + wide * len(UPPER_WORDS), 1 << log_rows), dtype=np.uint64)
    out[1] = start if n == 0 else key[-1]
    out[0, :n], out[1, :n] = 1, key
    out[2, :n], out[3, :n] = gap & LOW, gap >> LIMB & LOW
    out[4, :n], out[5, :n], out[6, :n] = value, words.value, words.segment
    out[7, :n], out[8, :n], out[9, :n], out[10, :n] = low, high, key - low & LOW, high - key & LOW
    if wide:
        out[11, :n], out[12, :n] = words.upper, gap >> np.uint64(32)
    return out
