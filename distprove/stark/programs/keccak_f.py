"""Keccak-f[1600] of numbered states, one after the other, and the sums of the results.

The statement for each partition: with f(i) the first 256 bits, as eight 32-bit words, of Keccak-f[1600] applied to the
state whose first 32-bit word is i and whose other 49 are zero, `total[k]` is the sum of word k of f(i) over all i from
`start` to `end` - 1, modulo p. Each partition starts where the previous one ended.

A permutation takes 24 rows, and a table has a power of two of rows: 2^15 rows hold 1,365 permutations, 2^20 rows hold
43,690. At 2,332 columns the latter take 20 GB, and their extension at blow-up 2 takes another 39 GB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.stark.air import Air, Table
from distprove.stark.field import P
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.programs.keccak_rounds import (
    COLUMNS,
    LANES,
    ROUNDS,
    ROWS,
    WIDTH,
    WORDS,
    blocks_for,
    constrain_rounds,
    fill_rounds,
    over_rounds,
    rows_for,
)
from distprove.stark.programs.registry import PROGRAMS, integer
from distprove.stark.statement import Statement
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

SUMMED = 8
"""Number of words of each result that are summed."""


class KeccakFAir(Air):
    name = "keccak-f"
    main = {**COLUMNS, "on": 1, "begin": 1, "number": 1, "sum": SUMMED}
    public = {"start": 1, "end": 1, "total": SUMMED}

    def define(self, t: Table) -> None:
        before = constrain_rounds(t)
        this, after = t.this, t.next
        begins, ends = this["round"][0], this["round"][-1]
        t.boolean(this.on)
        t.transition((1 - ends) * (after.on - this.on), "a permutation counts whole")
        t.last(this.on, "the last one, cut off, does not count")
        t.always(this.begin - begins * this.on)
        for k in range(WORDS):
            t.always(this.begin * (before.word(k) - (this.number if k == 0 else 0)), f"input {k}")
        t.first(this.number - t.public.start)
        t.transition(after.number - this.number - ends * this.on)
        t.last(this.number - t.public.end)
        for k in range(SUMMED):
            t.first(this.sum[k])
            t.transition(after.sum[k] - this.sum[k] - ends * this.on * this.out[k])
            t.last(this.sum[k] - t.public.total[k])


class KeccakF(Program):
    """The program `keccak-f`. The public values of a partition tell its number of permutations and its first state."""

    name = "keccak-f"
    compared = ("permutations", "first")
    tables = (KeccakFAir(),)
    row_functions = (ROWS,)
    statement = Statement(public=(("start", 1), ("end", 1), ("total", SUMMED)), chain=(("end", "start"),))

    def __init__(self, permutations: int = 1365, first: int = 0) -> None:
        """Raises UsageError for arguments out of range."""
        PROGRAMS["keccak-f"].check(permutations=permutations, first=first)
        self.permutations, self.first = permutations, first

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [(rows_for(self.permutations).bit_length() - 1,)] * partitions

    def check_job(self, partitions: int | None) -> None:
        if self.first + (partitions or 1) * self.permutations > 1 << 32:
            raise UsageError("the states' numbers must stay below 2^32")

    def slices(self, partitions: int) -> list[Slice]:
        self.check_job(partitions)
        starts = range(self.first, self.first + partitions * self.permutations, self.permutations)
        return [Slice(f"part-{i:04}", {"start": start}) for i, start in enumerate(starts)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        return {"start": np.array([source["start"]], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        start = int(backend.to_host(inputs["start"])[0])
        used, rows = self.permutations, rows_for(self.permutations)
        blocks = blocks_for(rows)
        numbers = np.minimum(np.arange(blocks), used).astype(np.uint64)
        counted = backend.to_device(np.stack((numbers < used, numbers)).astype(np.uint64))
        states = backend.zeros((LANES, blocks))
        states[0] = (counted[1] + inputs["start"]) * counted[0]
        columns = backend.empty((WIDTH + 3 + SUMMED, rows))
        fill_rounds(columns, states, backend)
        on, begin, number, first_sum = range(WIDTH, WIDTH + 4)
        # The first words of the results of all complete permutations.
        out = sum(COLUMNS[name] for name in ("state", "parity", "theta"))
        results = columns[out : out + SUMMED, ROUNDS - 1 : rows : ROUNDS] * counted[0, : rows // ROUNDS]
        # A sum of at most 2^24 words of 32 bits stays below p, so that it needs no reduction.
        sums = backend.zeros((SUMMED, blocks))
        sums[:, 1:] = prefix_sums(results)[:, : blocks - 1]
        columns[begin] = 0
        columns[begin, ::ROUNDS] = counted[0]
        columns[on] = over_rounds(counted[:1], rows)
        columns[number] = over_rounds(counted[1:] + inputs["start"], rows)
        columns[first_sum : first_sum + SUMMED] = over_rounds(sums, rows)
        total = [int(v) for v in backend.to_host(sums[:, -1].copy())]
        return Trace([columns], (start, start + used, *total))

    def compare(self, argument: str, value: Any, public: Sequence[Sequence[int]]) -> tuple[str, str]:
        counts = sorted({(p[1] - p[0]) % P for p in public})
        stated = [public[0][0]] if argument == "first" else counts
        return ", ".join(map(str, stated)), str(integer(argument, value))

    def explain(self, public: Sequence[Sequence[int]], log_heights: Sequence[Sequence[int]]) -> dict[str, str]:
        totals = [sum(p[2 + k] for p in public) % P for k in range(SUMMED)]
        start, end = public[0][0], public[-1][1]
        return {
            # A counted state's number has 32 bits. If none is counted, `start` is any element, and `end` is equal.
            "states": f"{start} to {end - 1}" if end != start else "none",
            "sums of the results' words": ", ".join(map(str, totals)) + " modulo p",
        }


def prefix_sums(values: Array) -> Array:
    """The sums of the first 1, 2, .. values of each row, by doubling steps that any array library can do."""
    total, step = values.copy(), 1
    while step < total.shape[1]:
        moved = total[:, :-step].copy()
        total[:, step:] += moved
        step *= 2
    return total
