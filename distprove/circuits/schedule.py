"""The order in which a circuit's witness is computed: steps that wait for none of each other run side by side.

A circuit's author places templates one by one, as a path's levels follow each other. Instances of a template on many
paths wait for nothing of each other, and a backend that computes them at once has as many lanes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from distprove.circuits.program import Check, Computed, Step, StepPrograms, TemplatedProgram, Wires, instances_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.synthesis import Program
from kernels.maths.curves import Field


@dataclass(frozen=True)
class Schedule:
    """A circuit's witness program in the order in which it runs."""

    steps: tuple[Step | Computed, ...]
    checks: tuple[Check, ...]
    """What must hold. Steps write what each one leaves, zeros in a witness, behind the circuit's wires."""
    wires: int
    residuals: int
    """Number of these values."""

    def on(self, backend: Backend, field: Field, batch: int) -> Wires:
        """Wires for `run`, with the constant one set."""
        return Wires(backend, field, self.wires + self.residuals, batch)

    def run(self, wires: Wires) -> Array:
        """Compute all wires from the inputs, (wires, batch, limbs). Raises UnsatisfiedWitness."""
        for step in self.steps:
            step.run(wires)
        values, residuals = wires.values[: self.wires], wires.values[self.wires :]
        if self.checks and not wires.backend.vectors.equal(residuals, wires.backend.zeros(residuals.shape)):
            for check in self.checks:
                check.run(wires)
        return values


def scheduled(steps: Sequence[Step], field: Field, wires: int) -> Schedule:
    """The steps by how many others they wait for in a row, with those of one program at once where they can be."""
    collected = _Collected(StepPrograms(field), wires)
    for step, level in zip(steps, levels_of(steps), strict=True):
        collected.add(step, level)
    return collected.schedule()


class _Collected:
    """Steps by their levels."""

    def __init__(self, programs: StepPrograms, wires: int) -> None:
        self._programs, self._wires = programs, wires
        self._alone: dict[int, list[Step]] = {}
        self._groups: dict[int, dict[tuple[Program, int], list[TemplatedProgram]]] = {}
        self._checks: list[Check] = []
        self._residuals = 0

    def add(self, step: Step, level: int) -> None:
        if isinstance(step, Check):
            placed: TemplatedProgram | None = step.residuals(self._wires + self._residuals, self._programs)
            self._residuals += step.lanes
            self._checks.append(step)
        else:
            placed = step.placed(self._programs)
        if placed is not None:
            group = self._groups.setdefault(level, {})
            group.setdefault((placed.program, placed.lanes), []).append(placed)
            return
        parts = False
        for later, part in step.inside():
            self.add(part, level + later)
            parts = True
        if not parts:
            self._alone.setdefault(level, []).append(step)

    def schedule(self) -> Schedule:
        ordered: list[Step | Computed] = []
        for level in sorted(self._alone.keys() | self._groups.keys()):
            ordered += self._alone.get(level, [])
            for (program, _), group in self._groups.get(level, {}).items():
                ordered.append(Computed(program, instances_of(group)))
        return Schedule(tuple(ordered), tuple(self._checks), self._wires, self._residuals)


def levels_of(steps: Sequence[Step]) -> list[int]:
    """How many operations each step waits for in a row. Wires that no step sets are inputs, there from the start."""
    made = sorted((first, number) for number, step in enumerate(steps) for first, _ in step.sets())
    firsts = [first for first, _ in made]
    levels: list[int] = []
    for number, step in enumerate(steps):
        level = 0
        for low, high in step.reads():
            for _, maker in made[max(0, bisect_right(firsts, low) - 1) : bisect_right(firsts, high)]:
                # A step reads what earlier ones set; what lies between the wires of a run may be of later ones.
                if maker < number and any(
                    first <= high and low < first + count for first, count in steps[maker].sets()
                ):
                    level = max(level, levels[maker] + steps[maker].depth)
        levels.append(level)
    return levels
