"""The order in which a circuit's witness is computed: steps that wait for none of each other run side by side.

A circuit's author places templates one by one, as a path's levels follow each other. Instances of a template on many
paths wait for nothing of each other, and a backend that computes them at once has as many lanes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from distprove.circuits.program import Check, Computed, ProductPrograms, Step, TemplatedProgram, Wires, instances_of
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

    def on(self, backend: Backend, field: Field, batch: int, witnesses: int | None = None) -> Wires:
        """Wires for `run`, with the constant one set."""
        return Wires(backend, field, self.wires + self.residuals, batch, witnesses)

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
    levels = _levels(steps)
    programs = ProductPrograms(field)
    alone: dict[int, list[Step]] = {}
    groups: dict[int, dict[tuple[Program, int], list[TemplatedProgram]]] = {}
    checks: list[Check] = []
    residuals = 0
    for step, level in zip(steps, levels, strict=True):
        if isinstance(step, Check):
            placed: TemplatedProgram | None = step.residuals(wires + residuals, programs)
            residuals += step.lanes
            checks.append(step)
        else:
            placed = step.placed(programs)
        if placed is None:
            alone.setdefault(level, []).append(step)
        else:
            groups.setdefault(level, {}).setdefault((placed.program, placed.lanes), []).append(placed)
    ordered: list[Step | Computed] = []
    for level in range(max(levels, default=-1) + 1):
        ordered += alone.get(level, [])
        for (program, _), group in groups.get(level, {}).items():
            ordered.append(Computed(program, instances_of(group)))
    return Schedule(tuple(ordered), tuple(checks), wires, residuals)


def _levels(steps: Sequence[Step]) -> list[int]:
    """How many steps each one waits for in a row. Wires that no step sets are inputs, there from the start."""
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
                    level = max(level, levels[maker] + 1)
        levels.append(level)
    return levels
