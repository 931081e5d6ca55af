"""Columns of a trace as functions of the row, which are written and compiled like constraints.

    square_and_sum = row_function([2], lambda cells, scalars: (cells[0][0] * cells[0][0], cells[0][0] + cells[0][1]))
    made = apply(backend, square_and_sum, [inputs])      # (2, n), in the backend's memory

One pass over the rows makes all columns. On a GPU this is one kernel, where vectorised code needs one for each
operation. Anything but arithmetic modulo p (bits, sorting) needs vectorised code or `CppRows`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from distprove.stark.air.expression import Expression, Graph, operand
from distprove.stark.air.lowering import lower
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.row_program import RowProgram

Cells = Sequence[Sequence[Expression]]


def row_function(
    widths: Sequence[int], define: Callable[[Cells, Sequence[Expression]], Sequence[Expression | int]], scalars: int = 0
) -> RowProgram:
    """Compile the program that makes columns from matrices of these widths.

    `define` takes the cells of a row, matrix by matrix, and `scalars` values that are the same in every row and are
    given when the program is applied; it returns the new columns. It runs once, on symbols.
    """
    graph = Graph()
    cells = [[Expression(graph, graph.load(m, c)) for c in range(width)] for m, width in enumerate(widths)]
    given = [Expression(graph, graph.scalar(i, extension=False)) for i in range(scalars)]
    outputs = [operand(graph, value) for value in define(cells, given)]
    return lower(graph, outputs, widths=tuple(widths), scalars=scalars)


def apply(backend: Backend, program: RowProgram, inputs: Sequence[Array], scalars: Sequence[int] = ()) -> Array:
    """Apply `program` to `inputs` of shape (width, n): the new columns, (columns, n). `scalars` are canonical field
    elements."""
    given = np.zeros((len(scalars), 3), dtype=np.uint64)
    given[:, 0] = scalars
    made = backend.goldilocks.evaluate(program, inputs, given)
    return made.reshape(made.shape[0], made.shape[-1])
