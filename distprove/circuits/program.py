"""The witness program: a list of vectorised steps that fill the wires in the order of their creation.

Values lie in one array of shape (wires, batch, limbs), in Montgomery form, in the backend's memory. Every step works on
all lanes of all witnesses of the batch at once, so its cost in Python depends on neither number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.linear import Linear, Run, Span
from distprove.errors import UnsatisfiedWitness
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.synthesis import Instances, Products, Program
from kernels.maths.curves import Field
from kernels.maths.encoding import field_from_ints

_TERMS_AT_ONCE = 1 << 18
"""Maximum values that a sum of terms holds at a time: 8 MiB, and as much for their coefficients."""


class Wires:
    """The secret values of all wires of a batch of witnesses while they are computed."""

    def __init__(self, backend: Backend, field: Field, wires: int, batch: int, witnesses: int | None = None) -> None:
        """`witnesses` is the number of witnesses when the batch is that of many instances of a template in each."""
        self.backend = backend
        self.field = field
        self.batch = batch
        self.witnesses = witnesses or batch
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

    def store(self, first: int, values: Array) -> None:
        """Set the wires from number `first` on to `values`, (lanes * batch, limbs)."""
        lanes = values.shape[0] // self.batch
        self.values[first : first + lanes] = values.reshape(lanes, self.batch, self.field.limbs)


@dataclass(frozen=True, eq=False)
class TemplatedProgram:
    """Instances of a program among a circuit's wires, which a backend computes by one operation."""

    program: Program
    runs: NDArray[np.int64]
    """As in `Instances`, (inputs, 2)."""
    first: int
    lanes: int


class ProductPrograms:
    """Programs that make one product each, made once for all steps with the same coefficients."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._made: dict[tuple[tuple[tuple[int, int], ...], ...], Products] = {}

    def placed(self, first: int, lanes: int, a: Linear, b: Linear, c: Linear) -> TemplatedProgram:
        """The wires first + i = a * b + c, for each lane i."""
        inputs: dict[Run, int] = {}
        rows = tuple(
            tuple((1 + inputs.setdefault(run, len(inputs)), c) for run, c in linear.terms.items())
            for linear in (a, b, c)
        )
        if rows not in self._made:
            self._made[rows] = products(self._field, len(inputs), rows)
        runs = np.array(list(inputs), dtype=np.int64).reshape(-1, 2)
        return TemplatedProgram(self._made[rows], runs, first, lanes)


def products(field: Field, inputs: int, rows: Sequence[Sequence[tuple[int, int]]]) -> Products:
    """The program of products a * b + c whose a, b and c, one after the other, are `rows` of (wire, coefficient)."""
    values = {1: 0, field.modulus - 1: 1}  # as `Products` wants them to begin
    index = [values.setdefault(c, len(values)) for row in rows for _, c in row]
    return Products(
        field,
        inputs,
        np.cumsum([0, *map(len, rows)], dtype=np.uint32),
        np.array([wire for row in rows for wire, _ in row], dtype=np.uint32),
        np.array(index, dtype=np.uint32),
        field_from_ints(field, values),
    )


def instances_of(placed: Sequence[TemplatedProgram]) -> Instances:
    """Where the instances of these placements lie."""
    first = np.array([one.first for one in placed], dtype=np.int64)
    return Instances(np.stack([one.runs for one in placed]), first, placed[0].lanes)


class Step(ABC):
    """One vectorised step of a witness program: as `placed`, or else by `run`."""

    def placed(self, programs: ProductPrograms) -> TemplatedProgram | None:
        """The step as a program of the backend; None where it is none."""
        return None

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
    """The step wire = a * b + c."""

    first: int
    lanes: int
    a: Linear
    b: Linear
    c: Linear

    def placed(self, programs: ProductPrograms) -> TemplatedProgram:
        return programs.placed(self.first, self.lanes, self.a, self.b, self.c)

    def reads(self) -> list[Span]:
        return [span for value in (self.a, self.b, self.c) for span in value.spans(self.lanes)]

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, self.lanes)]


def assign(first: int, value: Linear) -> MultiplyAdd:
    """The step wire = value."""
    zero = Linear(value.field, 1, {})
    return MultiplyAdd(first, value.lanes, zero, zero, value)


@dataclass(frozen=True)
class Invert(Step):
    """The step wire = 1 / value, with zero for the inverse of zero."""

    first: int
    value: Linear

    def run(self, wires: Wires) -> None:
        wires.store(self.first, wires.backend.vectors.batch_inverse(wires.field, wires.evaluate(self.value)))

    def reads(self) -> list[Span]:
        return self.value.spans(self.value.lanes)

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, self.value.lanes)]


@dataclass(frozen=True)
class Decompose(Step):
    """The step that writes the `count` low bits of value: bit k of lane i goes to wire first + k * lanes + i."""

    first: int
    count: int
    value: Linear

    def run(self, wires: Wires) -> None:
        value = wires.evaluate(self.value)
        bits = wires.values[self.first : self.first + self.count * self.value.lanes]
        wires.backend.vectors.bits(wires.field, value, self.count, out=bits.reshape(self.count, *value.shape))

    def reads(self) -> list[Span]:
        return self.value.spans(self.value.lanes)

    def sets(self) -> list[tuple[int, int]]:
        return [(self.first, self.count * self.value.lanes)]


@dataclass(frozen=True, eq=False)
class RunProgram(Step):
    """The step that sets all own wires of a template at once. A template has no other step beside it."""

    program: Program

    def run(self, wires: Wires) -> None:
        inputs = self.program.inputs
        runs = np.stack([np.arange(1, inputs + 1), np.zeros(inputs, dtype=np.int64)], axis=1)
        where = Instances(runs[None].astype(np.int64), np.array([1 + inputs], dtype=np.int64), 1)
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
        item = index % wires.batch % wires.witnesses
        which = f" (input {item} of {wires.witnesses})" if wires.witnesses > 1 else ""
        if wires.batch > wires.witnesses:
            which = f", instance {index % wires.batch // wires.witnesses}{which}"
        raise UnsatisfiedWitness(f"the inputs do not satisfy the circuit: {self.label}{where}{which}")

    def residuals(self, first: int, programs: ProductPrograms) -> TemplatedProgram:
        """The values a * b - c, written from wire `first` on: all zero where the step would raise nothing."""
        return programs.placed(first, self.lanes, self.a, self.b, -self.c)

    def reads(self) -> list[Span]:
        return [span for value in (self.a, self.b, self.c) for span in value.spans(self.lanes)]

    def sets(self) -> list[tuple[int, int]]:
        return []
