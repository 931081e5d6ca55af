"""The verifier of a job that ends in one proof: the root's, beside the list of its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from distprove.errors import InvalidProof
from distprove.stark.barrier import Commitment
from distprove.stark.encoding import unpack
from distprove.stark.field import Ext, element
from distprove.stark.heights import LogHeights
from distprove.stark.multilinear.job_challenge import multilinear_job_challenge
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.places import segment_digest
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.shape import Shape, heights_fit
from distprove.stark.multilinear.verifier import RULES, check_heights, check_name, check_values, verify
from distprove.stark.recursion.node import (
    MOST_CHILDREN,
    NODE,
    NODE_CHALLENGE,
    Identity,
    Stated,
    list_digest,
    node_words,
)
from distprove.stark.recursion.plan import Form, in_fours, leaf_places
from distprove.stark.whole_job import verify_whole_job
from kernels.host.units import count_of


@dataclass(frozen=True)
class Listed:
    """A partition of which the root has proven that its proof verifies."""

    listed: Commitment
    challenge: bytes
    sums: tuple[Ext, ...]
    """The sum over all partitions, for the first of them."""

    @property
    def log_heights(self) -> LogHeights:
        return self.listed.log_heights

    def commitment(self, name: str, public: Sequence[int]) -> Commitment:
        return self.listed


@dataclass(frozen=True)
class TreeVerifyingKeys:
    """The keys of a tree over a job's partitions, as its verifier has them."""

    key: MultilinearKey
    """Of the partitions."""
    leaves: tuple[Identity, ...]
    """Of each leaf, in order."""
    node: Identity
    root: MultilinearKey


def verify_root(
    keys: TreeVerifyingKeys, record: Any, total: Ext, partitions: Sequence[Commitment], output: bytes | None = None
) -> None:
    """Raise InvalidProof or FormatError unless the root's proof shows that these partitions are one job.

    `keys` must be those of the tree over these partitions (`TreeKeys.verifying`): nothing in the proof chooses them.
    The list travels beside the proof, and so does `total`, the sum of the global buses.
    """
    stated = root_statement(keys, total, partitions, output)
    verify_root_proof(keys.root, record, stated)
    verify_listed(keys.key, stated, partitions, output)


def root_statement(
    keys: TreeVerifyingKeys, total: Ext, partitions: Sequence[Commitment], output: bytes | None
) -> Stated:
    """What the root over these partitions must state, after the checks that a circuit leaves out. Raises InvalidProof,
    FormatError, and OutputMissing without an output that the job's challenge binds."""
    places = leaf_places([Form.of(partition.name, partition.log_heights) for partition in partitions])
    if not partitions or len(keys.leaves) != len(places):
        raise InvalidProof(
            f"{count_of(len(partitions), 'partition')} under {count_of(len(keys.leaves), 'leaf', 'leaves')}"
        )
    shapes: dict[LogHeights, Shape] = {}
    segments = [checked_digest(keys.key, partition, shapes) for partition in partitions]
    lists = [list_digest([segments[number] for number in leaf], MOST_CHILDREN) for leaf in places]
    challenge = multilinear_job_challenge(keys.key, partitions, output)
    return Stated(challenge, tree_digest(lists, keys.leaves, keys.node), total, keys.node)


def verify_root_proof(root: MultilinearKey, record: Any, stated: Stated) -> None:
    """Raise InvalidProof or FormatError unless this is the proof of a root that states this."""
    proof, shape = MultilinearProof.from_record(record, root, "root")
    if proof.challenge != NODE_CHALLENGE:
        raise InvalidProof("the root: a node's proof has no job of its own")
    verify(root, NODE, stated.scalars(), proof, shape)


def verify_listed(
    key: MultilinearKey, stated: Stated, partitions: Sequence[Commitment], output: bytes | None = None
) -> None:
    """Raise InvalidProof unless partitions, of which a root has proven what it states, are one job. Raises
    OutputMissing without an output that the job has."""
    sums = stated.sum[0], stated.sum[1], stated.sum[2]
    listed = [Listed(p, stated.challenge, (sums,) if i == 0 else ()) for i, p in enumerate(partitions)]
    rules = replace(RULES, terminals=lambda _, part: part.sums)
    verify_whole_job(rules, key, [p.name for p in partitions], [p.public for p in partitions], listed, output)


def checked_digest(key: MultilinearKey, partition: Commitment, shapes: dict[LogHeights, Shape]) -> tuple[int, ...]:
    """The digest of a segment, after the checks that a circuit leaves out. `shapes` has those of heights that were
    checked before under this key, and gets this one. Raises InvalidProof, FormatError."""
    name, public, heights = partition.name, tuple(partition.public), tuple(partition.log_heights)
    known = shapes.get(heights)
    if known is None and not heights_fit(key, heights):
        raise InvalidProof(f"{name}: not the heights of a partition under this key")
    check_values(key, name, public)
    check_name(name)
    shape = Shape(key, heights) if known is None else known
    if known is None:
        check_heights(key, name, shape)
        shapes[heights] = shape
    unpack(partition.main_root, (4,), name)  # the digest would be the same for another encoding of its words
    anchor = element(unpack(partition.anchors, (3,), name))
    return segment_digest(key.digest, heights, name, public, partition.main_root, anchor)


def tree_digest(lists: Sequence[tuple[int, ...]], leaves: Sequence[Identity], node: Identity) -> tuple[int, ...]:
    """The digest that the root states over leaves of these keys, which state these lists, and nodes of that key."""
    below = [node_words(digest, key, node) for digest, key in zip(lists, leaves, strict=True)]
    while len(below) > 1:
        below = [node_words(list_digest(own, MOST_CHILDREN), node, node) for own in in_fours(below)]
    return list_digest(below, 1)
