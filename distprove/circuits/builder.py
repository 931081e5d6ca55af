"""Circuits written in Python: declare signals, multiply them, assert relations, build an R1CS and its witness program.

    b = CircuitBuilder(BN254)
    x = b.private_input("x", lanes=1000)
    b.output("y", b.multiply(x, x) + 5)
    circuit = b.build()

Every signal is a `Linear` of one or more lanes. Final wires have circom's order: the constant one, outputs, public
inputs, private wires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.circuit import Circuit, Signal, WitnessProgram
from distprove.circuits.linear import Linear, common_lanes, weighted_sum
from distprove.circuits.matrices import (
    SIDES,
    ConstraintBlock,
    Dictionary,
    Shape,
    placed_matrices,
    shape_of,
    template_rows,
)
from distprove.circuits.program import Check, Decompose, Invert, MultiplyAdd, Step, assign
from distprove.circuits.schedule import scheduled
from distprove.circuits.templates import DealtInstances, Sides, Template, TemplateInstances, single_runs
from distprove.errors import UsageError
from distprove.groth16.templated import TemplatedSystem
from kernels.host.units import count_of
from kernels.maths.curves import Curve

Kind = Literal["output", "public", "private"]


class CircuitBuilder:
    """Collects wires, constraints and witness steps. Wires are numbered as they are made and renumbered by `build`."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.field = curve.fr
        self._wires = 1  # wire 0 is the constant one
        self._names: set[str] = set()
        self._declared: dict[Kind, list[Signal]] = {"output": [], "public": [], "private": []}
        self._hidden: dict[str, list[NDArray[np.int64]]] = {}
        """The private inputs inside of templates."""
        self._constraints: list[ConstraintBlock | DealtInstances] = []
        self.constraints = 0
        """Number of the constraints so far."""
        self._steps: list[Step] = []
        self._recording = False
        """Whether a template is recorded."""

    # -- signals ----------------------------------------------------------------------------------------------------

    def new_wires(self, lanes: int) -> tuple[int, Linear]:
        """Make `lanes` private wires: the number of the first, and their values. A step must set them (`add_step`)."""
        if lanes < 1:
            raise UsageError(f"a signal has at least one lane, not {lanes}")
        first = self._wires
        self._wires += lanes
        return first, Linear.wires(self.field, first, lanes)

    def _declare(self, name: str, kind: Kind, lanes: int) -> tuple[int, Linear]:
        if name in self._names or name in self._hidden:
            raise UsageError(f"the circuit already has a signal named {name!r}")
        first, wires = self.new_wires(lanes)
        self._names.add(name)
        self._declared[kind].append(Signal(name, first, lanes))
        return first, wires

    def public_input(self, name: str, lanes: int = 1) -> Linear:
        return self._declare(name, "public", lanes)[1]

    def private_input(self, name: str, lanes: int = 1) -> Linear:
        """Declare private wires that an input file sets. Inside of a template a name may occur again: then the wires
        follow those before. Raises UsageError for a name in use."""
        if not self._recording:
            return self._declare(name, "private", lanes)[1]
        first, wires = self.new_wires(lanes)
        self._hidden.setdefault(name, []).append(np.arange(first, first + lanes))
        return wires

    def output(self, name: str, value: Linear) -> Linear:
        """Declare a public output, constrained to equal `value`. Raises UsageError for a name in use."""
        first, wires = self._declare(name, "output", value.lanes)
        self._assign(first, wires, value)
        return wires

    def constant(self, value: int, lanes: int = 1) -> Linear:
        return Linear.constant(self.field, value, lanes)

    def settle(self, value: Linear) -> Linear:
        """Give `value` its own wires, with one linear constraint a lane. This keeps later combinations short."""
        first, wires = self.new_wires(value.lanes)
        self._assign(first, wires, value)
        return wires

    def _assign(self, first: int, wires: Linear, value: Linear) -> None:
        self.add_step(assign(first, value))
        self.constrain(value, self.constant(1), wires)

    def add_step(self, step: Step) -> None:
        """Add a step to the witness program. It may read wires that earlier steps or inputs set."""
        self._steps.append(step)

    # -- constraints ------------------------------------------------------------------------------------------------

    def constrain(self, a: Linear, b: Linear, c: Linear) -> int:
        """Constrain a * b = c where the witness program's steps make that hold, and return the number of lanes."""
        lanes = common_lanes(a, b, c)
        self._constraints.append(ConstraintBlock(a, b, c, lanes))
        self.constraints += lanes
        return lanes

    def multiply(self, a: Linear, b: Linear) -> Linear:
        """The product a * b, lane by lane. It takes one constraint and one wire a lane."""
        return self.multiply_add(a, b, Linear(self.field, 1, {}))

    def multiply_add(self, a: Linear, b: Linear, c: Linear) -> Linear:
        """The value a * b + c, lane by lane, with one constraint a * b = result - c and one wire a lane."""
        lanes = common_lanes(a, b, c)
        first, wires = self.new_wires(lanes)
        self.add_step(MultiplyAdd(first, lanes, a, b, c))
        self.constrain(a, b, wires - c)
        return wires

    def inverse(self, value: Linear) -> Linear:
        """The inverse 1 / value, lane by lane. No witness satisfies the circuit if a lane of `value` is zero."""
        first, wires = self.new_wires(value.lanes)
        self.add_step(Invert(first, value))
        self.assert_product(value, wires, self.constant(1), "value is invertible")
        return wires

    def bits(self, value: Linear, count: int) -> list[Linear]:
        """Decompose `value` into `count` bits, least significant first, constrained to be bits that sum up to `value`.

        `count` must be below the field's bit length, because with that many bits both x and x + p would be valid
        decompositions. Raises UsageError.
        """
        if not 1 <= count < self.field.bits:
            raise UsageError(f"a decomposition has 1 to {count_of(self.field.bits - 1, 'bit')}, not {count}")
        first, wires = self.new_wires(value.lanes * count)
        self.add_step(Decompose(first, count, value, 0, count))
        bits = [wires[k::count] for k in range(count)]
        self.constrain(wires, wires, wires)
        self.assert_equal(
            weighted_sum([1 << k for k in range(count)], bits), value, f"value fits {count_of(count, 'bit')}"
        )
        return bits

    def assert_product(self, a: Linear, b: Linear, c: Linear, label: str) -> None:
        """Constrain a * b = c. `label` says what is asserted, for the error when inputs violate it."""
        lanes = self.constrain(a, b, c)
        self.add_step(Check(a, b, c, lanes, label))

    def assert_equal(self, a: Linear, b: Linear, label: str) -> None:
        self.assert_product(a - b, self.constant(1), self.constant(0), label)

    def assert_boolean(self, value: Linear, label: str) -> None:
        self.assert_product(value, value, value, label)

    # -- templates --------------------------------------------------------------------------------------------------

    @classmethod
    def record(
        cls, curve: Curve, inputs: int, gadget: Callable[[CircuitBuilder, Sequence[Linear]], Sequence[Linear]]
    ) -> Template:
        """Record `gadget` as a template of `inputs` formal inputs of one lane each. What it returns are the outputs.

        Private inputs that the gadget declares are the circuit's, each instance with its own; those of one name follow
        each other in the order of their wires. Raises UsageError for a gadget that declares public signals, has no
        constraints or returns values of several lanes.
        """
        b = cls(curve)
        b._recording = True
        formal = [b.new_wires(1)[1] for _ in range(inputs)]
        outputs = tuple(gadget(b, formal))
        public = b._declared["output"] or b._declared["public"]
        if public or not b._constraints or any(output.lanes != 1 for output in outputs):
            raise UsageError("a template has constraints, no public signals, and outputs of one lane")
        values, parts = Dictionary(), list[Sides | DealtInstances]()
        for _, group in groupby(b._constraints, type):
            some = list(group)
            parts += [part for part in some if isinstance(part, DealtInstances)]
            if blocks := [part for part in some if isinstance(part, ConstraintBlock)]:
                a_rows, b_rows, c_rows = (template_rows(blocks, side, values) for side in SIDES)
                parts.append((a_rows, b_rows, c_rows))
        private = {signal.name: signal.wires for signal in b.signals("private")}
        return Template(curve.fr, inputs, b._wires, outputs, tuple(parts), tuple(values), tuple(b._steps), private)

    def place(self, template: Template, inputs: Sequence[Linear]) -> list[Linear]:
        """Place one instance of `template` for each lane of `inputs`, and return its outputs, with as many lanes.

        Every input is a wire a lane, or one wire for all. Raises UsageError for an input that is a combination.
        """
        return self.place_in_turn(template, [inputs])[0]

    def place_in_turn(self, template: Template, groups: Sequence[Sequence[Linear]]) -> list[list[Linear]]:
        """Place instances whose inputs are `groups` in turn: the first lane of each group, then the second of each, as
        cards are dealt. The last groups may have a lane less. Returns the outputs of each group, as `place` does.
        """
        for inputs in groups:
            if len(inputs) != template.inputs:
                raise UsageError(f"the template takes {count_of(template.inputs, 'input')}, not {len(inputs)}")
        lanes = [common_lanes(*inputs) for inputs in groups]
        if lanes != [len(range(k, sum(lanes), len(groups))) for k in range(len(groups))]:
            raise UsageError(f"groups whose lanes are {lanes} cannot be dealt in turn")
        step = template.own * len(groups)
        dealt = DealtInstances(
            tuple(
                TemplateInstances(template, single_runs(inputs), self._wires + k * template.own, step, count)
                for k, (inputs, count) in enumerate(zip(groups, lanes, strict=True))
            )
        )
        self._wires += sum(lanes) * template.own
        for placed in dealt.groups:
            for name, wires in template.private.items():
                if name in self._names:
                    raise UsageError(f"the circuit already has a signal named {name!r}")
                self._hidden.setdefault(name, []).append(placed.frame.every(wires))
            self.add_step(placed)
        self._constraints.append(dealt)
        self.constraints += sum(lanes) * template.rows
        return [placed.outputs() for placed in dealt.groups]

    # -- result -----------------------------------------------------------------------------------------------------

    def build(self) -> Circuit:
        """Build the R1CS and its witness program. Raises UsageError for a circuit without constraints."""
        return Circuit(**vars(self.witness_program()), r1cs=self.system().r1cs())

    def system(self) -> TemplatedSystem:
        """The constraint system, with templates stored once. Raises UsageError for a circuit without constraints."""
        if not self._constraints:
            raise UsageError("the circuit has no constraints")
        order, position = self._order(), None
        if order is not None:
            position = np.empty(self._wires, dtype=np.uint32)
            position[order] = np.arange(self._wires, dtype=np.uint32)
        kinds: tuple[Kind, ...] = ("output", "public", "private")
        outputs, public, private = (sum(s.lanes for s in self.signals(kind)) for kind in kinds)
        a, b, c = placed_matrices(self.field, self._constraints, self._wires, position)
        return TemplatedSystem(self.curve, self._wires, outputs, public, private, a=a, b=b, c=c)

    def witness_program(self) -> WitnessProgram:
        """What computes the circuit's witnesses, without its matrices."""
        kinds: tuple[Kind, ...] = ("output", "public", "private")
        outputs, public, private = (self.signals(kind) for kind in kinds)
        return WitnessProgram(
            self.curve,
            outputs,
            (*public, *private),
            len(public),
            scheduled(self._steps, self.field, self._wires),
            self._order(),
        )

    @property
    def steps(self) -> Sequence[Step]:
        """The witness program in the order of its creation."""
        return self._steps

    @property
    def wires(self) -> int:
        """Number of the wires so far, with the constant one."""
        return self._wires

    def signals(self, kind: Kind) -> tuple[Signal, ...]:
        """The declared signals of a kind, in order, then those inside of templates."""
        hidden = self._hidden.items() if kind == "private" else ()
        return (*self._declared[kind], *(Signal.of(name, np.sort(np.concatenate(wires))) for name, wires in hidden))

    def shape(self) -> Shape:
        """The circuit's sizes, without assembling its matrices."""
        return shape_of(self._constraints, self._is_private())

    def _order(self) -> NDArray[np.int64] | None:
        """The wire that is each final one: public wires come first, in the order of their declaration; all others keep
        the order of their creation. None where no wire moves."""
        leading = self._leading()
        if (leading == np.arange(len(leading))).all():
            return None
        return np.concatenate([leading, np.flatnonzero(self._is_private())])

    def _leading(self) -> NDArray[np.int64]:
        """The wires that come first in a circuit: the constant one, outputs, public inputs."""
        signals = (*self._declared["output"], *self._declared["public"])
        return np.concatenate([np.zeros(1, np.int64), *(np.arange(s.first, s.first + s.lanes) for s in signals)])

    def _is_private(self) -> NDArray[np.bool_]:
        private = np.ones(self._wires, dtype=np.bool_)
        private[self._leading()] = False
        return private
