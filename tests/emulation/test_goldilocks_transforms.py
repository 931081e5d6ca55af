"""The Goldilocks kernels' logic, run on the host, against the executable definition of their interface."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.cpu.goldilocks.kernels import CpuGoldilocks
from kernels.cuda.goldilocks.kernels import CudaGoldilocks
from kernels.cuda.goldilocks.lde import TABLES, LdeProfile, plan_passes, step_bits
from kernels.cuda.goldilocks.merkle import MATRICES
from kernels.errors import BackendError, SizeError
from kernels.host import native
from kernels.interface.goldilocks import LdeJob, TreeOpening
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks import P
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.stark_reference import ReferenceKernels

Words = NDArray[np.uint64]
REFERENCE = ReferenceKernels()
QUICK = CpuGoldilocks(native.native, native.native.Pool(1))
"""For sizes at which the reference takes seconds. At these it is compared with the reference, in tests/kernels/cpu."""

# Small tiles, so that small sizes take two strided passes, and the shapes that real sizes have: steps of two lengths in
# every pass, blocks of several rows, partial last blocks.
SMALL = LdeProfile(log_elements=2, log_row=3, log_strided=3, log_row_tile=5, log_strided_tile=5)
PROFILES = [LdeProfile(), LdeProfile(4, log_row_tile=12), LdeProfile(3, log_row=10, log_row_tile=10), SMALL]


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    if compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    return EmulatedDevice()


@pytest.fixture(scope="module")
def kernels(device: EmulatedDevice) -> CudaGoldilocks:
    return CudaGoldilocks(device)


def elements(*shape: int, seed: int = 1) -> Words:
    """Canonical words, the edges among them."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, P, size=shape, dtype=np.uint64)
    edges = np.array([0, 1, P - 1, 2**32 - 1, 2**32, 2**63, P - 2**32], dtype=np.uint64)
    chosen = rng.random(shape) < 0.3
    words[chosen] = rng.choice(edges, size=int(chosen.sum()))
    return words


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_elementwise(kernels: CudaGoldilocks, name: str) -> None:
    edges = np.array([0, 1, P - 1, 2**32 - 1, 2**32, 2**63, P - 2**32, P - 2], dtype=np.uint64)
    pairs = np.meshgrid(edges, edges)
    for a, b in ((elements(3, 333), elements(3, 333, seed=2)), [x.reshape(-1).copy() for x in pairs]):
        device_a, device_b = kernels.device.upload(a), kernels.device.upload(b)
        run = getattr(kernels, name)
        assert np.array_equal(run(device_a, device_b), getattr(REFERENCE, name)(a, b))
        scalar = b.reshape(-1)[:1]
        assert np.array_equal(run(device_a, kernels.device.upload(scalar)), getattr(REFERENCE, name)(a, scalar))
        assert np.array_equal(device_a, a)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"E{p.log_elements}")
@pytest.mark.parametrize("log_blowup", [0, 2])
def test_lde_of_every_size(device: EmulatedDevice, profile: LdeProfile, log_blowup: int) -> None:
    kernels = CudaGoldilocks(device, lde_profile=profile)
    sizes = range(10) if profile is SMALL else (0, 1, 4, 5, 6, 10)
    for log_n in sizes:
        columns = elements(3, 1 << log_n, seed=log_n)
        given = device.upload(columns)
        for coset in (1, 7 * 2**40) if log_n < 7 else (7,):
            want = REFERENCE.lde(columns, log_blowup, coset=coset)
            assert np.array_equal(kernels.lde(given, log_blowup, coset=coset), want), (log_n, coset)
        assert np.array_equal(given, columns)
        if log_blowup == 0:
            kernels.lde(given, 0, coset=3, out=given[:, None])
            assert np.array_equal(given[:, None], REFERENCE.lde(columns, 0, coset=3)), (log_n, "in place")


@pytest.mark.parametrize("profile", [LdeProfile(), LdeProfile(4, log_row=6, log_strided=5)])
def test_lde_in_several_passes(device: EmulatedDevice, profile: LdeProfile) -> None:
    log_n = 13
    kernels = CudaGoldilocks(device, lde_profile=profile)
    assert len(plan_passes(log_n, profile)) == (2 if profile == LdeProfile() else 3)
    columns = elements(1, 1 << log_n)
    out = device.empty((1, 2, 1 << log_n))
    assert kernels.lde(device.upload(columns), 1, out=out) is out
    assert np.array_equal(out, QUICK.lde(columns, 1))
    given = device.upload(columns)
    assert np.array_equal(kernels.lde(given, 0, coset=3, out=given[:, None]), QUICK.lde(columns, 0, coset=3))


