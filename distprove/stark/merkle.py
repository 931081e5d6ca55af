"""Checks openings of the trees that `GoldilocksKernels.commit` makes; all queries of a tree at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.field import Words
from kernels.goldilocks import INJECT_TAG, LEAF_TAG, NODE_TAG, Bytes
from kernels.keccak import keccak256_rows


@dataclass(frozen=True)
class TreeShape:
    """What a tree holds: per matrix log2 of its leaves (blow-up included) and its width. Known before it is read."""

    matrices: tuple[tuple[int, int], ...]
    log_cap: int

    @property
    def log_leaves(self) -> int:
        return max(log for log, _ in self.matrices)

    @property
    def log_cap_nodes(self) -> int:
        """The cap lies at or below the shortest matrix's leaves, so that above it there are only nodes."""
        return min(self.log_cap, min(log for log, _ in self.matrices))

    @property
    def path_levels(self) -> int:
        return self.log_leaves - self.log_cap_nodes


def opening_holds(
    shape: TreeShape, root: bytes, cap: Bytes, indices: Sequence[int], rows: Sequence[Words], path: Bytes
) -> bool:
    """Whether the tree with this root opens to `rows` at `indices`.

    `cap` (2^log_cap_nodes, 32), `rows` (q, width) per matrix, `path` (q, path_levels, 32): shapes the caller has
    checked. The cap is authenticated by the root, everything else by the cap.
    """
    levels_of = {log for log, _ in shape.matrices}
    at = np.array(indices, dtype=np.int64) & ((1 << shape.log_leaves) - 1)

    # 1. From the leaves up to the cap: the sibling of i among m nodes is i + m/2 mod m, its parent i mod m/2.
    node = _leaves(shape, shape.log_leaves, rows)
    log_size = shape.log_leaves
    for level in range(shape.path_levels):
        log_size -= 1
        right = (at >> log_size).astype(bool)[:, None]
        sibling = path[:, level]
        node = _hash(NODE_TAG, np.where(right, sibling, node), np.where(right, node, sibling))
        at = at & ((1 << log_size) - 1)
        if log_size in levels_of:
            node = _hash(INJECT_TAG, node, _leaves(shape, log_size, rows))
    if not np.array_equal(node, cap[at]):
        return False

    # 2. From the cap to the root.
    nodes = cap
    while len(nodes) > 1:
        half = len(nodes) // 2
        nodes = _hash(NODE_TAG, nodes[:half], nodes[half:])
    return bytes(nodes[0]) == root


def _leaves(shape: TreeShape, log_size: int, rows: Sequence[Words]) -> Bytes:
    here = [(w, r) for (log, w), r in zip(shape.matrices, rows, strict=True) if log == log_size]
    header = [LEAF_TAG + 256 * len(here), *(w for w, _ in here)]
    header += [0] * (len(header) % 2)
    head = np.frombuffer(np.array(header, dtype="<u4").tobytes(), dtype=np.uint8)
    q = len(here[0][1])
    parts = [np.broadcast_to(head, (q, len(head)))]
    parts += [np.ascontiguousarray(r).astype("<u8").view(np.uint8).reshape(q, 8 * w) for w, r in here]
    return keccak256_rows(np.concatenate(parts, axis=1))


def _hash(tag: int, left: Bytes, right: Bytes) -> Bytes:
    head = np.zeros((len(left), 8), dtype=np.uint8)
    head[:, 0] = tag
    return keccak256_rows(np.concatenate((head, left, right), axis=1))
