"""A circuit as the preprocessed columns of its tables, and its values as what their main columns are made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from distprove.errors import UsageError
from distprove.stark.air import Air
from distprove.stark.field import Words
from distprove.stark.recursion.circuit import Circuit
from distprove.stark.recursion.columns import BIT_ROWS, CONSTANT_ROWS, JOIN_ROWS, PERMUTATION_ROWS, RELATION_ROWS
from distprove.stark.recursion.evaluation import Evaluation
from distprove.stark.recursion.frame import KINDS, MORE, Frame
from distprove.stark.recursion.rows import Column, rows_of
from distprove.stark.recursion.tables import (
    Constants,
    Decompositions,
    Joins,
    Permutations,
    Publics,
    Relations,
)
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.maths.poseidon2 import WIDTH

PERMUTED = ("poseidon2", MORE["poseidon2"])
"""The tables of permutations."""

Fixed = Callable[[int], Array | None]
"""Preprocessed columns of a table, (width, rows) in a backend's memory, by its number."""


def node_tables(public: Sequence[tuple[str, int]], names: Iterable[str]) -> list[Air]:
    """The tables of these names for a circuit with these public values, names and numbers of scalars."""
    tables: list[Air] = [
        Relations("relations"),
        Relations("more relations"),
        Joins(),
        Constants(),
        Publics(dict(public)),
        Decompositions(),
        Permutations("poseidon2"),
        Permutations("more poseidon2"),
    ]
    known = {table.name: table for table in tables}
    return [known[name] for name in names]


@dataclass(frozen=True, eq=False)
class Layout:
    """The tables of a circuit, of the heights of a frame."""

    frame: Frame
    rows: Mapping[str, int]
    """How many rows of each kind are in use."""
    preprocessed: Mapping[str, Words] = field(repr=False)
    """The preprocessed columns of each table, (width, 2^log_height). They end in zeros."""

    @classmethod
    def of(cls, circuit: Circuit, frame: Frame | None = None) -> Layout:
        """The tables of a circuit, by default of the lowest frame that it fits. Raises UsageError for a circuit that is
        too large for the frame."""
        columns = rows_of(circuit)
        rows = {kind: len(columns[kind][0]) for kind in KINDS}
        frame = frame or Frame.fitting(rows)
        if not frame.has_room(rows):
            raise UsageError(f"a circuit whose rows are {rows}, too large for tables of 2^{frame.log_heights}")
        for kind, more in MORE.items():
            height, own = 1 << frame.log_heights[kind], columns[kind]
            columns[kind], columns[more] = [each[:height] for each in own], [each[height:] for each in own]
        return cls(frame, rows, {name: _filled(columns[name], height) for name, height in frame.log_heights.items()})

    @property
    def log_heights(self) -> Mapping[str, int]:
        return self.frame.log_heights

    def used(self, name: str) -> int:
        """How many rows of a table are in use."""
        for kind, more in MORE.items():
            if name == more:
                return max(0, self.rows[kind] - (1 << self.log_heights[kind]))
        return min(self.rows[name], 1 << self.log_heights[name])

    def inputs(self, made: Evaluation) -> dict[str, Words]:
        """What `traces` takes, as host arrays: the values of wires, the states of permutations, and a first row."""
        found: dict[str, Words] = {"values": made.values.reshape(-1), "begins": self._begins}
        first = 0
        for name in self.log_heights:
            if name in PERMUTED:
                states = made.states[first:][: self.used(name)]
                first += len(states)
                # Without a row one of zeros, as all others are then: a row function takes no empty array.
                found[f"{name} states"] = states.reshape(-1) if len(states) else np.zeros(WIDTH, dtype=np.uint64)
        return found

    @property
    def _begins(self) -> Words:
        begins = np.zeros((1, 1 << self.log_heights["publics"]), dtype=np.uint64)
        begins[0, 0] = 1
        return begins

    def traces(self, inputs: Mapping[str, Array], fixed: Fixed, backend: Backend) -> list[Array]:
        """The main columns of each table from `inputs` in the backend's memory, where its preprocessed columns are by
        its number. Raises BackendError."""
        return [self._trace(number, name, inputs, fixed, backend) for number, name in enumerate(self.log_heights)]

    def _trace(self, number: int, name: str, inputs: Mapping[str, Array], fixed: Fixed, backend: Backend) -> Array:
        columns, rows, values = fixed(number), 1 << self.log_heights[name], inputs["values"]
        assert columns is not None, "every table has preprocessed columns"
        match name:
            case "publics":
                return inputs["begins"]
            case "relations" | "more relations":
                return RELATION_ROWS.make(backend, rows, values=values, numbers=_named(Relations, columns, "number"))
            case "joins":
                return JOIN_ROWS.make(backend, rows, values=values, numbers=_named(Joins, columns, "number"))
            case "constants":
                return CONSTANT_ROWS.make(backend, rows, values=values, numbers=_named(Constants, columns, "number"))
            case "bits":
                of, factors = (_named(Decompositions, columns, part) for part in ("of", "factor"))
                return BIT_ROWS.make(backend, rows, values=values, of=of, factors=factors)
            case _:
                states, bits = inputs[f"{name} states"], _named(Permutations, columns, "bit")
                return PERMUTATION_ROWS.make(backend, rows, states=states, values=values, bits=bits)


def _filled(columns: Sequence[Column], log_height: int) -> Words:
    """Columns of numbers below 2^64 as (width, 2^log_height), filled up with zeros."""
    out = np.zeros((len(columns), 1 << log_height), dtype=np.uint64)
    for to, column in zip(out, columns, strict=True):
        to[: len(column)] = column
    return out


def _named(table: type[Air], columns: Array, name: str) -> Array:
    """The preprocessed columns of this name, (its width, rows), among all of a table."""
    widths = list(table.preprocessed.items())
    first = sum(width for _, width in widths[: [own for own, _ in widths].index(name)])
    return columns[first : first + table.preprocessed[name]]
