"""The multilinear kernels on the CPU, and codewords by every instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.stark.field import P, Words, mul, root_of_unity, total
from distprove.stark.multilinear.params import Parameters
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from kernels.cpu.backend import CpuBackend
from kernels.cpu.goldilocks.multilinear import CpuMultilinear
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks_runs import inverse_matrix
from tests.support.multilinear_cases import CASES, Case, random
from tests.support.multilinear_jobs import prove_program


def sets() -> list[str]:
    with CpuBackend(threads=1) as backend:
        return list(backend.pool.native.gl_instruction_sets())


class OnSet(CpuBackend):
    """The CPU backend, with the multilinear kernels of one instruction set."""

    def __init__(self, own: str, threads: int = 2) -> None:
        super().__init__(threads)
        self._own = own

    @property
    def multilinear(self) -> CpuMultilinear:
        pool = self.pool
        return CpuMultilinear(pool.native, pool.threads, rows=self.goldilocks, instruction_set=self._own)


@pytest.mark.parametrize("own", sets())
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_kernel_is_what_it_is_defined_as(case: Case, threads: int, own: str) -> None:
    with OnSet(own, threads) as backend:
        for seed in range(8):
            case(backend, np.random.default_rng(seed))


@pytest.mark.parametrize("own", sets()[1:])
@pytest.mark.parametrize(
    ("program", "log_skip"),
    [
        (load_program("range-check", {"values": 5000, "bits": 10}), 4),
        (load_program("wide-fibonacci", {"rows": 1 << 10, "width": 7}), 4),
        (load_program("keccak-f", {"permutations": 10}), 5),
        (load_program("fibonacci", {"rows": 1 << 11}), 3),
    ],
    ids=lambda value: value.name if isinstance(value, Program) else str(value),
)
def test_a_proof_is_the_same_by_every_instruction_set(program: Program, log_skip: int, own: str) -> None:
    """These tables are tall enough for blocks of rows on lanes, and for the rows that do not fill them."""
    params = Parameters(1, log_skip, (3,) * 8, 0, 0)
    with OnSet(sets()[0]) as first, OnSet(own) as backend:
        expected, found = (prove_program(program, params=params, backend=each) for each in (first, backend))
        assert found.proofs == expected.proofs


def coset_matrix(log_run: int, shift: int) -> Words:
    """The matrix that moves values over the powers of w = w(log_run) to those on the coset shift <w>."""
    size, root = 1 << log_run, root_of_unity(log_run)
    powers = [[pow(shift * pow(root, a, P), k, P) for k in range(size)] for a in range(size)]
    return total(mul(np.array(powers, dtype=np.uint64)[:, :, None], inverse_matrix(log_run)), axis=1)


@pytest.mark.parametrize("own", sets())
@pytest.mark.parametrize("log_run", range(7))
def test_runs_are_moved_to_a_coset(log_run: int, own: str) -> None:
    rng, size, log_n = np.random.default_rng(log_run), 1 << log_run, log_run + 4
    rng, size, log_n = np.random.default_rng(log_run), 1 << log_run, log_run + 4
    columns, shift, root = random(rng, 3, size << 4), pow(7, int(rng.integers(1, 1 << 40)), P), root_of_unity(log_run)
    cells = np.concatenate([columns, np.roll(columns[[2, 0]], -1, axis=1), random(rng, 1, size << 4)])
    matrix = coset_matrix(log_run, shift)
    expected = total(mul(cells.reshape(-1, 1, size), matrix[None]), axis=2).reshape(cells.shape)
    with OnSet(own) as backend:
        for read in (range(6), [0, 3, 5], [4], []):
            chosen, told = list(read), np.isin(np.arange(6), list(read)).astype(np.uint64)
            for first, runs in ((0, 16), (8, 8), (3, 5), (15, 1)):
                out = np.empty((6, runs << log_run), dtype=np.uint64)
                given = log_n, log_run, root, shift, 3, np.array([2, 0], dtype=np.uint64), told, first
                backend.pool.native.gl_move_runs(backend.pool.threads, own, cells.reshape(-1), *given, out.reshape(-1))
                assert np.array_equal(out[chosen], expected[chosen, first << log_run : first + runs << log_run])


@pytest.mark.parametrize("log_n", [0, 3, 6, 7, 13])
def test_codewords_are_the_same_by_every_instruction_set(log_n: int) -> None:
    coefficients = random(np.random.default_rng(log_n), 3, 1 << log_n)
    with CpuBackend(threads=2) as backend:
        found = [
            CpuMultilinear(backend.pool.native, backend.pool.threads, instruction_set=own).encode(coefficients, 1)
            for own in sets()
        ]
    assert all(np.array_equal(each, found[0]) for each in found)


@pytest.mark.parametrize("tree_hash", [*TreeHash])
@pytest.mark.parametrize("log_blowup", [0, 1, 2, 3, 6])
def test_a_root_by_cosets_is_that_of_the_whole_tree(tree_hash: TreeHash, log_blowup: int) -> None:
    with CpuBackend(threads=2) as backend:
        for log_n in (0, 1, 2, 3, 6, 9):
            coefficients = random(np.random.default_rng(log_n), 5, 1 << log_n)
            codewords = backend.multilinear.encode(coefficients, log_blowup)
            tree = backend.goldilocks.commit([codewords], tree_hash=tree_hash)
            assert backend.multilinear.root(coefficients, log_blowup, tree_hash) == tree.root
