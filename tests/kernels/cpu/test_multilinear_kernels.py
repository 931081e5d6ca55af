"""The multilinear kernels on the CPU, and codewords by every instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cpu.backend import CpuBackend
from kernels.cpu.goldilocks.multilinear import CpuMultilinear
from kernels.interface.tree_hash import TreeHash
from tests.support.multilinear_cases import CASES, Case, random


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_kernel_is_what_it_is_defined_as(case: Case, threads: int) -> None:
    with CpuBackend(threads=threads) as backend:
        for seed in range(8):
            case(backend, np.random.default_rng(seed))


def sets() -> list[str]:
    with CpuBackend(threads=1) as backend:
        return list(backend.pool.native.gl_instruction_sets())


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
