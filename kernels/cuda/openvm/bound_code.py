"""Code of many tables with the numbers of a proof, on the device. What differs between tables is concatenated and then
computed at once: a segment has dozens of them, and NumPy takes microseconds for each of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.babybear import RADIX
from kernels.cuda.device import Device
from kernels.cuda.openvm.graph_code import NO_PART, GraphCode, Piece
from kernels.interface.arrays import Array
from kernels.interface.openvm_rules import BoundForms, RuleTable
from kernels.maths.babybear import Elements, mul

KIND = 56
"""The first bit of a cell's kind in the word of its address. Must equal that in openvm_rules.cu."""

Words = NDArray[np.uint64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Placed:
    """Where the code of a table and what it reads lie on the device."""

    code: int
    loads: int
    constants: int
    coefficients: int
    load_bytes: int
    """Bytes of a load."""

    def program(self, piece: Piece) -> list[int]:
        """`struct Program` of openvm_rules.cu for a piece."""
        loads = self.loads + self.load_bytes * piece.first_load
        return [self.code + 8 * piece.first, loads, self.constants, self.coefficients, piece.instructions]


@dataclass(frozen=True)
class Bound:
    """The code of some tables with a proof's numbers. What lies on the device is kept as long as this."""

    codes: list[GraphCode]
    places: list[Placed]
    constants: list[Elements]
    """What is added to each table's forms, (forms, 4), on the host."""
    held: tuple[object, ...]

    @property
    def near(self) -> int:
        """Most near slots of a table."""
        return max((code.near for code in self.codes), default=0)

    @property
    def far(self) -> int:
        """Most far slots of a table."""
        return max((code.far for code in self.codes), default=0)


@dataclass(frozen=True)
class Cells:
    """The cells of all tables, table by table."""

    tables: Indices
    """The table of each cell."""
    starts: Indices
    """Where the cells of each table begin, and their number."""
    addresses: Words
    """Of the columns; 0 for selectors."""
    kinds: Words
    """`Cell::kind` of openvm_rules.cu."""

    @property
    def packed(self) -> Words:
        """Each cell as one word, then a zero."""
        words = np.zeros(len(self.addresses) + 1, dtype=np.uint64)
        words[:-1] = self.addresses | self.kinds << np.uint64(KIND)
        return words


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
    constants = [code.constant_values(table.public) for (code, _), table in zip(codes, tables, strict=True)]
    terms, values = starts_of([len(own.coefficients) for own in forms]), starts_of([len(own) for own in constants])
    coefficients = [own.coefficients.reshape(-1) for own in forms]
    scalars = device.upload(mul(np.concatenate([*coefficients, *constants, np.zeros(4, dtype=np.uint32)]), RADIX))

    numbers = [code.loads for code, _ in codes]
    begins, joined = starts_of([len(own) for own in numbers]), joined_indices(numbers)
    if by_number:
        loads = device.upload(np.append(joined, 0).astype(np.uint32))
    else:
        cells = cells_of(device, tables, [code for code, _ in codes])
        loads = device.upload(cells.packed[joined + np.repeat(cells.starts[:-1], np.diff(begins))])

    at, loads_at, load_bytes = device.address(scalars), device.address(loads), 4 if by_number else 8
    constants_at = at + 16 * int(terms[-1])
    places = [
        Placed(
            code=device.address(instructions),
            loads=loads_at + load_bytes * load,
            constants=constants_at + 4 * value,
            coefficients=at + 16 * term,
            load_bytes=load_bytes,
        )
        for (_, instructions), load, value, term in zip(
            codes, begins.tolist(), values.tolist(), terms.tolist(), strict=False
        )
    ]
    added = [code.form_constants(own, table.public) for (code, _), own, table in zip(codes, forms, tables, strict=True)]
    return Bound([code for code, _ in codes], places, added, (scalars, loads, [code for _, code in codes]))


def cells_of(device: Device, tables: Sequence[RuleTable], codes: Sequence[GraphCode]) -> Cells:
    """The cells of all tables, each once, in the order of their code."""
    starts = starts_of([len(code.cells) for code in codes])
    own = np.repeat(np.arange(len(tables), dtype=np.int64), np.diff(starts))
    most = max((max(table.parts) for table in tables), default=0)
    columns = np.zeros((len(tables), most + 1 - NO_PART), dtype=np.int64)
    for number, table in enumerate(tables):
        for part, array in table.parts.items():
            columns[number, part - NO_PART] = device.address(array)
    sizes = np.array([4 * table.height for table in tables], dtype=np.int64)
    parts = joined_indices([code.cell_parts for code in codes])
    addresses = columns[own, parts - NO_PART] + sizes[own] * joined_indices([code.cell_columns for code in codes])
    kinds = joined_indices([code.cell_kinds for code in codes]).astype(np.uint64)
    return Cells(own, starts, addresses.astype(np.uint64), kinds)


def starts_of(sizes: Sequence[int]) -> Indices:
    """Where parts of these sizes begin one behind another, and where the last one ends."""
    return np.cumsum([0, *sizes], dtype=np.int64)


def joined_indices(parts: Sequence[Indices]) -> Indices:
    """The parts, one behind another."""
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
