"""Small programs for the tests of the proof system: one plain table, two that meet on a bus, partitions that do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from distprove.stark.air import Air, Bus, Table
from distprove.stark.field import P
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.statement import Boundary, PublicRef, Statement


class WithoutInputs(Program):
    """A program whose partitions read nothing, and do not differ by what they read."""

    def slices(self, partitions: int) -> list[Slice]:
        return [Slice(f"part-{i}", {}) for i in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {}


class FibonacciAir(Air):
    main: ClassVar = {"left": 1, "right": 1}
    public = ("first", "second", "last")

    def define(self, t: Table) -> None:
        t.first(t.this.left - t.public.first)
        t.first(t.this.right - t.public.second)
        t.transition(t.next.left - t.this.right)
        t.transition(t.next.right - t.this.left - t.this.right)
        t.last(t.this.right - t.public.last)


class Fibonacci(Program):
    """One table, next rows, public values, no bus."""

    name = "test-fibonacci"

    def __init__(self, log_rows: int = 3) -> None:
        self.log_rows = log_rows

    @property
    def tables(self) -> Sequence[Air]:
        return (FibonacciAir(),)

    @property
    def statement(self) -> Statement:
        return Statement((("first", 1), ("second", 1), ("last", 1)))

    def slices(self, partitions: int) -> list[Slice]:
        return [Slice(f"part-{i}", {"seed": i + 1}) for i in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {"seed": np.array([source["seed"]], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        a, b = int(backend.to_host(inputs["seed"])[0]), 1
        rows = []
        for _ in range(1 << self.log_rows):
            rows.append((a, b))
            a, b = b, (a + b) % P
        main = np.array(rows, dtype=np.uint64).T.copy()
        return Trace([backend.to_device(main)], (rows[0][0], rows[0][1], rows[-1][1]))


class ParityAir(Air):
    main: ClassVar = {"bit": 1}

    def define(self, t: Table) -> None:
        t.always(t.this.bit * (t.this.bit - 1))


class OneCell(Fibonacci):
    """One table of one column and one row."""

    name = "test-one-cell"

    @property
    def tables(self) -> Sequence[Air]:
        return (ParityAir(),)

    @property
    def statement(self) -> Statement:
        return Statement()

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        return Trace([backend.to_device(np.ones((1, 1), dtype=np.uint64))], ())


class StartAir(Air):
    """The beginning of a Fibonacci series, as a table that a program may have several of."""

    main: ClassVar = {"left": 1, "right": 1}
    public = FibonacciAir.public

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def name(self) -> str:
        return f"start-{self.number}"

    def define(self, t: Table) -> None:
        t.first(t.this.left - t.public.first)
        t.transition(t.next.left - t.this.right)
        t.transition(t.next.right - t.this.left - t.this.right)


class Tables(Fibonacci):
    """Fibonacci beside small tables, of five heights below 2^6 rows."""

    name = "test-tables"

    def __init__(self, small: int, log_rows: int = 6) -> None:
        super().__init__(log_rows)
        self.small = small

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"small": self.small}

    @property
    def tables(self) -> Sequence[Air]:
        return (FibonacciAir(), *map(StartAir, range(self.small)))

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        whole = super().trace(inputs, backend)
        rows = backend.to_host(whole.main[0])
        starts = [backend.to_device(rows[:, : 2 << i % 5].copy()) for i in range(self.small)]
        return Trace([*whole.main, *starts], whole.public)


RANGE = Bus("range", 2)
RING = Bus("ring", 2, "global")
LIMIT = 16


class SquaresAir(Air):
    """Values below 16, whose squares a table knows; each value goes around the ring of partitions too."""

    main: ClassVar = {"value": 1, "square": 1, "used": 1}
    public = ("own", "count", "total")

    def define(self, t: Table) -> None:
        t.boolean(t.this.used)
        t.send(RANGE, (t.this.value, t.this.square), times=t.this.used)
        t.send(RANGE, (t.this.square - t.this.square, 0), times=t.this.used)
        t.send(RING, (t.public.own, t.this.value), times=t.this.used)
        t.receive(RING, (t.public.own + 1, t.this.value), times=t.this.used, at_most=1)


class TableAir(Air):
    """i and i^2 for all i below 16."""

    main: ClassVar = {"times": 1}
    preprocessed: ClassVar = {"number": 1, "square": 1}

    def define(self, t: Table) -> None:
        t.receive(RANGE, (t.fixed.number, t.fixed.square), times=t.this.times)


class Ring(Program):
    """Partition i sends (i, 3) and receives (i + 1, 3); the statement closes the ring."""

    name = "test-ring"

    def __init__(self, log_rows: int = 3) -> None:
        self.log_rows = log_rows

    @property
    def tables(self) -> Sequence[Air]:
        return (SquaresAir(), TableAir())

    @property
    def buses(self) -> Sequence[Bus]:
        return (RANGE, RING)

    @property
    def statement(self) -> Statement:
        return Statement(
            public=(("own", 1), ("count", 1), ("total", 1)),
            same=("total",),
            count="count",
            index="own",
            boundary=(
                Boundary("ring", (0, 3), -USED, "first"),
                Boundary("ring", (PublicRef("count"), 3), USED, "last"),
            ),
        )

    def preprocessed(self) -> Mapping[str, np.ndarray]:
        numbers = np.arange(LIMIT, dtype=np.uint64)
        return {"TableAir": np.stack((numbers, numbers * numbers))}

    def slices(self, partitions: int) -> list[Slice]:
        return [Slice(f"part-{i}", {"own": i, "count": partitions}) for i in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {"facts": np.array([source["own"], source["count"]], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        own, count = map(int, backend.to_host(inputs["facts"]))
        squares = np.zeros((3, 1 << self.log_rows), dtype=np.uint64)
        squares[:, :USED] = np.array([[3], [9], [1]])
        times = np.zeros((1, LIMIT), dtype=np.uint64)
        times[0, 3], times[0, 0] = USED, USED
        return Trace([backend.to_device(squares), backend.to_device(times)], (own, count, 77))


USED = 5
"""Rows of `SquaresAir` that are used; the others are padding."""


PRODUCT = Bus("product", 3)
NIBBLE = Bus("nibble", 1)
TOTAL = Bus("total", 2, "global")


class CallerAir(Air):
    """Multiplies its row's number by `y` where `on`, and adds the products to a total that goes from partition to
    partition."""

    main: ClassVar = {"y": 1, "xy": 1, "on": 1, "sum": 1, "begins": 1}
    preprocessed: ClassVar = {"x": 1}
    public = ("own", "count", "before", "after")

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.on)
        t.marks_first(row.begins)
        t.first(row.sum - t.public.before - row.on * row.xy)
        t.transition(t.next.sum - row.sum - t.next.on * t.next.xy)
        t.last(row.sum - t.public.after)
        t.send(PRODUCT, (t.fixed.x, row.y, row.xy), times=row.on)
        t.receive(TOTAL, (t.public.own, t.public.before), times=row.begins, at_most=1)
        t.send(TOTAL, (t.public.own + 1, t.public.after), times=row.begins)


class MultiplyAir(Air):
    """Products of a number and a nibble."""

    main: ClassVar = {"x": 1, "y": 1, "on": 1}

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.on)
        t.receive(PRODUCT, (row.x, row.y, row.x * row.y), times=row.on, at_most=1)
        t.send(NIBBLE, [row.y], times=row.on)


class NibbleAir(Air):
    main: ClassVar = {"used": 1}
    preprocessed: ClassVar = {"value": 1}

    def define(self, t: Table) -> None:
        t.receive(NIBBLE, [t.fixed.value], times=t.this.used)


class IdleAir(Air):
    """A table that no partition has, with preprocessed columns and a global bus of its own."""

    main: ClassVar = {"bit": 1}
    preprocessed: ClassVar = {"value": 1}

    def define(self, t: Table) -> None:
        t.boolean(t.this.bit)
        t.send(TOTAL, (t.fixed.value, t.this.bit), times=t.this.bit)


class Sparse(Program):
    """The first partition multiplies; the others have the table of the caller alone, and no products."""

    name = "test-sparse"

    @property
    def tables(self) -> Sequence[Air]:
        return (NibbleAir(), CallerAir(), IdleAir(), MultiplyAir())

    @property
    def buses(self) -> Sequence[Bus]:
        return (PRODUCT, NIBBLE, TOTAL)

    @property
    def optional(self) -> Sequence[str]:
        return ("NibbleAir", "IdleAir", "MultiplyAir")

    @property
    def statement(self) -> Statement:
        return Statement(
            public=(("own", 1), ("count", 1), ("before", 1), ("after", 1)),
            count="count",
            index="own",
            boundary=(
                Boundary("total", (0, 0), 1, "first"),
                Boundary("total", (PublicRef("count"), PublicRef("after")), -1, "last"),
            ),
        )

    def preprocessed(self) -> Mapping[str, np.ndarray]:
        return {
            "CallerAir": np.arange(32, dtype=np.uint64)[None],
            "NibbleAir": np.arange(LIMIT, dtype=np.uint64)[None],
            "IdleAir": np.arange(128, dtype=np.uint64)[None],
        }

    def log_heights(self, partitions: int) -> Sequence[Sequence[int | None]]:
        return [(4, 5, None, 3), *([(None, 5, None, None)] * (partitions - 1))]

    def slices(self, partitions: int) -> list[Slice]:
        return [Slice(f"part-{i}", {"own": i, "count": partitions}) for i in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {"facts": np.array([source["own"], source["count"]], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        own, count = map(int, backend.to_host(inputs["facts"]))
        x = np.arange(32, dtype=np.uint64)
        y, on = x % np.uint64(LIMIT), ((x < 6) & (own == 0)).astype(np.uint64)
        before = 0 if own == 0 else sum(i * i for i in range(6))
        caller = np.stack([y, x * y, on, np.cumsum(on * x * y) + np.uint64(before), x == 0]).astype(np.uint64)
        public = (own, count, before, int(caller[3, -1]))
        if own:
            return Trace([None, backend.to_device(caller), None, None], public)
        products = np.stack([x[:8], y[:8], on[:8]])
        used = on[:LIMIT].copy()[None]
        return Trace([backend.to_device(used), backend.to_device(caller), None, backend.to_device(products)], public)
