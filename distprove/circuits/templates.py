"""Templates: parts of a circuit that are stored once and placed many times.

A template is recorded from a gadget by a builder of its own, over formal inputs. An instance of it only says which
wires of the circuit the inputs are and where its own wires begin. Its constraints appear when the matrices are
assembled, all instances of a placement at once; its witness program runs over all instances of a placement as lanes.

    wires of a template      the constant one, its inputs, its own wires
    wires of a placement     the own wires of the first instance, then those of the second, ...

A template may hold placements of other templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from distprove.circuits.linear import Linear, Run, Span
from distprove.circuits.matrices import Dictionary, Templates
from distprove.circuits.program import (
    MultiplyAdd,
    ProductPrograms,
    RunProgram,
    Step,
    TemplatedProgram,
    Wires,
    products,
)
from distprove.circuits.schedule import Schedule, scheduled
from distprove.errors import UsageError
from kernels.interface.synthesis import Products, Program
from kernels.interface.templated import RowTemplate, TemplatedRows
from kernels.maths.curves import Field

WIRES_AT_ONCE = 1 << 21
"""Maximum wires of the instances whose witnesses are computed at a time: 64 MiB of a field of 256 bits."""


@dataclass(frozen=True, eq=False)
class Template:
    """A recorded part of a circuit. Wires are numbered as in the builder that recorded it."""

    field: Field
    inputs: int
    wires: int
    """Number of all wires: the constant one, the inputs and its own."""
    outputs: tuple[Linear, ...]
    sides: tuple[RowTemplate, RowTemplate, RowTemplate]
    """The rows of A, B and C, over the template's wires and `values`."""
    values: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def rows(self) -> int:
        """Number of constraints that an instance adds."""
        return self.sides[0].rows

    @property
    def own(self) -> int:
        """Number of wires that an instance adds to a circuit."""
        return self.wires - 1 - self.inputs

    @cached_property
    def program(self) -> Program | None:
        """What a backend computes an instance's own wires by; None for a template with steps of other kinds."""
        if len(self.steps) == 1 and isinstance(self.steps[0], RunProgram):
            return self.steps[0].program
        return _products(self)

    @cached_property
    def schedule(self) -> Schedule:
        """The steps of a template without a program."""
        return scheduled(self.steps, self.field, self.wires)


def _products(template: Template) -> Products | None:
    """The steps of a template as one program of products; None where they are more than that."""
    rows: list[Linear] = []
    for number, step in enumerate(template.steps):
        if not isinstance(step, MultiplyAdd) or step.lanes != 1 or step.first != 1 + template.inputs + number:
            return None
        rows += [step.a, step.b, step.c]
    if len(rows) != 3 * template.own:
        return None
    terms = [[(wire, c) for (wire, _), c in row.terms.items()] for row in rows]
    return products(template.field, template.inputs, terms)


@dataclass(frozen=True, eq=False)
class TemplateInstances(Step):
    """Instances of a template in a circuit: a part of its constraints and a step of its witness program."""

    template: Template
    runs: tuple[Run, ...]
    """The circuit's wires that are each input of the instances."""
    first: int
    """The circuit's wire that is the first own wire of the first instance."""
    lanes: int
    """Number of instances."""

    # -- constraints ------------------------------------------------------------------------------------------------

    def placed_rows(self, side: int, values: Dictionary, made: Templates) -> TemplatedRows:
        template = self.template
        if id(template) not in made:
            rows = template.sides[side]
            translated = np.array([values[value] for value in template.values], dtype=np.uint32)
            made[id(template)] = replace(rows, value_index=translated[rows.value_index])
        runs = np.array([(0, 0), *self.runs], dtype=np.int64)
        return TemplatedRows(made[id(template)], runs, self.first, template.own, self.lanes)

    def _run(self, wire: int) -> Run:
        """The circuit's wires that are the template's wire `wire` in the instances."""
        if wire == 0:
            return (0, 0)
        if wire <= self.template.inputs:
            return self.runs[wire - 1]
        return (self.first + wire - 1 - self.template.inputs, self.template.own if self.lanes > 1 else 0)

    def outputs(self) -> list[Linear]:
        """The template's outputs, with a lane for each instance."""
        return [
            Linear.total(output.field, self.lanes, ((self._run(wire), c) for (wire, _), c in output.terms.items()))
            for output in self.template.outputs
        ]

    # -- witness ----------------------------------------------------------------------------------------------------

    def run(self, wires: Wires) -> None:
        """Run the template's own steps, for one that is more than a program."""
        at_once = max(1, WIRES_AT_ONCE // (self.template.wires * wires.batch))
        for start in range(0, self.lanes, at_once):
            self._run_lanes(wires, start, min(at_once, self.lanes - start))

    def placed(self, programs: ProductPrograms) -> TemplatedProgram | None:
        program = self.template.program
        if program is None:
            return None
        return TemplatedProgram(program, np.array(self.runs, dtype=np.int64), self.first, self.lanes)

    def reads(self) -> list[Span]:
        ends = [(first, first + (self.lanes - 1) * stride) for first, stride in self.runs]
        return [(min(pair), max(pair)) for pair in ends]

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, self.lanes * self.template.own)]

    def _run_lanes(self, wires: Wires, start: int, lanes: int) -> None:
        """Compute the own wires of `lanes` instances from instance `start`. The instances take the place of witnesses
        in the template's program, which works on a batch of them."""
        template, limbs = self.template, wires.field.limbs
        local = template.schedule.on(wires.backend, wires.field, lanes * wires.batch, wires.witnesses)
        by_lane = local.values.reshape(-1, lanes, wires.batch, limbs)
        for number, (first, stride) in enumerate(self.runs):
            by_lane[1 + number] = wires.run_of(first + start * stride, stride, lanes)
        template.schedule.run(local)
        begin = self.first + start * template.own
        own = wires.values[begin : begin + lanes * template.own]
        made = by_lane[1 + template.inputs : template.wires]
        own.reshape(lanes, template.own, wires.batch, limbs)[...] = made.swapaxes(0, 1)


def single_runs(inputs: Sequence[Linear]) -> tuple[Run, ...]:
    """The run of wires of each input. Raises UsageError for an input that is not one wire a lane."""
    runs: list[Run] = []
    for number, value in enumerate(inputs):
        if list(value.terms.values()) != [1]:
            raise UsageError(f"input {number} of a template is no wire; settle it first")
        runs.extend(value.terms)
    return tuple(runs)
