"""A partition's proof as data, and its encoding: every length is known from the shape before it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from distprove.errors import FormatError
from distprove.proof import check_fields
from distprove.stark.air.compiled import EXTENSION_DEGREE
from distprove.stark.field import P, Words, is_canonical
from distprove.stark.key import VerifyingKey
from distprove.stark.merkle import TreeShape
from distprove.stark.shape import ProofShape, heights_fit
from kernels.goldilocks import Bytes, TreeOpening

DIGEST_BYTES = 32
WORD_BYTES = 8


@dataclass(frozen=True)
class OpenedTree:
    """A tree's cap and its opening at all queries."""

    cap: Bytes
    opening: TreeOpening


@dataclass(frozen=True)
class TableValues:
    """A table's columns at the out-of-domain points."""

    both: Words
    """(preprocessed + main + aux columns, 2, 3): at zeta and at w zeta."""
    quotient: Words
    """(3 * chunks, 3): at zeta."""


@dataclass(frozen=True)
class StarkProof:
    """The proof of one partition; its public values stand beside it."""

    challenge: bytes
    """The job's, 32 bytes; see `barrier`."""
    log_heights: tuple[int, ...]
    roots: tuple[bytes, ...]
    """Of the rounds that the prover commits to (not the preprocessed one), in order."""
    terminals: Words
    """(terminals, 3)"""
    values: tuple[TableValues, ...]
    fri_roots: tuple[bytes, ...]
    final: Words
    """(2^log_final, 3): coefficients of the last polynomial."""
    nonce: int
    trees: tuple[OpenedTree, ...]
    """The rounds' trees, the preprocessed one included, then FRI's."""

    def to_record(self) -> dict[str, Any]:
        """Plain data for proof.msgpack."""
        return {
            "challenge": self.challenge,
            "heights": bytes(self.log_heights),
            "roots": list(self.roots),
            "terminals": _pack(self.terminals),
            "values": [_pack(v.both) + _pack(v.quotient) for v in self.values],
            "fri_roots": list(self.fri_roots),
            "final": _pack(self.final),
            "nonce": self.nonce,
            "trees": [
                {"cap": t.cap.tobytes(), "path": t.opening.path.tobytes(), "rows": [_pack(r) for r in t.opening.rows]}
                for t in self.trees
            ],
        }

    @classmethod
    def from_record(cls, record: Any, key: VerifyingKey, what: str = "proof") -> tuple[StarkProof, ProofShape]:
        """Parse a proof under `key`; every length is checked, every element canonical. Raises FormatError."""
        log_heights = heights_in(record, key, what)
        shape = ProofShape(key, log_heights)
        rounds = list(shape.rounds.values())
        own = len(rounds) - ("preprocessed" in shape.rounds)
        if not 0 <= record["nonce"] < 1 << 64:
            raise FormatError(f"{what}: the nonce is not a 64-bit number")
        if len(record["values"]) != len(shape.tables) or len(record["trees"]) != len(rounds) + len(shape.fri_trees):
            raise FormatError(f"{what}: not as many tables and trees as the key has")
        proof = cls(
            _digest(record["challenge"], what),
            log_heights,
            tuple(_digest(r, what) for r in _exactly(record["roots"], own, what)),
            _unpack(record["terminals"], (shape.terminals, 3), what),
            tuple(
                _table_values(v, t.both, t.widths[3], what) for v, t in zip(record["values"], shape.tables, strict=True)
            ),
            tuple(_digest(r, what) for r in _exactly(record["fri_roots"], len(shape.fri_trees), what)),
            _unpack(record["final"], (1 << shape.log_final, 3), what),
            record["nonce"],
            tuple(
                _opened_tree(t, s, key.params.queries, what)
                for t, s in zip(record["trees"], [*rounds, *shape.fri_trees], strict=True)
            ),
        )
        return proof, shape


def content_bytes(shape: ProofShape) -> int:
    """Bytes that a partition's proof holds, without what its encoding adds, less than a hundredth of them."""
    queries = shape.key.params.queries
    opened = sum(
        (DIGEST_BYTES << tree.log_cap_nodes)
        + queries * (DIGEST_BYTES * tree.path_levels + WORD_BYTES * sum(width for _, width in tree.matrices))
        for tree in (*shape.rounds.values(), *shape.fri_trees)
    )
    values = sum(2 * table.both + table.widths[3] for table in shape.tables)
    return opened + EXTENSION_DEGREE * WORD_BYTES * (values + shape.terminals + (1 << shape.log_final))


def heights_in(record: Any, key: VerifyingKey, what: str = "proof") -> tuple[int, ...]:
    """The heights that a proof under `key` states, its other fields unread. Raises FormatError."""
    fields = {"challenge": bytes, "heights": bytes, "roots": list, "terminals": bytes, "values": list}
    more = {"fri_roots": list, "final": bytes, "nonce": int, "trees": list}
    check_fields(record, {**fields, **more}, what)
    log_heights = tuple(record["heights"])
    if not heights_fit(key, log_heights):
        raise FormatError(f"{what}: not the heights of a proof under this key")
    return log_heights


def _opened_tree(record: Any, shape: TreeShape, queries: int, what: str) -> OpenedTree:
    check_fields(record, {"cap": bytes, "path": bytes, "rows": list}, what)
    cap = _octets(record["cap"], (1 << shape.log_cap_nodes, 32), what)
    path = _octets(record["path"], (queries, shape.path_levels, 32), what)
    given = _exactly(record["rows"], len(shape.matrices), what)
    rows = tuple(_unpack(r, (queries, width), what) for r, (_, width) in zip(given, shape.matrices, strict=True))
    return OpenedTree(cap, TreeOpening(rows, path))


def _table_values(data: Any, both: int, quotient: int, what: str) -> TableValues:
    words = _unpack(data, (2 * both + quotient, 3), what)
    return TableValues(words[: 2 * both].reshape(both, 2, 3), words[2 * both :])


def _pack(words: Words) -> bytes:
    return np.ascontiguousarray(words).astype("<u8").tobytes()


def _unpack(data: Any, shape: tuple[int, ...], what: str) -> Words:
    """Field elements, each below p. Raises FormatError."""
    if not isinstance(data, bytes) or len(data) != 8 * int(np.prod(shape)):
        raise FormatError(f"{what}: field elements of another number than {shape}")
    words = np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False).reshape(shape)
    if not is_canonical(words):
        raise FormatError(f"{what}: a field element that is not below {P}")
    return words


def _octets(data: Any, shape: tuple[int, ...], what: str) -> Bytes:
    if not isinstance(data, bytes) or len(data) != int(np.prod(shape)):
        raise FormatError(f"{what}: bytes of another number than {shape}")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def _digest(data: Any, what: str) -> bytes:
    if not isinstance(data, bytes) or len(data) != 32:
        raise FormatError(f"{what}: a digest has 32 bytes")
    return data


def _exactly(items: Any, count: int, what: str) -> list[Any]:
    if not isinstance(items, list) or len(items) != count:
        raise FormatError(f"{what}: a list of another length than {count}")
    return items
