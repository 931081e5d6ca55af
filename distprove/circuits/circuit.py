"""A built circuit: its R1CS, and the program that turns inputs into witnesses, many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.program import Step, Wires
from distprove.errors import WitnessGenerationError
from distprove.groth16.r1cs import R1cs
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve
from kernels.maths.encoding import scalars_from_ints


@dataclass(frozen=True)
class Signal:
    """A named run of wires: `lanes` wires from number `first`, in the builder's numbering."""

    name: str
    first: int
    lanes: int


@dataclass(frozen=True)
class Circuit:
    """A circuit that `CircuitBuilder.build` made: its R1CS, its signals and its witness program."""

    curve: Curve
    r1cs: R1cs
    outputs: tuple[Signal, ...]
    inputs: tuple[Signal, ...]
    steps: tuple[Step, ...]
    order: NDArray[np.int64]
    """The builder's wire number of each final wire, (wires,)."""

    @property
    def n_wires(self) -> int:
        return int(self.order.shape[0])

    @cached_property
    def _in_order(self) -> bool:
        """Whether the final wires have the builder's order. Then no witness, perhaps of gigabytes, is copied for it."""
        return bool((self.order == np.arange(self.n_wires)).all())

    def witness(self, inputs: Mapping[str, Any], backend: Backend) -> NDArray[np.uint64]:
        """Compute the witness of one input, (wires, limbs) canonical integers, as `witnesses` does for many."""
        one: NDArray[np.uint64] = self.witnesses([inputs], backend)[0]
        return one

    def witnesses(self, inputs: Sequence[Mapping[str, Any]], backend: Backend) -> NDArray[np.uint64]:
        """Compute the witnesses of many inputs at once, (len(inputs), wires, limbs) uint64 canonical integers.

        An input maps each signal's name to its value: an int, a decimal or 0x string, or (nested) lists of those for
        signals of several lanes; values are reduced modulo the field. Raises WitnessGenerationError for a missing,
        unknown or misshapen signal and UnsatisfiedWitness where an assertion fails; neither message holds a value.
        """
        if not inputs:
            return np.zeros((0, self.n_wires, self.curve.fr.limbs), dtype=np.uint64)
        host: NDArray[np.uint64] = backend.to_host(self._made_on(backend, inputs))
        return np.ascontiguousarray(host.swapaxes(0, 1))

    def witness_on(self, backend: Backend, inputs: Mapping[str, Any]) -> Array:
        """Compute the witness of one input in the backend's memory, (wires, limbs), and leave it there.

        Otherwise as `witness`.
        """
        return self._made_on(backend, [inputs])[:, 0]

    def _made_on(self, backend: Backend, inputs: Sequence[Mapping[str, Any]]) -> Array:
        """The wires of all witnesses, (wires, batch, limbs) canonical integers in the final order."""
        wires = Wires(backend, self.curve.fr, self.n_wires, len(inputs))
        for signal in self.inputs:
            self._load(wires, signal, [_lookup(one, signal) for one in inputs])
        known = {signal.name for signal in self.inputs}
        for number, one in enumerate(inputs):
            for name in one:
                if name not in known:
                    raise WitnessGenerationError(f"input {number}: the circuit has no input signal {name!r}")
        for step in self.steps:
            step.run(wires)
        flat = wires.values.reshape(-1, self.curve.fr.limbs)
        standard = backend.vectors.from_montgomery(self.curve.fr, flat, out=flat).reshape(wires.values.shape)
        return standard if self._in_order else standard[backend.to_device(self.order)]

    def _load(self, wires: Wires, signal: Signal, values: list[list[int]]) -> None:
        field = self.curve.fr
        by_lane = (values[item][lane] for lane in range(signal.lanes) for item in range(len(values)))
        standard = wires.backend.to_device(scalars_from_ints(field, by_lane))
        wires.store(signal.first, wires.backend.vectors.to_montgomery(field, standard))


def _lookup(inputs: Mapping[str, Any], signal: Signal) -> list[int]:
    if signal.name not in inputs:
        raise WitnessGenerationError(f"input signal {signal.name!r} is missing")
    values = list(_flatten(inputs[signal.name], signal.name))
    if len(values) != signal.lanes:
        raise WitnessGenerationError(f"input signal {signal.name!r} takes {signal.lanes} values, not {len(values)}")
    return values


def _flatten(value: Any, name: str) -> Iterator[int]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flatten(item, name)
    elif isinstance(value, int):
        yield int(value)
    elif isinstance(value, str):
        try:
            yield int(value, 16) if value.lower().startswith("0x") else int(value, 10)
        except ValueError:
            raise WitnessGenerationError(f"input signal {name!r} has a value that is no integer") from None
    else:
        raise WitnessGenerationError(f"input signal {name!r} has a value of type {type(value).__name__}")
