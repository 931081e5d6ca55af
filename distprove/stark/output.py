"""An output of variable length: bytes beside the proof, of which the public values have the length and the digest.

The statement receives the output on a global bus, as the stream of words that the tables must have sent:

    place 0            the length in bytes
    place k, k >= 1    word k - 1: bytes 4 (k - 1) to 4 k - 1, little-endian, the last word filled up with zeros

Digest and length are public values, which the job's challenge binds before the challenges of the global buses are drawn
from it. Without them a prover could choose words, once it knows the challenges, that balance the bus
(docs/stark-protocol.md, sections 11 and 12).
"""

from __future__ import annotations

import numpy as np

from distprove.proof import MAX_OUTPUT
from distprove.stark.field import Words
from kernels.cpu.keccak import keccak256

MAX_OUTPUT_WORDS = MAX_OUTPUT // 4
MAX_OUTPUT_TUPLES = MAX_OUTPUT_WORDS + 1
"""Maximum number of tuples of an output, its length among them. Every key with an output counts so many: neither bits
of security nor bounds of multiplicities depend on a length that a prover chooses."""
OUTPUT_WIDTH = 2
"""Number of elements of a tuple on an output's bus: place and word."""
DIGEST_VALUES = 8
"""Number of public values of a digest, 32 bits each. Four of 64 bits would not all be elements of the field."""


def output_public(output: bytes) -> tuple[int, ...]:
    """The public values of an output: its length, then its Keccak-256 digest as little-endian numbers of 32 bits."""
    return (len(output), *np.frombuffer(keccak256(output), dtype="<u4").tolist())


def digest_of(values: tuple[int, ...]) -> bytes:
    """The digest whose public values these are, 32 bytes. The values must have 32 bits."""
    return np.array(values, dtype="<u4").tobytes()


def output_stream(output: bytes) -> Words:
    """The words of an output by their places, uint64 (words + 1,): its length comes first."""
    words = np.frombuffer(output + bytes(-len(output) % 4), dtype="<u4")
    return np.concatenate((np.array([len(output)], dtype=np.uint64), words.astype(np.uint64)))
