"""The witness program of a wrap's circuit as a tape: arrays, which native code runs through from begin to end.

A wrap has hundreds of thousands of small steps. The schedule of other circuits makes each a call of Python; this one
makes none. Native code runs those at once that do not wait for each other. A tape takes far longer to record than to
run, so it is kept.

Operations are rows of eight words: kind, lanes, first wire, three combinations a, b and c, a count, a label.

| kind | lane by lane |
|---|---|
| MULTIPLY_ADD | wire = a b + c, or c where a is empty |
| INVERT | wire = 1 / a |
| RATIO | wire = a / b, and zero where b is |
| BITS | wires = bits 1 .. count - 1 of a |
| DIVIDE | wires = a mod p, its bits from 1 on, the bits 1 .. count - 1 of a / p |
| DIGITS | wires = the three lowest digits of a to the base p, then the bits of each from 1 on |
| CHECK | a b = c, or the label is the error |
| PLACE | the own wires of template a, whose inputs are the runs from b on |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import Signal, encoded
from distprove.circuits.linear import Linear
from distprove.circuits.matrices import Dictionary
from distprove.circuits.program import Check, Invert, MultiplyAdd, Step
from distprove.circuits.templates import Template, TemplateInstances
from distprove.circuits.wrap.division import Digits, Divide
from distprove.circuits.wrap.integers import HigherBits, Ratio
from distprove.errors import UnsatisfiedWitness, UsageError
from distprove.groth16.inputs import Inputs
from kernels.cpu.backend import CpuBackend
from kernels.host.native import native
from kernels.interface.synthesis import Products
from kernels.maths.curves import BN254
from kernels.maths.encoding import field_from_ints

FIELD = BN254.fr
ARRAYS: Mapping[str, str] = {
    "operations": "<u4",
    "rows": "<u4",
    "columns": "<u4",
    "strides": "<i4",
    "index": "<u4",
    "values": "<u8",
    "runs": "<i8",
}
"""The arrays of a tape, by name, with their types. A combination's terms are the columns, strides and coefficients
(`index` into `values`) from `rows` of its number on."""
TEMPLATE: Mapping[str, str] = {"row_ptr": "<u4", "columns": "<u4", "value_index": "<u4", "values": "<u8"}
"""The arrays of a template's program, as in `Products`, with their types."""
WIDTH = 8
"""Words of an operation."""


class Kind(IntEnum):
    """What an operation does. Must equal the kinds of wrap_witness.cpp."""

    MULTIPLY_ADD = 0
    INVERT = 1
    RATIO = 2
    BITS = 3
    DIVIDE = 4
    DIGITS = 5
    CHECK = 6
    PLACE = 7


@dataclass(frozen=True, eq=False)
class Tape:
    """The witness program of a circuit over BN254, whose public wires are its outputs."""

    wires: int
    outputs: tuple[int, ...]
    """The wires that are outputs, in order. In a witness they follow the constant one."""
    inputs: tuple[Signal, ...]
    labels: tuple[str, ...]
    arrays: Mapping[str, NDArray[Any]]
    """The tables of the program. The keys are the names in `ARRAYS`."""
    templates: tuple[tuple[int, tuple[NDArray[Any], ...]], ...]
    """The inputs of each template, and its arrays in the order of `TEMPLATE`."""

    def __post_init__(self) -> None:
        arrays = [_bytes(self.arrays[name]) for name in ARRAYS]
        templates = [(inputs, *map(_bytes, own)) for inputs, own in self.templates]
        object.__setattr__(self, "_native", native.WrapTape(self.wires, *arrays, templates))

    def witness(self, inputs: Inputs, backend: CpuBackend) -> NDArray[np.uint64]:
        """The witness of one input, (wires, 4) canonical integers, on the threads of `backend`.

        Raises WitnessGenerationError for a missing, unknown or misshapen signal and UnsatisfiedWitness where a
        condition does not hold; neither message holds a value.
        """
        values = np.zeros((self.wires, FIELD.limbs), dtype=np.uint64)
        values[0] = field_from_ints(FIELD, [1])
        given = backend.vectors.to_montgomery(FIELD, encoded(inputs, self.inputs, FIELD))
        for signal in self.inputs:
            values[signal.first : signal.first + signal.lanes], given = given[: signal.lanes], given[signal.lanes :]
        standard = np.empty_like(values)
        with backend.pool.leased(self.wires) as leased:
            threads = leased if isinstance(leased, native.Pool) else native.Pool(leased.threads)
            broken = self._native.run(threads, _bytes(values))  # type: ignore[attr-defined]
            if broken:
                label = self.labels[self.arrays["operations"][broken[0], WIDTH - 1]]
                raise UnsatisfiedWitness(f"the inputs do not satisfy the circuit: {label}")
            native.finish_wires(threads, _bytes(values), [0, *self.outputs], _bytes(standard))
        return standard


