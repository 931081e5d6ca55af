"""The hashes that Merkle trees and grinding can use, and the levels of a tree under each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from kernels.maths.goldilocks import P
from kernels.maths.poseidon2_bn254 import R

if TYPE_CHECKING:  # a command's options name hashes, and do without NumPy
    import numpy as np
    from numpy.typing import NDArray

LEAF_TAG, NODE_TAG, INJECT_TAG, GRIND_TAG = 1, 2, 3, 4
"""First word of each hashed message, by its kind: no leaf can be taken for a node, nor either for anything else."""


class TreeHash(Enum):
    """A hash of trees; its value is the name that keys use.

    `KECCAK` is Keccak-256 with the original padding, over binary nodes. `POSEIDON2` is Poseidon2 over Goldilocks of
    width 16 (eprint 2023/323), rate 12, with nodes of four children; a digest is four canonical field elements.
    `POSEIDON2_BINARY` has nodes of two: twice the hashing of nodes, and paths of two thirds of the bytes.
    `POSEIDON2_BN254` is Poseidon2 over the scalar field of BN254 of width 3, rate 2, with binary nodes, for proofs that
    a Groth16 circuit verifies; a digest is one element of that field, a number of 32 bytes below its order r.
    """

    KECCAK = "keccak256"
    POSEIDON2 = "poseidon2"
    POSEIDON2_BINARY = "poseidon2-binary"
    POSEIDON2_BN254 = "poseidon2-bn254"

    @property
    def label(self) -> str:
        """The hash's name for people."""
        if self is TreeHash.POSEIDON2_BN254:
            return "Poseidon2 over BN254"
        return "Keccak-256" if self is TreeHash.KECCAK else "Poseidon2"

    @property
    def function(self) -> str:
        """The hash's name in native code, which takes the levels of a tree as they are."""
        return "poseidon2" if self is TreeHash.POSEIDON2_BINARY else self.value

    @property
    def log_arity(self) -> int:
        """log2 of the most children of a node."""
        return 2 if self is TreeHash.POSEIDON2 else 1

    @property
    def digests_are_elements(self) -> bool:
        """Whether the four words of a digest are field elements, each below p."""
        return self in (TreeHash.POSEIDON2, TreeHash.POSEIDON2_BINARY)

    @property
    def collision_bits(self) -> float:
        """Bits of security of a digest and of a capacity against collisions: half their length, at most 128."""
        return min(128.0, math.log2(R) / 2) if self is TreeHash.POSEIDON2_BN254 else 128.0

    def are_digests(self, digests: NDArray[np.uint8]) -> bool:
        """Whether each of some 32 bytes, the last axis, is the one encoding of a digest."""
        import numpy as np

        words = np.ascontiguousarray(digests).view("<u8")
        if self.digests_are_elements:
            return bool((words < P).all())
        if self is TreeHash.POSEIDON2_BN254:
            below, equal = np.zeros(words.shape[:-1], dtype=bool), np.ones(words.shape[:-1], dtype=bool)
            for k in (3, 2, 1, 0):
                word = np.uint64(R >> 64 * k & 0xFFFFFFFFFFFFFFFF)
                below |= equal & (words[..., k] < word)
                equal &= words[..., k] == word
            return bool(below.all())
        return True

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
