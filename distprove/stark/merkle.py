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


@dataclass(frozen=True)
class TreeClaim:
    """What a tree is claimed to hold at some indices: shapes the caller has checked."""

    shape: TreeShape
    root: bytes
    cap: Bytes
    """(2^log_cap_nodes, 32): authenticated by the root, and everything else by the cap."""
    rows: Sequence[Words]
    """(q, width) per matrix."""
    path: Bytes
    """(q, path_levels, 32)"""


def openings_hold(trees: Sequence[TreeClaim], indices: Sequence[int]) -> bool:
    """Whether each of `trees` opens to its rows at `indices`, which a tree with fewer leaves takes modulo their number.

    Each level is hashed for all trees at once, since a call costs more than what it does for one.
    """
    at = np.array(indices, dtype=np.int64)

    # 1. From the leaves up to the caps: the sibling of i among m nodes is i + m/2 mod m, its parent i mod m/2.
    leaves = _leaves(trees)
    nodes: dict[int, Bytes] = {}
    for log_size in range(max(tree.shape.log_leaves for tree in trees), -1, -1):
        rising = [i for i in nodes if trees[i].shape.log_cap_nodes <= log_size]
        if rising:
            right = (at >> log_size & 1).astype(bool)[:, None]
            node = np.stack([nodes[i] for i in rising])
            sibling = np.stack([trees[i].path[:, trees[i].shape.log_leaves - log_size - 1] for i in rising])
            parents = _hash(NODE_TAG, np.where(right, sibling, node), np.where(right, node, sibling))
            nodes.update(zip(rising, parents, strict=True))
        here = {i: leaf for (i, log), leaf in leaves.items() if log == log_size}
        met = [i for i in here if i in nodes]
        if met:
            joined = _hash(INJECT_TAG, np.stack([nodes[i] for i in met]), np.stack([here[i] for i in met]))
            here.update(zip(met, joined, strict=True))
        nodes.update(here)
    if not all(
        np.array_equal(nodes[i], tree.cap[at & ((1 << tree.shape.log_cap_nodes) - 1)]) for i, tree in enumerate(trees)
    ):
        return False

    # 2. From the caps to the roots.
    tops = [tree.cap for tree in trees]
    for log_size in range(max(tree.shape.log_cap_nodes for tree in trees) - 1, -1, -1):
        rising = [i for i, top in enumerate(tops) if len(top) > 1 << log_size]
        half = np.stack([tops[i] for i in rising]).reshape(len(rising), 2, -1, 32)
        for i, top in zip(rising, _hash(NODE_TAG, half[:, 0], half[:, 1]), strict=True):
            tops[i] = top
    return all(bytes(top[0]) == tree.root for top, tree in zip(tops, trees, strict=True))


def _leaves(trees: Sequence[TreeClaim]) -> dict[tuple[int, int], Bytes]:
    """(q, 32) by tree and log2 of its size. Those with as many bytes are hashed together."""
    by_length: dict[int, dict[tuple[int, int], Bytes]] = {}
    for i, tree in enumerate(trees):
        for log_size in {log for log, _ in tree.shape.matrices}:
            here = [(w, r) for (log, w), r in zip(tree.shape.matrices, tree.rows, strict=True) if log == log_size]
            data = _leaf_bytes([w for w, _ in here], [r for _, r in here])
            by_length.setdefault(data.shape[1], {})[i, log_size] = data
    found: dict[tuple[int, int], Bytes] = {}
    for group in by_length.values():
        data = np.concatenate(list(group.values())) if len(group) > 1 else next(iter(group.values()))
        found.update(zip(group, keccak256_rows(data).reshape(len(group), -1, 32), strict=True))
    return found


def _leaf_bytes(widths: Sequence[int], rows: Sequence[Words]) -> Bytes:
    """(q, bytes): the leaves over matrices (q, width) of one height."""
    header = [LEAF_TAG + 256 * len(widths), *widths]
    header += [0] * (len(header) % 2)
    head = np.array(header, dtype="<u4").view("<u8")
    count = len(rows[0])
    words = np.empty((count, len(head) + sum(widths)), dtype="<u8")
    np.concatenate([np.broadcast_to(head, (count, len(head))), *rows], axis=1, out=words)
    return words.view(np.uint8)


def _hash(tag: int, left: Bytes, right: Bytes) -> Bytes:
    """(.., 32) of the nodes (.., 32) under a tag."""
    data = np.zeros((*left.shape[:-1], 72), dtype=np.uint8)
    data[..., 0] = tag
    data[..., 8:40] = left
    data[..., 40:] = right
    return keccak256_rows(data.reshape(-1, 72)).reshape(left.shape)
