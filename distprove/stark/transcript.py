"""The Fiat-Shamir transcript that prover and verifier share: a chain of Keccak-256 states.

    state = H("distprove stark transcript 2")
    absorb(label, data):  state = H(0x10, state, u8 len(label), label, u64 len(data), data)
    challenge(label):     state = H(0x11, state, u8 len(label), label)
                          blocks H(0x12, state, u64 0), H(0x12, state, u64 1), ...

Integers are little-endian. Labels and lengths make different histories hash different bytes. A challenge changes the
state, so that none is drawn twice. A field element is the next 8-byte word of the blocks that is below p; others are
skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

import numpy as np

from distprove.stark.field import Ext, P, Words
from kernels.cpu.keccak import keccak256
from kernels.interface.tree_hash import GRIND_TAG

DOMAIN = b"distprove stark transcript 2"
_BLOCK = struct.Struct("<4Q")


class Transcript:
    """A Fiat-Shamir transcript. Callers must absorb everything that a challenge depends on before they draw it."""

    def __init__(self, purpose: bytes) -> None:
        """`purpose` separates the transcripts of one protocol from each other."""
        self._state = keccak256(DOMAIN)
        self.absorb(b"purpose", purpose)

    def absorb(self, label: bytes, data: bytes) -> None:
        self._state = keccak256(b"\x10" + self._state + _framed(label) + len(data).to_bytes(8, "little") + data)

    def absorb_words(self, label: bytes, words: Words) -> None:
        """Absorb field elements, 8 little-endian bytes each, in C order."""
        self.absorb(label, np.ascontiguousarray(words).astype("<u8").tobytes())

    def extension(self, label: bytes) -> Ext:
        """Draw a uniform element of the extension field."""
        elements = (word for word in self._words(label) if word < P)
        return next(elements), next(elements), next(elements)

    def indices(self, label: bytes, count: int, bits: int) -> list[int]:
        """Draw `count` independent uniform integers below 2^bits, the low bits of successive words."""
        mask = (1 << bits) - 1
        return [word & mask for word in islice(self._words(label), count)]

    def grinding_seed(self) -> bytes:
        """Draw the seed of the proof of work, 32 bytes."""
        self._state = keccak256(b"\x11" + self._state + _framed(b"grind"))
        return self._state

    def _words(self, label: bytes) -> Iterator[int]:
        self._state = state = keccak256(b"\x11" + self._state + _framed(label))
        counter = 0
        while True:
            block = keccak256(b"\x12" + state + counter.to_bytes(8, "little"))
            yield from _BLOCK.unpack(block)
            counter += 1


def work_is_done(seed: bytes, nonce: int, bits: int) -> bool:
    """Whether keccak256(u64 GRIND_TAG, seed, u64 nonce) starts with `bits` zero bits."""
    digest = keccak256(GRIND_TAG.to_bytes(8, "little") + seed + nonce.to_bytes(8, "little"))
    return int.from_bytes(digest, "big") >> (256 - bits) == 0


def _framed(label: bytes) -> bytes:
    return bytes([len(label)]) + label
