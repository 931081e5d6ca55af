"""Openings of the reference's trees under the verifier's check, and every way to spoil them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from stark_reference import ReferenceKernels, opening_holds

from distprove.stark.field import P
from distprove.stark.merkle import TreeClaim, TreeShape, openings_hold

rng = np.random.default_rng(11)
kernels = ReferenceKernels()
INDICES = [0, 5, 13, 31, 31]


def tree(shapes: list[tuple[int, int]], log_cap: int, log_arity: int = 0):
    """Matrices (width, log2 rows) with blow-up 2, and their tree."""
    matrices = [rng.integers(0, P, (w, 2, 1 << log), dtype=np.uint64) for w, log in shapes]
    shape = TreeShape(tuple((log + 1 - log_arity, w << log_arity) for w, log in shapes), log_cap)
    return shape, kernels.commit(matrices, log_arity=log_arity, log_cap=shape.log_cap_nodes)


@pytest.mark.parametrize("log_cap", [0, 1, 2, 6])
@pytest.mark.parametrize("shapes", [[(3, 4)], [(1, 4), (2, 2), (5, 4)], [(2, 1), (1, 4), (1, 0)]])
def test_honest_openings_hold(shapes: list[tuple[int, int]], log_cap: int) -> None:
    shape, committed = tree(shapes, log_cap)
    opened = committed.open(INDICES)
    assert opening_holds(shape, committed.root, committed.cap, INDICES, opened.rows, opened.path)


def test_leaves_of_several_rows() -> None:
    shape, committed = tree([(3, 4)], 2, log_arity=2)
    indices = [i & 7 for i in INDICES]
    opened = committed.open(indices)
    assert opened.rows[0].shape == (5, 12)
    assert opening_holds(shape, committed.root, committed.cap, indices, opened.rows, opened.path)


@pytest.mark.parametrize("what", ["row", "short row", "path", "cap", "root", "index", "widths", "order"])
def test_spoiled_openings_do_not(what: str) -> None:
    shape, committed = tree([(3, 4), (2, 2)], 1)
    opened = committed.open(INDICES)
    root, cap, indices = committed.root, committed.cap.copy(), list(INDICES)
    rows, path = [r.copy() for r in opened.rows], opened.path.copy()
    if what == "row":
        rows[0][2, 1] ^= np.uint64(1)
    elif what == "short row":
        rows[1][2, 1] ^= np.uint64(1)
    elif what == "path":
        path[1, 0, 31] ^= 1
    elif what == "cap":
        cap[1, 0] ^= 1
    elif what == "root":
        root = bytes([root[0] ^ 1]) + root[1:]
    elif what == "index":
        indices[1] = 6
    elif what == "widths":  # the same bytes, cut into other widths
        flat = TreeShape(((5, 1), (5, 2), (3, 2)), 1)
        rows = [rows[0][:, :1], rows[0][:, 1:], rows[1]]
        assert not opening_holds(flat, root, cap, indices, rows, path)
        return
    else:
        rows[0] = rows[0][:, ::-1]
    assert not opening_holds(shape, root, cap, indices, rows, path)


def test_trees_are_checked_together_and_each_counts() -> None:
    """Other heights, caps and leaves of other lengths; a wrong path, leaf, cap or root of any one is noticed."""
    made = [tree([(3, 4)], 1), tree([(1, 2), (2, 4)], 6), tree([(3, 1)], 0), tree([(2, 3)], 1, log_arity=2)]
    claims = []
    for shape, committed in made:
        opened = committed.open([i & ((1 << shape.log_leaves) - 1) for i in INDICES])
        claims.append(TreeClaim(shape, committed.root, committed.cap, opened.rows, opened.path))
    assert openings_hold(claims, INDICES)
    for at, claim in enumerate(claims):
        rows, path, cap = [r.copy() for r in claim.rows], claim.path.copy(), claim.cap.copy()
        rows[0][1, 0] ^= np.uint64(1)
        cap[-1, 3] ^= 1
        spoiled = [replace(claim, rows=rows), replace(claim, cap=cap), replace(claim, root=bytes(32))]
        if path.size:
            path[2, -1, 9] ^= 1
            spoiled.append(replace(claim, path=path))
        for wrong in spoiled:
            assert not openings_hold([*claims[:at], wrong, *claims[at + 1 :]], INDICES)
