"""Rows of trees in a wrap: each query has its own row and path, hashed up to the root by constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from distprove.circuits.linear import Linear
from distprove.circuits.wrap import poseidon2
from distprove.circuits.wrap.arithmetic import Value, WrapArithmetic, WrapIndex
from distprove.errors import InvalidProof
from distprove.stark.arithmetic import Elements, Indices, Scalars
from distprove.stark.field import Words
from distprove.stark.merkle import TreeClaim, TreeShape, leaf_header
from distprove.stark.multilinear.opened import Opened, OpenedRows
from distprove.stark.multilinear.shape import Shape
from kernels.cpu.tree_digests import Bytes, leaf_digests, node_digests
from kernels.interface.tree_hash import NODE_TAG
from kernels.maths.query_paths import QueryPaths


@dataclass(frozen=True)
class Fibre:
    """How a tree is opened at each query: at `count` leaves that differ in their upper bits, from bit `meet` on."""

    count: int
    meet: int
    given: int = 1
    """Leaves that a proof's verifier asks for at each query; the first `count` of them are these."""


def fibres(shape: Shape) -> list[Fibre]:
    """Of each tree of a proof."""
    out = [Fibre(1, shape.main_tree.log_leaves)]
    if (tree := shape.preprocessed_tree) is not None:
        meet = min(shape.rounds[0].log_leaves, tree.log_leaves)
        out.append(Fibre(1 << tree.log_leaves - meet, meet, 1 << shape.rounds[0].log_fold))
    return [*out, *(Fibre(1, tree.log_leaves) for tree in shape.codeword_trees)]


class WrapOpened(Opened):
    """The rows of a proof as private inputs: `rows T` and `path T` for tree T, query by query."""

    def __init__(self, f: WrapArithmetic, shape: Shape, root: Linear, roots: Sequence[Linear]) -> None:
        """`root` is that of the main tree, `roots` those of the later codewords. The key's is a number."""
        self._f, self._shape, self._root, self._roots = f, shape, root, roots
        self._fibres = fibres(shape)

    def main(self, indices: Indices) -> Scalars:
        return self._rows(0, self._shape.main_tree, self._root, indices)[:, 0]

    def fixed(self, indices: Indices) -> Scalars | None:
        tree = self._shape.preprocessed_tree
        if tree is None:
            return None
        number = int.from_bytes(self._shape.key.preprocessed_root, "little")
        rows = self._rows(1, tree, self._f.b.constant(number), indices)
        count = rows.shape[1]
        return rows[:, [t % count for t in range(1 << self._shape.rounds[0].log_fold)]]

    def codeword(self, number: int, indices: Indices) -> Elements:
        tree = self._shape.codeword_trees[number - 1]
        place = number + (self._shape.preprocessed_tree is not None)
        rows = self._rows(place, tree, self._roots[number - 1], indices)[:, 0].reshape(len(indices), -1, 3)
        out = np.empty((*rows.shape[:2], 1), dtype=object)
        for query, row in enumerate(rows):
            for t, (x, y, z) in enumerate(row):
                out[query, t, 0] = Value((x.parts[0], y.parts[0], z.parts[0]), words=True)
        return out

    def check(self) -> None:
        """Nothing is left to do."""

    def _rows(self, number: int, tree: TreeShape, root: Linear, indices: Indices) -> Scalars:
        """The rows (queries, leaves, width) of a tree, each hashed up to its root."""
        f, fibre = self._f, self._fibres[number]
        ((_, width),) = tree.matrices
        given = f.given(f"rows {number}", len(indices) * fibre.count * width)
        rows = f.scalars(given).reshape(len(indices), fibre.count, width)
        steps = fibre.meet
        path = f.b.private_input(f"path {number}", len(indices) * steps) if steps else None
        header: Words = leaf_header([width])
        for query, index in enumerate(indices):
            nodes = [f.sponge([*header.tolist(), *(value.parts[0].value for value in row)]) for row in rows[query]]
            while len(nodes) > 1:
                half = len(nodes) // 2
                nodes = [self._node(*pair) for pair in zip(nodes[:half], nodes[half:], strict=True)]
            (node,) = nodes
            for k in range(steps):
                assert path is not None, "a step has a sibling"
                node = self._step(index, steps - 1 - k, node, path[query * steps + k])
            f.b.assert_equal(node, root, "an opening does not match its commitment")
        return rows

    def _node(self, left: Linear, right: Linear) -> Linear:
        f = self._f
        made: Linear = f.counted("hashes", lambda: poseidon2.node(f.b, NODE_TAG, left, right))
        return made

    def _step(self, index: WrapIndex, bit: int, node: Linear, sibling: Linear) -> Linear:
        f = self._f
        wire = f.wire(index.bits[bit])
        made: Linear = f.counted("hashes", lambda: poseidon2.step(f.b, NODE_TAG, wire, node, sibling))
        return made


