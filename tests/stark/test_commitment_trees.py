"""Openings of the reference's trees under the verifier's check, and every way to spoil them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.stark.field import P
from distprove.stark.merkle import TreeClaim, TreeShape, openings_hold
from kernels.interface.goldilocks import Bytes, TreeOpening, Words
from kernels.interface.tree_hash import INJECT_TAG, NODE_TAG
from kernels.maths.query_paths import QueryPaths
from tests.support.stark_reference import ReferenceKernels, ReferenceTree, keccak256, opening_holds

rng = np.random.default_rng(11)
kernels = ReferenceKernels()
INDICES = [0, 5, 13, 31, 31]


def tree(shapes: list[tuple[int, int]], log_arity: int = 0) -> tuple[TreeShape, ReferenceTree]:
    """Matrices (width, log2 rows) with blow-up 2, and their tree."""
    matrices = [rng.integers(0, P, (w, 2, 1 << log), dtype=np.uint64) for w, log in shapes]
    shape = TreeShape(tuple((log + 1 - log_arity, w << log_arity) for w, log in shapes))
    return shape, kernels.commit(matrices, log_arity=log_arity)


def holds(shape: TreeShape, committed: ReferenceTree, indices: list[int], opened: TreeOpening) -> bool:
    return opening_holds(shape, committed.root, indices, opened.rows, opened.path)


@pytest.mark.parametrize("shapes", [[(3, 4)], [(1, 4), (2, 2), (5, 4)], [(2, 1), (1, 4), (1, 0)]])
@pytest.mark.parametrize("indices", [INDICES, [7], [*range(32)], [9, 25, 1, 17], [*range(16, 32)]], ids=len)
def test_honest_openings_hold(shapes: list[tuple[int, int]], indices: list[int]) -> None:
    shape, committed = tree(shapes)
    assert holds(shape, committed, indices, committed.open(indices))


def test_leaves_of_several_rows() -> None:
    shape, committed = tree([(3, 4)], log_arity=2)
    indices = [i & 7 for i in INDICES]
    opened = committed.open(indices)
    assert opened.rows[0].shape == (3, 12)  # 5, 13 and 0 are 5, 5 and 0 of 8
    assert holds(shape, committed, indices, opened)


def test_the_smallest_trees() -> None:
    """One leaf is the root and has no path; where all leaves are opened there is none either."""
    single = rng.integers(0, P, (3, 1, 1), dtype=np.uint64)
    shape, committed = TreeShape(((0, 3),)), kernels.commit([single])
    opened = committed.open([0, 0])
    assert opened.path.shape == (0, 32)
    assert opened.rows[0].shape == (1, 3)
    assert holds(shape, committed, [5, 0], opened)
    assert not holds(shape, committed, [0], replace(opened, path=np.zeros((1, 32), dtype=np.uint8)))
    shape, committed = tree([(3, 3), (1, 0)])
    opened = committed.open([*range(16)])
    assert opened.path.shape == (0, 32)
    assert [len(r) for r in opened.rows] == [16, 2]
    assert holds(shape, committed, [*range(15, -1, -1)], opened)
    assert not holds(shape, committed, [*range(15)], opened)


def test_what_queries_share_is_there_once() -> None:
    """Of 16 leaves 3 and 11 are siblings, and of the 4 nodes two levels above so are the two that 1 and 3 lead to."""
    _, committed = tree([(2, 3), (1, 0)])
    opened = committed.open([11, 1, 3, 3])
    assert [len(r) for r in opened.rows] == [3, 1]
    leaves, eights, _, pair, _ = committed.levels
    assert [bytes(node) for node in opened.path] == [leaves[9], eights[5], eights[7], pair[0]]
    assert QueryPaths([11, 1, 3], 4).path(4).tolist() == [16 + 9, 8 + 5, 8 + 7, 2 + 0]


@pytest.mark.parametrize("log_leaves", [0, 1, 6, 29, 30, 32])
def test_known_nodes_and_the_siblings_that_they_lack(log_leaves: int) -> None:
    """As sets say it, level by level; of indices beyond the leaves too, and of trees whose numbers take 33 bits."""
    indices = [int(i) for i in np.random.default_rng(log_leaves).integers(0, 2**34, 40)]
    paths = QueryPaths(indices, log_leaves)
    expected: list[int] = []
    for log in range(log_leaves + 1):
        size = 1 << log
        known = {i % size for i in indices}
        missing = sorted({i ^ size // 2 for i in known} - known)
        assert paths.known(log).tolist() == sorted(known)
        expected = [size + i for i in missing] + expected
        assert paths.path(log).tolist() == expected
        if log:
            assert paths.missing_of(log, log - 1).tolist() == [size + i for i in missing]


def naive_holds(shape: TreeShape, root: bytes, indices: list[int], opened: TreeOpening) -> bool:
    """Each query's own path, its siblings taken from what is given or from what other queries come to."""
    given: dict[tuple[int, int], bytes] = {}
    rest = [bytes(node) for node in opened.path]
    for log in range(shape.log_leaves, 0, -1):
        size = 1 << log
        known = {i % size for i in indices}
        for sibling in sorted({i ^ size // 2 for i in known} - known):
            if not rest:
                return False
            given[log, sibling] = rest.pop(0)

    def leaf(log: int, index: int) -> bytes:
        here = [(w, r) for (own, w), r in zip(shape.matrices, opened.rows, strict=True) if own == log]
        place = sorted({i % (1 << log) for i in indices}).index(index)
        header = [1 + 256 * len(here), *(w for w, _ in here)]
        header += [0] * (len(header) % 2)
        cells = b"".join(r[place].astype("<u8").tobytes() for _, r in here)
        return keccak256(np.array(header, dtype="<u4").tobytes() + cells)

    def node(log: int, index: int) -> bytes:
        if (log, index) in given:
            return given[log, index]
        if log == shape.log_leaves:
            return leaf(log, index)
        pair = node(log + 1, index) + node(log + 1, index + (1 << log))
        digest = keccak256(NODE_TAG.to_bytes(8, "little") + pair)
        if any(own == log for own, _ in shape.matrices):
            digest = keccak256(INJECT_TAG.to_bytes(8, "little") + digest + leaf(log, index))
        return digest

    counts = [len({i % (1 << log) for i in indices}) for log, _ in shape.matrices]
    return not rest and counts == [len(r) for r in opened.rows] and node(0, 0) == root


def spoiled(opened: TreeOpening) -> Iterator[TreeOpening]:
    """A node or a row twice, left out, added, moved or changed."""
    for path in changes(opened.path):
        yield replace(opened, path=path)
    for m, rows in enumerate(opened.rows):
        for changed in changes(rows):
            yield replace(opened, rows=(*opened.rows[:m], changed, *opened.rows[m + 1 :]))


def changes(items: Bytes | Words) -> Iterator[Bytes | Words]:
    yield np.concatenate([items, np.zeros((1, items.shape[1]), dtype=items.dtype)])
    for i in {0, len(items) // 2, len(items) - 1} if len(items) else ():
        yield np.insert(items, i, items[i], axis=0)
        yield np.delete(items, i, axis=0)
        moved = np.roll(items, 1, axis=0)
        if len(items) > 1:
            yield moved
            yield items[::-1]
            twice = items.copy()
            twice[i] = items[i - 1]
            yield twice
        flipped = items.copy()
        flipped[i, -1] ^= 1
        yield flipped


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=3),
    st.lists(st.integers(0, 63), min_size=1, max_size=12),
)
def test_all_paths_at_once_are_each_path_by_itself(shapes: list[tuple[int, int]], indices: list[int]) -> None:
    shape, committed = tree(shapes)
    opened = committed.open(indices)
    assert naive_holds(shape, committed.root, indices, opened)
    assert holds(shape, committed, indices, opened)
    for other in spoiled(opened):
        assert not naive_holds(shape, committed.root, indices, other)
        assert not holds(shape, committed, indices, other)
    assert len(opened.path) == len(QueryPaths(indices, 6).path(shape.log_leaves))


@pytest.mark.parametrize("what", ["root", "index", "fewer", "widths", "order"])
def test_spoiled_openings_do_not(what: str) -> None:
    shape, committed = tree([(3, 4), (2, 2)])
    opened = committed.open(INDICES)
    root, indices = committed.root, list(INDICES)
    rows = list(opened.rows)
    if what == "root":
        root = bytes([root[0] ^ 1]) + root[1:]
    elif what == "index":
        indices[1] = 6
    elif what == "fewer":
        indices = [0, 5, 13]
    elif what == "widths":  # the same bytes, cut into other widths
        shape = TreeShape(((5, 1), (5, 2), (3, 2)))
        rows = [rows[0][:, :1], rows[0][:, 1:], rows[1]]
    else:
        rows[0] = rows[0][:, ::-1]
    assert not opening_holds(shape, root, indices, rows, opened.path)


def test_trees_are_checked_together_and_each_counts() -> None:
    """Other heights and leaves of other lengths; a wrong path, leaf or root of any one is noticed."""
    made = [tree([(3, 4)]), tree([(1, 2), (2, 4)]), tree([(3, 1)]), tree([(2, 3)], log_arity=2)]
    paths = QueryPaths(INDICES, 5)
    claims = [
        TreeClaim(shape, committed.root, opened)
        for (shape, committed), opened in zip(made, kernels.open([c for _, c in made], INDICES), strict=True)
    ]
    assert openings_hold(claims, paths)
    for at, claim in enumerate(claims):
        for wrong in (replace(claim, root=bytes(32)), *(replace(claim, opening=o) for o in spoiled(claim.opening))):
            assert not openings_hold([*claims[:at], wrong, *claims[at + 1 :]], paths)
