"""Where the wires of a template lie in a circuit that has instances of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.linear import Linear, Run


@dataclass(frozen=True, eq=False)
class Frame:
    """The wires of `lanes` instances. Instance i has its own wires from first + i * step on."""

    given: NDArray[np.int64]
    """The run of the circuit's wires that is the constant one, and that is each input, (1 + inputs, 2)."""
    first: int
    step: int
    lanes: int

    @classmethod
    def of(cls, runs: NDArray[np.int64], first: int, step: int, lanes: int) -> Frame:
        """The frame of instances whose inputs are `runs`, (inputs, 2)."""
        return cls(np.concatenate([np.zeros((1, 2), dtype=np.int64), runs]), first, step if lanes > 1 else 0, lanes)

    def own(self, wire: int) -> int:
        """The circuit's wire that is a template's own `wire` in the first instance."""
        return self.first + wire - len(self.given)

    def runs(self, wires: NDArray[np.int64]) -> NDArray[np.int64]:
        """The runs of the circuit's wires that are these wires of the template, (len(wires), 2)."""
        known = wires < len(self.given)
        found = np.stack([self.own(0) + wires, np.full(len(wires), self.step)], axis=1)
        found[known] = self.given[wires[known]]
        return found

    def run(self, wire: int) -> Run:
        """The run of the circuit's wires that is one wire of the template."""
        if wire < len(self.given):
            first, step = self.given[wire].tolist()
            return first, step
        return self.own(wire), self.step

    def linear(self, value: Linear, lane: int = 0) -> Linear:
        """A lane of a combination of the template's wires, in all instances."""
        terms = ((self.run(first + lane * stride), c) for (first, stride), c in value.terms.items())
        return Linear.total(value.field, self.lanes, terms)

    def every(self, wires: NDArray[np.int64]) -> NDArray[np.int64]:
        """The circuit's wires that are these in all instances, (lanes * len(wires),), instance by instance."""
        runs = self.runs(wires)
        found = runs[:, 0] + np.arange(self.lanes, dtype=np.int64)[:, None] * runs[:, 1]
        return found.reshape(-1)


def runs_array(runs: Sequence[Run]) -> NDArray[np.int64]:
    """Runs as an array, (len(runs), 2)."""
    return np.array(runs, dtype=np.int64).reshape(-1, 2)
