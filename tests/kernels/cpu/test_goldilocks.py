"""The CPU's Goldilocks transforms and commitments against their definition in NumPy, for every instruction set."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest
from Crypto.Hash import keccak

from kernels.cpu.goldilocks.kernels import CpuGoldilocks
from kernels.cpu.keccak import keccak256, keccak256_rows
from kernels.errors import BackendError, SizeError
from kernels.host import native
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks import GENERATOR, P, root_of_unity
from tests.support.stark_reference import ReferenceKernels, ReferenceTree

CASES = [
    (variant, name, threads)
    for variant in native.variants()
    for name in native.load(variant).gl_instruction_sets()
    for threads in (1, 3)
]
"""Every instruction set in every build. Three threads on two cores: more workers than tasks, and tasks out of order."""

REFERENCE = ReferenceKernels()


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def kernels(request: pytest.FixtureRequest) -> CpuGoldilocks:
    variant, name, threads = request.param
    build = native.load(variant)
    return CpuGoldilocks(build, build.Pool(threads), instruction_set=name)


EDGES = [0, 1, P - 1, P - 2, 2**32 - 1, 2**32, 2**32 + 1, 2**63, P // 2, P - 2**32, P - 2**32 + 1, 0xFFFFFFFE00000001]


def elements(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Canonical elements, one in four of them where carries happen."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, P, size=shape, dtype=np.uint64)
    edges = np.array(EDGES, dtype=np.uint64)[rng.integers(0, len(EDGES), size=shape)]
    return np.where(rng.integers(0, 4, size=shape) == 0, edges, values)


@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
def test_elementwise(kernels: CpuGoldilocks, operation: str) -> None:
    pairs = [(a, b) for a in EDGES for b in EDGES]
    a, b = (np.array(column, dtype=np.uint64) for column in zip(*pairs, strict=True))
    ours, exact = getattr(kernels, operation), {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}[operation]
    assert ours(a, b).tolist() == [exact(x, y) % P for x, y in pairs]
    for n in (0, 1, 7, 8, 9, 5000):
        x = elements((n,), n)
        y = elements((n,), n + 1)
        assert ours(x, y).tolist() == [exact(p, q) % P for p, q in zip(x.tolist(), y.tolist(), strict=True)]
        scalar = np.array([P - 5], dtype=np.uint64)
        assert ours(x, scalar).tolist() == [exact(p, P - 5) % P for p in x.tolist()]
    square = elements((3, 2, 5), 1)
    assert ours(square, square).shape == (3, 2, 5)


@functools.cache
def expected_extension(width: int, log_n: int, log_blowup: int, coset: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and their extension by the reference, which takes its time: once for all kernels."""
    columns = elements((width, 1 << log_n), 31 * log_n + width)
    return columns, REFERENCE.lde(columns, log_blowup, coset=coset)


@pytest.mark.parametrize("log_n", range(0, 14))
def test_extension(kernels: CpuGoldilocks, log_n: int) -> None:
    for width, log_blowup, coset in [(3, 1, 7), (1, 2, 1), (5, 0, 1)][: 3 if log_n < 11 else 1]:
        columns, expected = expected_extension(width, log_n, log_blowup, coset)
        before = columns.copy()
        assert np.array_equal(kernels.lde(columns, log_blowup, coset=coset), expected)
        assert np.array_equal(columns, before)


@functools.cache
def powers_plus_three(log_n: int, degree: int) -> np.ndarray:
    root, n = root_of_unity(log_n), 1 << log_n
    return np.array([[(pow(root, j * degree % n, P) + 3) % P for j in range(n)]], dtype=np.uint64)


def test_long_extension_of_a_known_polynomial(kernels: CpuGoldilocks) -> None:
    """Beyond what the reference does quickly: x^d + 3."""
    log_n, degree = 16, 40961
    n = 1 << log_n
    extension = kernels.lde(powers_plus_three(log_n, degree), 1)
    for k, j in [(0, 0), (0, 1), (1, 0), (1, n - 1), (0, n // 2 + 77), (1, 12345)]:
        x = GENERATOR * pow(root_of_unity(log_n + 1), 2 * j + k, P) % P
        assert int(extension[0, k, j]) == (pow(x, degree, P) + 3) % P


def test_extension_into_a_given_array(kernels: CpuGoldilocks) -> None:
    columns = elements((4, 64), 5)
    out = np.zeros((4, 4, 64), dtype=np.uint64)
    assert kernels.lde(columns, 2, out=out) is out
    assert np.array_equal(out, REFERENCE.lde(columns, 2))


@pytest.mark.parametrize("log_n", [0, 3, 7, 13])
def test_extending_each_coset_of_an_extension_again(kernels: CpuGoldilocks, log_n: int) -> None:
    """The coset that the columns are given on is one of the result's."""
    whole = kernels.lde(elements((1, 1 << log_n), 8), 1)
    for k in range(2):
        coset = GENERATOR * pow(root_of_unity(log_n + 1), k, P) % P
        columns = whole[:, k].copy()
        assert np.array_equal(kernels.lde(columns, 1, coset=coset), whole)
        assert np.array_equal(columns, whole[:, k])
    first = whole[:, :1].copy()
    assert kernels.lde(first.reshape(1, -1), 0, coset=GENERATOR, out=first) is first
    assert np.array_equal(first, whole[:, :1])


@pytest.mark.parametrize("log_n", [0, 1, 2, 5, 12])
def test_moving_columns_in_place(kernels: CpuGoldilocks, log_n: int) -> None:
    columns = elements((2, 1 << log_n), 6)
    expected = kernels.lde(columns, 0, coset=3)
    out = columns.reshape(2, 1, -1)
    assert kernels.lde(columns, 0, coset=3, out=out) is out
    assert np.array_equal(out, expected)
    assert np.may_share_memory(out, columns)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 135, 136, 137, 271, 272, 273, 1000])
