"""Checks openings of the trees that `GoldilocksKernels.commit` makes, for all trees and queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.field import Words
from kernels.cpu.keccak import keccak256_rows
from kernels.interface.goldilocks import INJECT_TAG, LEAF_TAG, NODE_TAG, Bytes, TreeOpening
from kernels.maths.query_paths import QueryPaths


@dataclass(frozen=True)
class TreeShape:
    """The shape of a tree: (log2 of the leaves with blow-up, width) for each matrix. Known before the tree is read."""

    matrices: tuple[tuple[int, int], ...]

    @property
    def log_leaves(self) -> int:
        return max(log for log, _ in self.matrices)


@dataclass(frozen=True)
class TreeClaim:
    """A claimed opening of a tree. The caller has checked the widths of its rows, but no number of rows or nodes."""

    shape: TreeShape
    root: bytes
    opening: TreeOpening


def openings_hold(trees: Sequence[TreeClaim], paths: QueryPaths) -> bool:
    """Whether each of `trees` opens along `paths` to its rows, with exactly the rows and nodes that this takes.

    Each level is hashed for all trees at once, since the overhead of a call exceeds the cost of one tree. The queries
    meet the same nodes of all trees, because a tree takes an index modulo its leaves.
    """
    if not all(_is_whole(tree, paths) for tree in trees):
        return False
    leaves = _leaves(trees, paths)
    members: list[int] = []
    """The trees that have the current level, in the order of `nodes`, (trees, known nodes, 32)."""
    nodes: Bytes = np.empty((0, 0, 32), dtype=np.uint8)
    for log_size in range(max(tree.shape.log_leaves for tree in trees), -1, -1):
        if members:
            nodes = _parents(nodes, [trees[i] for i in members], paths, log_size + 1)
        entering = [i for i, log in leaves if log == log_size]
        met = [place for place, i in enumerate(members) if i in entering]
        if met:
            nodes[met] = _hash(INJECT_TAG, nodes[met], np.stack([leaves[members[p], log_size] for p in met]))
        new = [i for i in entering if i not in members]
        if new:
            joined = np.stack([leaves[i, log_size] for i in new])
            nodes = np.concatenate([nodes, joined]) if members else joined
            members += new
    return all(bytes(nodes[place, 0]) == trees[i].root for place, i in enumerate(members))


def _is_whole(tree: TreeClaim, paths: QueryPaths) -> bool:
    """Whether a claim has exactly as many rows and nodes as the queries need, so that none is left unchecked."""
    rows = zip(tree.shape.matrices, tree.opening.rows, strict=True)
    path = paths.path(tree.shape.log_leaves)
    return len(tree.opening.path) == len(path) and all(len(r) == len(paths.known(log)) for (log, _), r in rows)


def _parents(nodes: Bytes, trees: Sequence[TreeClaim], paths: QueryPaths, log_size: int) -> Bytes:
    """The parents, (trees, parents, 32), of the known nodes, (trees, known, 32), of the level of 2^log_size nodes and
    of their siblings from the path."""
    missing, above = paths.missing(log_size), len(paths.path(log_size - 1))
    siblings = [tree.opening.path[len(tree.opening.path) - above - len(missing) :][: len(missing)] for tree in trees]
    # In ascending order the two children of a parent are at the same place of the two halves.
    left, right = np.argsort(np.concatenate([paths.known(log_size), missing])).reshape(2, -1)
    both = np.concatenate([nodes, np.stack(siblings)], axis=1)
    return _hash(NODE_TAG, both.take(left, axis=1), both.take(right, axis=1))


def _leaves(trees: Sequence[TreeClaim], paths: QueryPaths) -> dict[tuple[int, int], Bytes]:
    """The digests of the opened leaves, (rows, 32), by tree and log2 of the leaves. Leaves of equal length are hashed
    together."""
    by_length: dict[int, dict[tuple[int, int], Bytes]] = {}
    for i, tree in enumerate(trees):
        for log_size in {log for log, _ in tree.shape.matrices}:
            pairs = zip(tree.shape.matrices, tree.opening.rows, strict=True)
            here = [(w, r) for (log, w), r in pairs if log == log_size]
            data = _leaf_bytes([w for w, _ in here], [r for _, r in here])
            by_length.setdefault(data.shape[1], {})[i, log_size] = data
    found: dict[tuple[int, int], Bytes] = {}
    for group in by_length.values():
        data = np.concatenate(list(group.values())) if len(group) > 1 else next(iter(group.values()))
        ends = np.cumsum([len(paths.known(log_size)) for _, log_size in group])
        found.update(zip(group, np.split(keccak256_rows(data), ends[:-1]), strict=True))
    return found


def _leaf_bytes(widths: Sequence[int], rows: Sequence[Words]) -> Bytes:
    """The encoded leaves, (q, bytes), over the rows of matrices (q, width) of one height."""
    header = [LEAF_TAG + 256 * len(widths), *widths]
    header += [0] * (len(header) % 2)
    head = np.array(header, dtype="<u4").view("<u8")
    count = len(rows[0])
    words = np.empty((count, len(head) + sum(widths)), dtype="<u8")
    np.concatenate([np.broadcast_to(head, (count, len(head))), *rows], axis=1, out=words)
    return words.view(np.uint8)


def _hash(tag: int, left: Bytes, right: Bytes) -> Bytes:
    """The digests, (.., 32), of pairs of nodes (.., 32) under a tag."""
    data = np.zeros((*left.shape[:-1], 72), dtype=np.uint8)
    data[..., 0] = tag
    data[..., 8:40] = left
    data[..., 40:] = right
    return keccak256_rows(data.reshape(-1, 72)).reshape(left.shape)
