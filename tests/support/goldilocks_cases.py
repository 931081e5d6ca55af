"""Inputs for the tests of Goldilocks backends: vectors with edges among them, challenges, random row programs."""

from __future__ import annotations

import numpy as np

from kernels.interface.backend import Backend
from kernels.interface.goldilocks import GoldilocksKernels, Words
from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import Ext, P
from kernels.maths.goldilocks_extension import ext_mul

EDGES = np.array([0, 1, P - 1, 2**32 - 1, 2**32, P - 2**32], dtype=np.uint64)


def words(*shape: int, seed: int = 1) -> Words:
    """Random elements with the edges among them."""
    rng = np.random.default_rng([seed, *shape])
    values = rng.integers(0, P, shape, dtype=np.uint64)
    return np.where(rng.random(shape) < 0.2, rng.choice(EDGES, shape), values)


def element(seed: int) -> Ext:
    a, b, c = np.random.default_rng(seed).integers(0, P, 3, dtype=np.uint64).tolist()
    return a, b, c


def powers(count: int, challenge: Ext, first: Ext = (1, 0, 0)) -> Words:
    """(count, 3): first, first * challenge, ..."""
    values = []
    for _ in range(count):
        values.append(first)
        first = ext_mul(first, challenge)
    return np.array(values, dtype=np.uint64).reshape(count, 3)


def assert_counts(kernels: GoldilocksKernels, n: int, m: int, backend: Backend | None = None) -> None:
    """Count n rows of a table of m, some of which it does not have, on top of what is there."""
    rng = np.random.default_rng([n, m])
    rows, times = (rng.integers(0, most, n, dtype=np.uint64) for most in (m + 2, 3))
    rows[: n // 9], rows[n // 2 : n // 2 + n // 9] = 0, P - 1
    want, counts = ([i**3 for i in range(m)] for _ in range(2))
    for row, often in zip(rows.tolist(), times.tolist(), strict=True):
        if row < m:
            want[row] += often
    given = [rows, times, np.array(counts, dtype=np.uint64)]
    arrays = given if backend is None else [backend.to_device(array) for array in given]
    kernels.count(*arrays)
    got = arrays[2] if backend is None else backend.to_host(arrays[2])
    assert got.tolist() == want


def random_program(seed: int, *, fold: bool, length: int = 120, outputs: int = 12) -> RowProgram:
    """Every operation on every mixture of base and extension, constant and row-dependent operands."""
    rng = np.random.default_rng(seed)
    widths, constants = (0, 4, 6), (0, 1, P - 1, 12345, 2**32)
    code = [(int(op), 0, 0, 0) for op in (Op.CONST, Op.SCALAR, Op.BASE_SCALAR)] + [(int(Op.LOAD), 1, 3, 1)]
    for i in range(len(code), length):
        op = int(rng.choice([Op.LOAD, Op.LOAD, Op.CONST, Op.SCALAR, Op.BASE_SCALAR, *[Op.ADD, Op.SUB, Op.MUL] * 5]))
        if op == Op.LOAD:
            matrix = int(rng.integers(1, 3))
            code.append((op, matrix, int(rng.integers(widths[matrix])), int(rng.integers(2))))
        elif op == Op.CONST:
            code.append((op, int(rng.integers(len(constants))), 0, 0))
        elif op in (Op.SCALAR, Op.BASE_SCALAR):
            code.append((op, int(rng.integers(5)), 0, 0))
        else:
            recent = max(0, i - 30)
            code.append((op, int(rng.integers(recent, i)), int(rng.integers(recent, i)), 0))
    chosen = tuple(int(v) for v in rng.integers(0, length, outputs))
    scalars = 5 + (outputs if fold else 0)
    return RowProgram(widths, np.array(code, dtype=np.int32), constants, scalars, chosen, 5 if fold else None)
