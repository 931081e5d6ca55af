"""Random row programs and columns for the tests of the kernels that work row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import P

Words = NDArray[np.uint64]

EDGES = np.array([0, 1, 2, P - 1, P - 2, 2**32 - 1, 2**32, 2**63, P // 2, P // 2 + 1, P - 2**32], dtype=np.uint64)


def elements(rng: np.random.Generator, *shape: int) -> Words:
    """Uniform elements, a quarter of them edge values."""
    values = rng.integers(0, P, shape, dtype=np.uint64)
    return np.where(rng.random(shape) < 0.25, rng.choice(EDGES, shape), values)


def random_program(rng: np.random.Generator, widths: tuple[int, ...], instructions: int, *, folds: bool) -> RowProgram:
    """Every operation, every kind of operand; outputs that are loads, constants, sums, and the same value twice."""
    constants = tuple(int(c) for c in elements(rng, 3))
    scalars = int(rng.integers(2, 6))
    loads = [i for i, w in enumerate(widths) if w]
    code: list[tuple[int, int, int, int]] = []
    for v in range(instructions):
        op = Op(int(rng.integers(0, 7))) if v > 2 else Op.LOAD
        if op == Op.LOAD:
            matrix = loads[int(rng.integers(len(loads)))]
            code.append((op, matrix, int(rng.integers(widths[matrix])), int(rng.integers(2))))
        elif op == Op.CONST:
            code.append((op, int(rng.integers(len(constants))), 0, 0))
        elif op in (Op.SCALAR, Op.BASE_SCALAR):
            code.append((op, int(rng.integers(scalars)), 0, 0))
        else:
            code.append((op, int(rng.integers(v)), int(rng.integers(v)), 0))
    outputs = tuple(int(v) for v in rng.integers(0, instructions, int(rng.integers(1, 2 + instructions // 2))))
    fold = scalars if folds else None
    total = scalars + (len(outputs) if folds else 0)
    return RowProgram(widths, np.array(code, dtype=np.int32), constants, total, outputs, fold)


def scalars_for(rng: np.random.Generator, program: RowProgram) -> Words:
    """Extension scalars; those used as base scalars have coordinates that must not be looked at."""
    return elements(rng, program.scalars, 3)
