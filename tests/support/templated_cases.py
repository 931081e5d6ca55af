"""Matrices of placed templates at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernels.interface.templated import RowTemplate, TemplatedMatrix, TemplatedRows
from kernels.maths.curves import Field
from kernels.maths.encoding import field_from_ints

COLUMNS, EMPTY_ROWS = 3000, 7
VALUES = (5, -1, 1, 0, 1 << 200)


def template(rng: np.random.Generator, lengths: list[int], columns: int) -> RowTemplate:
    """Rows of these lengths over `columns` columns of their own; a column may come twice in a row."""
    ends = np.cumsum([0, *lengths]).astype(np.uint32)
    named, index = rng.integers(0, columns, int(ends[-1])), rng.integers(0, len(VALUES), int(ends[-1]))
    return RowTemplate(ends, named.astype(np.uint32), index.astype(np.uint32))


def placed_matrix(field: Field, seed: int, *, moved: bool, spread: int = 1) -> TemplatedMatrix:
    """Instances of templates with rows short, long, very long and empty, whose inputs are one wire for all instances or
    a run forwards or backwards; a part without inputs; and empty rows at the end. `moved`: columns have other
    positions. With another `spread` than 1 there are as many empty rows as make their number a power of two."""
    rng = np.random.default_rng(seed)
    parts = []
    for lengths, inputs, own, lanes in (
        ([3, 0, 40, 1], 4, 9, 11),
        ([1500, 2], 3, 120, 5),
        ([2, 2], 0, 50, 1),
        ([1], 2, 0, 30),
    ):
        made = template(rng, lengths, inputs + own)
        for _ in range(2):
            runs = [(int(rng.integers(100, 2000)), int(rng.integers(-3, 4))) for _ in range(inputs)]
            first = int(rng.integers(0, COLUMNS - own * lanes + 1))
            parts.append(TemplatedRows.stacked(made, np.array(runs, dtype=np.int64).reshape(-1, 2), first, own, lanes))
    parts = _woven(_in_order(parts))
    rows = sum(part.rows for part in parts) + EMPTY_ROWS
    rows = rows if spread == 1 else 1 << rows.bit_length()
    position = rng.permutation(COLUMNS).astype(np.uint32) if moved else None
    return TemplatedMatrix(rows, COLUMNS, parts, field_from_ints(field, VALUES), position, spread)


def _in_order(parts: list[TemplatedRows]) -> tuple[TemplatedRows, ...]:
    """Parts of a row 0 and an entry 0 of their own, each below those before it."""
    placed, row, entry = [], 0, 0
    for part in parts:
        placed.append(part.below(row, entry))
        row, entry = row + part.rows, entry + part.nnz
    return tuple(placed)


def _woven(parts: tuple[TemplatedRows, ...]) -> tuple[TemplatedRows, ...]:
    """The same parts with each instance of the first one followed by an instance of the second."""
    pair = parts[:2]
    row_step, entry_step = (sum(sizes) for sizes in zip(*((p.row_step, p.entry_step) for p in pair), strict=True))
    second = (pair[0].row_step, pair[0].entry_step)
    woven = [
        replace(part, row=row, entry=entry, row_step=row_step, entry_step=entry_step)
        for part, (row, entry) in zip(pair, ((0, 0), second), strict=True)
    ]
    return (*woven, *parts[2:])


def dense(matrix: TemplatedMatrix, field: Field) -> list[dict[int, int]]:
    """The coefficients of each row by column, entry by entry from the definition."""
    rows: list[dict[int, int]] = [{} for _ in range(matrix.rows)]
    for part in matrix.parts:
        inputs, ends = len(part.runs), part.template.row_ptr
        for lane in range(part.lanes):
            for row in range(part.template.rows):
                found: dict[int, int] = {}
                for k in range(int(ends[row]), int(ends[row + 1])):
                    c = int(part.template.columns[k])
                    if c < inputs:
                        wire = int(part.runs[c, 0]) + lane * int(part.runs[c, 1])
                    else:
                        wire = part.first + lane * part.step + c - inputs
                    column = wire if matrix.position is None else int(matrix.position[wire])
                    found[column] = (found.get(column, 0) + VALUES[part.template.value_index[k]]) % field.modulus
                rows[(part.row + lane * part.row_step + row) * matrix.spread % matrix.rows] = found
    return rows
