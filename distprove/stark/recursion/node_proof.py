"""A node of a job's tree as a partition: its proof as plain data, and what follows for it from its children's proofs.

The data of a node's proof are {key, kind, proof}: the digest and the preprocessed root of its key, its kind, and the
proof itself. A verifier of this proof alone reads the kind there. The driver checks before that it is the planned kind,
and that the node states what its children do (`statement`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distprove.errors import FormatError, InvalidProof
from distprove.proof import check_fields
from distprove.stark.encoding import pack
from distprove.stark.field import ZERO, Ext, P, e_sum
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.places import segment_digest
from distprove.stark.multilinear.proof import MultilinearPart, MultilinearProof
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.verifier import verify
from distprove.stark.recursion.node import (
    DIGEST_BYTES,
    KEY,
    NODE,
    NODE_CHALLENGE,
    OCTETS,
    STATED,
    Identity,
    Proven,
    Stated,
    list_digest,
    node_statement,
    node_words,
)
from distprove.stark.recursion.plan import INNER, Kind
from distprove.system import PartitionProof

_DATA: dict[str, type] = {"key": list, "kind": list, "proof": dict}
_SCALAR = DIGEST_BYTES // OCTETS
"""Bytes of a digest in a scalar."""

NodeKey = Callable[[MultilinearKey, Kind], MultilinearKey]
"""Makes the verifying key of a node, given that of the partitions: `distprove.stark.recursion.tree_keys.node_key`."""


def node_data(kind: Kind, proven: Proven) -> dict[str, Any]:
    """The data of a node's proof."""
    assert proven.key is not None, "a node"
    key = [proven.key.digest, proven.key.root]
    return {"key": key, "kind": kind.to_record(), "proof": proven.proof.to_record()}


def is_node(proof: PartitionProof) -> bool:
    """Whether the proof has the form of a node's."""
    return proof.data.keys() == _DATA.keys()


def kind_in(proof: PartitionProof, key: MultilinearKey) -> Kind:
    """The kind that a node's proof names, over partitions under `key`. Raises FormatError."""
    check_fields(proof.data, _DATA, proof.name)
    return Kind.from_record(proof.data["kind"], key, proof.name)


def verify_node(node_key: NodeKey, proof: PartitionProof, key: MultilinearKey) -> None:
    """Raise InvalidProof or FormatError unless this is the proof of a node of the kind that it names, in a tree of the
    right keys."""
    kind = kind_in(proof, key)
    if not is_statement(proof.public):
        raise InvalidProof(f"{proof.name}: not the public values of a node")
    own, nodes = node_key(key, kind), node_key(key, kind.of_role(INNER))
    if proof.public[-KEY:] != Identity.of(nodes).scalars():
        raise InvalidProof(f"{proof.name}: a proof under another key")
    verify_under(own, proof)


def verify_under(own: MultilinearKey, proof: PartitionProof) -> None:
    """Raise InvalidProof or FormatError unless this is the proof of a node, or of a second root, under its key `own`.
    What it states is not looked at."""
    if identity_in(proof) != Identity.of(own):
        raise InvalidProof(f"{proof.name}: a proof under another key")
    parsed, shape = MultilinearProof.from_record(proof.data["proof"], own, proof.name)
    if parsed.challenge != NODE_CHALLENGE:
        raise InvalidProof(f"{proof.name}: a node's proof has no job of its own")
    verify(own, NODE, proof.public, parsed, shape)


def proven_of(proof: PartitionProof, key: MultilinearKey) -> Proven:
    """The proof of a child, whose rules are those of `key`: the partitions' or the nodes'. Raises FormatError."""
    if not is_node(proof):
        return Proven(proof.name, proof.public, MultilinearProof.from_record(proof.data, key, proof.name)[0])
    parsed, _ = MultilinearProof.from_record(proof.data["proof"], key, proof.name)
    return Proven(NODE, proof.public, parsed, identity_in(proof))


def challenge_of(proof: PartitionProof) -> bytes:
    """The challenge of the job that a child's proof is made in. Raises InvalidProof."""
    if is_node(proof):
        return _octets(proof.public[:OCTETS], proof.name)
    challenge: bytes = proof.data["challenge"]
    return challenge


def is_statement(public: Sequence[int]) -> bool:
    """Whether these can be the public values of a node."""
    count = sum(count for _, count in STATED)
    return len(public) == count and all(type(value) is int and 0 <= value < P for value in public)


def statement(key: MultilinearKey, kind: Kind, children: Sequence[PartitionProof], node_key: Identity) -> Stated:
    """What a node of this kind states of its children's proofs, in a tree with this key of nodes. Raises InvalidProof,
    FormatError."""
    words, sums = [], []
    for child in children:
        if kind.is_leaf:
            part = MultilinearPart.of_record(child.data, key, child.name)
            shape = Shape(key, part.log_heights)
            own = child.name, child.public, part.root, part.anchor
            words.append(segment_digest(key.digest, part.log_heights, *own))
            sums.append(_terminal(part, shape))
        else:
            listed, total = node_statement(child.public)
            words.append(node_words(listed, identity_in(child), node_key))
            sums.append(total)
    return Stated(challenge_of(children[0]), list_digest(words, kind.room), e_sum(sums), node_key)


def stated_node_key(proof: PartitionProof) -> Identity:
    """The key of nodes that a node states. Raises InvalidProof."""
    words = proof.public[-KEY:]
    root = pack(np.array(words[OCTETS:], dtype=np.uint64))
    return Identity(_octets(words[:OCTETS], proof.name), root)


def identity_in(proof: PartitionProof) -> Identity:
    """The key that a node's proof names. Raises FormatError."""
    check_fields(proof.data, _DATA, proof.name)
    key = proof.data["key"]
    if len(key) != 2 or not all(isinstance(part, bytes) and len(part) == DIGEST_BYTES for part in key):
        raise FormatError(f"{proof.name}: not a key's digest and root")
    return Identity(*key)


def _octets(scalars: Sequence[int], what: str) -> bytes:
    try:
        return b"".join(scalar.to_bytes(_SCALAR, "little") for scalar in scalars)
    except OverflowError:
        raise InvalidProof(f"{what}: a scalar that is no {_SCALAR} bytes") from None


def _terminal(part: MultilinearPart, shape: Shape) -> Ext:
    try:
        return part.terminal(shape) or ZERO
    except ZeroDivisionError:
        raise InvalidProof("a sum of the global buses' fractions has the denominator zero") from None
