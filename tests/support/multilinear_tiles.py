"""What the CUDA kernels of the multilinear engine do by tiles, beside the CPU: sizes of many tiles, parts of one."""

from __future__ import annotations

import numpy as np

from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.cuda.goldilocks.multilinear import CudaMultilinear
from kernels.cuda.goldilocks.rules import _factors
from kernels.interface.multilinear_rows import RuleProgram
from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import P, root_of_unity
from kernels.maths.goldilocks_runs import coset_shift
from tests.support.multilinear_cases import random

MOVES = [(2, 8), (4, 16), (4, 1 << 13), (5, 64), (5, 1 << 13), (6, 1 << 12)]
"""log2 of a run, and rows of a part of the table."""


def runs_move_to_a_coset(cuda: CudaBackend, log_run: int, height: int, part: int) -> None:
    """The polynomials of each run of cells, and of their next rows, a part of the rows at a time."""
    kernels, rng, rows = cuda.multilinear, np.random.default_rng(height), 2 * height
    assert isinstance(kernels, CudaMultilinear)
    size, shift, root, begin = 1 << log_run, coset_shift(log_run, 2), root_of_unity(log_run), part * height
    columns = random(rng, 2, rows)
    cells = np.ascontiguousarray(
        np.stack([*columns, np.roll(columns[1], -1)])
    )  # the last is the next row of the second
    code = np.array([[Op.LOAD, 0, 0, 0], [Op.LOAD, 4, 0, 0], [Op.LOAD, 0, 1, 0]], dtype=np.int32)
    program = RowProgram((2, 0, 0, 0, 1), code, (), 3, (0, 1, 2), fold=0)
    rules = RuleProgram(program, None, ((0, 2), (2, 2), (0, 0), (3, 3), (2, 3)), (1,))
    (bound,) = kernels.bind([(rules, random(rng, 3, 3))])
    out, factors = cuda.device.empty((3, 2, height)), np.array(_factors(log_run, shift), dtype=np.uint64)
    given = cuda.to_device(cells), out, part, begin, log_run, cuda.to_device(factors)
    kernels._move(*given, kernels._moved_cells([bound]))
    moved, coefficients = cuda.to_host(out)[:, part], cells.copy()
    with CpuBackend(threads=1) as cpu:
        cpu.multilinear.interpolate_runs(coefficients, log_run)
    places = [*range(height - size, height), *rng.integers(0, height, 20).tolist()]
    for cell, at in [(cell, at) for cell in range(3) for at in places]:
        run, x = begin + (at >> log_run << log_run), shift * pow(root, at % size, P)
        own = coefficients[cell, run : run + size].tolist()
        assert int(moved[cell, at]) == sum(c * pow(x, k, P) for k, c in enumerate(own)) % P


def runs_of_many_tiles(cuda: CudaBackend, log_run: int) -> None:
    """Runs are bound and summed."""
    rng, width, n = np.random.default_rng(log_run), 5, 1 << 12
    columns, runs = random(rng, width, n), width * n >> log_run
    weights, sets = random(rng, 1 << log_run, 3), random(rng, 3, 3, runs)
    sets[1, :, ::2] = 0
    bound = np.empty((3, runs), dtype=np.uint64)
    given, out = cuda.to_device(columns), cuda.device.empty((3, runs))
    cuda.multilinear.bind_runs(given, weights, out)
    with CpuBackend(threads=1) as cpu:
        cpu.multilinear.bind_runs(columns, weights, bound)
        summed = cpu.multilinear.sum_runs(columns, sets, 1 << log_run)
    assert np.array_equal(cuda.to_host(out), bound)
    assert np.array_equal(cuda.multilinear.sum_runs(given, cuda.to_device(sets), 1 << log_run), summed)


def leaves_without_their_codewords(cuda: CudaBackend, log_blowup: int) -> None:
    rng, log_n = np.random.default_rng(log_blowup), 18
    coefficients = random(rng, 2, 1 << log_n)
    indices = rng.integers(0, 1 << log_n + log_blowup - 4, 9)
    indices = np.unique(
        np.concatenate([indices, [0, indices[0] ^ 1, indices[1] ^ 1 << 13]])
    )  # residues that are met twice
    with CpuBackend(threads=1) as cpu:
        codewords = cpu.multilinear.encode(coefficients, log_blowup)
        (opened,) = cpu.goldilocks.open([cpu.goldilocks.commit([codewords], log_arity=4)], indices)
        assert cpu.multilinear.codeword_leaves(coefficients, log_blowup, 4, indices) is None
    given = cuda.to_device(coefficients)
    found = cuda.multilinear.codeword_leaves(given, log_blowup, 4, indices)
    assert found is not None
    assert np.array_equal(found, opened.rows[0])
    assert cuda.multilinear.codeword_leaves(given, log_blowup, 3, indices) is None
    assert cuda.multilinear.codeword_leaves(given[:, : 1 << 17].copy(), log_blowup, 4, indices) is None
