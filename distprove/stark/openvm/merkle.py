"""Merkle trees of stark-backend 2.0, whose leaves are 2^k rows of a matrix, as their verifier walks them."""

from __future__ import annotations

import numpy as np

from distprove.errors import InvalidProof
from kernels.maths.babybear import Elements
from kernels.maths.poseidon2_babybear import DIGEST, compress, hash_rows


def check_paths(root: Elements, indices: Elements, rows: Elements, paths: Elements, what: str) -> None:
    """Raise InvalidProof unless leaves are those of a tree with this root.

    `indices`: (queries,) numbers of leaves. `rows`: (queries, 2^k, width). `paths`: (queries, depth, 8), siblings from
    the leaf on. A row is hashed by itself; the 2^k digests are the lowest levels of the tree.
    """
    queries, size, width = rows.shape
    nodes = hash_rows(rows.reshape(queries * size, width)).reshape(queries, size, DIGEST)
    while nodes.shape[1] > 1:
        left, right = nodes[:, 0::2].reshape(-1, DIGEST), nodes[:, 1::2].reshape(-1, DIGEST)
        nodes = compress(left, right).reshape(queries, -1, DIGEST)
    node = nodes[:, 0]
    for level in range(paths.shape[1]):
        is_right = (indices >> np.uint32(level) & np.uint32(1)).astype(bool)[:, None]
        sibling = paths[:, level]
        node = compress(np.where(is_right, sibling, node), np.where(is_right, node, sibling))
    if not np.array_equal(node, np.broadcast_to(root, node.shape)):
        raise InvalidProof(f"a Merkle path of {what} does not lead to the root")
