"""Extensions, trees and grinding of the CUDA backend against their definition in NumPy, and in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.cuda.goldilocks.kernels import CudaGoldilocks
from kernels.cuda.goldilocks.lde import LdeProfile
from kernels.interface.goldilocks import LdeJob
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks import P
from tests.support.goldilocks_checks import check_lde, check_tree, random_words
from tests.support.stark_reference import ReferenceKernels

pytestmark = pytest.mark.gpu
REFERENCE = ReferenceKernels()
Words = NDArray[np.uint64]

PROFILES = [
    LdeProfile(),
    LdeProfile(log_elements=4),
    LdeProfile(log_elements=3),
    LdeProfile(log_elements=2, log_row=3, log_strided=5, log_row_tile=5, log_strided_tile=8),
]


@pytest.fixture(scope="module")
def kernels(cuda: CudaBackend) -> CudaGoldilocks:
    return CudaGoldilocks(cuda.device)


def elements(*shape: int, seed: int = 1) -> Words:
    """Canonical words with the edges of the device's reduction among them."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, P, size=shape, dtype=np.uint64)
    edges = np.array([0, 1, P - 1, 2**32 - 1, 2**32, 2**63, P - 2**32, P - 2], dtype=np.uint64)
    chosen = rng.random(shape) < 0.3
    words[chosen] = rng.choice(edges, size=int(chosen.sum()))
    return words


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_elementwise(kernels: CudaGoldilocks, name: str) -> None:
    edges = np.array([0, 1, 2, P - 1, P - 2, 2**32 - 1, 2**32, 2**32 + 1, 2**63, P - 2**32], dtype=np.uint64)
    grid = [x.reshape(-1).copy() for x in np.meshgrid(edges, edges)]
    for a, b in (grid, (elements(5, 1 << 16), elements(5, 1 << 16, seed=2))):
        device_a, device_b = kernels.device.upload(a), kernels.device.upload(b)
        got = kernels.device.download(getattr(kernels, name)(device_a, device_b))
        assert np.array_equal(got, getattr(REFERENCE, name)(a, b))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"E{p.log_elements}")
@pytest.mark.parametrize("log_blowup", [0, 1, 3])
def test_lde(cuda: CudaBackend, profile: LdeProfile, log_blowup: int) -> None:
    kernels = CudaGoldilocks(cuda.device, lde_profile=profile)
    for log_n in (0, 1, 2, 4, 5, 7, 9, 10, 11, 12, 13):
        for coset in (1, 7 * 2**40):
            columns = elements(5, 1 << log_n, seed=log_n)
            got = kernels.device.download(kernels.lde(kernels.device.upload(columns), log_blowup, coset=coset))
            assert np.array_equal(got, REFERENCE.lde(columns, log_blowup, coset=coset)), (log_n, coset)


@pytest.mark.parametrize(
    ("log_n", "log_blowup"), [(16, 1), (17, 2), (18, 3), (20, 1), (21, 1), (22, 1), (23, 1), (24, 1)]
)
def test_large_lde(cuda: CudaBackend, log_n: int, log_blowup: int) -> None:
    check_lde(cuda, log_n, log_blowup)


def test_tables_side_by_side(cuda: CudaBackend) -> None:
    """Small ones in one launch, large ones on streams of their own; what follows waits for all of them."""
    kernels, device = CudaGoldilocks(cuda.device), cuda.device
    tables = [elements(1 + i % 7, 1 << (i if i < 14 else 16), seed=i) for i in range(24)]
    jobs = [LdeJob(device.upload(columns), 1 + i % 3) for i, columns in enumerate(tables)]
    alone = [kernels.lde(job.columns, 1, coset=job.coset) for job in jobs]
    roots = [kernels.commit([out]).root for out in alone]
    tree = kernels.commit(alone).root
    for _ in range(20):
        made = kernels.lde_all(jobs, 1)
        assert kernels.commit(made).root == tree
        assert [kernels.commit([out]).root for out in made] == roots
        del made


@pytest.mark.parametrize("rows", [[1 << 17, 1 << 9, 2], [1 << 15, 1 << 14], [1 << 16, 1 << 7, 1]])
def test_tall_tree_of_mixed_heights(kernels: CudaGoldilocks, rows: list[int]) -> None:
    matrices = [elements(2, 2, n, seed=n) for n in rows]
    with CpuBackend() as cpu:
        want = cpu.goldilocks.commit(matrices)
        indices = [0, 2 * rows[0] - 1, rows[0]]
        tree = kernels.commit([kernels.device.upload(m) for m in matrices])
        assert tree.root == want.root
        opened, expected = kernels.open([tree], indices)[0], cpu.goldilocks.open([want], indices)[0]
        assert np.array_equal(opened.path, expected.path)


