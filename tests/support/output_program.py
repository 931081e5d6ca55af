"""Programs whose jobs have an output of variable length, over several partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from distprove.stark.air import Air, Bus, Table
from distprove.stark.output import DIGEST_VALUES, output_public, output_stream
from distprove.stark.program import Cut, Fits, Program, Slice, Trace
from distprove.stark.statement import Output, Statement

OUTPUT = Bus("output", fields=("place", "word"), scope="global")


class WritesAir(Air):
    """A row with `times` sends any tuple so often: all that the output says follows from the bus."""

    name = "writes"
    main: ClassVar = {"times": 1, "place": 1, "word": 1}

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.times)
        t.send(OUTPUT, {"place": row.place, "word": row.word}, times=row.times)


class Writes(Program):
    """Tuples of an output's stream in any order, dealt out to the partitions; or other tuples, which is an attack."""

    name = "test-writes"

    def __init__(self, output: bytes = b"", tuples: Sequence[tuple[int, int]] | None = None) -> None:
        """`tuples` are sent in place of those of `output`."""
        self.content = output
        self.tuples = list(enumerate(output_stream(output).tolist())) if tuples is None else list(tuples)

    @property
    def tables(self) -> Sequence[Air]:
        return (WritesAir(),)

    @property
    def buses(self) -> Sequence[Bus]:
        return (OUTPUT,)

    @property
    def statement(self) -> Statement:
        public = (("length", 1), ("digest", DIGEST_VALUES))
        return Statement(public=public, output=Output("output", "length", "digest"))

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [((max(2, -(-len(self.tuples) // partitions)) - 1).bit_length(),)] * partitions

    def cut(self, partitions: int | None, fits: Fits) -> Cut:
        return replace(super().cut(partitions, fits), output=self.content)

    def slices(self, partitions: int) -> list[Slice]:
        public = output_public(self.content)
        return [
            Slice(f"part-{i}", {"tuples": self.tuples[i::partitions], "public": public, "of": partitions})
            for i in range(partitions)
        ]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        rows = np.zeros((3, 1 << self.log_heights(source["of"])[0][0]), dtype=np.uint64)
        if source["tuples"]:
            rows[0, : len(source["tuples"])] = 1
            rows[1:, : len(source["tuples"])] = np.array(source["tuples"], dtype=np.uint64).T
        return {"rows": rows, "public": np.array(source["public"], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        return Trace([inputs["rows"]], tuple(map(int, backend.to_host(inputs["public"]))))


class UnboundedAir(WritesAir):
    """The same without the constraint that its bound of multiplicities needs: what such an AIR is worth."""

    def define(self, t: Table) -> None:
        row = t.this
        t.always((row.times + row.place) * row.word - row.times * row.word - row.place * row.word)  # says nothing
        t.send(OUTPUT, {"place": row.place, "word": row.word}, times=row.times)


class Unbounded(Writes):
    name = "test-unbounded"

    @property
    def tables(self) -> Sequence[Air]:
        return (UnboundedAir(),)