def record(b: CircuitBuilder) -> Tape:
    """The witness program of a circuit. Raises UsageError for one over another field, with public inputs, or with
    steps that a tape has no operation for."""
    if b.curve is not BN254 or b.signals("public"):
        raise UsageError("a tape is of a circuit over BN254 whose public wires are outputs")
    recorder = _Recorder()
    for step in b.steps:
        recorder.add(step)
    outputs = tuple(signal.first + lane for signal in b.signals("output") for lane in range(signal.lanes))
    return recorder.tape(b.wires, outputs, b.signals("private"))


class _Recorder:
    """Collects operations, and each combination once."""

    def __init__(self) -> None:
        self._operations: list[int] = []
        self._rows, self._columns, self._strides, self._index = [0], [], [], []  # type: ignore[var-annotated]
        self._values = Dictionary({1: 0, FIELD.modulus - 1: 1})
        self._numbers: dict[int, int] = {}
        self._runs: list[int] = []
        self._templates: dict[int, int] = {}
        self._made: list[Template] = []
        self._labels: dict[str, int] = {}
        self._kept: list[Linear] = []
        """What has a number, so that ids stay theirs."""

    def add(self, step: Step) -> None:
        match step:
            case MultiplyAdd():
                self._add(Kind.MULTIPLY_ADD, step.lanes, step.first, step.a, step.b, step.c)
            case Invert():
                self._add(Kind.INVERT, step.value.lanes, step.first, step.value)
            case Ratio():
                self._add(Kind.RATIO, step.a.lanes, step.first, step.a, step.b)
            case HigherBits():
                self._add(Kind.BITS, step.value.lanes, step.first, step.value, count=step.count)
            case Divide():
                self._add(Kind.DIVIDE, step.value.lanes, step.first, step.value, count=step.quotient_bits)
            case Digits():
                self._add(Kind.DIGITS, step.value.lanes, step.first, step.value)
            case Check():
                label = self._labels.setdefault(step.label, len(self._labels))
                self._add(Kind.CHECK, step.lanes, 0, step.a, step.b, step.c, label=label)
            case TemplateInstances():
                self._place(step)
            case _:
                raise UsageError(f"a tape has no operation for {type(step).__name__}")

    def _add(self, kind: Kind, lanes: int, first: int, *terms: Linear, count: int = 0, label: int = 0) -> None:
        numbers = [self._number(linear) for linear in terms]
        self._operations += [kind, lanes, first, *numbers, *[0] * (3 - len(numbers)), count, label]

    def _number(self, linear: Linear) -> int:
        number = self._numbers.get(id(linear))
        if number is None:
            number = self._numbers[id(linear)] = len(self._rows) - 1
            self._kept.append(linear)
            terms = linear.terms
            self._columns += [first for first, _ in terms]
            self._strides += [stride for _, stride in terms]
            self._index += self._values.numbers(terms.values())
            self._rows.append(len(self._columns))
        return number

    def _place(self, step: TemplateInstances) -> None:
        if id(step.template) not in self._templates:
            self._templates[id(step.template)] = len(self._made)
            self._made.append(step.template)
        at = len(self._runs) // 2
        for first, stride in step.runs.tolist():
            self._runs += [first, stride]
        self._operations += [Kind.PLACE, step.lanes, step.first, self._templates[id(step.template)], at, 0, 0, 0]

    def tape(self, wires: int, outputs: tuple[int, ...], inputs: Sequence[Signal]) -> Tape:
        columns = {
            "operations": self._operations,
            "rows": self._rows,
            "columns": self._columns,
            "strides": self._strides,
            "index": self._index,
            "runs": self._runs,
        }
        arrays: dict[str, NDArray[Any]] = {name: np.array(own, dtype=ARRAYS[name]) for name, own in columns.items()}
        arrays["operations"] = arrays["operations"].reshape(-1, WIDTH)
        arrays["values"] = field_from_ints(FIELD, list(self._values))
        return Tape(
            wires, outputs, tuple(inputs), tuple(self._labels), arrays, tuple(_arrays_of(own) for own in self._made)
        )


def _arrays_of(template: Template) -> tuple[int, tuple[NDArray[Any], ...]]:
    program = template.program
    if not isinstance(program, Products):
        raise UsageError("a tape places templates of products alone")
    return program.inputs, (program.row_ptr, program.columns, program.value_index, program.values)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
