"""The transcript of one partition's proof, step by step: prover and verifier draw every challenge from here.

What is absorbed before a challenge is drawn is decided in this file alone; docs/stark-protocol.md specifies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.barrier import global_challenges
from distprove.stark.field import Ext, Words, e_pow, root_of_unity
from distprove.stark.proof import TableValues
from distprove.stark.shape import ProofShape
from distprove.stark.transcript import Transcript
from kernels.goldilocks_field import GENERATOR, P


@dataclass(frozen=True)
class BusChallenges:
    """(z, beta) of the local and of the global buses."""

    local: tuple[Ext, Ext]
    global_: tuple[Ext, Ext]


class ProofTranscript:
    """The steps of a proof, in the only order they may be taken."""

    def __init__(self, shape: ProofShape, challenge: bytes, name: str, public: Sequence[int]) -> None:
        """Bind the protocol, the key, the job (through its challenge), and what this partition is."""
        self._shape = shape
        self._challenge = challenge
        self._transcript = t = Transcript(b"partition")
        t.absorb(b"key", shape.key.digest)
        t.absorb(b"job", challenge)
        t.absorb(b"name", name.encode())
        t.absorb(b"heights", bytes(shape.log_heights))
        t.absorb_words(b"public", np.array(public, dtype=np.uint64))

    def bus_challenges(self, main_root: bytes, anchors: Words) -> BusChallenges:
        """After the main commitment and its anchors. The global pair comes from the job's challenge, which binds both
        of every partition.
        """
        self._transcript.absorb(b"main", main_root)
        self._transcript.absorb_words(b"anchors", anchors)
        local = self._transcript.extension(b"z"), self._transcript.extension(b"beta")
        return BusChallenges(local, global_challenges(self._challenge))

    def constraint_challenge(self, aux_root: bytes | None, terminals: Words) -> Ext:
        """After the LogUp columns, if there are any, and their terminals."""
        self._transcript.absorb(b"aux", aux_root or b"")
        self._transcript.absorb_words(b"terminals", terminals)
        return self._transcript.extension(b"alpha")

    def out_of_domain_point(self, quotient_root: bytes) -> Ext:
        """After the quotient: zeta, drawn again while it or its next row's point lies where a column is evaluated."""
        self._transcript.absorb(b"quotient", quotient_root)
        return _outside(self._transcript, b"zeta", self._shape)

    def batching_challenge(self, values: Sequence[TableValues]) -> Ext:
        """After all values at the out-of-domain points."""
        for value in values:
            self._transcript.absorb_words(b"values", np.concatenate([value.here, value.after]))
            self._transcript.absorb_words(b"quotient values", value.quotient)
        return self._transcript.extension(b"gamma")

    def folding_challenge(self, root: bytes) -> Ext:
        """After each layer of FRI."""
        self._transcript.absorb(b"layer", root)
        return self._transcript.extension(b"fold")

    def grinding_seed(self, final: Words) -> bytes:
        """After the last polynomial."""
        self._transcript.absorb_words(b"final", final)
        return self._transcript.grinding_seed()

    def queries(self, nonce: int) -> list[int]:
        """After the proof of work: indices into the tallest table's extension."""
        self._transcript.absorb(b"nonce", nonce.to_bytes(8, "little"))
        return self._transcript.indices(b"queries", self._shape.key.params.queries, self._shape.log_domain)


def anchor_challenges(shape: ProofShape, name: str, public: Sequence[int], main_root: bytes) -> tuple[Ext, Ext]:
    """eta and delta of a partition's anchor: after its main commitment, before the job's challenge."""
    t = Transcript(b"anchor")
    t.absorb(b"key", shape.key.digest)
    t.absorb(b"name", name.encode())
    t.absorb(b"heights", bytes(shape.log_heights))
    t.absorb_words(b"public", np.array(public, dtype=np.uint64))
    t.absorb(b"main", main_root)
    return _outside(t, b"eta", shape), t.extension(b"delta")


def _outside(transcript: Transcript, label: bytes, shape: ProofShape) -> Ext:
    """A point where no column is evaluated: drawn again while it, or its next row's point, lies in such a domain."""
    while True:
        point = transcript.extension(label)
        if not in_domain(point, shape):
            return point


def in_domain(zeta: Ext, shape: ProofShape) -> bool:
    """Whether zeta lies in a trace domain or an extension's domain of any table (both are closed under w)."""
    for log_height in shape.distinct_heights:
        n, size = 1 << log_height, 1 << (log_height + shape.key.params.log_blowup)
        if e_pow(zeta, n) == (1, 0, 0) or e_pow(zeta, size) == (pow(GENERATOR, size, P), 0, 0):
            return True
    return False


def next_point(zeta: Ext, log_height: int) -> Ext:
    """w_n zeta: where the next row's values are."""
    w = root_of_unity(log_height)
    return zeta[0] * w % P, zeta[1] * w % P, zeta[2] * w % P


def vanishing_on_cosets(log_height: int, log_blowup: int, chunks: int) -> list[int]:
    """x^n - 1 on the cosets that hold the quotient's chunks, where it is constant."""
    n = 1 << log_height
    return [(pow(shift, n, P) - 1) % P for shift in quotient_cosets(log_height, log_blowup, chunks)]


def quotient_cosets(log_height: int, log_blowup: int, chunks: int) -> list[int]:
    """Shifts of the cosets of the quotient's chunks: chunk t lies on coset t B / D of the extension."""
    w = root_of_unity(log_height + log_blowup)
    step = (1 << log_blowup) // chunks
    return [GENERATOR * pow(w, t * step, P) % P for t in range(chunks)]
