"""The Fiat-Shamir transcripts that prover and verifier share, one for each hash of trees.

`KeccakTranscript` is a chain of Keccak-256 states:

    state = H("distprove stark transcript 2")
    absorb(label, data):  state = H(0x10, state, u8 len(label), label, u64 len(data), data)
    challenge(label):     state = H(0x11, state, u8 len(label), label)
                          blocks H(0x12, state, u64 0), H(0x12, state, u64 1), ...

Integers are little-endian. Labels and lengths make different histories hash different bytes. A challenge changes the
state, so that none is drawn twice. A field element is the next 8-byte word of the blocks that is below p; others are
skipped.

`Poseidon2Transcript` is a duplex sponge of rate 12 over field elements, in overwrite mode, which a circuit can follow:

    push(x):              element `at` of the state becomes x; after the twelfth, permute, and start again
    message(kind, label, items):
                          push kind + 2^8 len(label) + 2^16 len(items), the label, 7 bytes an element, and the items
    absorb(label, ...):   message 0x10 with field elements, or 0x13 with bytes, 4 bytes an element
    challenge(label):     message 0x11 with nothing; permute unless that is just done; the first 12 elements of the
                          state, then those after one more permutation, ...

`Bn254Transcript` is the same sponge over the scalar field of BN254, r its order, of rate 2 and for a circuit over that
field. An element of it holds 24 bytes of data, or three Goldilocks elements:

    message(kind, label, items, count):
                          push kind + 2^8 len(label) + 2^16 count + 2^64 label, and the items
    absorb(label, ...):   message 0x10 with field elements and their number, 0x13 with bytes and theirs, or 0x14 with
                          a root, which is an element, and 1, or 0 where there is no tree
    challenge(label):     message 0x11 with nothing; permute unless that is just done; the first 2 elements of the
                          state, then those after one more permutation, ...

A challenge of the extension field is the lowest three digits to the base p of the first of these elements that is below
m p^3, m = floor(r / p^3): it is uniform, and one in 2^61 is passed over. Indices are 32 bits of an element each, the
lowest 96 bits of it give three.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from distprove.stark.field import Ext, P, Words
from kernels.cpu import poseidon2, poseidon2_bn254
from kernels.cpu.keccak import keccak256
from kernels.host.units import count_of
from kernels.interface.tree_hash import GRIND_TAG, TreeHash
from kernels.maths.poseidon2_bn254 import WIDTH, R

DOMAIN = b"distprove stark transcript 2"
_BLOCK = struct.Struct("<4Q")
_ELEMENTS, _CHALLENGE, _BYTES, _ROOT = 0x10, 0x11, 0x13, 0x14
_LABEL_BYTES, _DATA_BYTES = 7, 4
"""Bytes of a label, and of other data, in one field element."""
GRIND_LABEL = b"grind"
PACKED_LABEL_BYTES = 23
PACKED_BYTES = 24
"""Bytes of data in one element of BN254's scalar field."""
QUOTIENTS = R // P**3
"""An element of that field gives a challenge if it is below this times p^3."""
INDEX_BITS = 32
INDICES = 3
"""Indices that one element of that field gives, and the bits of each: their bias is below 2^-128."""


class Transcript(ABC):
    """A Fiat-Shamir transcript. Callers must absorb everything that a challenge depends on before they draw it."""

    @abstractmethod
    def absorb(self, label: bytes, data: bytes) -> None:
        """Absorb bytes under an ASCII label."""

    @abstractmethod
    def absorb_words(self, label: bytes, words: Words) -> None:
        """Absorb canonical field elements, in C order."""

    @abstractmethod
    def absorb_root(self, label: bytes, root: bytes) -> None:
        """Absorb the root of a tree under the transcript's own hash; empty where there is no such tree."""

    @abstractmethod
    def extension(self, label: bytes) -> Ext:
        """Draw a uniform element of the extension field."""

    @abstractmethod
    def indices(self, label: bytes, count: int, bits: int) -> list[int]:
        """Draw `count` independent integers below 2^bits, uniform up to a share of 2^(bits - 64)."""

    @abstractmethod
    def grinding_seed(self) -> bytes:
        """Draw the seed of the proof of work, 32 bytes."""


class NumberTranscript(Transcript):
    """A transcript over numbers, which kernels can continue."""

    @abstractmethod
    def words(self) -> Words:
        """The state, as `struct Transcript` of hash/transcript.h has it, for rounds that kernels make."""

    @abstractmethod
    def resume(self, words: Words) -> None:
        """Go on from a state."""


def make_transcript(purpose: bytes, tree_hash: TreeHash) -> NumberTranscript:
    """Return a new transcript under a hash. `purpose` separates the transcripts of one protocol from each other."""
    if tree_hash is TreeHash.KECCAK:
        return KeccakTranscript(purpose)
    return Bn254Transcript(purpose) if tree_hash is TreeHash.POSEIDON2_BN254 else Poseidon2Transcript(purpose)


