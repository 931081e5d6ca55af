"""Templates: parts of a circuit that are stored once and placed many times.

A template is recorded from a gadget by a builder of its own, over formal inputs. An instance of it only says which
wires of the circuit the inputs are and where its own wires begin. Its constraints appear when the matrices are
assembled, all instances of a placement at once; its witness program runs over all instances of a placement as lanes.

    wires of a template      the constant one, its inputs, its own wires
    wires of a placement     the own wires of the first instance, then those of the second, ...
    rows of a placement      likewise

A template may hold placements of other templates. Each of them becomes one placement in the circuit, with the instances
of the outer template as lanes, whose wires and rows are as far apart as the outer template's. So a circuit that repeats
a large part keeps the order of that part, one repetition after the other, and yet computes all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.frame import Frame, runs_array
from distprove.circuits.linear import Linear, Span
from distprove.circuits.matrices import Dictionary, Templates
from distprove.circuits.program import MultiplyAdd, RunProgram, Step, StepPrograms, TemplatedProgram, products
from distprove.circuits.schedule import levels_of
from distprove.errors import UsageError
from kernels.interface.synthesis import Products, Program
from kernels.interface.templated import RowTemplate, TemplatedRows
from kernels.maths.curves import Field

Sides = tuple[RowTemplate, RowTemplate, RowTemplate]
"""Rows of A, B and C, over a template's wires and its `values`."""


@dataclass(frozen=True, eq=False)
class Template:
    """A recorded part of a circuit. Wires are numbered as in the builder that recorded it."""

    field: Field
    inputs: int
    wires: int
    """Number of all wires: the constant one, the inputs and its own."""
    outputs: tuple[Linear, ...]
    parts: tuple[Sides | DealtInstances, ...]
    """Its constraints in order."""
    values: tuple[int, ...]
    """The coefficients of its rows."""
    steps: tuple[Step, ...]
    private: Mapping[str, NDArray[np.int64]]
    """The own wires that are private inputs of the circuit, by the name of the signal."""

    @cached_property
    def rows(self) -> int:
        """Number of constraints that an instance adds."""
        return sum(part.rows if isinstance(part, DealtInstances) else part[0].rows for part in self.parts)

    @cached_property
    def nnz(self) -> tuple[int, int, int]:
        """Number of entries that an instance adds to A, B and C."""
        a, b, c = (
            sum(part.nnz[side] if isinstance(part, DealtInstances) else part[side].nnz for part in self.parts)
            for side in range(3)
        )
        return a, b, c

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
    def levels(self) -> Sequence[int]:
        """How many operations each step waits for, of a template without a program."""
        return levels_of(self.steps)

    @cached_property
    def depth(self) -> int:
        """How many operations of an instance wait for each other in a row."""
        if self.program is not None:
            return 1
        return max((level + step.depth for step, level in zip(self.steps, self.levels, strict=True)), default=0)


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
    """Instances of a template in a circuit: a step of its witness program."""

    template: Template
    runs: NDArray[np.int64]
    """The circuit's wires that are each input of the instances, (inputs, 2)."""
    first: int
    """The circuit's wire that is the first own wire of the first instance."""
    step: int
    """How far the own wires of the next instance are from those of the one before."""
    lanes: int
    """Number of instances."""

    @cached_property
    def frame(self) -> Frame:
        """Where the instances' wires lie."""
        return Frame.of(self.runs, self.first, self.step, self.lanes)

    def within(self, frame: Frame) -> Iterator[TemplateInstances]:
        return (self.instance(lane, frame) for lane in range(self.lanes))

    def instance(self, lane: int, frame: Frame) -> TemplateInstances:
        """One instance of a template that this is a part of, in all instances of that template."""
        runs = frame.runs(self.runs[:, 0] + lane * self.runs[:, 1])
        return TemplateInstances(self.template, runs, frame.own(self.first + lane * self.step), frame.step, frame.lanes)

    def outputs(self) -> list[Linear]:
        """The template's outputs, with a lane for each instance."""
        return [self.frame.linear(output) for output in self.template.outputs]

    # -- constraints ------------------------------------------------------------------------------------------------

    def rows(
        self, side: int, values: Dictionary, made: Templates, rows: tuple[int, int], entries: tuple[int, int]
    ) -> Iterator[TemplatedRows]:
        """The rows of one matrix. `rows` are the first row of the first instance and the step to the next one's, and
        `entries` likewise."""
        (row, row_step), (entry, entry_step), frame = rows, entries, self.frame
        for part in self.template.parts:
            if isinstance(part, DealtInstances):
                inner = part.template
                for placed in part.within(frame):
                    yield from placed.rows(side, values, made, (row, row_step), (entry, entry_step))
                    row, entry = row + inner.rows, entry + inner.nnz[side]
                continue
            key = id(part)
            if key not in made:
                translated = np.array([values[value] for value in self.template.values], dtype=np.uint32)
                made[key] = replace(part[side], value_index=translated[part[side].value_index])
            own = made[key]
            yield TemplatedRows(
                own, frame.given, frame.first, frame.step, frame.lanes, row, row_step, entry, entry_step
            )
            row, entry = row + own.rows, entry + own.nnz

    # -- witness ----------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:  # type: ignore[override]
        return self.template.depth

    def placed(self, programs: StepPrograms) -> TemplatedProgram | None:
        program = self.template.program
        if program is None:
            return None
        return TemplatedProgram(program, self.runs, self.first, self.step, self.lanes)

    def inside(self) -> Iterator[tuple[int, Step]]:
        for step, level in zip(self.template.steps, self.template.levels, strict=True):
            for placed in step.within(self.frame):
                yield level, placed

    def reads(self) -> list[Span]:
        ends = np.stack([self.runs[:, 0], self.runs[:, 0] + (self.lanes - 1) * self.runs[:, 1]])
        return list(zip(ends.min(axis=0).tolist(), ends.max(axis=0).tolist(), strict=True))

    def sets(self) -> list[tuple[int, int]]:
        own = self.template.own
        if self.step == own:
            return [(self.first, self.lanes * own)]
        return [(self.first + lane * self.step, own) for lane in range(self.lanes)]


