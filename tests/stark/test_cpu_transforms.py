"""The CPU's extensions, trees and hashes against the interface's definition."""

from __future__ import annotations

import numpy as np
import pytest
from Crypto.Hash import keccak
from hypothesis import given, settings
from hypothesis import strategies as st
from stark_reference import ReferenceKernels

from distprove.stark.field import P
from kernels.backend import SizeError
from kernels.cpu import CpuBackend
from kernels.goldilocks import GoldilocksKernels
from kernels.keccak import keccak256, keccak256_rows

reference = ReferenceKernels()


@pytest.fixture(scope="module", params=[1, 2], ids=["one thread", "two"])
def cpu(request: pytest.FixtureRequest) -> GoldilocksKernels:
    return CpuBackend(threads=request.param).goldilocks


def random(*shape: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng([*shape, seed]).integers(0, P, shape, dtype=np.uint64)
    values.reshape(-1)[:: max(1, values.size // 3)] = P - 1
    return values


@pytest.mark.parametrize("log_n", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("log_blowup", [1, 3])
@pytest.mark.parametrize("coset", [1, 7])
def test_lde(cpu: GoldilocksKernels, log_n: int, log_blowup: int, coset: int) -> None:
    columns = random(3, 1 << log_n)
    before = columns.copy()
    expected = reference.lde(columns, log_blowup, coset=coset)
    assert (cpu.lde(columns, log_blowup, coset=coset) == expected).all()
    assert (columns == before).all()
    out = np.zeros((5, 1 << log_blowup, 1 << log_n), dtype=np.uint64)
    cpu.lde(columns, log_blowup, coset=coset, out=out[1:4])
    assert (out[1:4] == expected).all()
    assert not out[0].any()
    assert not out[4].any()


@pytest.mark.parametrize("widths_and_logs", [[(1, 0)], [(16, 5)], [(17, 6), (3, 3), (2, 6), (40, 0)]])
@pytest.mark.parametrize("log_cap", [0, 3])
@pytest.mark.parametrize("blowup", [2, 8])
def test_trees(cpu: GoldilocksKernels, widths_and_logs: list[tuple[int, int]], log_cap: int, blowup: int) -> None:
    matrices = [random(w, blowup, 1 << log) for w, log in widths_and_logs]
    leaves = blowup << max(log for _, log in widths_and_logs)
    compare_trees(cpu, matrices, [0, 1, leaves // 2, leaves - 1], log_cap=log_cap)


@pytest.mark.parametrize("log_arity", [1, 2, 3])
def test_trees_of_folds(cpu: GoldilocksKernels, log_arity: int) -> None:
    compare_trees(cpu, [random(3, 4, 16)], [0, 3, 7], log_arity=log_arity, log_cap=1)


def compare_trees(cpu: GoldilocksKernels, matrices: list[np.ndarray], indices: list[int], **options: int) -> None:
    ours, theirs = cpu.commit(matrices, **options), reference.commit(matrices, **options)
    assert ours.root == theirs.root
    assert (ours.cap == theirs.cap).all()
    a, b = ours.open(indices), theirs.open(indices)
    assert (a.path == b.path).all()
    for x, y in zip(a.rows, b.rows, strict=True):
        assert (x == y).all()


@given(st.binary(max_size=600))
@settings(deadline=None)
def test_keccak(message: bytes) -> None:
    assert keccak256(message) == keccak.new(data=message, digest_bits=256).digest()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 72, 135, 136, 137, 272])
def test_keccak_of_many(size: int) -> None:
    rows = np.random.default_rng(size).integers(0, 256, (5, size), dtype=np.uint8)
    for row, digest in zip(rows, keccak256_rows(rows), strict=True):
        assert digest.tobytes() == keccak.new(data=row.tobytes(), digest_bits=256).digest()


@pytest.mark.parametrize("bits", [0, 1, 7, 12])
def test_grind(cpu: GoldilocksKernels, bits: int) -> None:
    assert cpu.grind(bytes(range(32)), bits) == reference.grind(bytes(range(32)), bits)


def test_elementwise(cpu: GoldilocksKernels) -> None:
    a, b, scalar = random(2, 50), random(2, 50, seed=1), np.array([P - 2], dtype=np.uint64)
    for name in ("add", "sub", "mul"):
        for other in (b, scalar):
            assert (getattr(cpu, name)(a, other) == getattr(reference, name)(a, other)).all()


def test_refusals(cpu: GoldilocksKernels) -> None:
    for call in (
        lambda: cpu.lde(random(2, 3), 1),
        lambda: cpu.lde(random(8), 1),
        lambda: cpu.lde(random(1, 8), 1, coset=0),
        lambda: cpu.lde(random(1, 8), 1, out=random(1, 2, 4)),
        lambda: cpu.commit([]),
        lambda: cpu.commit([random(1, 2, 4), random(1, 4, 4)]),
        lambda: cpu.commit([random(1, 2, 3)]),
        lambda: cpu.commit([random(1, 2, 4), random(1, 2, 4)], log_arity=1),
        lambda: cpu.add(random(3), random(4)),
    ):
        with pytest.raises(SizeError):
            call()
