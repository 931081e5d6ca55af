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
from distprove.stark.air.compiled import EXTENSION_DEGREE
from distprove.stark.barrier import Commitment
from distprove.stark.encoding import ENCODING, NAMES, exactly, pack, read_digest, read_opening, unpack
from distprove.stark.field import Words
from distprove.stark.heights import LogHeights, decode_heights, encode_heights
from distprove.stark.shape import ProofShape, TableShape, heights_fit
from distprove.stark.verifying_key import VerifyingKey
from kernels.interface.goldilocks import TreeOpening

DIGEST_BYTES = 32
WORD_BYTES = 8


@dataclass(frozen=True)
class TableValues:
    """The values of a table's columns at the out-of-domain points."""

    here: Words
    """Values at zeta, (preprocessed + main + aux columns, 3)."""
    after: Words
    """Values at w zeta, (columns read at the next row, 3)."""
    quotient: Words
    """Values of the quotient's columns at zeta, (3 * chunks, 3)."""

    @classmethod
    def split(cls, words: Words, table: TableShape) -> TableValues:
        """Split words that hold here, after and quotient of a table one after the other."""
        return cls(*np.split(words, np.cumsum([table.columns, len(table.next_row)])))


@dataclass(frozen=True)
class JobPart:
    """What ties a partition's proof to its job: all of it that `verifier.verify_job` reads."""

    challenge: bytes
    """The job's challenge (`distprove.stark.barrier`), 32 bytes."""
    log_heights: LogHeights
    roots: tuple[bytes, ...]
    """Roots of the rounds that the prover commits to (without the preprocessed one), in order: the main one first."""
    anchors: Words
    """Values of the anchor (`distprove.stark.anchor`), (anchors, 3)."""
    terminals: Words
    """Terminals of the buses, (terminals, 3)."""

    def commitment(self, name: str, public: Sequence[int]) -> Commitment:
        """The partition's commitment before the job's challenge was drawn."""
        return Commitment(name, self.log_heights, tuple(public), self.roots[0], pack(self.anchors))

    @staticmethod
    def of_record(record: Any, key: VerifyingKey, what: str = "proof") -> JobPart:
        """Parse these fields of a proof's record under `key`, and of the others only the types. Raises FormatError."""
        return JobPart(*_job_fields(record, ProofShape(key, heights_in(record, key, what)), what))


@dataclass(frozen=True)
class StarkProof(JobPart):
    """The proof of one partition, without its public values."""

    values: tuple[TableValues, ...]
    fri_roots: tuple[bytes, ...]
    final: Words
    """Coefficients of FRI's final polynomial, (2^log_final, 3)."""
    nonce: int
    trees: tuple[TreeOpening, ...]
    """Openings of the rounds' trees, the preprocessed one included, then of FRI's trees."""

    def to_record(self) -> dict[str, Any]:
        """The proof as plain data for proof.msgpack."""
        return {
            "challenge": self.challenge,
            "heights": encode_heights(self.log_heights),
            "roots": list(self.roots),
            "anchors": pack(self.anchors),
            "terminals": pack(self.terminals),
            "values": [pack(v.here) + pack(v.after) + pack(v.quotient) for v in self.values],
            "fri_roots": list(self.fri_roots),
            "final": pack(self.final),
            "nonce": self.nonce,
            "trees": [{"path": t.path.tobytes(), "rows": [pack(r) for r in t.rows]} for t in self.trees],
        }

    @classmethod
    def from_record(cls, record: Any, key: VerifyingKey, what: str = "proof") -> tuple[StarkProof, ProofShape]:
        """Parse a proof under `key` and check that every element is canonical and every length fits the shape.

        Raises FormatError.
        """
        shape = ProofShape(key, heights_in(record, key, what))
        rounds = list(shape.rounds.values())
        if not 0 <= record["nonce"] < 1 << 64:
            raise FormatError(f"{what}: the nonce is not a 64-bit number")
        if len(record["values"]) != len(shape.tables) or len(record["trees"]) != len(rounds) + len(shape.fri_trees):
            raise FormatError(f"{what}: not as many tables and trees as the key has")
        proof = cls(
            *_job_fields(record, shape, what),
            tuple(
                TableValues.split(unpack(v, (t.opened, 3), what), t)
                for v, t in zip(record["values"], shape.tables, strict=True)
            ),
            tuple(read_digest(r, what) for r in exactly(record["fri_roots"], len(shape.fri_trees), what)),
            unpack(record["final"], (1 << shape.log_final, 3), what),
            record["nonce"],
            tuple(
                read_opening(t, s, key.params.queries, what)
                for t, s in zip(record["trees"], [*rounds, *shape.fri_trees], strict=True)
            ),
        )
        return proof, shape


def content_bytes(shape: ProofShape, *, at_most: bool = False) -> int:
    """Mean size of a partition's proof in bytes, without the overhead of its encoding, which is below 1 %; or, with
    `at_most`, an upper bound of the size with it.

    The actual size depends on the rows and nodes that the queries share.
    """
    queries = shape.key.params.queries

    def distinct(level: int) -> float:
        """Expected, or maximum, number of nodes of a level of 2^level nodes that random queries meet."""
        if at_most:
            return min(queries, 1 << level)
        return -math.expm1(queries * math.log1p(-(0.5**level))) * 2**level if level else 1.0

    opened = 0.0
    for tree in (*shape.rounds.values(), *shape.fri_trees):
        steps = [(1 << below - above, below, above) for below, above in pairwise(tree.levels)]
        siblings = sum(arity * distinct(above) - distinct(below) for arity, below, above in steps)
        if at_most and steps:  # the most where one child of each node is opened, or as many as there are queries
            leaves = min(queries, 1 << tree.levels[1])
            siblings = 1 - leaves + sum((arity - 1) * min(leaves, 1 << above) for arity, _, above in steps)
        opened += DIGEST_BYTES * siblings + WORD_BYTES * sum(distinct(log) * width for log, width in tree.matrices)
    values = shape.weights + shape.terminals + (1 << shape.log_final)
    content = opened + EXTENSION_DEGREE * WORD_BYTES * values
    return int(content * ENCODING) + NAMES if at_most else int(content)


def heights_in(record: Any, key: VerifyingKey, what: str = "proof") -> LogHeights:
    """The heights that a proof under `key` states, without reading its other fields. Raises FormatError."""
    fields = {"challenge": bytes, "heights": bytes, "roots": list, "anchors": bytes, "terminals": bytes}
    more = {"values": list, "fri_roots": list, "final": bytes, "nonce": int, "trees": list}
    check_fields(record, {**fields, **more}, what)
    log_heights = decode_heights(record["heights"])
    if not heights_fit(key, log_heights):
        raise FormatError(f"{what}: not the heights of a proof under this key")
    return log_heights


def _job_fields(record: Any, shape: ProofShape, what: str) -> tuple[bytes, LogHeights, tuple[bytes, ...], Words, Words]:
    own = len(shape.rounds) - len(shape.key_roots)
    return (
        read_digest(record["challenge"], what),
        shape.log_heights,
        tuple(read_digest(r, what) for r in exactly(record["roots"], own, what)),
        unpack(record["anchors"], (shape.anchors, 3), what),
        unpack(record["terminals"], (shape.terminals, 3), what),
    )
