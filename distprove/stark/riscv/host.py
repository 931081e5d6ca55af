"""The tables `host`, a row for each host call but Keccak-f, and `stated`, words of public input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from distprove.stark.air import Air, Table
from distprove.stark.riscv.buses import HOST, OUTPUT, PUBLIC, STATED, in_range, word
from distprove.stark.riscv.calls import CALLS
from distprove.stark.riscv.record import Record, Words64
from kernels.maths.goldilocks import P

MOST_WORDS = 64
"""Maximum number of words that a segment reads of the public input: the statement has so many places."""

COLUMNS = {
    **{f"is_{name}": 1 for name in CALLS},
    "time": 1,
    "gap": 2,  # bits 0 to 15 and 16 to 23 of the time since the row before, less 1
    "argument": 1,
    "result": 1,
    "limbs": 2,  # of a result that is not the argument
    "wraps": 1,  # how often the count of cycles went beyond 32 bits
    "outputs": 1,  # words written in the run before this row
    "inputs": 1,  # words of public input read in this segment before it
}


class HostAir(Air):
    """A row is one call. Calls stand in the order of their times. A write sends its word to the output, and the exit
    the length."""

    name = "host"
    main = COLUMNS
    public = ("cycles_start", "outputs_start", "outputs_end", "inputs")

    def define(self, t: Table) -> None:
        row, after = t.this, t.next
        flags = {name: row[f"is_{name}"][0] for name in CALLS}
        on = sum(flags.values())
        for flag in (*flags.values(), on):
            t.boolean(flag)
        after_on = sum(after[f"is_{name}"][0] for name in CALLS)
        t.transition(after_on * (1 - on), "no call after a row without")
        gap = after.gap[0] + after.gap[1] * (1 << 16)
        t.transition(after_on * (after.time - row.time - 1 - gap), "order")
        in_range(t, row.gap[0], 16, on)
        in_range(t, row.gap[1], 8, on)

        for name, counts, start, end in (
            ("outputs", row.is_write, t.public.outputs_start, t.public.outputs_end),
            ("inputs", row.is_public, 0, t.public.inputs),
        ):
            counted = row[name][0] + counts
            t.first(row[name][0] - start, f"{name} before the first")
            t.transition(after[name][0] - counted, f"{name}")
            t.last(counted - end, f"all {name}")
        written = {
            "place": row.is_write * (row.outputs + 1),
            "word": row.is_write * row.argument + row.is_exit * 4 * row.outputs,
        }
        t.send(OUTPUT, written, times=row.is_write + row.is_exit)
        t.send(PUBLIC, {"place": row.inputs, "value": row.result}, times=row.is_public)

        t.always((row.is_exit + row.is_write) * (row.result - row.argument), "unchanged")
        new = row.is_private + row.is_public + row.is_cycles
        t.always(new * (row.result - word(row.limbs)), "a word")
        for limb in row.limbs:
            in_range(t, limb, 16, new)
        cycle = t.public.cycles_start + row.time * pow(4, -1, P) - 1
        t.always(row.is_cycles * (row.result + row.wraps * (1 << 32) - cycle), "cycles")
        in_range(t, row.wraps, 16, row.is_cycles)
        call = {
            "call": sum(flag * CALLS[name] for name, flag in flags.items()),
            "argument": row.argument,
            "time": row.time,
            "result": row.result,
            "exit": row.is_exit,
        }
        t.receive(HOST, call, times=on, at_most=1)


class StatedAir(Air):
    """A row is a place of the statement for a word of public input. All rows say that the exit code has 32 bits: if it
    could be any element, `pc` at an end before the exit would be 2^32 + some exit code, too."""

    name = "stated"
    preprocessed: Mapping[str, int] = {"place": 1}
    main: Mapping[str, int] = {"used": 1, "value": 1, "exit": 2}
    public = ("segment", "exit_code")

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.used)
        t.always((1 - row.used) * row.value, "empty place")
        t.always(t.public.exit_code - word(row.exit), "a word of exit code")
        for limb in row.exit:
            in_range(t, limb, 16)
        t.receive(PUBLIC, {"place": t.fixed.place, "value": row.value}, times=row.used, at_most=1)
        t.send(STATED, {"segment": t.public.segment, "place": t.fixed.place, "value": row.value})


def calls_of(record: Record) -> tuple[Words64, Words64, Words64, Words64]:
    """Number, argument, result and time of each host call that the table answers."""
    ours = np.isin(record.call_number, list(CALLS.values()))
    cycle = record.call_cycle[ours].astype(np.int64)
    argument = record.field("rs2")[cycle]
    time = 4 * (cycle + 1)
    number, result = record.call_number[ours], record.call_word[ours]
    return number.astype(np.uint64), argument.astype(np.uint64), result.astype(np.uint64), time.astype(np.uint64)


def host_columns(record: Record, log_rows: int, outputs: int) -> Words64:
    """The columns of `host`. `outputs` is the number of words that earlier segments wrote."""
    number, argument, result, time = calls_of(record)
    n = len(number)
    out: dict[str, Words64] = {name: np.zeros((k, 1 << log_rows), dtype=np.uint64) for name, k in COLUMNS.items()}
    for name, code in CALLS.items():
        out[f"is_{name}"][0, :n] = number == code
    out["time"][0, :n], out["argument"][0, :n], out["result"][0, :n] = time, argument, result
    gap = np.diff(time) - np.uint64(1)
    out["gap"][:, 1:n] = gap & np.uint64(0xFFFF), gap >> np.uint64(16)
    new = number > CALLS["write"]
    out["limbs"][:, :n] = np.where(new, (result & np.uint64(0xFFFF), result >> np.uint64(16)), np.uint64(0))
    cycle = np.uint64(record.first_cycle) + time // np.uint64(4) - np.uint64(1)
    out["wraps"][0, :n] = np.where(number == CALLS["cycles"], cycle >> np.uint64(32), np.uint64(0))
    for name, call, before in (("outputs", "write", outputs), ("inputs", "public", 0)):
        counted = np.cumsum(out[f"is_{call}"][0])
        out[name][0] = np.uint64(before)
        out[name][0, 1:] += counted[:-1]
    return np.concatenate(list(out.values()))


def stated_words(record: Record) -> tuple[Words64, int]:
    """The words of public input that a segment reads, (64,) with zeros after them, and their number."""
    number, _, result, _ = calls_of(record)
    out = np.zeros(MOST_WORDS, dtype=np.uint64)
    read = result[number == CALLS["public"]]
    out[: len(read)] = read
    return out, len(read)


def stated_columns(words: Words64, inputs: int, exit_code: int) -> Words64:
    """The columns of `stated`."""
    used = np.zeros(MOST_WORDS, dtype=np.uint64)
    used[:inputs] = 1
    low, high = (np.full(MOST_WORDS, limb, dtype=np.uint64) for limb in (exit_code & 0xFFFF, exit_code >> 16))
    return np.stack((used, words, low, high))