def test_wide_lde_beyond_32_bit_offsets(cuda: CudaBackend) -> None:
    """1040 columns of 2^21 rows on two cosets: 4.4e9 elements."""
    kernels = CudaGoldilocks(cuda.device)
    width, n = 1040, 1 << 21
    if cuda.device.memory_free() < 60 << 30:
        pytest.skip("needs 60 GiB of device memory")
    columns = kernels.device.zeros((width, n))
    some = elements(1, n)
    kernels.device.copy(columns[-1:], kernels.device.upload(some))
    last = kernels.device.download(kernels.lde(columns, 1)[-1:])
    alone = kernels.device.download(kernels.lde(kernels.device.upload(some), 1))
    assert np.array_equal(last, alone)


@pytest.mark.parametrize("shape", [(1, 2, 1), (3, 8, 4), (16, 2, 256), (17, 4, 128), (64, 2, 512), (130, 1, 64)])
def test_tree(kernels: CudaGoldilocks, shape: tuple[int, int, int]) -> None:
    compare(kernels, [elements(*shape)])


def test_tree_of_mixed_heights_and_many_matrices(kernels: CudaGoldilocks) -> None:
    compare(kernels, [elements(w, 4, n, seed=w) for w, n in ((3, 16), (20, 256), (1, 16), (17, 256), (2, 1))])
    compare(kernels, [elements(1 + w % 7, 2, 32, seed=w) for w in range(20)])


@pytest.mark.parametrize("log_arity", [1, 3])
def test_tree_of_folded_rows(kernels: CudaGoldilocks, log_arity: int) -> None:
    compare(kernels, [elements(3, 2, 256)], log_arity)
    compare(kernels, [elements(3, 8, 2)], log_arity)


def compare(kernels: CudaGoldilocks, matrices: list[Words], log_arity: int = 0) -> None:
    leaves = max(m.shape[1] * m.shape[2] for m in matrices) >> log_arity
    indices = [0, leaves - 1, leaves // 2]
    given = [kernels.device.upload(m) for m in matrices]
    for tree_hash in TreeHash:
        tree = kernels.commit(given, log_arity=log_arity, tree_hash=tree_hash)
        want = REFERENCE.commit(matrices, log_arity=log_arity, tree_hash=tree_hash)
        assert tree.root == want.root
        opened, expected = kernels.open([tree], indices)[0], want.open(indices)
        assert all(np.array_equal(a, b) for a, b in zip(opened.rows, expected.rows, strict=True))
        assert np.array_equal(opened.path, expected.path)


@pytest.mark.parametrize(("shape", "log_arity"), [((3, 2, 1 << 18), 4), ((40, 4, 1 << 14), 0), ((3, 2, 1 << 19), 3)])
@pytest.mark.parametrize("tree_hash", [TreeHash.POSEIDON2, TreeHash.POSEIDON2_BN254])
def test_large_tree_under_poseidon2(
    kernels: CudaGoldilocks, shape: tuple[int, int, int], log_arity: int, tree_hash: TreeHash
) -> None:
    matrix = elements(*shape)
    with CpuBackend() as cpu:
        want = cpu.goldilocks.commit([matrix], log_arity=log_arity, tree_hash=tree_hash)
        given = [kernels.device.upload(matrix)]
        assert kernels.commit(given, log_arity=log_arity, tree_hash=tree_hash).root == want.root


def test_several_trees_are_opened_together(kernels: CudaGoldilocks) -> None:
    groups = [([(3, 4, 16), (20, 4, 64)], 0), ([(3, 4, 512)], 3), ([(1, 2, 1)], 0)]
    ours, wanted = [], []
    for shapes, log_arity in groups:
        matrices = [elements(*shape, seed=i) for i, shape in enumerate(shapes)]
        uploaded = [kernels.device.upload(m) for m in matrices]
        for tree_hash in TreeHash:
            ours.append(kernels.commit(uploaded, log_arity=log_arity, tree_hash=tree_hash))
            wanted.append(REFERENCE.commit(matrices, log_arity=log_arity, tree_hash=tree_hash))
    indices = [0, 255, 17, 4096, *np.random.default_rng(3).integers(0, 2**20, 100).tolist()]
    for opened, expected in zip(kernels.open(ours, indices), REFERENCE.open(wanted, indices), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(opened.rows, expected.rows, strict=True))
        assert np.array_equal(opened.path, expected.path)


@pytest.mark.parametrize("shape", [(64, 2, 1 << 18), (3, 8, 1 << 16), (300, 2, 1 << 14)])
def test_large_tree(cuda: CudaBackend, shape: tuple[int, int, int]) -> None:
    check_tree(cuda, random_words(cuda, *shape))


@pytest.mark.parametrize("tree_hash", TreeHash)
@pytest.mark.parametrize("bits", [0, 7, 11])
def test_grind(kernels: CudaGoldilocks, bits: int, tree_hash: TreeHash) -> None:
    seed = bytes(range(32))
    assert kernels.grind(seed, bits, tree_hash=tree_hash) == REFERENCE.grind(seed, bits, tree_hash=tree_hash)
