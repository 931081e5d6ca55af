"""The public values of a wrap's circuit: a digest of what a proof states, hidden by a salt; or what contracts read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from distprove.proof import SALT_BYTES
from distprove.stark.transcript import packed
from kernels.cpu.tree_digests import leaf_digests
from kernels.interface.tree_hash import TreeHash

T = TypeVar("T")
SALT_WORDS = len(packed(bytes(SALT_BYTES)))
"""Scalars of a salt."""


READ_NAMES = ("program low", "program high", "output low", "output high", "end")
"""The values that a contract reads, each below 2^128: the program's digest and the output in halves of 128 bits, then
the exit code plus 2^32 times the output's length. All are little-endian."""
WORD_BITS, HALF_BITS = 32, 64
"""Bits of a word of the output, and of an element of the program's digest."""


def read_terms(public: Sequence[T]) -> dict[str, list[tuple[int, T]]]:
    """Each value of `READ_NAMES` as a sum of factors times the public values of a proof that a contract reads
    (`multilinear.places.READ`): four of the program's digest, the exit code, the output's length, eight words."""
    program, (code, length), words = public[:4], public[4:6], public[6:]
    low, high = words[:4], words[4:]
    digits = [(HALF_BITS, program[:2]), (HALF_BITS, program[2:]), (WORD_BITS, low), (WORD_BITS, high)]
    sums = [*digits, (WORD_BITS, (code, length))]
    return {
        name: [(1 << bits * place, value) for place, value in enumerate(values)]
        for name, (bits, values) in zip(READ_NAMES, sums, strict=True)
    }


def read_values(public: Sequence[int]) -> tuple[int, ...]:
    """The values that a contract reads, from the public values of the proof inside the wrap."""
    return tuple(sum(factor * value for factor, value in terms) for terms in read_terms(public).values())


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
