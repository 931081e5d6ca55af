"""A small program whose lookup tables are counted by the prover: one has two columns, one is looked up by the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from distprove.stark.air import Air, Bus, Table
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.statement import Statement

PAIR = Bus("pair", fields=("op", "a", "b", "result"))
NIBBLE = Bus("nibble", 1)
OPS = [Bus("and", 3), Bus("xor", 3)]


class Machine(Air):
    """Ands and xors of nibbles, an op a row, each of which may also be checked for itself."""

    main: ClassVar = {"op": 1, "a": 1, "b": 1, "result": 1, "on": 1, "alone": 1}
    public = ("least",)

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.op)
        t.boolean(row.on)
        t.boolean(row.alone)
        t.send(PAIR, {"op": row.op, "a": row.a, "b": row.b, "result": row.result}, times=row.on)
        t.send(NIBBLE, [row.a - t.public.least], times=row.alone)
        t.send(NIBBLE, [row.b], times=row.alone)


class Pairs(Air):
    """All pairs of nibbles, with their and and their xor; the pairs that are used look up their nibbles too."""

    main: ClassVar = {"ands": 1, "xors": 1}
    preprocessed: ClassVar = {"a": 1, "b": 1, "and_": 1, "xor": 1}

    def define(self, t: Table) -> None:
        here = t.fixed
        for op, (times, result) in enumerate(((t.this.ands, here.and_), (t.this.xors, here.xor))):
            t.receive(OPS[op], [here.a, here.b, result], times=times, row_of=lambda a, b, _: 16 * a + b)
        t.send(NIBBLE, [here.a], times=t.this.xors, at_most=1 << 20)


class Dispatch(Air):
    """A row for each op of the machine, which sends it on to the bus of its kind."""

    main: ClassVar = {"op": 1, "a": 1, "b": 1, "result": 1, "on": 1}

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.on)
        t.boolean(row.op)
        t.receive(PAIR, [row.op, row.a, row.b, row.result], times=row.on, at_most=1)
        t.send(OPS[0], [row.a, row.b, row.result], times=row.on * (1 - row.op))
        t.send(OPS[1], [row.a, row.b, row.result], times=row.on * row.op)


class Nibbles(Air):
    main: ClassVar = {"used": 1}
    preprocessed: ClassVar = {"value": 1}

    def define(self, t: Table) -> None:
        t.receive(NIBBLE, [t.fixed.value], times=t.this.used, row_of=lambda value: value)


class Computer(Program):
    """`used` rows of random ops; `kinds` are the ops among them."""

    name = "test-computer"
    optional = ("Pairs", "Nibbles", "Dispatch")

    def __init__(self, used: int = 20, kinds: Sequence[int] = (0, 1), alone: bool = True) -> None:
        self.used, self.kinds, self.alone = used, tuple(kinds), alone

    @property
    def tables(self) -> Sequence[Air]:
        return (Nibbles(), Machine(), Pairs(), Dispatch())

    @property
    def buses(self) -> Sequence[Bus]:
        return (PAIR, NIBBLE, *OPS)

    @property
    def statement(self) -> Statement:
        return Statement(public=(("least", 1),))

    def preprocessed(self) -> Mapping[str, np.ndarray]:
        a, b = np.divmod(np.arange(256, dtype=np.uint64), np.uint64(16))
        return {"Pairs": np.stack([a, b, a & b, a ^ b]), "Nibbles": np.arange(16, dtype=np.uint64)[None]}

    def slices(self, partitions: int) -> list[Slice]:
        return [Slice(f"part-{i}", {"seed": i}) for i in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(source["seed"])
        machine = np.zeros((6, 32), dtype=np.uint64)
        a, b = rng.integers(5, 16, (2, 32), dtype=np.uint64)
        op = rng.choice(np.array(self.kinds, dtype=np.uint64), 32)
        on = (np.arange(32) < self.used).astype(np.uint64)
        machine[:] = op, a, b, np.where(op == 1, a ^ b, a & b), on, on * np.uint64(self.alone)
        return {"machine": machine}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        machine = inputs["machine"]
        dispatch = None
        if self.used:
            dispatch = backend.empty((5, 32))
            dispatch[...] = machine[:5]
        return Trace([None, machine, None, dispatch], (5,))