class KeccakTranscript(NumberTranscript):
    """A transcript over bytes."""

    def __init__(self, purpose: bytes) -> None:
        self._state = keccak256(DOMAIN)
        self.absorb(b"purpose", purpose)

    def absorb(self, label: bytes, data: bytes) -> None:
        self._state = keccak256(b"\x10" + self._state + _framed(label) + len(data).to_bytes(8, "little") + data)

    def absorb_words(self, label: bytes, words: Words) -> None:
        self.absorb(label, np.ascontiguousarray(words).astype("<u8").tobytes())

    def absorb_root(self, label: bytes, root: bytes) -> None:
        self.absorb(label, root)

    def extension(self, label: bytes) -> Ext:
        elements = (word for word in self._words(label) if word < P)
        return next(elements), next(elements), next(elements)

    def indices(self, label: bytes, count: int, bits: int) -> list[int]:
        mask = (1 << bits) - 1
        return [word & mask for word in islice(self._words(label), count)]

    def grinding_seed(self) -> bytes:
        self._state = keccak256(b"\x11" + self._state + _framed(GRIND_LABEL))
        return self._state

    def words(self) -> Words:
        return np.array([0, 0, *_BLOCK.unpack(self._state), *[0] * 12], dtype=np.uint64)

    def resume(self, words: Words) -> None:
        self._state = words[2:6].astype("<u8").tobytes()

    def _words(self, label: bytes) -> Iterator[int]:
        self._state = state = keccak256(b"\x11" + self._state + _framed(label))
        counter = 0
        while True:
            block = keccak256(b"\x12" + state + counter.to_bytes(8, "little"))
            yield from _BLOCK.unpack(block)
            counter += 1


class SpongeTranscript(Transcript):
    """A transcript over elements: a duplex sponge, whose subclasses decide what an element, a message and a permutation
    are. The elements that it pushes itself, and its first state, are numbers."""

    width: ClassVar[int]
    rate: ClassVar[int]

    def __init__(self, purpose: bytes) -> None:
        self._state: list[Any] = [0] * self.width
        self._at = 0
        self.absorb(b"purpose", DOMAIN + b" " + purpose)

    @abstractmethod
    def _permuted(self, state: list[Any]) -> list[Any]:
        """The permutation of `width` elements."""

    @abstractmethod
    def _message(self, kind: int, label: bytes, items: Sequence[Any], length: int) -> None:
        """Push the header of a message of `length` units, and its items."""

    def _absorb_octets(self, label: bytes, items: Sequence[Any], length: int) -> None:
        """Absorb bytes, as the items that the subclass makes of them."""
        self._message(_BYTES, label, items, length)

    def _push(self, elements: Iterable[Any]) -> None:
        for element in elements:
            self._state[self._at] = element
            self._at += 1
            if self._at == self.rate:
                self._permute()

    def _elements(self, label: bytes) -> Iterator[Any]:
        self._message(_CHALLENGE, label, (), 0)
        if self._at:
            self._permute()
        while True:
            yield from self._state[: self.rate]
            self._permute()

    def _permute(self) -> None:
        self._state = self._permuted(self._state)
        self._at = 0


class DuplexTranscript(SpongeTranscript):
    """A transcript over elements of the field."""

    width, rate = poseidon2.WIDTH, poseidon2.RATE

    def absorb(self, label: bytes, data: bytes) -> None:
        self._absorb_octets(label, packed(data), len(data))

    def scalars(self, label: bytes, count: int) -> list[Any]:
        """Draw so many uniform scalars."""
        return list(islice(self._elements(label), count))

    def _absorb_scalars(self, label: bytes, items: Sequence[Any]) -> None:
        """Absorb field elements."""
        self._message(_ELEMENTS, label, items, len(items))

    def _message(self, kind: int, label: bytes, items: Sequence[Any], length: int) -> None:
        self._push((kind + (len(label) << 8) + (length << 16), *_pieces(label, _LABEL_BYTES), *items))


class Poseidon2Transcript(DuplexTranscript, NumberTranscript):
    """A transcript over numbers of the field."""

    def _permuted(self, state: list[int]) -> list[int]:
        return poseidon2.permuted(state)

    def absorb_words(self, label: bytes, words: Words) -> None:
        self._absorb_scalars(label, np.ascontiguousarray(words).reshape(-1).tolist())

    def absorb_root(self, label: bytes, root: bytes) -> None:
        self.absorb_words(label, np.frombuffer(root, dtype="<u8").astype(np.uint64))

    def extension(self, label: bytes) -> Ext:
        elements = self._elements(label)
        return next(elements), next(elements), next(elements)

    def indices(self, label: bytes, count: int, bits: int) -> list[int]:
        mask = (1 << bits) - 1
        return [element & mask for element in islice(self._elements(label), count)]

    def grinding_seed(self) -> bytes:
        return np.array(list(islice(self._elements(GRIND_LABEL), poseidon2.DIGEST)), dtype="<u8").tobytes()

    def words(self) -> Words:
        return np.array([1, self._at, *self._state], dtype=np.uint64)

    def resume(self, words: Words) -> None:
        self._at, self._state = int(words[1]), words[2:].tolist()


