"""The witness program: a list of vectorised steps that fill the wires in the order of their creation.

Values lie in one array of shape (wires, batch, limbs), in Montgomery form, in the backend's memory. Every step works on
all lanes of all witnesses of the batch at once, so its cost in Python depends on neither number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.frame import Frame, runs_array
from distprove.circuits.linear import Linear, Run, Span
from distprove.errors import UnsatisfiedWitness, UsageError
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.synthesis import Bits, Instances, Products, Program
from kernels.maths.curves import Field
from kernels.maths.encoding import field_from_ints

_TERMS_AT_ONCE = 1 << 18
"""Maximum values that a sum of terms holds at a time: 8 MiB, and as much for their coefficients."""


class Wires:
    """The secret values of all wires of a batch of witnesses while they are computed."""

    def __init__(self, backend: Backend, field: Field, wires: int, batch: int) -> None:
        self.backend = backend
        self.field = field
        self.batch = batch
        self.values = backend.zeros((wires, batch, field.limbs))
        self.one = backend.to_device(field_from_ints(field, [1]))
        self.values[0] = self.one

    def run_of(self, first: int, stride: int, lanes: int) -> Array:
        """A view of the values of a run of wires, (lanes, batch, limbs); one lane if all are the same wire."""
        if stride == 0:
            return self.values[first : first + 1]
        stop = first + (lanes - 1) * stride + (1 if stride > 0 else -1)  # at least 0: no such run has wire 0
        return self.values[first:stop:stride]

    def evaluate(self, linear: Linear, lanes: int | None = None) -> Array:
        """The values of `linear` as a new array (lanes * batch, limbs), repeated to `lanes` if it has one lane."""
        lanes = lanes or linear.lanes
        if list(linear.terms.values()) == [1]:
            values = self.backend.empty((lanes, self.batch, self.field.limbs))
            ((first, stride),) = linear.terms
            values[...] = self.run_of(first, stride, lanes)
            return values.reshape(-1, self.field.limbs)
        total = self.backend.zeros((lanes, self.batch, self.field.limbs))
        if linear.terms:
            at_once = max(1, _TERMS_AT_ONCE // (self.batch * len(linear.terms)))
            for start in range(0, lanes, at_once):
                stop = min(start + at_once, lanes)
                total[start:stop] = self._sum_of_terms(linear, start, stop)
        return total.reshape(-1, self.field.limbs)

    def _sum_of_terms(self, linear: Linear, start: int, stop: int) -> Array:
        """The values of lanes start to stop - 1 of `linear`, (stop - start, batch, limbs). All terms are laid side by
        side, scaled by one product and added up in pairs."""
        count = len(linear.terms)
        terms = self.backend.empty((count, stop - start, self.batch, self.field.limbs))
        for i, (first, stride) in enumerate(linear.terms):
            terms[i] = self.run_of(first + start * stride, stride, stop - start)
        coefficients = list(linear.terms.values())
        if any(c != 1 for c in coefficients):
            factors = self.backend.empty(terms.shape)
            factors[...] = self.backend.to_device(field_from_ints(self.field, coefficients))[:, None, None]
            self.backend.vectors.mul(self.field, terms, factors, out=terms)
        while count > 1:
            half = count // 2
            self.backend.vectors.add(self.field, terms[:half], terms[half : 2 * half], out=terms[:half])
            if count % 2:
                terms[half] = terms[count - 1]
            count = half + count % 2
        return terms[0]

    def store(self, first: int, values: Array, stride: int = 1) -> None:
        """Set the wires from number `first` on, each `stride` behind the one before, to `values`, (lanes * batch,
        limbs)."""
        lanes = values.shape[0] // self.batch
        self.run_of(first, stride, lanes)[...] = values.reshape(lanes, self.batch, self.field.limbs)


@dataclass(frozen=True, eq=False)
class TemplatedProgram:
    """Instances of a program among a circuit's wires, which a backend computes by one operation."""

    program: Program
    runs: NDArray[np.int64]
    """As in `Instances`, (inputs, 2)."""
    first: int
    step: int
    lanes: int


_Combinations = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]
"""The arrays row_ptr, columns, value_index and values of a program."""
_Rows = tuple[tuple[tuple[int, int], ...], ...]
"""Combinations of a program's inputs: the number and the coefficient of each."""