# -- what a proof gives to a circuit ----------------------------------------------------------------------------------


def inputs_of_trees(shape: Shape, opened: OpenedRows) -> dict[str, list[str]]:
    """The inputs of `WrapOpened`, from the rows that the verifier of numbers was given at its queries.

    Raises InvalidProof for an opening of other nodes than these need.
    """
    found: dict[str, list[str]] = {}
    for number, claim, indices in opened.claims():
        fibre = fibres(shape)[number]
        levels, rows = _known(claim, indices)
        leaves = indices.reshape(-1, fibre.given)[:, : fibre.count].tolist()
        found[f"rows {number}"] = [str(word) for own in leaves for leaf in own for word in rows[leaf]]
        if fibre.meet:
            found[f"path {number}"] = [node for own in leaves for node in _siblings(levels, own[0], fibre.meet)]
    return found


def _siblings(levels: Sequence[dict[int, bytes]], index: int, meet: int) -> list[str]:
    """The nodes beside a leaf's ancestors, from the level of 2^meet nodes up."""
    out = []
    for log in range(meet, 0, -1):
        beside = (index & (1 << log) - 1) ^ 1 << log - 1
        out.append(str(int.from_bytes(levels[log][beside], "little")))
    return out


def _known(claim: TreeClaim, indices: Indices) -> tuple[list[dict[int, bytes]], dict[int, list[int]]]:
    """The nodes of each level, by log2 of its size, that an opening gives or implies; and the rows by leaf."""
    shape, opening = claim.shape, claim.opening
    top = shape.log_leaves
    leaves = sorted({int(i) & (1 << top) - 1 for i in indices})
    ((_, width),), (rows,) = shape.matrices, opening.rows
    header = np.repeat(leaf_header([width])[None], len(leaves), axis=0)
    data = np.concatenate([header, rows], axis=1).astype("<u8").view(np.uint8)
    levels: list[dict[int, bytes]] = [{} for _ in range(top + 1)]
    levels[top] = dict(zip(leaves, map(bytes, leaf_digests(shape.tree_hash, data)), strict=True))
    if len(opening.path) != len(QueryPaths(indices, top).path_of(shape.levels)):
        raise InvalidProof("an opening of other nodes than its queries need")
    rest = iter(map(bytes, opening.path))
    for below, above in pairwise(shape.levels):
        size, own = 1 << above, levels[below]
        for i in sorted({i % size + t for i in own for t in (0, size)} - own.keys()):
            own[i] = next(rest)
        parents = sorted({i % size for i in own})
        children = [_digests([own[i + t] for i in parents]) for t in (0, size)]
        levels[above] = dict(zip(parents, map(bytes, node_digests(shape.tree_hash, children)), strict=True))
    return levels, {leaf: [int(w) for w in row] for leaf, row in zip(leaves, rows.tolist(), strict=True)}


def _digests(nodes: Sequence[bytes]) -> Bytes:
    """Nodes as an array (nodes, 32)."""
    return np.frombuffer(b"".join(nodes), dtype=np.uint8).reshape(len(nodes), -1)
