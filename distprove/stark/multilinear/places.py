"""The challenge of jobs that a contract can read: one of Poseidon2 over the digests of their segments and the output.

Their key has a number of *places* for segments. A circuit recomputes this challenge, which it could not do of a digest
of Keccak-256. The output's words are part of it: they are fixed before the challenges of the buses are drawn, and a
circuit needs no digest of them. docs/multilinear-protocol.md, section 6, specifies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distprove.errors import InvalidProof, OutputMissing
from distprove.stark.arithmetic import NUMBERS, Arithmetic, E, Scalars
from distprove.stark.barrier import Commitment
from distprove.stark.encoding import unpack
from distprove.stark.field import element
from distprove.stark.heights import encode_heights
from distprove.stark.multilinear.challenges import absorb_statement
from distprove.stark.output import output_stream
from distprove.stark.transcript import Transcript
from kernels.cpu.poseidon2 import DIGEST
from kernels.host.units import count_of
from kernels.interface.tree_hash import TreeHash

OUTPUT_WORDS = 8
"""Words of 32 bits that the output of such a job may have."""
WORD_BYTES = 4
READ = (("program", DIGEST), ("exit_code", 1), ("output_length", 1), ("output", OUTPUT_WORDS))
"""The public values of the proof that a contract reads of a job (`distprove.stark.recursion.contract`)."""


def segment_words(
    f: Arithmetic[E], key: Any, heights: Any, name: Any, public: Scalars, root: Any, anchor: E
) -> list[Any]:
    """The digest of a segment: of its key, and of what the job's challenge binds. (DIGEST,) scalars.

    `key` is the digest of the segments' key; `heights` are encoded.
    """
    t = f.transcript(b"multilinear segment", TreeHash.POSEIDON2)
    t.absorb(b"key", key)
    absorb_statement(t, heights, name, public, root)
    t.absorb_words(b"anchor", f.array([anchor]))
    return list(f.drawn_scalars(t, b"segment", DIGEST))


def segment_digest(
    key: bytes,
    log_heights: Sequence[int | None],
    name: str,
    public: Sequence[int],
    root: bytes,
    anchor: tuple[int, int, int],
) -> tuple[int, ...]:
    """`segment_words` of numbers. `key` is the digest of the segments' key."""
    words = np.array(public, dtype=np.uint64)
    given = encode_heights(log_heights), name.encode(), words, root, anchor
    return tuple(map(int, segment_words(NUMBERS, key, *given)))


def challenge_words(f: Arithmetic[E], key: Any, segments: Scalars, output: Scalars) -> list[Any]:
    """The challenge of a job. (DIGEST,) scalars, whose 8 bytes each are the challenge's.

    `key` is the digest of the segments' key. `segments` has for each place 1 and the segment's digest, or zeros.
    `output` has the length in bytes and OUTPUT_WORDS words, zeros behind the length.
    """
    t: Transcript = f.transcript(b"multilinear job", TreeHash.POSEIDON2)
    t.absorb(b"key", key)
    t.absorb_words(b"segments", segments)
    t.absorb_words(b"output", output)
    return list(f.drawn_scalars(t, b"job", DIGEST))


def places_challenge(key: bytes, places: int, commitments: Sequence[Commitment], output: bytes | None) -> bytes:
    """The challenge of a job with so many places, 32 bytes. `key` is the digest of the segments' key. Raises
    OutputMissing without an output, InvalidProof for one that no such job has, or for too many segments, and
    FormatError for commitments that are no elements."""
    if output is None:
        raise OutputMissing(
            "the output, which this job's challenge binds, is not here. Give it (--output FILE, output=)"
        )
    if len(commitments) > places:
        raise InvalidProof(f"{count_of(len(commitments), 'partition')} in a job that has places for {places}")
    segments = []
    for c in commitments:
        unpack(c.main_root, (DIGEST,), c.name)
        anchor = element(unpack(c.anchors, (3,), c.name))
        segments += [1, *segment_digest(key, c.log_heights, c.name, c.public, c.main_root, anchor)]
    segments += [0] * ((1 + DIGEST) * places - len(segments))
    words = challenge_words(NUMBERS, key, np.array(segments, dtype=np.uint64), output_words(output))
    return np.array(words, dtype="<u8").tobytes()


def output_words(output: bytes) -> Scalars:
    """(1 + OUTPUT_WORDS,) numbers: the length in bytes, then the words with zeros behind them. Raises InvalidProof for
    an output that no job of places has."""
    fault = output_fault(output)
    if fault is not None:
        raise InvalidProof(fault)
    stream = output_stream(output)
    return np.concatenate((stream, np.zeros(1 + OUTPUT_WORDS - len(stream), dtype=np.uint64)))


def output_fault(output: bytes) -> str | None:
    """Why a job that a contract reads cannot have this output; None if it can."""
    if len(output) % WORD_BYTES or len(output) > OUTPUT_WORDS * WORD_BYTES:
        return (
            f"an output of {count_of(len(output), 'byte')}: a contract reads whole words of {WORD_BYTES} bytes, "
            f"{OUTPUT_WORDS} at most. Write a digest of a longer one"
        )
    return None