class StepPrograms:
    """Programs that make one product or the bits of one value, made once for all steps with the same coefficients."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._products: dict[_Rows, Products] = {}
        self._bits: dict[tuple[_Rows, int, int], Bits] = {}

    def product(self, first: int, step: int, lanes: int, a: Linear, b: Linear, c: Linear) -> TemplatedProgram:
        """The wires first + i * step = a * b + c, for each lane i."""
        rows, runs = _rows_of(a, b, c)
        if rows not in self._products:
            self._products[rows] = products(self._field, len(runs), rows)
        return TemplatedProgram(self._products[rows], runs, first, step, lanes)

    def bits(self, first: int, step: int, value: Linear, shift: int, count: int) -> TemplatedProgram:
        """Bit shift + k of lane i of a value at the wire first + i * step + k, for each k below `count`."""
        rows, runs = _rows_of(value)
        key = (rows, shift, count)
        if key not in self._bits:
            self._bits[key] = Bits(self._field, len(runs), *_combinations(self._field, rows), shift, count)
        return TemplatedProgram(self._bits[key], runs, first, step, value.lanes)


def _rows_of(*values: Linear) -> tuple[_Rows, NDArray[np.int64]]:
    """Combinations over the runs that occur in them, numbered from 1, and these runs."""
    inputs: dict[Run, int] = {}
    rows = tuple(
        tuple((1 + inputs.setdefault(run, len(inputs)), c) for run, c in value.terms.items()) for value in values
    )
    return rows, runs_array(list(inputs))


def products(field: Field, inputs: int, rows: Sequence[Sequence[tuple[int, int]]]) -> Products:
    """The program of products a * b + c whose a, b and c, one after the other, are `rows` of (wire, coefficient)."""
    return Products(field, inputs, *_combinations(field, rows))


def _combinations(field: Field, rows: Sequence[Sequence[tuple[int, int]]]) -> _Combinations:
    """The arrays of a program whose combinations are `rows`."""
    values = {1: 0, field.modulus - 1: 1}  # as `Products` wants them to begin
    index = [values.setdefault(c, len(values)) for row in rows for _, c in row]
    return (
        np.cumsum([0, *map(len, rows)], dtype=np.uint32),
        np.array([wire for row in rows for wire, _ in row], dtype=np.uint32),
        np.array(index, dtype=np.uint32),
        field_from_ints(field, values),
    )


def instances_of(placed: Sequence[TemplatedProgram]) -> Instances:
    """Where the instances of these placements lie."""
    own_runs = np.array([(one.first, one.step) for one in placed], dtype=np.int64)
    return Instances(np.stack([one.runs for one in placed]), own_runs, placed[0].lanes)


class Step(ABC):
    """One vectorised step of a witness program: as `placed`, as the steps `inside`, or else by `run`."""

    depth = 1
    """How many operations wait for each other in a row."""

    def placed(self, programs: StepPrograms) -> TemplatedProgram | None:
        """The step as a program of the backend; None where it is none."""
        return None

    def inside(self) -> Iterator[tuple[int, Step]]:
        """The steps that this one consists of, and how many others of them each waits for; none for a single one."""
        return iter(())

    def within(self, frame: Frame) -> Iterator[Step]:
        """This step of a template in all instances of the template. Raises UsageError for a step that has no place
        there."""
        raise UsageError(f"a template has no step of the kind {type(self).__name__}")

    def run(self, wires: Wires) -> None:
        """Set the step's wires by operations on vectors."""
        raise AssertionError(f"{type(self).__name__} runs as a program")

    @abstractmethod
    def reads(self) -> list[Span]:
        """The wires that the step reads, and perhaps others between them."""

    @abstractmethod
    def sets(self) -> list[tuple[int, int]]:
        """The first wire that the step sets and how many; nothing for a step that sets none."""


@dataclass(frozen=True)
class MultiplyAdd(Step):
    """The step wire = a * b + c, whose wires lie `stride` apart."""

    first: int
    lanes: int
    a: Linear
    b: Linear
    c: Linear
    stride: int = 1

    def placed(self, programs: StepPrograms) -> TemplatedProgram:
        return programs.product(self.first, self.stride, self.lanes, self.a, self.b, self.c)

    def within(self, frame: Frame) -> Iterator[Step]:
        for lane in range(self.lanes):
            a, b, c = (frame.linear(value, lane) for value in (self.a, self.b, self.c))
            yield MultiplyAdd(frame.own(self.first + lane * self.stride), frame.lanes, a, b, c, frame.step)

    def reads(self) -> list[Span]:
        return [span for value in (self.a, self.b, self.c) for span in value.spans(self.lanes)]

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, (self.lanes - 1) * self.stride + 1)]