class PackedTranscript(SpongeTranscript):
    """A transcript over elements of BN254's scalar field, with 24 bytes or three words in an item of a message."""

    width, rate = WIDTH, poseidon2_bn254.RATE

    def absorb(self, label: bytes, data: bytes) -> None:
        self._absorb_octets(label, _pieces(data, PACKED_BYTES), len(data))

    def _absorb_packed(self, label: bytes, items: Sequence[Any], count: int) -> None:
        """Absorb so many words, three in an item."""
        self._message(_ELEMENTS, label, items, count)

    def absorb_root(self, label: bytes, root: Any) -> None:
        self._message(_ROOT, label, _pieces(root, poseidon2_bn254.ELEMENT_BYTES), 1 if root else 0)

    def _absorb_digest(self, label: bytes, root: Any) -> None:
        """Absorb a root that is an element."""
        self._message(_ROOT, label, (root,), 1)

    def _message(self, kind: int, label: bytes, items: Sequence[Any], length: int) -> None:
        if len(label) > PACKED_LABEL_BYTES or length >> 48:
            raise ValueError(
                f"a label of {count_of(len(label), 'byte')}, or {count_of(length, 'item')}: too much for one message"
            )
        header = kind + (len(label) << 8) + (length << 16) + (int.from_bytes(label, "little") << 64)
        self._push((header, *items))


class Bn254Transcript(PackedTranscript, NumberTranscript):
    """A transcript over numbers of BN254's scalar field."""

    def _permuted(self, state: list[int]) -> list[int]:
        return poseidon2_bn254.permuted(state)

    def absorb_words(self, label: bytes, words: Words) -> None:
        elements = np.ascontiguousarray(words).reshape(-1)
        self._absorb_packed(label, _pieces(elements.astype("<u8").tobytes(), PACKED_BYTES), len(elements))

    def extension(self, label: bytes) -> Ext:
        drawn = next(y for y in self._elements(label) if y < QUOTIENTS * P**3)
        return drawn % P, drawn // P % P, drawn // P**2 % P

    def indices(self, label: bytes, count: int, bits: int) -> list[int]:
        if bits > INDEX_BITS:
            raise ValueError(f"an index has at most {INDEX_BITS} bits, not {bits}")
        mask, elements = (1 << bits) - 1, self._elements(label)
        pieces = (y >> INDEX_BITS * k & mask for y in elements for k in range(INDICES))
        return list(islice(pieces, count))

    def grinding_seed(self) -> bytes:
        first: int = next(self._elements(GRIND_LABEL))
        return first.to_bytes(poseidon2_bn254.ELEMENT_BYTES, "little")

    def words(self) -> Words:
        return np.array([2, self._at, *poseidon2_bn254.to_words(self._state).tolist(), *[0] * 4], dtype=np.uint64)

    def resume(self, words: Words) -> None:
        self._at, self._state = int(words[1]), poseidon2_bn254.to_numbers(words[2:14])


def work_is_done(seed: bytes, nonce: int, bits: int, tree_hash: TreeHash = TreeHash.KECCAK) -> bool:
    """Whether `nonce` does the work of `bits` bits for `seed`, as `GoldilocksKernels.grind` defines it."""
    if tree_hash is TreeHash.POSEIDON2_BN254:
        first = poseidon2_bn254.permuted([int.from_bytes(seed, "little"), nonce, GRIND_TAG])[0]
        return first & ((1 << bits) - 1) == 0
    if tree_hash is not TreeHash.KECCAK:
        if nonce >= P:
            return False
        state = work_state(np.frombuffer(seed, dtype="<u8").tolist(), nonce)
        return poseidon2.permuted(state)[0] & ((1 << bits) - 1) == 0
    digest = keccak256(GRIND_TAG.to_bytes(8, "little") + seed + nonce.to_bytes(8, "little"))
    return int.from_bytes(digest, "big") >> (256 - bits) == 0


def work_state(seed: Sequence[Any], nonce: Any) -> list[Any]:
    """The state whose permutation begins with an element of as many low zero bits as the proof of work asks for."""
    rest = poseidon2.RATE - poseidon2.DIGEST - 1
    return [*seed, nonce, *[0] * rest, GRIND_TAG, *[0] * (poseidon2.WIDTH - poseidon2.RATE - 1)]


def packed(data: bytes) -> list[int]:
    """The field elements as which a duplex transcript absorbs bytes."""
    return _pieces(data, _DATA_BYTES)


def _framed(label: bytes) -> bytes:
    return bytes([len(label)]) + label


def _pieces(data: bytes, size: int) -> list[int]:
    """Return pieces of `size` bytes of `data` as little-endian integers, the last one of what is left."""
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
