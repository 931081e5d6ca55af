"""The tables that only guests with a call of theirs have, and how they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from distprove.stark.air import Air, CppRows
from distprove.stark.riscv.calls import PRECOMPILES
from distprove.stark.riscv.edwards import EDWARDS_ROWS, EdwardsAir, edwards_inputs
from distprove.stark.riscv.keccak import some
from distprove.stark.riscv.modular import Modular384Air, ModularAir, modular_inputs, rows_of
from distprove.stark.riscv.points import Points384Air, PointsAir, point_inputs, point_rows
from distprove.stark.riscv.record import Record, Usage, Words64
from distprove.stark.riscv.sha256 import ROWS_EACH, SHA256_ROWS, Sha256Air, sha256_inputs
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend


@dataclass(frozen=True)
class Precompile:
    """A table that answers host calls."""

    air: Air
    rows: CppRows
    rows_each: int
    """Rows of a call."""
    inputs: Callable[[Record], dict[str, Words64]]
    """The arrays from which `rows` makes the table of a segment, by their names there. `count` is the calls."""

    @property
    def calls(self) -> Mapping[str, int]:
        """The numbers of its calls."""
        return PRECOMPILES[self.air.name]

    def rows_for(self, usage: Usage) -> int:
        """Rows that a segment takes."""
        return self.rows_each * sum(int(usage.calls[number]) for number in self.calls.values())

    def arrays(self, record: Record) -> dict[str, Words64]:
        """What `columns` needs, by names that no other table's have."""
        found = self.inputs(record)
        return {f"{self.air.name}_{name}": a if name == "count" else some(a) for name, a in found.items()}

    def columns(self, backend: Backend, log_rows: int, inputs: Mapping[str, Array]) -> Array:
        """The table, from `arrays`."""
        given = {name: inputs[f"{self.air.name}_{name}"] for name in self.rows.source.inputs}
        return self.rows.make(backend, 1 << log_rows, **given)


def _modular(air: ModularAir) -> Precompile:
    inputs = partial(modular_inputs, name=air.name, words=air.words)
    return Precompile(air, rows_of(air.words), 1, inputs)


def _points(air: PointsAir) -> Precompile:
    inputs = partial(point_inputs, curves=air.curves, words=air.words)
    return Precompile(air, point_rows(air.words, len(air.curves)), 1, inputs)


TABLES: Mapping[str, Precompile] = {
    each.air.name: each
    for each in (
        Precompile(Sha256Air(), SHA256_ROWS, ROWS_EACH, sha256_inputs),
        _modular(ModularAir()),
        _modular(Modular384Air()),
        _points(PointsAir()),
        _points(Points384Air()),
        Precompile(EdwardsAir(), EDWARDS_ROWS, 1, edwards_inputs),
    )
}
