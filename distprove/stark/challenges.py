"""The transcript of one partition's proof, step by step. Prover and verifier draw every challenge from it.

This file alone decides what is absorbed before each challenge; docs/stark-protocol.md specifies it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.stark.barrier import global_challenges
from distprove.stark.field import Ext, Words, e_pow, root_of_unity
from distprove.stark.heights import encode_heights
from distprove.stark.logup import BusChallenges
from distprove.stark.proof import TableValues
from distprove.stark.shape import ProofShape
from distprove.stark.transcript import Transcript, make_transcript
from kernels.maths.goldilocks import GENERATOR, P


class ProofTranscript:
    """The transcript of a proof. Its methods must be called in the order in which they stand here."""

    def __init__(self, shape: ProofShape, challenge: bytes, name: str, public: Sequence[int]) -> None:
        """Absorb the protocol, the key, the job (through its challenge), and the partition's name, heights and public
        values."""
        self._shape = shape
        self._challenge = challenge
        self._transcript = t = make_transcript(b"partition", shape.key.params.tree_hash)
        t.absorb(b"key", shape.key.digest)
        t.absorb(b"job", challenge)
        t.absorb(b"name", name.encode())
        t.absorb(b"heights", encode_heights(shape.log_heights))
        t.absorb_words(b"public", np.array(public, dtype=np.uint64))

    def bus_challenges(self, main_root: bytes, anchors: Words) -> BusChallenges[Ext]:
        """Absorb the main root and the anchors, and draw the challenges of the buses. The global pair is drawn from the
        job's challenge, which binds the main roots and anchors of all partitions.
        """
        self._transcript.absorb_root(b"main", main_root)
        self._transcript.absorb_words(b"anchors", anchors)
        local = self._transcript.extension(b"z"), self._transcript.extension(b"beta")
        return BusChallenges(local, global_challenges(self._challenge, self._shape.key.params.tree_hash))

    def constraint_challenge(self, aux_root: bytes | None, terminals: Words) -> Ext:
        """Absorb the root of the LogUp columns, if there are any, and their terminals, and draw alpha."""
        self._transcript.absorb_root(b"aux", aux_root or b"")
        self._transcript.absorb_words(b"terminals", terminals)
        return self._transcript.extension(b"alpha")

    def out_of_domain_point(self, quotient_root: bytes) -> Ext:
        """Absorb the quotient's root, and draw zeta outside of every domain on which a column is evaluated."""
        self._transcript.absorb_root(b"quotient", quotient_root)
        return _outside(self._transcript, b"zeta", self._shape)

    def batching_challenge(self, values: Sequence[TableValues]) -> Ext:
        """Absorb all values at the out-of-domain points, and draw gamma."""
        for value in values:
            self._transcript.absorb_words(b"values", np.concatenate([value.here, value.after]))
            self._transcript.absorb_words(b"quotient values", value.quotient)
        return self._transcript.extension(b"gamma")

    def folding_challenge(self, root: bytes) -> Ext:
        """Absorb the root of one layer of FRI, and draw the challenge that folds it."""
        self._transcript.absorb_root(b"layer", root)
        return self._transcript.extension(b"fold")

    def grinding_seed(self, final: Words) -> bytes:
        """Absorb the coefficients of FRI's final polynomial, and derive the seed of the proof of work."""
        self._transcript.absorb_words(b"final", final)
        return self._transcript.grinding_seed()

    def queries(self, nonce: int) -> list[int]:
        """Absorb the nonce of the proof of work, and draw the query indices into the tallest table's extension."""
        self._transcript.absorb(b"nonce", nonce.to_bytes(8, "little"))
        return self._transcript.indices(b"queries", self._shape.key.params.queries, self._shape.log_domain)


def anchor_challenges(shape: ProofShape, name: str, public: Sequence[int], main_root: bytes) -> tuple[Ext, Ext]:
    """Draw eta and delta of a partition's anchor, after its main commitment and before the job's challenge."""
    t = make_transcript(b"anchor", shape.key.params.tree_hash)
    t.absorb(b"key", shape.key.digest)
    t.absorb(b"name", name.encode())
    t.absorb(b"heights", encode_heights(shape.log_heights))
    t.absorb_words(b"public", np.array(public, dtype=np.uint64))
    t.absorb_root(b"main", main_root)
    return _outside(t, b"eta", shape), t.extension(b"delta")


def _outside(transcript: Transcript, label: bytes, shape: ProofShape) -> Ext:
    """Draw a point such that neither it nor its next row's point is in a domain on which a column is evaluated."""
    while True:
        point = transcript.extension(label)
        if not in_domain(point, shape):
            return point


def in_domain(zeta: Ext, shape: ProofShape) -> bool:
    """Whether zeta is in the trace domain or the extension's domain of any table. Both are closed under w."""
    for log_height in shape.distinct_heights:
        n, size = 1 << log_height, 1 << (log_height + shape.key.params.log_blowup)
        if e_pow(zeta, n) == (1, 0, 0) or e_pow(zeta, size) == (pow(GENERATOR, size, P), 0, 0):
            return True
    return False


def next_point(zeta: Ext, log_height: int) -> Ext:
    """The point w_n zeta, at which the next row's values are."""
    w = root_of_unity(log_height)
    return zeta[0] * w % P, zeta[1] * w % P, zeta[2] * w % P


def quotient_cosets(log_height: int, log_blowup: int, chunks: int) -> list[int]:
    """Shifts of the cosets that hold the quotient's chunks: chunk t is on coset t B / D of the extension."""
    w = root_of_unity(log_height + log_blowup)
    step = (1 << log_blowup) // chunks
    return [GENERATOR * pow(w, t * step, P) % P for t in range(chunks)]
