"""Columns of a trace as functions of the row, written like constraints and compiled like them.

    square_and_sum = row_function([2], lambda cells, scalars: (cells[0][0] * cells[0][0], cells[0][0] + cells[0][1]))
    made = apply(backend, square_and_sum, [inputs])      # (2, n), in the backend's memory

One pass over the rows makes all columns: on a GPU one kernel, where a vectorised expression would be one for each
operation. What is not arithmetic modulo p (bits, sorting) stays with vectorised code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from distprove.stark.air.expression import Expression, Graph, operand
from distprove.stark.air.lowering import lower
from kernels.backend import Array, Backend
from kernels.row_program import RowProgram

Cells = Sequence[Sequence[Expression]]


def row_function(
    widths: Sequence[int], define: Callable[[Cells, Sequence[Expression]], Sequence[Expression | int]], scalars: int = 0
) -> RowProgram:
    """The program that makes columns from matrices of these widths.

    `define` gets the cells of a row, matrix by matrix, and `scalars` values that are the same in every row, given when
    the program is applied; it returns the new columns. It runs once, on symbols.
    """
    graph = Graph()
    cells = [[Expression(graph, graph.load(m, c)) for c in range(width)] for m, width in enumerate(widths)]
    given = [Expression(graph, graph.scalar(i, extension=False)) for i in range(scalars)]
    outputs = [operand(graph, value) for value in define(cells, given)]
    return lower(graph, outputs, widths=tuple(widths), scalars=scalars)


def apply(backend: Backend, program: RowProgram, inputs: Sequence[Array], scalars: Sequence[int] = ()) -> Array:
    """(columns, n): what `program` makes of (width, n) `inputs`. `scalars` are canonical field elements."""
    given = np.zeros((len(scalars), 3), dtype=np.uint64)
    given[:, 0] = scalars
    made = backend.goldilocks.evaluate(program, inputs, given)
    return made.reshape(made.shape[0], made.shape[-1])
