"""Small AIRs that several tests use, with traces that they accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from distprove.errors import AirError
from distprove.stark.air import Air, Bus, CompiledAir, Table, trace_air
from distprove.stark.air.check import Example, PartitionTrace
from distprove.stark.air.compiler import compile_definition, number_buses
from distprove.stark.air.definition import Layout
from distprove.stark.field import P, Words


def compile_air(air: Air, layout: Layout, buses: Mapping[str, int]) -> CompiledAir:
    """One table of a program with public values of this layout and these numbers of buses."""
    return compile_definition(trace_air(air, layout), buses)


def compile_airs(airs: Sequence[Air], layout: Layout) -> list[CompiledAir]:
    """Tables that belong together, their buses numbered from 1 in the order in which they are first used."""
    definitions = [trace_air(air, layout) for air in airs]
    numbers = number_buses(definitions)
    return [compile_definition(definition, numbers) for definition in definitions]


class Fibonacci(Air):
    main = {"left": 1, "right": 1}
    public = ("first", "last")

    def define(self, t: Table) -> None:
        t.first(t.this.left - t.public.first)
        t.transition(t.next.left - t.this.right)
        t.transition(t.next.right - t.this.left - t.this.right)
        t.last(t.this.right - t.public.last)

    def example(self) -> Example:
        trace = fibonacci_trace(8)
        return Example([self], [PartitionTrace([trace], {"first": 1, "last": int(trace[1, -1])})])


def fibonacci_trace(n: int) -> Words:
    rows = [(1, 1)]
    while len(rows) < n:
        a, b = rows[-1]
        rows.append((b, (a + b) % P))
    return np.array(rows, dtype=np.uint64).T.copy()


RANGE = Bus("range", 1)
PAIRS = Bus("pairs", 2, "global")


class Ranges(Air):
    """Provides 0 .. 2^bits - 1 on the range bus, each as often as it is used."""

    preprocessed = {"value": 1}
    main = {"used": 1}

    def define(self, t: Table) -> None:
        t.receive(RANGE, [t.fixed.value], times=t.this.used)


class Limbs(Air):
    """Values of three limbs, each looked up where `on`; and each (value, limb) shown on a global bus."""

    main = {"limb": 3, "value": 1, "on": 1}

    def __init__(self, bits: int = 3) -> None:
        if bits < 1:
            raise AirError("limbs have at least one bit")
        self.bits = bits

    def define(self, t: Table) -> None:
        total = sum(limb * 2 ** (self.bits * i) for i, limb in enumerate(t.this.limb))
        t.always(t.this.value - total, name="value")
        t.boolean(t.this.on, name="on")
        for limb in t.this.limb:
            t.send(RANGE, [limb], times=t.this.on)
        t.send(PAIRS, [t.this.value, t.this.limb[0]], times=t.this.on)
        t.receive(PAIRS, [t.next.value, t.next.limb[0]], times=t.next.on, at_most=1)


def limbs_traces(n: int = 16, bits: int = 3, seed: int = 5) -> tuple[Words, Words, Words]:
    """Main trace of Limbs, then preprocessed and main of Ranges."""
    rng = np.random.default_rng(seed)
    limbs = rng.integers(0, 2**bits, (3, n), dtype=np.uint64)
    on = rng.integers(0, 2, n, dtype=np.uint64)
    value = sum(limb << np.uint64(bits * i) for i, limb in enumerate(limbs))
    used = np.bincount(limbs[:, on == 1].ravel().astype(np.int64), minlength=2**bits).astype(np.uint64)
    return np.vstack((limbs, value[None], on[None])), np.arange(2**bits, dtype=np.uint64)[None], used[None]


class LimbsProgram:
    """Two tables, for the command line."""

    def example(self) -> Example:
        limbs, values, used = limbs_traces()
        partition = PartitionTrace([limbs, used], {})
        return Example([Limbs(), Ranges()], [partition], preprocessed=[None, values], boundary=[])
