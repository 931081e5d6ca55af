"""The transcript of one partition's proof, step by step. Prover and verifier draw every challenge from it.

This file alone decides what is absorbed before each challenge; docs/multilinear-protocol.md specifies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from distprove.formats import canonical
from distprove.stark.arithmetic import NUMBERS, Arithmetic, E, Elements, Scalars
from distprove.stark.field import Ext, Words
from distprove.stark.heights import encode_heights
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.shape import Shape
from distprove.stark.transcript import NumberTranscript, Transcript
from kernels.cpu.keccak import keccak256
from kernels.interface.tree_hash import TreeHash

LIST = b"distprove multilinear list 1"


class ProofTranscript(Generic[E]):
    """The transcript of a proof. Its methods must be called in the protocol's order.

    What is bytes to a verifier of numbers (the key's digest, the job's challenge, the name, roots, nonces and seeds) is
    of any type here, for the arithmetic's own transcript to take.
    """

    def __init__(
        self, f: Arithmetic[E], shape: Shape, key: Any, challenge: Any, name: Any, public: Scalars, root: Any, anchor: E
    ) -> None:
        """Absorb the protocol, the key (its digest), the job (through its challenge), and all that the partition's
        anchor binds."""
        self._f = f
        self._t = t = f.transcript(b"multilinear partition", shape.key.params.tree_hash)
        t.absorb(b"key", key)
        t.absorb(b"job", challenge)
        absorb_statement(t, encode_heights(shape.log_heights), name, public, root)
        self._absorb(b"anchor", [anchor])

    def bus_challenges(self) -> tuple[E, E]:
        """Draw z and beta of the local buses, when the anchor fixes the trace."""
        return self._draw(b"z"), self._draw(b"beta")

    def totals(self, totals: Sequence[E]) -> None:
        """Absorb the stated fractions of the buses."""
        self._absorb(b"totals", totals)

    def scope(self) -> E:
        """Draw the point between the two scopes' fractions."""
        return self._draw(b"scope")

    def layer(self) -> E:
        """Draw the challenge that batches a layer's numerator and denominator."""
        return self._draw(b"layer")

    def layer_round(self, coefficients: Sequence[E]) -> E:
        """Absorb one round's polynomial of a layer, and draw its point."""
        self._absorb(b"gkr", coefficients)
        return self._draw(b"rho")

    def children(self, values: Sequence[E]) -> E:
        """Absorb the values of the two halves of the layer below, and draw the point between them."""
        self._absorb(b"children", values)
        return self._draw(b"child")

    def words(self) -> Words:
        """The state, for layers that kernels prove: they draw as `layer`, `layer_round` and `children` do."""
        return self._numbers.words()

    def resume(self, words: Words) -> None:
        self._numbers.resume(words)

    @property
    def _numbers(self) -> NumberTranscript:
        assert isinstance(self._t, NumberTranscript), "no kernel makes rounds of symbols"
        return self._t

    def further_point(self) -> E:
        """Draw one more coordinate of the point that constraints and leaves share."""
        return self._draw(b"xi")

    def constraint_challenges(self) -> tuple[E, E]:
        """Draw lambda, which batches the constraints, and kappa, which batches numerators and denominators."""
        return self._draw(b"lambda"), self._draw(b"kappa")

    def skip(self, quotient: Elements, leaves: Elements) -> tuple[E, E]:
        """Absorb the univariate round's polynomials, and draw their point and the challenge that joins them."""
        self._t.absorb_words(b"quotient", quotient)
        self._t.absorb_words(b"leaves", leaves)
        return self._draw(b"skip"), self._draw(b"nu")

    def row_round(self, coefficients: Sequence[E]) -> E:
        """Absorb one multilinear round's polynomial, and draw its point."""
        self._absorb(b"round", coefficients)
        return self._draw(b"r")

    def openings(self, values: Elements) -> E:
        """Absorb the values of all columns at the point, and draw sigma, which batches them."""
        self._t.absorb_words(b"openings", values)
        return self._draw(b"sigma")

    def reduction_round(self, coefficients: Sequence[E]) -> E:
        """Absorb one round's polynomial of the stacked reduction, and draw its point."""
        self._absorb(b"reduce", coefficients)
        return self._draw(b"fold")

    def stacked(self, values: Sequence[E]) -> E:
        """Absorb the values of the stacked columns, and draw mu, which batches them."""
        self._absorb(b"stacked", values)
        return self._draw(b"mu")

    def fold(self, coefficients: Sequence[E]) -> E:
        """Absorb one round's polynomial of WHIR, and draw the challenge that folds."""
        self._absorb(b"sum", coefficients)
        return self._draw(b"alpha")

    def sample_point(self, root: Any) -> E:
        """Absorb the root of the next codeword, and draw the point of its sample."""
        self._t.absorb_root(b"codeword", root)
        return self._draw(b"sample")

    def sample_value(self, value: E) -> None:
        self._absorb(b"value", [value])

    def final(self, coefficients: Elements) -> None:
        """Absorb the final polynomial."""
        self._t.absorb_words(b"final", coefficients)

    def grinding_seed(self) -> Any:
        """Derive the seed of the proof of work before the queries."""
        return self._t.grinding_seed()

    def queries(self, nonce: Any, count: int, log_leaves: int) -> list[Any]:
        """Absorb the nonce of the proof of work, and draw the indices of leaves."""
        self._t.absorb(b"nonce", self._f.nonce_bytes(nonce))
        return self._t.indices(b"queries", count, log_leaves)

    def combination(self) -> E:
        """Draw gamma, which adds the sample's and the queries' claims to the running one."""
        return self._draw(b"gamma")

    def _absorb(self, label: bytes, elements: Sequence[E]) -> None:
        self._t.absorb_words(label, self._f.array(elements))

    def _draw(self, label: bytes) -> E:
        return self._f.drawn(self._t, label)


