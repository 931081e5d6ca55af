"""Paths of Merkle trees as storage-proofs-core writes them (`MerkleProof`), and their verification, many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from distprove.errors import VanillaMismatch
from distprove.filecoin.sectors import TreeShape
from distprove.filecoin.values import element, elements, fields, integer, items

Hashes = Callable[[Sequence[Sequence[int]]], list[int]]
"""Hashes the children of many nodes."""


@dataclass(frozen=True, repr=False)
class MerklePath:
    """A leaf's way to the root. The leaf is secret."""

    leaf: int
    root: int
    index: int
    """The leaf's number, as the positions along the path say."""
    siblings: tuple[int, ...]
    """The siblings in order, from the leaf up."""


def read_path(value: Any, shape: TreeShape) -> MerklePath:
    """Read a `MerkleProof` of a tree of this shape. The path is not verified. Raises FormatError."""
    (data,) = fields(value, "data")
    (tagged,) = fields(data, shape.tag)
    names = [name for name, _ in shape.parts]
    leaf, root, *pieces = fields(tagged, "leaf", "root", *names)
    siblings: list[int] = []
    index, weight = 0, 1
    for (name, arities), piece in zip(shape.parts, pieces, strict=True):
        (levels,) = fields(piece, "path")
        for number, (arity, level) in enumerate(
            zip(arities, items(levels, len(arities), f"levels of {name}"), strict=True)
        ):
            hashes, position = fields(level, "hashes", "index")
            siblings += elements(hashes, arity - 1, "a hash", f"hashes in level {number}")
            index += weight * integer(position, f"the index in level {number}", arity.bit_length() - 1)
            weight *= arity
    return MerklePath(element(leaf, "the leaf"), element(root, "the root"), index, tuple(siblings))


def check_paths(paths: Sequence[tuple[str, MerklePath]], shape: TreeShape, hashes: Hashes) -> None:
    """Raise VanillaMismatch, with its name, for the first path that does not lead from its leaf to its root. Nodes that
    several paths share are hashed once."""
    nodes = [path.leaf for _, path in paths]
    places = [path.index for _, path in paths]
    begin = 0
    for arity in shape.arities:
        known: dict[tuple[int, ...], int] = {}
        children = []
        for number, (_, path) in enumerate(paths):
            position = places[number] % arity
            siblings = path.siblings[begin : begin + arity - 1]
            family = (*siblings[:position], nodes[number], *siblings[position:])
            children.append(known.setdefault(family, len(known)))
            places[number] //= arity
        made = hashes(list(known))
        nodes = [made[which] for which in children]
        begin += arity - 1
    for (name, path), node in zip(paths, nodes, strict=True):
        if node != path.root:
            raise VanillaMismatch(f"{name}: the path does not lead from its leaf to its root")
