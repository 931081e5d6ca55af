"""A built circuit: its R1CS, and the program that turns inputs into witnesses, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.schedule import Schedule
from distprove.errors import WitnessGenerationError
from distprove.groth16.inputs import Inputs, flatten, signals
from distprove.groth16.r1cs import R1cs
from kernels.interface.arrays import Array, Empty
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve


@dataclass(frozen=True)
class Signal:
    """A named run of wires: `lanes` wires from number `first`, in the builder's numbering."""

    name: str
    first: int
    lanes: int


@dataclass(frozen=True)
class WitnessProgram:
    """A circuit's signals and what computes its witnesses, without the matrices."""

    curve: Curve
    outputs: tuple[Signal, ...]
    inputs: tuple[Signal, ...]
    """Public inputs first."""
    public_inputs: int
    """Number of signals that are public inputs."""
    schedule: Schedule
    order: NDArray[np.int64] | None
    """The builder's wire number of each final wire, (wires,); None where they have the builder's order, so that no
    witness, perhaps of gigabytes, is copied for it."""

    @property
    def n_wires(self) -> int:
        return self.schedule.wires

    @property
    def n_public(self) -> int:
        """Number of outputs and public inputs. Their wires follow the constant one."""
        return sum(signal.lanes for signal in (*self.outputs, *self.inputs[: self.public_inputs]))

    def witness(self, inputs: Inputs, backend: Backend, empty: Empty = np.empty) -> NDArray[np.uint64]:
        """Compute the witness of one input, (wires, limbs) canonical integers, as `witnesses` does for many."""
        one: NDArray[np.uint64] = self.witnesses([inputs], backend, empty)[0]
        return one

    def witnesses(self, inputs: Sequence[Inputs], backend: Backend, empty: Empty = np.empty) -> NDArray[np.uint64]:
        """Compute the witnesses of many inputs at once, (len(inputs), wires, limbs) uint64 canonical integers, in what
        `empty` gives.

        An input gives each signal's values by its name, as circom's inputs do, as values or as a file's text. Values
        are reduced modulo the field. Raises WitnessGenerationError for a missing, unknown or misshapen signal and
        UnsatisfiedWitness where an assertion fails; neither message holds a value.
        """
        found = empty((len(inputs), self.n_wires, self.curve.fr.limbs), np.uint64)
        if inputs:
            host: NDArray[np.uint64] = backend.to_host(self._made_on(backend, inputs))
            for item, one in enumerate(found):
                one[...] = host[:, item]
        return found

    def witness_on(self, backend: Backend, inputs: Inputs) -> Array:
        """Compute the witness of one input in the backend's memory, (wires, limbs), and leave it there.

        Otherwise as `witness`.
        """
        return self._made_on(backend, [inputs])[:, 0]

    def _made_on(self, backend: Backend, inputs: Sequence[Inputs]) -> Array:
        """The wires of all witnesses, (wires, batch, limbs) canonical integers in the final order."""
        field = self.curve.fr
        wires = self.schedule.on(backend, field, len(inputs))
        given = [self._values(number, one) for number, one in enumerate(inputs)]
        for signal in self.inputs:
            by_lane = np.stack([values.pop(signal.name) for values in given], axis=1).reshape(-1, field.limbs)
            wires.store(signal.first, backend.vectors.to_montgomery(field, backend.to_device(by_lane)))
        values = self.schedule.run(wires)
        flat = values.reshape(-1, field.limbs)
        standard = backend.vectors.from_montgomery(field, flat, out=flat).reshape(values.shape)
        return standard if self.order is None else standard[backend.to_device(self.order)]

    def _values(self, number: int, inputs: Inputs) -> dict[str, NDArray[np.uint64]]:
        """The values of each signal of one input, (lanes, limbs)."""
        field, encoded = self.curve.fr, {signal.name: bytearray() for signal in self.inputs}
        for part in signals(inputs):
            if part.signal not in encoded:
                raise WitnessGenerationError(f"input {number}: the circuit has no input signal {part.signal!r}")
            for some in flatten(part.signal, part.values, field):
                encoded[part.signal] += some
        for signal in self.inputs:
            count = len(encoded[signal.name]) // field.bytes
            if not count:
                raise WitnessGenerationError(f"input signal {signal.name!r} is missing")
            if count != signal.lanes:
                raise WitnessGenerationError(f"input signal {signal.name!r} takes {signal.lanes} values, not {count}")
        return {name: np.frombuffer(bytes(values), "<u8").reshape(-1, field.limbs) for name, values in encoded.items()}


@dataclass(frozen=True)
class Circuit(WitnessProgram):
    """A circuit that `CircuitBuilder.build` made: its witness program and its R1CS."""

    r1cs: R1cs
