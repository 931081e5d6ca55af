"""Checks openings of the trees that `GoldilocksKernels.commit` makes, for all trees and queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from distprove.stark.field import Words
from kernels.cpu.tree_digests import leaf_digests, node_digests
from kernels.interface.goldilocks import Bytes, TreeOpening
from kernels.interface.tree_hash import INJECT_TAG, LEAF_TAG, TreeHash
from kernels.maths.query_paths import QueryPaths


@dataclass(frozen=True)
class TreeShape:
    """The shape of a tree. Known before the tree is read."""

    matrices: tuple[tuple[int, int], ...]
    """(log2 of the leaves with blow-up, width) for each matrix."""
    log_blowup: int = 0
    tree_hash: TreeHash = TreeHash.KECCAK

    @property
    def log_leaves(self) -> int:
        return max(log for log, _ in self.matrices)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """log2 of the nodes of each level, from the lowest leaves to the root."""
        return self.tree_hash.levels(self.log_leaves, self.log_blowup, [log for log, _ in self.matrices])

    @cached_property
    def most_siblings(self) -> int:
        """The most nodes that one query can ask of a path."""
        return sum((1 << (below - above)) - 1 for below, above in pairwise(self.levels))

    def above(self, log_size: int) -> int:
        """Return the level above that of 2^log_size > 1 nodes."""
        return self.levels[self.levels.index(log_size) + 1]


@dataclass(frozen=True)
class TreeClaim:
    """A claimed opening of a tree. The caller has checked the widths of its rows, but no number of rows or nodes."""

    shape: TreeShape
    root: bytes
    opening: TreeOpening


def openings_hold(trees: Sequence[TreeClaim], paths: QueryPaths) -> bool:
    """Whether each of `trees`, all of one hash, opens along `paths` to its rows, with exactly the rows and nodes that
    this takes.

    Each level is hashed for all trees at once, since the overhead of a call exceeds the cost of one tree. The queries
    meet the same nodes of all trees, because a tree takes an index modulo its leaves.
    """
    if not all(_is_whole(tree, paths) for tree in trees):
        return False
    tree_hash = trees[0].shape.tree_hash
    leaves = _leaves(trees, paths)
    levels: dict[int, tuple[list[int], Bytes]] = {}
    """The trees that have reached a level, by its log2 nodes, and their known nodes (trees, known, 32)."""
    read = [0] * len(trees)
    """The nodes of each tree's path that were used."""
    for log_size in range(max(tree.shape.log_leaves for tree in trees), -1, -1):
        members: list[int] = []
        parts: list[Bytes] = []
        for below in range(log_size + tree_hash.log_arity, log_size, -1):
            there, nodes = levels.get(below, ([], np.empty((0, 0, 32), dtype=np.uint8)))
            places = [place for place, i in enumerate(there) if trees[i].shape.above(below) == log_size]
            if places:
                rising = [there[place] for place in places]
                missing = paths.missing_of(below, log_size) - (1 << below)
                given = [trees[i].opening.path[read[i] : read[i] + len(missing)] for i in rising]
                known = nodes if len(places) == len(there) else nodes[places]
                children = np.concatenate([known, np.stack(given)], axis=1)
                # In ascending order the children of a parent are at the same place of equal parts.
                order = np.argsort(np.concatenate([paths.known(below), missing])).reshape(1 << (below - log_size), -1)
                parts.append(node_digests(tree_hash, [children.take(places, axis=1) for places in order]))
                for i in rising:
                    read[i] += len(missing)
                members += rising
        entering = [i for i, log in leaves if log == log_size]
        met = [place for place, i in enumerate(members) if i in entering]
        found = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else None
        if met and found is not None:
            joining = np.stack([leaves[members[p], log_size] for p in met])
            found[met] = node_digests(tree_hash, (found[met], joining), INJECT_TAG)
        new = [i for i in entering if i not in members]
        if new:
            joined = np.stack([leaves[i, log_size] for i in new])
            found = joined if found is None else np.concatenate([found, joined])
            members += new
        if found is not None:
            levels[log_size] = members, found
    members, roots = levels[0]
    return all(bytes(roots[place, 0]) == trees[i].root for place, i in enumerate(members))


def _is_whole(tree: TreeClaim, paths: QueryPaths) -> bool:
    """Whether a claim has exactly as many rows and nodes as the queries need, so that none is left unchecked, and nodes
    in their one encoding."""
    rows = zip(tree.shape.matrices, tree.opening.rows, strict=True)
    path = tree.opening.path
    if len(path) != len(paths.path_of(tree.shape.levels)):
        return False
    if not tree.shape.tree_hash.are_digests(path):
        return False
    return all(len(r) == len(paths.known(log)) for (log, _), r in rows)


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
        found.update(zip(group, np.split(leaf_digests(trees[0].shape.tree_hash, data), ends[:-1]), strict=True))
    return found


def _leaf_bytes(widths: Sequence[int], rows: Sequence[Words]) -> Bytes:
    """The encoded leaves, (q, bytes), over the rows of matrices (q, width) of one height."""
    head = leaf_header(widths)
    count = len(rows[0])
    words = np.empty((count, len(head) + sum(widths)), dtype="<u8")
    np.concatenate([np.broadcast_to(head, (count, len(head))), *rows], axis=1, out=words)
    return words.view(np.uint8)


def leaf_header(widths: Sequence[int]) -> Words:
    """The words before the rows of matrices of these widths in the message of a leaf."""
    header = [LEAF_TAG + 256 * len(widths), *widths]
    header += [0] * (len(header) % 2)
    words: Words = np.array(header, dtype="<u4").view("<u8")
    return words