@pytest.mark.parametrize("profile", [LdeProfile(), SMALL], ids=["one pass", "some in two passes"])
def test_small_tables_share_a_launch(device: EmulatedDevice, profile: LdeProfile) -> None:
    """Tables of all sizes, widths and cosets; those of a single pass together, however many there are."""
    kernels = CudaGoldilocks(device, lde_profile=profile)
    sizes = [(3, 4, 1), (1, 0, 1), (0, 3, 1), (7, 2, 5), (2, 3, 7 * 2**40), (1, 6, 3)]
    tables = [(elements(width, 1 << log_n, seed=i), coset) for i, (width, log_n, coset) in enumerate(sizes)]

    def run(tables: list[tuple[Words, int]]) -> int:
        jobs = [LdeJob(device.upload(columns), coset) for columns, coset in tables]
        jobs[0] = replace(jobs[0], out=device.empty((len(jobs[0].columns), 4, jobs[0].columns.shape[1])))
        launches = []
        for _ in range(2):  # the second time its constants are there
            before = device.did.copy()
            made = kernels.lde_all(jobs, 2)
            launches.append((device.did - before)["launch"])
        assert device.did["upload"] == before["upload"]
        assert made[0] is jobs[0].out
        for out, (columns, coset) in zip(made, tables, strict=True):
            assert np.array_equal(out, REFERENCE.lde(columns, 2, coset=coset))
        return launches[-1]

    in_passes = sum(len(plan_passes(log_n, profile)) > 1 for _, log_n, _ in sizes)
    assert run(tables) == 3 * in_passes + 1
    if not in_passes:
        assert run(tables * 6) == -(-5 * 6 // TABLES)
    assert kernels.lde_all([], 1) == []


def test_plans() -> None:
    for profile in (*PROFILES, LdeProfile(log_row=10), LdeProfile(log_elements=4, log_row=8, log_strided=8)):
        for log_n in range(25 if profile is not SMALL else 10):
            digits = plan_passes(log_n, profile)
            assert sum(digits) == log_n
            assert digits[-1] <= profile.log_row
            assert all(1 <= d <= profile.log_strided for d in digits[:-1])
            for d in digits:
                for inverse in (False, True):
                    assert sum(step_bits(d, profile.log_elements, inverse=inverse)) == d
    with pytest.raises(SizeError, match="reach"):
        plan_passes(10, SMALL)
    assert plan_passes(20, LdeProfile()) == (8, 12)


def tree_matches(kernels: CudaGoldilocks, matrices: list[Words], log_arity: int = 0) -> None:
    reference = REFERENCE if sum(m.size for m in matrices) < 1000 else QUICK
    count = max(m.shape[1] * m.shape[2] for m in matrices) >> log_arity
    indices = [0, count - 1, *np.random.default_rng(3).integers(0, count, 6).tolist()]
    given = [kernels.device.upload(m) for m in matrices]
    for tree_hash in TreeHash:
        tree = kernels.commit(given, log_arity=log_arity, tree_hash=tree_hash)
        want = reference.commit(matrices, log_arity=log_arity, tree_hash=tree_hash)
        assert tree.root == want.root
        opened, expected = kernels.open([tree], indices)[0], reference.open([want], indices)[0]
        assert len(opened.rows) == len(expected.rows)
        assert all(np.array_equal(a, b) for a, b in zip(opened.rows, expected.rows, strict=True))
        assert np.array_equal(opened.path, expected.path)


@pytest.mark.parametrize("width", [1, 2, 11, 12, 16, 17, 33, 34, 64])
def test_tree_of_every_width(kernels: CudaGoldilocks, width: int) -> None:
    """Blocks of 17 lanes, or 12: a header and 16 or 11 fill one."""
    tree_matches(kernels, [elements(width, 2, 64)])


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 8, 1), (3, 1, 16), (5, 4, 32), (2, 4, 256), (1, 1, 512), (2, 8, 256)])
def test_tree_of_every_shape(kernels: CudaGoldilocks, shape: tuple[int, int, int]) -> None:
    tree_matches(kernels, [elements(*shape)])


@pytest.mark.parametrize("log_arity", [1, 2, 3])
def test_tree_of_folded_rows(kernels: CudaGoldilocks, log_arity: int) -> None:
    tree_matches(kernels, [elements(3, 2, 32)], log_arity=log_arity)
    tree_matches(kernels, [elements(6, 8, 2)], log_arity=log_arity)  # fewer leaves than cosets


def test_tree_of_mixed_heights(kernels: CudaGoldilocks) -> None:
    shapes = [(3, 4, 16), (20, 4, 64), (1, 4, 16), (17, 4, 64), (2, 4, 1)]
    tree_matches(kernels, [elements(*shape, seed=i) for i, shape in enumerate(shapes)])


def test_tree_of_many_matrices(kernels: CudaGoldilocks) -> None:
    """More than one launch takes, at both heights; the sponge is handed on in the middle of a block and at its end."""
    widths = [1, 2, 3, 1, 1, 1, 1, 2, 5, 4, 30, 1, 1, 1, 1, 1, 17, 2, 3]
    assert len(widths) > 2 * MATRICES
    matrices = [elements(w, 2, 8, seed=i) for i, w in enumerate(widths)]
    tree_matches(kernels, [*matrices, *(elements(w, 2, 4, seed=w) for w in range(1, 10))])


