"""Merkle paths in a circuit: each query has its own row and path, where a proof gives what several share once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from distprove.stark.arithmetic import Elements, Indices, Scalars
from distprove.stark.field import Words
from distprove.stark.merkle import TreeShape, leaf_header
from distprove.stark.multilinear.opened import Opened
from distprove.stark.multilinear.shape import Shape
from distprove.stark.recursion.circuit import BINARY_REST, Index, SiblingPlace, Wire
from distprove.stark.recursion.symbols import Root, Symbols
from kernels.cpu.poseidon2 import DIGEST, RATE, WIDTH
from kernels.interface.tree_hash import LEAF_TAG


class OpenedPaths(Opened):
    """The rows of trees as symbols. The circuit hashes each up to its root when it is asked for."""

    def __init__(
        self, symbols: Symbols, shape: Shape, fixed: Wire | None, root: Root, roots: Sequence[Root], first: int
    ) -> None:
        """`fixed` is the root of the preprocessed tree, if there is one, `root` that of the main tree, `roots` those of
        the later codewords. The trees are numbered from `first` on."""
        self._symbols, self._shape = symbols, shape
        self._fixed, self._root, self._roots, self._first = fixed, root, roots, first

    def main(self, indices: Indices) -> Scalars:
        return self._single(self._first, self._shape.main_tree, self._root.wire, indices)

    def fixed(self, indices: Indices) -> Scalars | None:
        tree = self._shape.preprocessed_tree
        if tree is None:
            return None
        root = self._fixed
        assert root is not None, "the root of the key's tree"
        first = self._shape.rounds[0]
        dynamic = min(first.log_leaves, tree.log_leaves)
        count = 1 << (tree.log_leaves - dynamic)
        width = self._shape.preprocessed.width
        out = np.empty((len(indices), 1 << first.log_fold, width), dtype=object)
        leaves = [[Index(index.bits[:dynamic], t << dynamic) for t in range(count)] for index in indices]
        opened = self._symbols.opened(self._first + 1, [leaf for own in leaves for leaf in own], width)
        for query, own in enumerate(leaves):
            rows = opened[query * count :][:count]
            self._climb_together(tree, own, rows, root)
            for t in range(1 << first.log_fold):
                out[query, t] = rows[t % count]
        return out

    def codeword(self, number: int, indices: Indices) -> Elements:
        tree = self._shape.codeword_trees[number - 1]
        place = self._first + number + (self._shape.preprocessed_tree is not None)
        rows = self._single(place, tree, self._roots[number - 1].wire, indices)
        rows = rows.reshape(len(indices), -1, 3)
        out = np.empty((*rows.shape[:2], 1), dtype=object)
        for query, row in enumerate(rows):
            for t, parts in enumerate(row):
                out[query, t, 0] = self._symbols.join(parts)
        return out

    def check(self) -> None:
        """Nothing is left to do."""

    def _single(self, number: int, tree: TreeShape, root: Wire, indices: Indices) -> Scalars:
        """The rows at the indices, each with a path of its own."""
        ((_, width),) = tree.matrices
        out = np.empty((len(indices), width), dtype=object)
        rows = self._symbols.opened(number, list(indices), width)
        for query, (index, row) in enumerate(zip(indices, rows, strict=True)):
            out[query] = row
            self._climb_alone(tree, number, index, row, root)
        return out

    def _climb_alone(self, tree: TreeShape, number: int, leaf: Index, row: Sequence[Wire], root: Wire) -> None:
        """Hash one leaf up to the root."""
        message = _leaf_words(tree, row)
        if len(tree.levels) == 1:
            self._sponge(message, expected=root)
        else:
            self._climb(tree, number, leaf, self._sponge(message), tree.log_leaves, root)

    def _climb(self, tree: TreeShape, number: int, leaf: Index, node: Wire, level: int, root: Wire) -> None:
        """Hash the node above a leaf at the level of 2^level nodes up to the root."""
        for below, above in pairwise(tree.levels[tree.levels.index(level) :]):
            place = SiblingPlace(number, leaf, below)
            node = self._symbols.step(node, leaf.bits[above:below], place, None if above else root)

    def _climb_together(
        self, tree: TreeShape, leaves: Sequence[Index], rows: Sequence[tuple[Wire, ...]], root: Wire
    ) -> None:
        """Hash leaves that differ in their upper bits alone up to the root: below the level at which they meet, the
        places of all children are fixed."""
        s, meet = self._symbols, len(leaves[0].bits)
        if len(leaves) == 1:
            self._climb_alone(tree, self._first + 1, leaves[0], rows[0], root)
            return
        nodes = [self._sponge_parts(_leaf_words(tree, row)) for row in rows]
        for below, above in pairwise(tree.levels):
            if below == meet:
                break
            if above < meet:
                nodes, meet = [self._node_across(leaves, nodes, below)], above
                break
            count, children = 1 << (above - meet), 1 << (below - above)
            nodes = [
                self._node_parts([part for c in range(children) for part in nodes[t + c * count]]) for t in range(count)
            ]
        # The level of 2^log_blowup nodes is one of the tree's, and leaves meet no higher: there is a step left.
        (top,) = nodes
        self._climb(tree, self._first + 1, leaves[0], s.join(top), meet, root)

    def _node_across(self, leaves: Sequence[Index], nodes: Sequence[tuple[Wire, ...]], below: int) -> tuple[Wire, ...]:
        """The node of four children of which two are known, whose place among the upper or the lower two is fixed. The
        lower bit of their places is one of the leaves'."""
        s = self._symbols
        above = below - 2
        bit = leaves[0].bits[above]
        children: list[list[Wire]] = [[], [], [], []]
        for t, node in enumerate(nodes):
            beside = s.opened_node(self._first + 1, leaves[t], below, above)
            for own, other in zip(node, beside, strict=True):
                moved = s.mul(bit, s.sub(other, own))
                children[2 * t].append(s.add(own, moved))
                children[2 * t + 1].append(s.sub(other, moved))
        return self._node_parts([part for child in children for part in child])

    def _node_parts(self, children: Sequence[Wire]) -> tuple[Wire, ...]:
        """The scalars of the digest of a node of two or four children."""
        s = self._symbols
        state = [*children, *BINARY_REST] if len(children) < WIDTH else list(children)
        outs = s.permute(state)[:DIGEST]
        return tuple(s.add(s.scalar(x), out) for x, out in zip(state[:DIGEST], outs, strict=True))

    def _absorbed(self, message: Sequence[Wire | int]) -> list[Wire | int]:
        """The state of a sponge of this message, before its last permutation."""
        state: list[Wire | int] = [*[0] * RATE, LEAF_TAG, len(message), 0, 0]
        for start in range(0, len(message), RATE):
            block: list[Wire | int] = list(message[start : start + RATE])
            state = [*block, *[0] * (RATE - len(block)), *state[RATE:]]
            if start + RATE < len(message):
                state = [*self._symbols.permute(state)]
        return state

    def _sponge(self, message: Sequence[Wire | int], expected: Wire | None = None) -> Wire:
        """The digest of a message, which must be `expected` if that is given."""
        state = self._absorbed(message)
        if expected is None:
            return self._symbols.hashed(state)
        self._symbols.permute(state, expected)
        return expected

    def _sponge_parts(self, message: Sequence[Wire | int]) -> tuple[Wire, ...]:
        state = self._absorbed(message)
        return self._symbols.permute(state)[:DIGEST]


def _leaf_words(tree: TreeShape, row: Sequence[Wire]) -> list[Wire | int]:
    header: Words = leaf_header([width for _, width in tree.matrices])
    return [*header.tolist(), *row]
