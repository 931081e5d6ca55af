"""Circuits written in Python: declare signals, multiply them, assert relations, build an R1CS and its witness program.

    b = CircuitBuilder(BN254)
    x = b.private_input("x", lanes=1000)
    b.output("y", b.multiply(x, x) + 5)
    circuit = b.build()

Every signal is a `Linear` of one or more lanes. Final wires have circom's order: the constant one, outputs, public
inputs, private wires.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distprove.circuits.circuit import Circuit, Signal
from distprove.circuits.linear import Linear, common_lanes
from distprove.circuits.matrices import ConstraintBlock, assemble
from distprove.circuits.program import Assign, Check, Decompose, Invert, Multiply, Step
from distprove.errors import UsageError
from kernels.maths.curves import Curve


@dataclass(frozen=True)
class _Declared:
    signal: Signal
    kind: str  # "output" | "public" | "private"


class CircuitBuilder:
    """Collects wires, constraints and witness steps. Wires are numbered as they are made and renumbered by `build`."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.field = curve.fr
        self._wires = 1  # wire 0 is the constant one
        self._declared: dict[str, _Declared] = {}
        self._constraints: list[ConstraintBlock] = []
        self._steps: list[Step] = []

    # -- signals ----------------------------------------------------------------------------------------------------

    def _new(self, lanes: int) -> tuple[int, Linear]:
        if lanes < 1:
            raise UsageError(f"a signal has at least one lane, not {lanes}")
        first = self._wires
        self._wires += lanes
        return first, Linear.wires(self.field, first, lanes)

    def _declare(self, name: str, kind: str, lanes: int) -> tuple[int, Linear]:
        if name in self._declared:
            raise UsageError(f"the circuit already has a signal named {name!r}")
        first, wires = self._new(lanes)
        self._declared[name] = _Declared(Signal(name, first, lanes), kind)
        return first, wires

    def public_input(self, name: str, lanes: int = 1) -> Linear:
        return self._declare(name, "public", lanes)[1]

    def private_input(self, name: str, lanes: int = 1) -> Linear:
        return self._declare(name, "private", lanes)[1]

    def output(self, name: str, value: Linear) -> Linear:
        """Declare a public output, constrained to equal `value`. Raises UsageError for a name in use."""
        first, wires = self._declare(name, "output", value.lanes)
        self._assign(first, wires, value)
        return wires

    def constant(self, value: int, lanes: int = 1) -> Linear:
        return Linear.constant(self.field, value, lanes)

    def settle(self, value: Linear) -> Linear:
        """Give `value` its own wires, with one linear constraint a lane. This keeps later combinations short."""
        first, wires = self._new(value.lanes)
        self._assign(first, wires, value)
        return wires

    def _assign(self, first: int, wires: Linear, value: Linear) -> None:
        self._steps.append(Assign(first, value))
        self._constrain(value, self.constant(1), wires)

    # -- constraints ------------------------------------------------------------------------------------------------

    def _constrain(self, a: Linear, b: Linear, c: Linear) -> int:
        lanes = common_lanes(a, b, c)
        self._constraints.append(ConstraintBlock(a, b, c, lanes))
        return lanes

    def multiply(self, a: Linear, b: Linear) -> Linear:
        """The product a * b, lane by lane. It takes one constraint and one wire a lane."""
        lanes = common_lanes(a, b)
        first, wires = self._new(lanes)
        self._steps.append(Multiply(first, lanes, a, b))
        self._constrain(a, b, wires)
        return wires

    def inverse(self, value: Linear) -> Linear:
        """The inverse 1 / value, lane by lane. No witness satisfies the circuit if a lane of `value` is zero."""
        first, wires = self._new(value.lanes)
        self._steps.append(Invert(first, value))
        self.assert_product(value, wires, self.constant(1), "value is invertible")
        return wires

    def bits(self, value: Linear, count: int) -> list[Linear]:
        """Decompose `value` into `count` bits, least significant first, constrained to be bits that sum up to `value`.

        `count` must be below the field's bit length, because with that many bits both x and x + p would be valid
        decompositions. Raises UsageError.
        """
        if not 1 <= count < self.field.bits:
            raise UsageError(f"a decomposition has 1 to {self.field.bits - 1} bits, not {count}")
        first, wires = self._new(value.lanes * count)
        self._steps.append(Decompose(first, count, value))
        lanes = value.lanes
        bits = [wires[k * lanes : (k + 1) * lanes] for k in range(count)]
        self._constrain(wires, wires, wires)
        weighted = self.constant(0, lanes)
        for k, bit in enumerate(bits):
            weighted = weighted + bit * (1 << k)
        self.assert_equal(weighted, value, f"value fits {count} bits")
        return bits

    def assert_product(self, a: Linear, b: Linear, c: Linear, label: str) -> None:
        """Constrain a * b = c. `label` says what is asserted, for the error when inputs violate it."""
        lanes = self._constrain(a, b, c)
        self._steps.append(Check(a, b, c, lanes, label))

    def assert_equal(self, a: Linear, b: Linear, label: str) -> None:
        self.assert_product(a - b, self.constant(1), self.constant(0), label)

    def assert_boolean(self, value: Linear, label: str) -> None:
        self.assert_product(value, value, value, label)

    # -- result -----------------------------------------------------------------------------------------------------

    def build(self) -> Circuit:
        """Build the R1CS and its witness program. Raises UsageError for a circuit without constraints."""
        if not self._constraints:
            raise UsageError("the circuit has no constraints")
        declared = list(self._declared.values())
        outputs = [d.signal for d in declared if d.kind == "output"]
        public = [d.signal for d in declared if d.kind == "public"]
        private = [d.signal for d in declared if d.kind == "private"]
        # Public wires come first, in the order of their declaration; all others keep the order of their creation.
        head = [np.arange(s.first, s.first + s.lanes) for s in (*outputs, *public)]
        leading = np.concatenate([np.zeros(1, dtype=np.int64), *head])
        is_private = np.ones(self._wires, dtype=bool)
        is_private[leading] = False
        order = np.concatenate([leading, np.flatnonzero(is_private)])
        position = np.empty(self._wires, dtype=np.uint32)
        position[order] = np.arange(self._wires, dtype=np.uint32)
        r1cs = assemble(
            self.curve,
            self._constraints,
            position,
            outputs=sum(s.lanes for s in outputs),
            public_inputs=sum(s.lanes for s in public),
            private_inputs=sum(s.lanes for s in private),
        )
        return Circuit(self.curve, r1cs, tuple(outputs), (*public, *private), tuple(self._steps), order)