@pytest.mark.parametrize(
    ("rows", "launches"),
    [
        ([256], 1 + 1),
        ([256, 1], 2 + 1 + 1),
        ([256, 128], 2 + 1 + 1),
        ([256, 2, 1], 3 + 1 + 1 + 1),
        ([2048, 256, 1], 3 + 1 + 1 + 1),
        ([8192, 1], 2 + 2 + 1),
    ],
)
def test_levels_between_heights_are_one_launch(
    kernels: CudaGoldilocks, device: EmulatedDevice, rows: list[int], launches: int
) -> None:
    """Up to eight levels, or to the root; the leaves of each height are another."""
    matrices = [elements(2, 2, n, seed=n) for n in rows]
    tree_matches(kernels, matrices)
    given = [device.upload(m) for m in matrices]
    before = device.did.copy()
    kernels.commit(given)
    did = device.did - before
    assert did == {"launch": launches} | ({"fork": 1} if len(rows) > 1 else {})


@pytest.mark.parametrize("rows", [1, 8, 512, 2048])
def test_a_poseidon2_tree_is_two_launches(kernels: CudaGoldilocks, device: EmulatedDevice, rows: int) -> None:
    """The leaves, and all levels above them: by one block, or by several, of which the last goes on to the root."""
    matrix = elements(2, 2, rows, seed=rows)
    tree_matches(kernels, [matrix])
    given, before = device.upload(matrix), device.did.copy()
    kernels.commit([given], tree_hash=TreeHash.POSEIDON2)
    assert device.did - before == {"launch": 2}


def test_tall_levels_are_launches_of_their_own(kernels: CudaGoldilocks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.cuda.goldilocks.merkle.LOG_TOP", 4)
    monkeypatch.setattr("kernels.cuda.goldilocks.merkle.LOG_CLIMBED", 4)
    for rows in ([64], [64, 16], [64, 4, 2]):
        tree_matches(kernels, [elements(2, 2, n, seed=n) for n in rows])


def test_several_trees_are_opened_in_one_transfer(kernels: CudaGoldilocks, device: EmulatedDevice) -> None:
    groups = [([(3, 4, 16), (20, 4, 64)], 0), ([(3, 4, 32)], 3), ([(1, 2, 1)], 0)]
    ours, wanted = [], []
    for shapes, log_arity in groups:
        matrices = [elements(*shape, seed=i) for i, shape in enumerate(shapes)]
        for tree_hash in TreeHash:
            given = [device.upload(m) for m in matrices]
            ours.append(kernels.commit(given, log_arity=log_arity, tree_hash=tree_hash))
            wanted.append(REFERENCE.commit(matrices, log_arity=log_arity, tree_hash=tree_hash))
    indices = [0, 255, 17, 4096, *np.random.default_rng(3).integers(0, 2**20, 6).tolist()]
    before = device.did.copy()
    opened = kernels.open(ours, indices)
    assert device.did - before == {"upload": 1, "launch": 1, "download": 1}
    for one, expected in zip(opened, REFERENCE.open(wanted, indices), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one.rows, expected.rows, strict=True))
        assert np.array_equal(one.path, expected.path)


def test_the_root_is_one_transfer(kernels: CudaGoldilocks, device: EmulatedDevice) -> None:
    tree = kernels.commit([device.upload(elements(3, 2, 64))])
    before = device.did.copy()
    assert [len(tree.root) for _ in range(2)] == [32, 32]
    assert device.did - before == {"download": 1}


def test_no_query(kernels: CudaGoldilocks) -> None:
    (opened,) = kernels.open([kernels.commit([kernels.device.upload(elements(3, 2, 4))])], [])
    assert isinstance(opened, TreeOpening)
    assert opened.rows[0].shape == (0, 3)
    assert opened.path.shape == (0, 32)


@pytest.mark.parametrize("tree_hash", TreeHash)
@pytest.mark.parametrize("bits", [0, 1, 5, 11])
def test_grind(kernels: CudaGoldilocks, bits: int, tree_hash: TreeHash) -> None:
    seed = bytes(range(7, 39))
    reference = REFERENCE if bits < 11 else QUICK
    assert kernels.grind(seed, bits, tree_hash=tree_hash) == reference.grind(seed, bits, tree_hash=tree_hash)


def test_grind_beyond_one_launch(kernels: CudaGoldilocks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.cuda.goldilocks.merkle.MIN_LOG_NONCES", 5)
    monkeypatch.setattr("kernels.cuda.goldilocks.merkle.MAX_LOG_NONCES", 5)
    seed = bytes(32)
    want = REFERENCE.grind(seed, 9)
    assert want >= 32
    assert kernels.grind(seed, 9) == want


def test_wrong_sizes_are_refused(kernels: CudaGoldilocks) -> None:
    upload = kernels.device.upload
    with pytest.raises(SizeError, match="blow-up"):
        kernels.lde(upload(elements(1, 8)), 7)
    with pytest.raises(SizeError, match="contiguous"):
        kernels.lde(upload(elements(2, 16))[:, :8], 1)
    with pytest.raises(SizeError, match="contiguous"):
        kernels.commit([upload(elements(1, 2, 8))[:, :, :4]])
    with pytest.raises(SizeError, match="natural"):
        kernels.open([], [-1])
    with pytest.raises(BackendError, match="this backend"):
        kernels.open([REFERENCE.commit([elements(1, 2, 4)])], [0])
