"""A partition's proof as data, and its encoding, whose lengths are all known from the shape before it is read.

The only exception are the openings of trees: their numbers of rows and nodes follow from the queries, so `merkle`
checks them, and this module only bounds them by the shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from distprove.errors import FormatError
from distprove.proof import check_fields
from distprove.stark.barrier import Commitment
from distprove.stark.encoding import ENCODING, NAMES, exactly, pack, read_digest, read_opening, unpack
from distprove.stark.field import Ext, Words, e_inv, e_mul, element
from distprove.stark.heights import LogHeights, decode_heights, encode_heights
from distprove.stark.merkle import TreeShape
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.params import Round
from distprove.stark.multilinear.shape import Shape, heights_fit
from kernels.interface.goldilocks import TreeOpening

FIELDS: dict[str, type] = {
    "challenge": bytes,
    "heights": bytes,
    "root": bytes,
    "anchor": bytes,
    "totals": bytes,
    "gkr": bytes,
    "skip": bytes,
    "rounds": bytes,
    "openings": bytes,
    "reduction": bytes,
    "stacked": bytes,
    "folds": bytes,
    "roots": list,
    "samples": bytes,
    "nonces": list,
    "final": bytes,
    "trees": list,
}


@dataclass(frozen=True)
class MultilinearPart:
    """What ties a partition's proof to its job: all of it that `verifier.verify_job` reads."""

    challenge: bytes
    """The job's challenge, 32 bytes."""
    log_heights: LogHeights
    root: bytes
    """Root of the main stack's tree."""
    anchor: Ext
    totals: Words
    """The stated fractions of the buses, (totals, 3): the local denominator, the global numerator and denominator."""

    def commitment(self, name: str, public: Sequence[int]) -> Commitment:
        """The partition's commitment before the job's challenge was drawn."""
        anchor = pack(np.array(self.anchor, dtype=np.uint64))
        return Commitment(name, self.log_heights, tuple(public), self.root, anchor)

    def terminal(self, shape: Shape) -> Ext | None:
        """The sum of the global buses' fractions; None without any. Its denominator must not be zero."""
        if "global" not in shape.leaves.scopes:
            return None
        numerator, denominator = self.totals[-2:]
        return e_mul(element(numerator), e_inv(element(denominator)))

    @staticmethod
    def of_record(record: Any, key: MultilinearKey, what: str = "proof") -> MultilinearPart:
        """Parse these fields of a proof's record under `key`, and of the others only the types. Raises FormatError."""
        return MultilinearPart(*_part(record, Shape(key, heights_in(record, key, what)), what))


@dataclass(frozen=True)
class MultilinearProof(MultilinearPart):
    """The proof of one partition, without its public values. Arrays hold elements of F, with a last axis of 3."""

    layers: tuple[Words, ...]
    """For each layer of the buses' tree t_1, t_2 of its rounds, then p_0, p_1, q_0, q_1."""
    quotient: Words
    """Coefficients of the constraints' quotient in the univariate round."""
    leaves: Words
    """Coefficients of the leaves' polynomial in the univariate round."""
    rounds: Words
    """t_1 .. t_d of each multilinear round."""
    openings: Words
    reduction: Words
    """h_1, h_2 of each round of the stacked reduction."""
    stacked: Words
    folds: Words
    """h_1, h_2 of each round of WHIR."""
    roots: tuple[bytes, ...]
    """Roots of WHIR's codewords, the first one of round 1."""
    samples: Words
    nonces: tuple[int, ...]
    final: Words
    trees: tuple[TreeOpening, ...]
    """Openings of the main tree, the preprocessed one if there is one, and the codewords'."""

    def to_record(self) -> dict[str, Any]:
        """The proof as plain data for proof.msgpack."""
        return {
            "challenge": self.challenge,
            "heights": encode_heights(self.log_heights),
            "root": self.root,
            "anchor": pack(np.array(self.anchor, dtype=np.uint64)),
            "totals": pack(self.totals),
            "gkr": b"".join(map(pack, self.layers)),
            "skip": pack(self.quotient) + pack(self.leaves),
            "rounds": pack(self.rounds),
            "openings": pack(self.openings),
            "reduction": pack(self.reduction),
            "stacked": pack(self.stacked),
            "folds": pack(self.folds),
            "roots": list(self.roots),
            "samples": pack(self.samples),
            "nonces": list(self.nonces),
            "final": pack(self.final),
            "trees": [{"path": t.path.tobytes(), "rows": [pack(r) for r in t.rows]} for t in self.trees],
        }

    @classmethod
    def from_record(cls, record: Any, key: MultilinearKey, what: str = "proof") -> tuple[MultilinearProof, Shape]:
        """Parse a proof under `key` and check that every element is canonical and every length fits the shape.

        Raises FormatError.
        """
        shape = Shape(key, heights_in(record, key, what))
        leaves, rounds = shape.leaves, shape.rounds
        lengths = [2 * layer + 4 for layer in range(leaves.first_layer, leaves.depth)]
        layers = unpack(record["gkr"], (sum(lengths), 3), what)
        skip = unpack(record["skip"], (shape.quotient_length + shape.leaves_length, 3), what)
        folds = sum(r.log_fold for r in rounds)
        nonces = exactly(record["nonces"], len(rounds), what)
        if not all(type(nonce) is int and 0 <= nonce < 1 << 64 for nonce in nonces):
            raise FormatError(f"{what}: a nonce that is not a 64-bit number")
        trees = tree_shapes(shape)
        proof = cls(
            *_part(record, shape, what),
            tuple(np.split(layers, np.cumsum(lengths)[:-1])) if lengths else (),
            skip[: shape.quotient_length],
            skip[shape.quotient_length :],
            unpack(record["rounds"], (shape.row_variables, shape.degree, 3), what),
            unpack(record["openings"], (shape.openings, 3), what),
            unpack(record["reduction"], (shape.log_height, 2, 3), what),
            unpack(record["stacked"], (shape.stacked, 3), what),
            unpack(record["folds"], (folds, 2, 3), what),
            tuple(read_digest(r, what) for r in exactly(record["roots"], len(rounds) - 1, what)),
            unpack(record["samples"], (len(rounds) - 1, 3), what),
            tuple(nonces),
            unpack(record["final"], (1 << shape.log_final, 3), what),
            tuple(
                read_opening(t, tree, queries, what)
                for t, (tree, queries) in zip(exactly(record["trees"], len(trees), what), trees, strict=True)
            ),
        )
        return proof, shape


