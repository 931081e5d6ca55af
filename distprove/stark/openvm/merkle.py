"""Merkle trees of stark-backend 2.0, whose leaves are 2^k rows of a matrix, as their verifier walks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.errors import InvalidProof
from kernels.cpu.poseidon2_babybear import compress, hash_rows
from kernels.maths.babybear import Elements
from kernels.maths.poseidon2_babybear import DIGEST


@dataclass(frozen=True)
class OpenedTree:
    """The opened leaves of a tree."""

    what: str
    root: Elements
    """(8,)"""
    rows: Elements
    """Rows of each leaf, (queries, 2^k, width), hashed one by one. Their digests are the tree's lowest level."""
    paths: Elements
    """Siblings from the leaf on, (queries, depth, 8)."""


def check_paths(indices: Elements, trees: Sequence[OpenedTree]) -> None:
    """Raise InvalidProof unless the leaves with these numbers (queries,) are those of the trees, which are alike but
    for the widths of their rows."""
    queries, size, _ = trees[0].rows.shape
    nodes = np.concatenate(
        [hash_rows(t.rows.reshape(queries * size, -1)).reshape(queries, size, DIGEST) for t in trees]
    )
    while nodes.shape[1] > 1:
        left, right = nodes[:, 0::2].reshape(-1, DIGEST), nodes[:, 1::2].reshape(-1, DIGEST)
        nodes = compress(left, right).reshape(len(nodes), -1, DIGEST)
    node, paths = nodes[:, 0], np.concatenate([tree.paths for tree in trees])
    every = np.tile(indices, len(trees))
    for level in range(paths.shape[1]):
        is_right = (every >> np.uint32(level) & np.uint32(1)).astype(bool)[:, None]
        sibling = paths[:, level]
        node = compress(np.where(is_right, sibling, node), np.where(is_right, node, sibling))
    for tree, found in zip(trees, node.reshape(len(trees), queries, DIGEST), strict=True):
        if (found != tree.root).any():
            raise InvalidProof(f"a Merkle path of {tree.what} does not lead to its root")