def test_keccak(kernels: CpuGoldilocks, length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, size=(32 + 19, length), dtype=np.uint8)
    expected = [keccak.new(data=r.tobytes(), digest_bits=256).digest() for r in rows]
    assert [keccak256(r.tobytes()) for r in rows] == expected
    assert [d.tobytes() for d in keccak256_rows(rows)] == expected
    found = np.empty((len(rows), 32), dtype=np.uint8)
    kernels._native.hash_rows(kernels._pool, kernels._set, "keccak256", rows.reshape(-1), length, found.reshape(-1))
    assert [d.tobytes() for d in found] == expected


SHAPES = [
    ([(3, 2, 64)], 0),
    ([(1, 1, 1)], 0),
    ([(2, 4, 1)], 0),
    ([(40, 2, 32)], 0),
    ([(3, 2, 64)], 3),
    ([(3, 4, 8)], 3),
    ([(2, 2, 16), (5, 2, 16), (1, 2, 8), (3, 2, 1), (17, 2, 1)], 0),
    ([(1, 8, 2), (4, 8, 64), (2, 8, 32)], 0),
    ([(20, 1, 256)], 0),
    ([(16, 1, 128)], 0),
    ([(33, 2, 64), (15, 2, 64), (18, 2, 32)], 0),
    ([(2, 16, 4)], 0),
    ([(3, 8, 32)], 3),
    ([(5, 32, 4), (1, 32, 2)], 0),
]
"""Matrices (width, cosets, rows) of a tree. The last have cosets with fewer leaves than there are lanes."""


@functools.cache
def reference_tree(shapes: tuple[tuple[int, int, int], ...], log_arity: int, tree_hash: TreeHash) -> ReferenceTree:
    """The plain tree over `elements`, once for all instruction sets."""
    matrices = [elements(shape, i) for i, shape in enumerate(shapes)]
    return REFERENCE._commit(matrices, log_arity, tree_hash)


@pytest.mark.parametrize("tree_hash", TreeHash)
@pytest.mark.parametrize(("shapes", "log_arity"), SHAPES, ids=str)
def test_commitment(
    kernels: CpuGoldilocks, shapes: list[tuple[int, int, int]], log_arity: int, tree_hash: TreeHash
) -> None:
    matrices = [elements(shape, i) for i, shape in enumerate(shapes)]
    ours = kernels.commit(matrices, log_arity=log_arity, tree_hash=tree_hash)
    reference = reference_tree(tuple(shapes), log_arity, tree_hash)
    assert ours.root == reference.root
    leaves = max(b * n for _, b, n in shapes) >> log_arity
    indices = [0, leaves - 1, *(random.Random(leaves).randrange(leaves) for _ in range(6))]
    opening, expected = kernels.open([ours], indices)[0], reference.open(indices)
    assert np.array_equal(opening.path, expected.path)
    for rows, wanted in zip(opening.rows, expected.rows, strict=True):
        assert np.array_equal(rows, wanted)


@pytest.mark.parametrize("tree_hash", TreeHash)
def test_several_trees_are_opened_at_the_same_indices(kernels: CpuGoldilocks, tree_hash: TreeHash) -> None:
    """Trees of other heights, blow-ups and arities: an index is taken modulo a tree's leaves."""
    groups = [([(3, 4, 16), (20, 4, 64)], 0), ([(3, 2, 64)], 3), ([(2, 8, 2)], 0), ([(1, 2, 1)], 0), ([(1, 1, 1)], 0)]
    ours, wanted = [], []
    for shapes, log_arity in groups:
        matrices = [elements(shape, i) for i, shape in enumerate(shapes)]
        ours.append(kernels.commit(matrices, log_arity=log_arity, tree_hash=tree_hash))
        wanted.append(reference_tree(tuple(shapes), log_arity, tree_hash))
    for indices in ([0, 255, 17, 17, 4096, *np.random.default_rng(3).integers(0, 2**20, 6).tolist()], []):
        for one, expected in zip(kernels.open(ours, indices), REFERENCE.open(wanted, indices), strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one.rows, expected.rows, strict=True))
            assert np.array_equal(one.path, expected.path)
    assert kernels.open([], [0]) == []


reference_nonce = functools.cache(REFERENCE.grind)


@pytest.mark.parametrize("tree_hash", TreeHash)
@pytest.mark.parametrize("bits", [0, 1, 5, 11])
def test_grinding_finds_the_least_nonce(kernels: CpuGoldilocks, bits: int, tree_hash: TreeHash) -> None:
    for seed in (bytes(32), bytes(range(32))):
        assert kernels.grind(seed, bits, tree_hash=tree_hash) == reference_nonce(seed, bits, tree_hash=tree_hash)


def test_refusals(kernels: CpuGoldilocks) -> None:
    words = elements((2, 8), 0)
    matrix = elements((2, 2, 8), 0)
    refused = [
        lambda: kernels.lde(matrix.reshape(4, 8)[:2], 1, out=matrix),
        lambda: kernels.lde(matrix.reshape(4, 8)[1:3], 0, out=matrix.reshape(4, 1, 8)[:2]),
        lambda: kernels.commit([matrix], log_arity=4),
        lambda: kernels.open([kernels.commit([matrix])], [-1]),
        lambda: kernels.grind(bytes(32), 41),
        lambda: keccak256_rows(words),
    ]
    for call in refused:
        with pytest.raises(SizeError):
            call()


def test_unknown_instruction_set() -> None:
    with pytest.raises(BackendError, match="no instruction set 'mmx'"):
        CpuGoldilocks(native.native, native.native.Pool(1), instruction_set="mmx")
