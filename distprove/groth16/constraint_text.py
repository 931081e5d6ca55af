"""A constraint of a circuit in words: its three rows, with the names of their signals. It has no values of a witness.

A constraint is (a w) * (b w) = c w. Its coefficients are part of the circuit, and so public.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from distprove.errors import InputError
from distprove.groth16.r1cs import R1cs
from distprove.groth16.symbols import symbols_beside, wire_names
from kernels.cpu.fields import from_montgomery
from kernels.host.units import count_of
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Field
from kernels.maths.encoding import unpack

_MAX_TERMS = 12
"""Terms of a row that are shown."""
_MAX_SHOWN = 10**20
"""Coefficients from here on are shown by their first digits."""


@dataclass(frozen=True)
class ConstraintRows:
    """The three rows of a constraint."""

    number: int
    """Counted from 0."""
    rows: tuple[tuple[tuple[int, str], ...], ...]
    """The entries of a, b and c: a coefficient between -r/2 and r/2, and a signal's name, empty for the constant 1."""

    @property
    def signals(self) -> list[list[str]]:
        """Names of the signals in each row."""
        return [[name for _, name in row if name] for row in self.rows]

    def __str__(self) -> str:
        a, b, c = map(_sum, self.rows)
        return f"({a}) * ({b}) = {c}"


def constraint_rows(r1cs: R1cs, number: int, symbols: Path | None = None) -> ConstraintRows:
    """The rows of one constraint. Names are those of the `.sym` file `symbols`, by default of the one beside the
    circuit's file; a signal without one is called "wire" with its number."""
    if symbols is None and r1cs.name is not None:
        symbols = symbols_beside(Path(r1cs.name))
    rows = [_entries(r1cs.curve.fr, matrix, number) for matrix in (r1cs.a, r1cs.b, r1cs.c)]
    wires = {wire for row in rows for _, wire in row if wire}
    names: dict[int, str] | None = None
    if symbols is not None:
        labels = r1cs.wire_labels
        with suppress(InputError):  # a file that is none costs names
            names = wire_names(symbols, wires, lambda wire: wire if labels is None else int(labels[wire]))
    named = {0: "", **{wire: f"wire {wire}" for wire in wires}, **(names or {})}
    return ConstraintRows(number, tuple(tuple((value, named[wire]) for value, wire in row) for row in rows))


def _entries(field: Field, matrix: CsrMatrix, row: int) -> list[tuple[int, int]]:
    """Coefficient and wire of each entry of a row."""
    start, end = int(matrix.row_ptr[row]), int(matrix.row_ptr[row + 1])
    values = unpack(from_montgomery(field, matrix.values[matrix.value_index[start:end]]))
    wires = map(int, matrix.columns[start:end])
    half = field.modulus // 2
    return [
        (value if value <= half else value - field.modulus, wire) for value, wire in zip(values, wires, strict=True)
    ]


def _sum(row: tuple[tuple[int, str], ...]) -> str:
    text = ""
    for coefficient, name in row[:_MAX_TERMS]:
        sign = "-" if coefficient < 0 else "+" if text else ""
        size = abs(coefficient)
        number = str(size) if size < _MAX_SHOWN else f"{str(size)[:12]}..."
        term = number if not name else name if size == 1 else f"{number} {name}"
        text += f" {sign} {term}" if text else sign + term
    more = len(row) - _MAX_TERMS
    return (text or "0") + (f" + {count_of(more, 'more term')}" if more > 0 else "")
