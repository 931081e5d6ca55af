"""The Fibonacci sequence over the field, one step a row. The partitions of a job are consecutive parts of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Table
from distprove.stark.field import P
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.programs.registry import PROGRAMS, integer
from distprove.stark.statement import Statement
from kernels.host.units import count_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend


class FibonacciAir(Air):
    """The table of pairs (left, right) = (x_i, x_{i+1}) in row i."""

    name = "fibonacci"
    main = {"left": 1, "right": 1}
    public = ("start", "end")

    def define(self, t: Table) -> None:
        start, end = t.public["start"], t.public["end"]
        t.first(t.this.left - start[0])
        t.first(t.this.right - start[1])
        t.transition(t.next.left - t.this.right)
        t.transition(t.next.right - t.this.left - t.this.right)
        # `end` is the row that would follow, which is the next partition's first row.
        t.last(t.this.right - end[0])
        t.last(t.this.left + t.this.right - end[1])


class Fibonacci(Program):
    """The program of `rows` steps a partition, a fixed height. It states the pairs before the first and after the last.

    The prover chooses the pair that a job starts from, which is public.
    """

    name = "fibonacci"
    compared = ("first", "second")
    tables = (FibonacciAir(),)
    statement = Statement(public=(("start", 2), ("end", 2)), chain=(("end", "start"),))

    def __init__(self, rows: int = 1 << 16, first: int = 0, second: int = 1) -> None:
        """Raises UsageError for arguments out of range."""
        PROGRAMS["fibonacci"].check(rows=rows, first=first, second=second)
        self.rows, self.first, self.second = rows, first, second

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"rows": self.rows}

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        return {"fibonacci": self.rows.bit_length() - 1}

    def slices(self, partitions: int) -> list[Slice]:
        out, pair = [], (self.first, self.second)
        for index in range(partitions):
            out.append(Slice(f"part-{index:04}", {"left": pair[0], "right": pair[1]}))
            pair = advance(pair, self.rows)
        return out

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        # The public pair is needed on the host; the trace starts from it without a round trip.
        return {"start": np.array([source["left"], source["right"]], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        """Generate the trace by doubling, x_{k+i} = x_i F_{k-1} + x_{i+1} F_k, so that 2^k rows take k vector steps."""
        field = backend.goldilocks
        first, second = (int(v) for v in backend.to_host(inputs["start"]))
        columns = backend.empty((2, self.rows))
        columns[:, :1] = inputs["start"].reshape(2, 1)
        done, step = 1, (0, 1)  # F_done-1, F_done
        while done < self.rows:
            before, here = (backend.to_device(np.array([v], dtype=np.uint64)) for v in step)
            after = backend.to_device(np.array([(step[0] + step[1]) % P], dtype=np.uint64))
            left, right = columns[0, :done], columns[1, :done]
            columns[0, done : 2 * done] = field.add(field.mul(left, before), field.mul(right, here))
            columns[1, done : 2 * done] = field.add(field.mul(left, here), field.mul(right, after))
            done, step = 2 * done, advance_index(step)
        return Trace([columns], (first, second, *advance((first, second), self.rows)))

    def compare(self, argument: str, value: Any, public: Sequence[Sequence[int]]) -> tuple[str, str]:
        return str(public[0][self.compared.index(argument)]), str(integer(argument, value))

    def explain(self, public: Sequence[Sequence[int]], log_heights: Sequence[Sequence[int]]) -> dict[str, str]:
        steps = sum(1 << height for (height,) in log_heights)
        return {
            "starts with": f"{public[0][0]}, {public[0][1]}",
            f"after {count_of(steps, 'step')}": f"{public[-1][2]}, {public[-1][3]} modulo p",
        }


def advance_index(pair: tuple[int, int]) -> tuple[int, int]:
    """Map (F_{k-1}, F_k) to (F_{2k-1}, F_{2k})."""
    a, b = pair
    return (a * a + b * b) % P, (2 * a * b + b * b) % P


def advance(pair: tuple[int, int], steps: int) -> tuple[int, int]:
    """The pair `steps` later, by repeated squaring; `steps` is a power of two."""
    a, b = 0, 1
    for _ in range(steps.bit_length() - 1):
        a, b = advance_index((a, b))
    x, y = pair
    return (x * a + y * b) % P, (x * b + y * (a + b)) % P
