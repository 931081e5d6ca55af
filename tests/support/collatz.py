"""A program that has to run to know its partitions: Collatz's steps from a number to 1, so many to a segment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from distprove.errors import UsageError
from distprove.stark.air import Air, Bus, Table
from distprove.stark.program import Cut, Fits, Program, Slice, Trace
from distprove.stark.statement import Constant, Statement

SEGMENT = 16
TRIPLE = Bus("triple", 2)


class StepAir(Air):
    """A row takes `x` to its half, or has it tripled; once at 1 it stays."""

    main: ClassVar = {"x": 1, "odd": 1, "half": 1, "more": 1, "after": 1}
    public = ("start", "end")

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.odd)
        t.boolean(row.more)
        t.always(row.x - 2 * row.half - row.odd)
        t.always((1 - row.more) * (row.x - 1))
        t.always((1 - row.more) * (row.after - 1))
        t.always(row.more * (1 - row.odd) * (row.after - row.half))
        t.send(TRIPLE, [row.x, row.after], times=row.more * row.odd)
        t.first(row.x - t.public.start)
        t.transition(t.next.x - row.after)
        t.last(row.after - t.public.end)


class TripleAir(Air):
    """Triples odd numbers; a segment that meets none does without it."""

    main: ClassVar = {"x": 1, "on": 1}

    def define(self, t: Table) -> None:
        t.boolean(t.this.on)
        t.receive(TRIPLE, [t.this.x, 3 * t.this.x + 1], times=t.this.on, at_most=1)


class Collatz(Program):
    """`log` is a file to which every execution adds a line with its process."""

    name = "test-collatz"
    optional = ("TripleAir",)

    def __init__(self, start: int = 27, log: str = "") -> None:
        self.start, self.log = start, log

    @property
    def tables(self) -> Sequence[Air]:
        return (StepAir(), TripleAir())

    @property
    def buses(self) -> Sequence[Bus]:
        return (TRIPLE,)

    @property
    def statement(self) -> Statement:
        return Statement(
            public=(("start", 1), ("end", 1)),
            chain=(("end", "start"),),
            constants=(Constant("end", (1,), "last"),),
        )

    def cut(self, partitions: int | None, fits: Fits) -> Cut:
        """Run to the end, with a snapshot at every segment's beginning."""
        if self.log:
            with Path(self.log).open("a") as log:
                log.write(f"{os.getpid()}\n")
        slices, heights, x = [], [], self.start
        while x > 1 or not slices:
            before, triples = x, 0
            for _ in range(SEGMENT):
                triples += x > 1 and x % 2
                x = after(x)
            slices.append(Slice(f"segment-{len(slices):04}", {"x": before}))
            heights.append((SEGMENT.bit_length() - 1, (triples - 1).bit_length() if triples else None))
        if partitions not in (None, len(slices)):
            raise UsageError(f"execution takes {len(slices)} segments, not {partitions}")
        return Cut(slices, heights)

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        xs = [source["x"]]
        for _ in range(SEGMENT):
            xs.append(after(xs[-1]))
        return {"xs": np.array(xs, dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        xs = backend.to_host(inputs["xs"])
        x, later = xs[:-1], xs[1:]
        more = (x > 1).astype(np.uint64)
        steps = np.stack([x, x & np.uint64(1), x >> np.uint64(1), more, later])
        odd = x[(x > 1) & (x % 2 == 1)]
        public = (int(xs[0]), int(xs[-1]))
        if not len(odd):
            return Trace([backend.to_device(steps), None], public)
        triples = np.zeros((2, 1 << (len(odd) - 1).bit_length()), dtype=np.uint64)
        triples[0, : len(odd)], triples[1, : len(odd)] = odd, 1
        return Trace([backend.to_device(steps), backend.to_device(triples)], public)


def after(x: int) -> int:
    return x if x == 1 else 3 * x + 1 if x % 2 else x // 2