def tree_shapes(shape: Shape) -> list[tuple[TreeShape, int]]:
    """The trees that a proof opens, in order, each with the maximum number of its leaves that queries meet."""
    first, *later = shape.rounds
    trees = [(shape.main_tree, first.queries)]
    if shape.preprocessed_tree is not None:
        trees.append((shape.preprocessed_tree, first.queries << first.log_fold))
    return trees + [(tree, r.queries) for tree, r in zip(shape.codeword_trees, later, strict=True)]


def content_bytes(shape: Shape, *, at_most: bool = False) -> int:
    """Mean size of a partition's proof in bytes, without the overhead of its encoding, which is below 1 %; or, with
    `at_most`, an upper bound of the size with it. The actual size depends on the rows and nodes that the queries share.
    """
    layers = sum(2 * layer + 4 for layer in range(shape.leaves.first_layer, shape.leaves.depth))
    values = 1 + shape.totals + layers + shape.quotient_length + shape.leaves_length + shape.openings + shape.stacked
    values += shape.row_variables * shape.degree + 2 * shape.log_height + (1 << shape.log_final)
    values += 2 * sum(r.log_fold for r in shape.rounds) + len(shape.rounds) - 1
    opened, trees = 0.0, tree_shapes(shape)
    later = shape.rounds[1:]
    for (tree, _), round_ in zip(trees, [shape.rounds[0]] * (len(trees) - len(later)) + later, strict=True):
        ((log, width),) = tree.matrices

        def distinct(level: int, round_: Round = round_) -> float:
            # Queries are drawn from a round's leaves; they meet whole fibres of the preprocessed tree's lower levels.
            drawn = min(level, round_.log_leaves)
            met = -math.expm1(round_.queries * math.log1p(-(0.5**drawn))) * 2**drawn if drawn else 1.0
            met = min(round_.queries, 1 << drawn) if at_most else met
            return met * 2.0 ** (level - drawn)

        def siblings(below: int, above: int, round_: Round = round_) -> float:
            if at_most:  # one child of each node is opened, or so many as a fibre has there
                fibre = 1 << max(0, below - max(above, round_.log_leaves))
                return ((1 << below - above) - fibre) * distinct(above)
            return (1 << below - above) * distinct(above) - distinct(below)

        opened += 32 * sum(siblings(*step) for step in pairwise(tree.levels)) + 8 * width * distinct(log)
    content = opened + 24 * values
    return int(content * ENCODING) + NAMES if at_most else int(content)


def heights_in(record: Any, key: MultilinearKey, what: str = "proof") -> LogHeights:
    """The heights that a proof under `key` states, without reading its other fields. Raises FormatError."""
    check_fields(record, FIELDS, what)
    log_heights = decode_heights(record["heights"])
    if not heights_fit(key, log_heights):
        raise FormatError(f"{what}: not the heights of a proof under this key")
    return log_heights


def _part(record: Any, shape: Shape, what: str) -> tuple[bytes, LogHeights, bytes, Ext, Words]:
    return (
        read_digest(record["challenge"], what),
        shape.log_heights,
        read_digest(record["root"], what),
        element(unpack(record["anchor"], (3,), what)),
        unpack(record["totals"], (shape.totals, 3), what),
    )
