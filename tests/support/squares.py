"""The worked example of docs/airs.md for an output of variable length: the first squares, as little-endian words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Bus, Table
from distprove.stark.output import DIGEST_VALUES, output_public
from distprove.stark.program import Cut, Fits, Program, Slice, Trace
from distprove.stark.statement import Constant, Output, Statement
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

OUTPUT = Bus("output", fields=("place", "word"), scope="global")


class Numbers(Air):
    """A row in use writes the square of `x` as word x of the output. The row that `ends` writes the length."""

    main = {"x": 1, "on": 1, "ends": 1}
    public = ("start", "end")

    def define(self, t: Table) -> None:
        row, after = t.this, t.next
        t.boolean(row.on)
        t.boolean(row.ends)
        t.first(row.x - t.public.start)
        t.transition(after.x - row.x - row.on)
        t.last(row.x + row.on - t.public.end)
        t.send(OUTPUT, {"place": row.x + 1, "word": row.x * row.x}, times=row.on, name="a word")
        t.send(OUTPUT, {"place": 0, "word": 4 * row.x}, times=row.ends, name="the length")


class Squares(Program):
    name = "squares"

    def __init__(self, count: int = 5) -> None:
        self.count = count

    @property
    def arguments(self) -> dict[str, int | str]:
        return {}  # how many squares is the prover's own: the output says it

    @property
    def tables(self) -> Sequence[Air]:
        return (Numbers(),)

    @property
    def buses(self) -> Sequence[Bus]:
        return (OUTPUT,)

    @property
    def statement(self) -> Statement:
        return Statement(
            public=(("start", 1), ("end", 1), ("length", 1), ("digest", DIGEST_VALUES)),
            chain=(("end", "start"),),
            constants=(Constant("start", (0,), "first"),),
            output=Output("output", "length", "digest"),
        )

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [(max(1, (-(-self.count // partitions)).bit_length()),)] * partitions

    def cut(self, partitions: int | None, fits: Fits) -> Cut:
        return replace(super().cut(partitions, fits), output=self.output())

    def output(self) -> bytes:
        return (np.arange(self.count, dtype="<u4") ** 2).tobytes()

    def slices(self, partitions: int) -> list[Slice]:
        edges = [self.count * i // partitions for i in range(partitions + 1)]
        shared = {"rows": 1 << self.log_heights(partitions)[0][0], "output": output_public(self.output())}
        return [
            Slice(f"part-{i:04}", {"start": edges[i], "end": edges[i + 1], "last": i == partitions - 1, **shared})
            for i in range(partitions)
        ]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        start, end, rows = source["start"], source["end"], source["rows"]
        x = np.minimum(start + np.arange(rows), end)
        columns = np.stack((x, x < end, (np.arange(rows) == rows - 1) & source["last"])).astype(np.uint64)
        return {"columns": columns, "public": np.array([start, end, *source["output"]], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        return Trace([inputs["columns"]], tuple(map(int, backend.to_host(inputs["public"]))))

    def explain(self, public: Sequence[Sequence[int]], log_heights: Sequence[Sequence[int]]) -> dict[str, str]:
        return {"squares in the output": str(public[-1][1])}