def assign(first: int, value: Linear) -> MultiplyAdd:
    """The step wire = value."""
    zero = Linear(value.field, 1, {})
    return MultiplyAdd(first, value.lanes, zero, zero, value)


@dataclass(frozen=True)
class Invert(Step):
    """The step wire = 1 / value, with zero for the inverse of zero. Its wires lie `stride` apart."""

    first: int
    value: Linear
    stride: int = 1

    def run(self, wires: Wires) -> None:
        inverse = wires.backend.vectors.batch_inverse(wires.field, wires.evaluate(self.value))
        wires.store(self.first, inverse, self.stride)

    def within(self, frame: Frame) -> Iterator[Step]:
        for lane in range(self.value.lanes):
            first = frame.own(self.first + lane * self.stride)
            yield Invert(first, frame.linear(self.value, lane), frame.step)

    def reads(self) -> list[Span]:
        return self.value.spans(self.value.lanes)

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, (self.value.lanes - 1) * self.stride + 1)]


@dataclass(frozen=True)
class Decompose(Step):
    """The step that writes `count` bits of a value, from bit `shift` on: bit shift + k of lane i goes to wire
    first + i * step + k."""

    first: int
    step: int
    value: Linear
    shift: int
    count: int

    def placed(self, programs: StepPrograms) -> TemplatedProgram:
        return programs.bits(self.first, self.step, self.value, self.shift, self.count)

    def within(self, frame: Frame) -> Iterator[Step]:
        for lane in range(self.value.lanes):
            first = frame.own(self.first + lane * self.step)
            yield Decompose(first, frame.step, frame.linear(self.value, lane), self.shift, self.count)

    def reads(self) -> list[Span]:
        return self.value.spans(self.value.lanes)

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, (self.value.lanes - 1) * self.step + self.count)]


@dataclass(frozen=True, eq=False)
class RunProgram(Step):
    """The step that sets all own wires of a template at once. A template has no other step beside it."""

    program: Program

    def run(self, wires: Wires) -> None:
        inputs = self.program.inputs
        runs = np.stack([np.arange(1, inputs + 1), np.zeros(inputs, dtype=np.int64)], axis=1)
        own = np.array([[1 + inputs, self.program.own]], dtype=np.int64)
        where = Instances(runs[None].astype(np.int64), own, 1)
        wires.backend.synthesis.run(self.program, wires.values, where)

    def reads(self) -> list[Span]:
        return [(1, self.program.inputs)]

    def sets(self) -> list[tuple[int, int]]:
        return [(1 + self.program.inputs, self.program.own)]


@dataclass(frozen=True, eq=False)
class Computed:
    """Steps of one program that wait for none of each other, as one operation of the backend."""

    program: Program
    where: Instances

    def run(self, wires: Wires) -> None:
        wires.backend.synthesis.run(self.program, wires.values, self.where)


@dataclass(frozen=True)
class Check(Step):
    """The step that raises UnsatisfiedWitness unless a * b = c. Only asserted constraints are checked, because products
    hold by construction."""

    a: Linear
    b: Linear
    c: Linear
    lanes: int
    label: str

    def run(self, wires: Wires) -> None:
        product = wires.backend.vectors.mul(
            wires.field, wires.evaluate(self.a, self.lanes), wires.evaluate(self.b, self.lanes)
        )
        expected = wires.evaluate(self.c, self.lanes)
        if wires.backend.vectors.equal(product, expected):
            return
        wrong = wires.backend.to_host(product) != wires.backend.to_host(expected)
        index = int(np.flatnonzero(wrong.any(axis=1))[0])
        where = f", lane {index // wires.batch}" if self.lanes > 1 else ""
        which = f" (input {index % wires.batch} of {wires.batch})" if wires.batch > 1 else ""
        raise UnsatisfiedWitness(f"the inputs do not satisfy the circuit: {self.label}{where}{which}")

    def within(self, frame: Frame) -> Iterator[Step]:
        for lane in range(self.lanes):
            a, b, c = (frame.linear(value, lane) for value in (self.a, self.b, self.c))
            yield Check(a, b, c, frame.lanes, self.label)

    def residuals(self, first: int, programs: StepPrograms) -> TemplatedProgram:
        """The values a * b - c, written from wire `first` on: all zero where the step would raise nothing."""
        return programs.product(first, 1, self.lanes, self.a, self.b, -self.c)

    def reads(self) -> list[Span]:
        return [span for value in (self.a, self.b, self.c) for span in value.spans(self.lanes)]

    def sets(self) -> list[tuple[int, int]]:
        return []
