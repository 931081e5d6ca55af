"""The public value of a wrap's circuit: a digest of what a proof states, hidden by a salt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.proof import SALT_BYTES
from distprove.stark.transcript import packed
from kernels.cpu.tree_digests import leaf_digests
from kernels.interface.tree_hash import TreeHash

SALT_WORDS = len(packed(bytes(SALT_BYTES)))
"""Scalars of a salt."""


def salt_words(salt: bytes) -> tuple[int, ...]:
    """(SALT_WORDS,) numbers of four bytes each, little-endian."""
    assert len(salt) == SALT_BYTES
    return tuple(packed(salt))


def statement_digest(public: Sequence[int], salt: bytes) -> int:
    """The circuit's public value for a proof with these public values, each below p: their digest and the salt's, as
    one message of words (docs/multilinear-protocol.md, section 2).

    The salt has SALT_BYTES random bytes. Who does not know them cannot compare the digest with a guess of the values.
    """
    words = np.array([*public, *salt_words(salt)], dtype="<u8").reshape(1, -1).view(np.uint8)
    return int.from_bytes(bytes(leaf_digests(TreeHash.POSEIDON2_BN254, words)[0]), "little")
