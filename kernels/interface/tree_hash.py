"""The hashes that Merkle trees and grinding can use, and the levels of a tree under each."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

LEAF_TAG, NODE_TAG, INJECT_TAG, GRIND_TAG = 1, 2, 3, 4
"""First word of each hashed message, by its kind: no leaf can be taken for a node, nor either for anything else."""


class TreeHash(Enum):
    """A hash of trees; its value is the name that keys use.

    `KECCAK` is Keccak-256 with the original padding, over binary nodes. `POSEIDON2` is Poseidon2 over Goldilocks of
    width 16 (eprint 2023/323), rate 12, with nodes of four children; a digest is four canonical field elements.
    `POSEIDON2_BINARY` has nodes of two: twice the hashing of nodes, and paths of two thirds of the bytes.
    """

    KECCAK = "keccak256"
    POSEIDON2 = "poseidon2"
    POSEIDON2_BINARY = "poseidon2-binary"

    @property
    def label(self) -> str:
        """The hash's name for people."""
        return "Keccak-256" if self is TreeHash.KECCAK else "Poseidon2"

    @property
    def function(self) -> str:
        """The hash's name in native code, which takes the levels of a tree as they are."""
        return "keccak256" if self is TreeHash.KECCAK else "poseidon2"

    @property
    def log_arity(self) -> int:
        """log2 of the most children of a node."""
        return 2 if self is TreeHash.POSEIDON2 else 1

    @property
    def digests_are_elements(self) -> bool:
        """Whether the four words of a digest are field elements, each below p."""
        return self is not TreeHash.KECCAK

    def levels(self, log_leaves: int, log_blowup: int, entering: Iterable[int] = ()) -> tuple[int, ...]:
        """Return log2 of the nodes of each level of a tree, from its 2^log_leaves lowest leaves down to 0, the root.

        `entering`: log2 of the leaves of shorter matrices, which join a level of their size. A step to the next level
        is as long as the hash's arity allows, but no level of `entering` is skipped, nor that of 2^log_blowup nodes,
        below which all children of a node belong to one coset.
        """
        stops = {0, log_blowup, *entering}
        levels = [log_leaves]
        while levels[-1]:
            steps = range(1, min(self.log_arity, levels[-1]) + 1)
            levels.append(levels[-1] - next((step for step in steps if levels[-1] - step in stops), steps[-1]))
        return tuple(levels)
