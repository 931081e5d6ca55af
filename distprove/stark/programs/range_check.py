"""Two tables and a local bus: values cut into limbs, each of which is looked up in a table of all possible limbs.

The statement for each partition: the prover knows `count` values, each from 0 to 2^(2 bits) - 1, whose sum is `total`.
The sum stays below p, so that it does not wrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.stark.air import Air, Bus, Table
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.programs.registry import PROGRAMS, integer
from distprove.stark.statement import Statement
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

LIMB = Bus("limb", 1)


class ValuesAir(Air):
    """The table of values, one per row. Rows after the last value are padding, with multiplicity 0."""

    name = "values"
    main = {"limbs": 2, "on": 1, "count": 1, "sum": 1}
    public = ("count", "total")

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def define(self, t: Table) -> None:
        low, high = t.this.limbs
        t.boolean(t.this.on)
        value = low + high * (1 << self._bits)
        # `count` and `sum` of a row include the row itself.
        t.first(t.this.count - t.this.on)
        t.transition(t.next.count - t.this.count - t.next.on)
        t.last(t.this.count - t.public.count)
        next_low, next_high = t.next.limbs
        t.first(t.this.sum - t.this.on * value)
        t.transition(t.next.sum - t.this.sum - t.next.on * (next_low + next_high * (1 << self._bits)))
        t.last(t.this.sum - t.public.total)
        for limb in (low, high):
            t.send(LIMB, [limb], times=t.this.on)


class LimbsAir(Air):
    """The table of all possible limbs, each with its multiplicity: how often it is looked up, as the prover counts."""

    name = "limbs"
    preprocessed = {"limb": 1}
    main = {"times": 1}

    def define(self, t: Table) -> None:
        t.receive(LIMB, [t.fixed.limb], times=t.this.times, row_of=lambda limb: limb)


class RangeCheck(Program):
    """The program `range-check`. The prover makes the values from a seed; their number is public."""

    name = "range-check"
    compared = ("values",)
    buses = (LIMB,)
    statement = Statement(public=(("count", 1), ("total", 1)))

    def __init__(self, values: int = 1 << 16, bits: int = 16, seed: int = 1) -> None:
        """Raises UsageError for arguments out of range."""
        PROGRAMS["range-check"].check(values=values, bits=bits, seed=seed)
        self.values, self.bits, self.seed = values, bits, seed

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"bits": self.bits}

    @property
    def tables(self) -> Sequence[Air]:
        return (ValuesAir(self.bits), LimbsAir())

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        return {"limbs": np.arange(1 << self.bits, dtype=np.uint64).reshape(1, -1)}

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [((self.values - 1).bit_length(), self.bits)] * partitions

    def check_job(self, partitions: int | None) -> None:
        if (partitions or 1) * self.values > 1 << 32:
            raise UsageError("a job has at most 2^32 values")

    def slices(self, partitions: int) -> list[Slice]:
        self.check_job(partitions)
        return [Slice(f"part-{i:04}", {"first": (self.seed << 32) + i * self.values}) for i in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        values = scrambled(source["first"], self.values) >> np.uint64(64 - 2 * self.bits)
        rows = 1 << (self.values - 1).bit_length()
        main = np.zeros((5, rows), dtype=np.uint64)
        main[0, : self.values] = values & np.uint64((1 << self.bits) - 1)
        main[1, : self.values] = values >> np.uint64(self.bits)
        main[2, : self.values] = 1
        main[3] = np.cumsum(main[2])
        main[4, : self.values] = np.cumsum(values)
        main[4, self.values :] = main[4, self.values - 1]
        return {"values": main}

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        total = int(backend.to_host(inputs["values"][4, -1:])[0])
        return Trace([inputs["values"], None], (self.values, total))

    def compare(self, argument: str, value: Any, public: Sequence[Sequence[int]]) -> tuple[str, str]:
        return ", ".join(map(str, sorted({p[0] for p in public}))), str(integer(argument, value))

    def explain(self, public: Sequence[Sequence[int]], log_heights: Sequence[Sequence[int]]) -> dict[str, str]:
        return {
            "values": str(sum(p[0] for p in public)),
            "each below": str(1 << (2 * self.bits)),
            "sum": str(sum(p[1] for p in public)),
        }


def scrambled(first: int, count: int) -> NDArray[np.uint64]:
    """`count` elements of the SplitMix64 sequence (Steele, Lea, Flood 2014) from index `first`; same on any machine."""
    x: NDArray[np.uint64] = (np.arange(count, dtype=np.uint64) + np.uint64(first)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
