"""The public value of a wrap's circuit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cpu.tree_digests import leaf_digests
from kernels.interface.tree_hash import TreeHash


def statement_digest(public: Sequence[int]) -> int:
    """The circuit's public value for a proof with these public values, each below p: their digest as a message of words
    (docs/multilinear-protocol.md, section 2)."""
    words = np.array(public, dtype="<u8").reshape(1, -1).view(np.uint8)
    return int.from_bytes(bytes(leaf_digests(TreeHash.POSEIDON2_BN254, words)[0]), "little")
