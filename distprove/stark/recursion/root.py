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
from distprove.stark.multilinear.challenges import multilinear_job_challenge
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.shape import Shape, heights_fit
from distprove.stark.multilinear.verifier import RULES, check_statement, verify
from distprove.stark.recursion.node import NODE, NODE_CHALLENGE, START, Stated, after_segment
from distprove.stark.whole_job import verify_whole_job


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


def verify_root(
    root_key: MultilinearKey,
    record: Any,
    total: Ext,
    key: MultilinearKey,
    partitions: Sequence[Commitment],
    output: bytes | None = None,
) -> None:
    """Raise InvalidProof or FormatError unless the root's proof shows that these partitions are one job under `key`.

    `root_key` must come from whoever is trusted with keys: it is that of the tree over partitions of these heights. The
    list travels beside the proof, and so does `total`, the sum of the global buses.
    """
    chain: Sequence[int] = START
    for partition in partitions:
        name, public = partition.name, tuple(partition.public)
        if not heights_fit(key, partition.log_heights):
            raise InvalidProof(f"{name}: not the heights of a partition under this key")
        shape = Shape(key, partition.log_heights)
        check_statement(key, name, public, shape)
        unpack(partition.main_root, (4,), name)  # the digest would be the same for another encoding of its words
        anchor = element(unpack(partition.anchors, (3,), name))
        chain = after_segment(shape, chain, name, public, partition.main_root, anchor)
    challenge = multilinear_job_challenge(key, partitions)
    proof, shape = MultilinearProof.from_record(record, root_key, "root")
    if proof.challenge != NODE_CHALLENGE:
        raise InvalidProof("the root: a node's proof has no job of its own")
    verify(root_key, NODE, Stated(challenge, START, tuple(chain), total).scalars(), proof, shape)
    listed = [Listed(p, challenge, (total,) if i == 0 else ()) for i, p in enumerate(partitions)]
    rules = replace(RULES, terminals=lambda _, part: part.sums)
    verify_whole_job(rules, key, [p.name for p in partitions], [p.public for p in partitions], listed, output)
