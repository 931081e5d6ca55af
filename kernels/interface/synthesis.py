"""The family that computes witnesses of parts of a circuit which are placed many times.

Wires are elements in Montgomery form, (wires, batch, limbs). A part is a program over wires of its own numbering: 0 is
the constant one, then come its inputs, then its own wires. A placement has `lanes` instances of it, whose inputs are
runs of the circuit's wires. The own wires of an instance follow each other, and those of the next lie a step further.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kernels.errors import SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array, HostArray
from kernels.interface.runs import require_exact
from kernels.maths.curves import Field

SHA256_ZERO, SHA256_ONE = -1, -2
"""Bits of a block that are known, among the numbers of inputs. Must equal those of synthesis.h."""


@dataclass(frozen=True, eq=False)
class Products:
    """A program whose own wire i is a * b + c, or c where a is empty, of linear combinations of the wires before it.

    The combinations are rows 3 i, 3 i + 1 and 3 i + 2 of a matrix with the columns `columns`, as in `CsrMatrix`.
    """

    field: Field
    inputs: int
    row_ptr: HostArray
    """Index of each row's first entry, (3 * own + 1,) uint32."""
    columns: HostArray
    """Wire of each entry, (nnz,) uint32."""
    value_index: HostArray
    """Index of each entry's coefficient, (nnz,) uint32."""
    values: HostArray
    """Distinct coefficients, (distinct, limbs) uint64, Montgomery form. The first two are 1 and -1."""

    @property
    def own(self) -> int:
        return int(self.row_ptr.shape[0]) // 3


@dataclass(frozen=True, eq=False)
class Bits:
    """A program whose own wires are bits of the integer that a combination of its inputs is: own wire i is bit
    shift + i. The combination is the one row of a matrix, as in `Products`."""

    field: Field
    inputs: int
    row_ptr: HostArray
    """(2,) uint32."""
    columns: HostArray
    value_index: HostArray
    values: HostArray
    shift: int
    own: int


@dataclass(frozen=True, eq=False)
class Sha256Block:
    """A program whose own wires are bits of the values on the way through SHA-256's compression function."""

    field: Field
    inputs: int
    sources: HostArray
    """Where the 512 bits of message and 256 of state come from, each word's highest first: an input's number, or
    SHA256_ZERO or SHA256_ONE, (768,) int32."""
    bits: HostArray
    """Which bit each own wire is, (own,) uint32: value << 8 | position << 1 | complement. `hash/sha256.h` numbers the
    values."""

    @property
    def own(self) -> int:
        return int(self.bits.shape[0])


Program = Products | Bits | Sha256Block


@dataclass(frozen=True, eq=False)
class Instances:
    """Where the instances of some placements lie among a circuit's wires. A backend keeps what it makes of it."""

    runs: HostArray
    """The wire that is each input of the first instance, and the step to the next, (placements, inputs, 2) int64."""
    own_runs: HostArray
    """The first own wire of the first instance, and the step to that of the next, (placements, 2) int64."""
    lanes: int
    """Instances of each placement."""


class Synthesis(ABC):
    """Programs of one backend, which keeps what it makes of each for as long as the program is there."""

    def __init__(self) -> None:
        self._loaded: WeakKeyDictionary[Program, Any] = WeakKeyDictionary()
        self._found: WeakKeyDictionary[Instances, tuple[Program, int, Any]] = WeakKeyDictionary()
        """For each Instances, the program and number of wires it was checked for, and what the backend made of it."""

    def run(self, program: Program, wires: Array, where: Instances) -> None:
        """Set the own wires of all instances. No instance may have own wires of another as inputs.

        Raises SizeError for wires that are not there, BackendError for a field without kernels.
        """
        preconditions.elements(program.field, wires, "wires")
        preconditions.writable(wires, wires.shape)
        if wires.ndim != 3:
            raise SizeError(f"wires have shape (wires, batch, {program.field.limbs}), not {wires.shape}")
        count = int(wires.shape[0])
        checked, most, found = self._found.get(where, (None, 0, None))
        if checked is not program or most > count:
            check_instances(program, where, count)
            found = self._find(where)
            self._found[where] = program, count, found
        if len(where.own_runs) == 0 or program.own == 0:
            return
        if program not in self._loaded:
            self._loaded[program] = self._load(program)
        self._run(self._loaded[program], found, program, wires, where)

    def clear(self) -> None:
        """Drop what was made of the programs and of where their instances lie."""
        self._loaded.clear()
        self._found.clear()

    # -- what a backend implements, on checked arguments --------------------------------------------------------------

    @abstractmethod
    def _load(self, program: Program) -> Any: ...

    @abstractmethod
    def _find(self, where: Instances) -> Any: ...

    @abstractmethod
    def _run(self, loaded: Any, found: Any, program: Program, wires: Array, where: Instances) -> None: ...


def check_instances(program: Program, where: Instances, count: int) -> None:
    """Raise SizeError unless all instances lie among `count` wires."""
    runs, own, lanes = where.runs, where.own_runs, where.lanes
    if own.shape != (len(own), 2) or runs.shape != (len(own), program.inputs, 2) or lanes < 1:
        raise SizeError(f"{len(own)} placements of {program.inputs} inputs do not fit runs of shape {runs.shape}")
    if len(own) == 0 or program.own == 0:
        return
    require_exact(own, lanes)
    require_exact(runs, lanes)
    first, step = own.T
    last = first + (lanes - 1) * step + program.own - 1
    ends = np.concatenate([runs[..., 0].ravel(), (runs[..., 0] + (lanes - 1) * runs[..., 1]).ravel(), first, last])
    if ends.min() < 0 or ends.max() >= count or first.min() < 1:
        raise SizeError(f"instances lie beyond the {count} wires that there are")
    if lanes > 1 and step.min() < program.own:
        raise SizeError(f"instances of {program.own} wires lie {step.min()} apart")
