"""A built circuit: its R1CS, and the program that turns inputs into witnesses, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.schedule import Schedule
from distprove.errors import WitnessGenerationError
from distprove.groth16.inputs import Inputs, flatten, signals
from distprove.groth16.r1cs import R1cs
from kernels.host.units import count_of
from kernels.interface.arrays import Array, Empty
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Field


@dataclass(frozen=True)
class Signal:
    """A named group of wires, in the builder's numbering: `lanes` wires from number `first`, or those in `places`."""

    name: str
    first: int
    lanes: int
    places: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    """The wire of each value; None where they follow each other."""

    @classmethod
    def of(cls, name: str, wires: NDArray[np.int64]) -> Signal:
        """The signal of these wires, at least one."""
        run = bool((np.diff(wires) == 1).all())
        return cls(name, int(wires[0]), len(wires), None if run else wires)

    @property
    def wires(self) -> NDArray[np.int64]:
        """The wire of each value."""
        return np.arange(self.first, self.first + self.lanes) if self.places is None else self.places


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
            encoded = [self.encode(one, number) for number, one in enumerate(inputs)]
            host: NDArray[np.uint64] = backend.to_host(self._made_on(backend, encoded))
            for item, one in enumerate(found):
                one[...] = host[:, item]
        return found

    def witness_on(self, backend: Backend, inputs: Inputs) -> Array:
        """Compute the witness of one input in the backend's memory, (wires, limbs), and leave it there.

        Otherwise as `witness`.
        """
        return self.witness_from(backend, self.encode(inputs))

    def witness_from(self, backend: Backend, encoded: NDArray[np.uint64]) -> Array:
        """As `witness_on`, for inputs that `encode` encoded. Raises UnsatisfiedWitness."""
        return self._made_on(backend, [encoded])[:, 0]

    def encode(self, inputs: Inputs, number: int = 0) -> NDArray[np.uint64]:
        """The values of one input, canonical integers, (values, limbs): those of each signal in order, public ones
        first. Raises WitnessGenerationError, which calls the input by its `number`."""
        return encoded(inputs, self.inputs, self.curve.fr, number)

    def _made_on(self, backend: Backend, encoded: Sequence[NDArray[np.uint64]]) -> Array:
        """The wires of all witnesses, (wires, batch, limbs) canonical integers in the final order."""
        fr = self.curve.fr
        wires = self.schedule.on(backend, fr, len(encoded))
        first = 0
        for signal in self.inputs:
            given = [one[first : first + signal.lanes] for one in encoded]
            by_lane = np.stack(given, axis=1).reshape(-1, fr.limbs)
            values = backend.vectors.to_montgomery(fr, backend.to_device(by_lane))
            if signal.places is None:
                wires.store(signal.first, values)
            else:
                wires.values[backend.to_device(signal.places)] = values.reshape(signal.lanes, -1, fr.limbs)
            first += signal.lanes
        values = self.schedule.run(wires)
        flat = values.reshape(-1, fr.limbs)
        standard = backend.vectors.from_montgomery(fr, flat, out=flat).reshape(values.shape)
        return standard if self.order is None else standard[backend.to_device(self.order)]


@dataclass(frozen=True)
class Circuit(WitnessProgram):
    """A circuit that `CircuitBuilder.build` made: its witness program and its R1CS."""

    r1cs: R1cs


def encoded(inputs: Inputs, given: Sequence[Signal], field: Field, number: int = 0) -> NDArray[np.uint64]:
    """The values of one input for these signals, in their order, (values, limbs) canonical integers. Raises
    WitnessGenerationError, which calls the input by its `number`."""
    found = {signal.name: bytearray() for signal in given}
    for part in signals(inputs):
        if part.signal not in found:
            raise WitnessGenerationError(f"input {number}: the circuit has no input signal {part.signal!r}")
        for some in flatten(part.signal, part.values, field):
            found[part.signal] += some
    for signal in given:
        count = len(found[signal.name]) // field.bytes
        if not count:
            raise WitnessGenerationError(f"input signal {signal.name!r} is missing")
        if count != signal.lanes:
            raise WitnessGenerationError(
                f"input signal {signal.name!r} takes {count_of(signal.lanes, 'value')}, not {count}"
            )
    return np.frombuffer(b"".join(found.values()), "<u8").reshape(-1, field.limbs)