@dataclass(frozen=True, eq=False)
class DealtInstances:
    """A part of a circuit's constraints: groups of instances of a template, one of each in turn."""

    groups: tuple[TemplateInstances, ...]

    @property
    def template(self) -> Template:
        return self.groups[0].template

    @cached_property
    def rows(self) -> int:
        return sum(group.lanes for group in self.groups) * self.template.rows

    @cached_property
    def nnz(self) -> tuple[int, int, int]:
        lanes, (a, b, c) = sum(group.lanes for group in self.groups), self.template.nnz
        return lanes * a, lanes * b, lanes * c

    def placed_rows(self, side: int, values: Dictionary, made: Templates) -> Sequence[TemplatedRows]:
        rows, nnz, count = self.template.rows, self.template.nnz[side], len(self.groups)
        return [
            part
            for k, group in enumerate(self.groups)
            for part in group.rows(side, values, made, (k * rows, count * rows), (k * nnz, count * nnz))
        ]

    def within(self, frame: Frame) -> Iterator[TemplateInstances]:
        """Each instance of a template that this is a part of, in order, in all instances of that template."""
        most = self.groups[0].lanes
        for lane in range(most):
            for group in self.groups:
                if lane < group.lanes:
                    yield group.instance(lane, frame)


def single_runs(inputs: Sequence[Linear]) -> NDArray[np.int64]:
    """The run of wires of each input, (len(inputs), 2). Raises UsageError for an input that is not one wire a lane."""
    for number, value in enumerate(inputs):
        if list(value.terms.values()) != [1]:
            raise UsageError(f"input {number} of a template is no wire; settle it first")
    return runs_array([run for value in inputs for run in value.terms])
