"""A circuit as the preprocessed columns of its tables, and its values as their main columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from distprove.errors import UsageError
from distprove.stark.air import Air
from distprove.stark.field import Words, add, inverse, mul, sub
from distprove.stark.recursion.circuit import (
    BITS,
    HALF,
    Circuit,
)
from distprove.stark.recursion.columns import PERMUTATION_ROWS, wire_columns
from distprove.stark.recursion.evaluation import Evaluation
from distprove.stark.recursion.frame import KINDS, MORE, Frame
from distprove.stark.recursion.rows import rows_of
from distprove.stark.recursion.tables import (
    POWER_BITS,
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
"""The tables whose rows the backend makes."""


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


class Layout:
    """The tables of a circuit, of the heights of a frame; by default the lowest that the circuit fits."""

    def __init__(self, circuit: Circuit, frame: Frame | None = None) -> None:
        """Raises UsageError for a circuit that is too large for the frame."""
        self.circuit = circuit
        self._rows = rows_of(circuit)
        self.rows = {kind: len(self._rows[kind].fixed) for kind in KINDS}
        """How many rows of each kind are in use."""
        self.frame = frame or Frame.fitting(self.rows)
        if not self.frame.has_room(self.rows):
            raise UsageError(f"a circuit of {self.rows} rows, too large for tables of 2^{self.frame.log_heights}")
        for kind, more in MORE.items():
            self._rows[kind], self._rows[more] = self._rows[kind].split(1 << self.frame.log_heights[kind])

    @property
    def log_heights(self) -> Mapping[str, int]:
        return self.frame.log_heights

    @cached_property
    def preprocessed(self) -> Mapping[str, Words]:
        """Preprocessed columns, (width, rows), of the tables that have any."""
        return {name: self._columns(self._rows[name].fixed, name) for name in self.frame.log_heights}

    def _columns(self, rows: Words, name: str) -> Words:
        """Rows (n, width) as columns (width, 2^log_height), which end in zeros."""
        out = np.zeros((rows.shape[1], 1 << self.log_heights[name]), dtype=np.uint64)
        out[:, : len(rows)] = rows.T
        return out

    def inputs(self, made: Evaluation, threads: int = 1) -> dict[str, Words]:
        """What `traces` takes, as host arrays: the main columns, or for permutations their states and places. Made on
        `threads` threads."""
        found: dict[str, Words] = {}
        first = 0
        for name in self.log_heights:
            if name in PERMUTED:
                wires = self._rows[name].wires
                states, places = made.states[first:][: len(wires)], made.values[wires, 0]
                first += len(wires)
                # Without a row one of zeros, as all others are then: a row function takes no empty array.
                found[f"{name} states"] = states.reshape(-1) if len(wires) else np.zeros(WIDTH, dtype=np.uint64)
                found[f"{name} places"] = places.reshape(-1) if len(wires) else np.zeros(2, dtype=np.uint64)
            else:
                found[name] = self._main(name, made, threads)
        return found

    def traces(self, inputs: Mapping[str, Array], backend: Backend) -> list[Array]:
        """The main columns of each table from `inputs` in the backend's memory. Raises BackendError."""
        return [
            PERMUTATION_ROWS.make(
                backend, 1 << log_height, states=inputs[f"{name} states"], places=inputs[f"{name} places"]
            )
            if name in PERMUTED
            else inputs[name]
            for name, log_height in self.log_heights.items()
        ]

    def _main(self, name: str, made: Evaluation, threads: int) -> Words:
        height, rows = 1 << self.log_heights[name], self._rows[name]
        match name:
            case "publics":
                begins = np.zeros((1, height), dtype=np.uint64)
                begins[0, 0] = 1
                return begins
            case "relations" | "more relations":
                return wire_columns(made.values, rows.wires, 3, height, threads)
            case "bits":
                (values,) = wire_columns(made.values, rows.wires, 1, height)
                return _decomposed(values, self._columns(rows.fixed[:, -POWER_BITS:], name))
            case _:
                return wire_columns(made.values, rows.wires, 1, height, threads)


def _decomposed(values: Words, factors: Words) -> Words:
    """The columns of the bits of scalars (n,), and of the products that they make with factors (k, n)."""
    bits = values[None] >> np.arange(BITS, dtype=np.uint64)[:, None] & np.uint64(1)
    missing = sub(values >> np.uint64(HALF), np.uint64((1 << HALF) - 1))  # type: ignore[arg-type]
    full = (missing == 0).astype(np.uint64)
    own = bits[: len(factors)]
    terms = add(mul(own, factors), np.ones_like(own))
    products = list(accumulate(terms, mul))
    return np.concatenate([bits, inverse(missing)[None], full[None], *[product[None] for product in products]])