def anchor_challenges(
    f: Arithmetic[E], shape: Shape, key: Any, name: Any, public: Scalars, root: Any
) -> tuple[list[E], E]:
    """Draw the point eta and the weight delta of a partition's anchor, after its commitment and before the job's
    challenge. `key` is the key's digest."""
    t = f.transcript(b"multilinear anchor", shape.key.params.tree_hash)
    t.absorb(b"key", key)
    absorb_statement(t, encode_heights(shape.log_heights), name, public, root)
    return [f.drawn(t, b"eta") for _ in range(shape.log_height)], f.drawn(t, b"delta")


def list_challenge(key: MultilinearKey, names: Sequence[str]) -> bytes:
    """The challenge of a job of a key without global buses. It binds the list of partitions and none of their traces,
    so that each is proven as soon as it is committed."""
    return keccak256(LIST + canonical.encode([key.digest, len(names), list(names)]))


def draw_global(f: Arithmetic[E], challenge: Any, tree_hash: TreeHash) -> tuple[E, E]:
    """The challenges z and beta of the global buses, which are the same in every partition."""
    transcript = f.transcript(b"multilinear global buses", tree_hash)
    transcript.absorb(b"job", challenge)
    return f.drawn(transcript, b"z"), f.drawn(transcript, b"beta")


def global_challenges(challenge: bytes, tree_hash: TreeHash) -> tuple[Ext, Ext]:
    """`draw_global` of numbers."""
    return draw_global(NUMBERS, challenge, tree_hash)


def absorb_statement(t: Transcript, heights: Any, name: Any, public: Scalars, root: Any) -> None:
    """Absorb what a partition states beside its anchor. `heights` are encoded."""
    t.absorb(b"name", name)
    t.absorb(b"heights", heights)
    t.absorb_words(b"public", public)
    t.absorb_root(b"main", root)
