"""Code of many tables with the numbers of a proof, on the device. What differs between tables is concatenated and then
computed at once: a segment has dozens of them, and NumPy takes microseconds for each of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.device import Device
from kernels.cuda.openvm.graph_code import NO_PART, GraphCode, Piece
from kernels.host.babybear import montgomery
from kernels.interface.arrays import Array
from kernels.interface.openvm_rules import BoundForms, RuleTable
from kernels.maths.babybear import Elements

KIND = 56
"""The first bit of a cell's kind in the word of its address. Must equal that in openvm_rules.cu."""

Words = NDArray[np.uint64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class JoinedCode:
    """The codes of some tables, what they have in every proof one behind another."""

    codes: tuple[GraphCode, ...]
    loads: Indices
    """The number of the cell of each load among those of its code."""
    load_starts: Indices
    """Where the loads of each code begin, and their number."""
    load_cells: Indices
    """The cell of each load among those of all codes."""
    cell_tables: Indices
    """The table of each cell."""
    cell_starts: Indices
    """Where the cells of each table begin, and their number."""
    cell_parts: Indices
    """The part of each cell, NO_PART for a selector."""
    cell_columns: Indices
    cell_kinds: Words
    """`Cell::kind` of openvm_rules.cu."""
    pieces: Indices
    """`Piece` of all codes: first instruction, instructions, first load, weight."""
    piece_tables: Indices
    """The table of each piece."""

    @classmethod
    def of(cls, codes: tuple[GraphCode, ...]) -> JoinedCode:
        """Join codes, one for each table."""
        numbers = np.arange(len(codes), dtype=np.int64)
        loads, cells = starts_of([len(code.loads) for code in codes]), starts_of([len(code.cells) for code in codes])
        joined = joined_indices([code.loads for code in codes])
        return cls(
            codes=codes,
            loads=joined,
            load_starts=loads,
            load_cells=joined + np.repeat(cells[:-1], np.diff(loads)),
            cell_tables=np.repeat(numbers, np.diff(cells)),
            cell_starts=cells,
            cell_parts=joined_indices([code.cell_parts for code in codes]),
            cell_columns=joined_indices([code.cell_columns for code in codes]),
            cell_kinds=joined_indices([code.cell_kinds for code in codes]).astype(np.uint64),
            pieces=np.concatenate([np.zeros((0, len(Piece._fields)), dtype=np.int64), *(c.piece_words for c in codes)]),
            piece_tables=np.repeat(numbers, [len(code.pieces) for code in codes]),
        )


@lru_cache(maxsize=16)
def joined_code(codes: tuple[GraphCode, ...]) -> JoinedCode:
    """Join codes, once for proofs of the same AIRs, of which each has some programs."""
    return JoinedCode.of(codes)


@dataclass(frozen=True, eq=False)
class Bound:
    """The code of some tables with a proof's numbers. What lies on the device is kept as long as this."""

    joined: JoinedCode
    programs: Words
    """`struct Program` of openvm_rules.cu for each piece, (pieces, 5)."""
    constants: list[Elements]
    """What is added to each table's forms, (forms, 4), on the host."""
    held: tuple[object, ...]

    @property
    def tables(self) -> Indices:
        """The table of each piece."""
        return self.joined.piece_tables

    @property
    def weights(self) -> Indices:
        """The weight of each piece."""
        return self.joined.pieces[:, 3]

    @property
    def near(self) -> int:
        """Most near slots of a table."""
        return max((code.near for code in self.joined.codes), default=0)

    @property
    def far(self) -> int:
        """Most far slots of a table."""
        return max((code.far for code in self.joined.codes), default=0)


def bind(
    device: Device,
    tables: Sequence[RuleTable],
    codes: Sequence[tuple[GraphCode, Array]],
    forms: Sequence[BoundForms],
    *,
    by_number: bool,
) -> Bound:
    """Bring what the code of some tables reads to the device. `codes` has each code with its instructions there.

    Loads are cells, or with `by_number` numbers of cells.
    """
    joined = joined_code(tuple(code for code, _ in codes))
    constants = [code.constant_values(table.public) for (code, _), table in zip(codes, tables, strict=True)]
    terms, values = starts_of([len(own.coefficients) for own in forms]), starts_of([len(own) for own in constants])
    coefficients = [own.coefficients.reshape(-1) for own in forms]
    scalars = device.upload(montgomery(np.concatenate([*coefficients, *constants, np.zeros(4, dtype=np.uint32)])))
    if by_number:
        loads = device.upload(np.append(joined.loads, 0).astype(np.uint32))
    else:
        words = cell_addresses(device, tables, joined) | joined.cell_kinds << np.uint64(KIND)
        loads = device.upload(np.append(words, np.uint64(0))[joined.load_cells])

    at, of_table = device.address(scalars), joined.piece_tables
    instructions = np.array([device.address(own) for _, own in codes], dtype=np.int64)
    first, count, first_load, _ = joined.pieces.T
    programs = (
        instructions[of_table] + 8 * first,
        device.address(loads) + (4 if by_number else 8) * (joined.load_starts[of_table] + first_load),
        at + 16 * terms[-1] + 4 * values[of_table],
        at + 16 * terms[of_table],
        count,
    )
    added = [code.form_constants(own, table.public) for (code, _), own, table in zip(codes, forms, tables, strict=True)]
    return Bound(
        joined, np.stack(programs, axis=1).astype(np.uint64), added, (scalars, loads, [own for _, own in codes])
    )


def cell_addresses(device: Device, tables: Sequence[RuleTable], joined: JoinedCode) -> Words:
    """The addresses of the columns of all cells, 0 for selectors."""
    most = max((max(table.parts) for table in tables), default=0)
    columns = np.zeros((len(tables), most + 1 - NO_PART), dtype=np.int64)
    for number, table in enumerate(tables):
        for part, array in table.parts.items():
            columns[number, part - NO_PART] = device.address(array)
    sizes = np.array([4 * table.height for table in tables], dtype=np.int64)
    begins = columns[joined.cell_tables, joined.cell_parts - NO_PART]
    return (begins + sizes[joined.cell_tables] * joined.cell_columns).astype(np.uint64)


def starts_of(sizes: Sequence[int] | Indices) -> Indices:
    """Where parts of these sizes begin one behind another, and where the last one ends."""
    found = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(np.asarray(sizes, dtype=np.int64), out=found[1:])
    return found


def joined_indices(parts: Sequence[Indices]) -> Indices:
    """The parts, one behind another."""
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
