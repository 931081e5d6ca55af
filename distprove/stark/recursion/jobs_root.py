"""The verifier of one proof of several jobs, each of which ends in one proof: of a tree whose children are their roots.

What a job's root must state, and under which key, follows from the job's own key and its list of partitions
(`JobRoot`). The leaves of this tree have the roots as children, and bind key and public values of each (`node.JOBS`).
Above them it is a tree as that of a job, whose challenge is 32 zero bytes and whose sum is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from distprove.errors import InvalidProof
from distprove.stark.field import ZERO
from distprove.stark.multilinear.key import MultilinearKey, with_root
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.verifier import check_statement
from distprove.stark.recursion.node import (
    JOBS,
    MOST_CHILDREN,
    NODE,
    NODE_CHALLENGE,
    Child,
    Identity,
    Stated,
    job_words,
    list_digest,
)
from distprove.stark.recursion.node_proof import NodeKey
from distprove.stark.recursion.plan import MOST_LEAVES, ROOT, Form, in_fours, plan_above
from distprove.stark.recursion.root import root_statement, tree_digest, verify_listed, verify_root_proof
from distprove.stark.recursion.security import Layer, node_layers
from distprove.stark.recursion.whole import checked_key, commitments_of, kinds_of_listed, sum_in, tree_of_listed
from distprove.stark.recursion.work import TreeWork
from distprove.system import PartitionProof
from kernels.host.units import count_of

MOST_JOBS = MOST_LEAVES * MOST_CHILDREN
"""Jobs in one proof, at most: each four of them may need a leaf's key of their own."""


@dataclass(frozen=True)
class JobRoot:
    """What the root of a job's tree must state, and under which key. No proof of the job has a part in it."""

    key: MultilinearKey
    """Of the job's partitions."""
    leaves: tuple[tuple[Form, ...], ...]
    """The different leaves of the job's tree."""
    root: MultilinearKey
    stated: Stated

    @classmethod
    def of(
        cls,
        key: Any,
        node_key: NodeKey,
        partitions: Sequence[PartitionProof],
        total: bytes,
        output: bytes | None,
        most: int | None = None,
    ) -> JobRoot:
        """The root over listed partitions, whose global buses have this sum, after the checks that circuits leave out.
        `most` bounds the wires of the tree's circuits. Raises InvalidProof, FormatError, TooMuchWork, and OutputMissing
        without an output that the job's challenge binds."""
        keys = tree_of_listed(key, node_key, partitions, most)
        stated = root_statement(keys, sum_in(total), commitments_of(partitions), output)
        check_statement(keys.root, NODE, stated.scalars(), Shape(keys.root, tuple(keys.root.fixed_heights)))
        return cls(keys.key, kinds_of_listed(key, partitions)[ROOT].leaves, keys.root, stated)

    @cached_property
    def child(self) -> Child:
        """What a leaf over jobs has of this root. Roots of one frame and the same parameters are alike."""
        key = with_root(self.root, b"")
        return Child(Shape(key, tuple(key.fixed_heights)), None, of_job=True)

    @property
    def identity(self) -> Identity:
        return Identity.of(self.root)

    @property
    def words(self) -> tuple[int, ...]:
        """Its words in the list of its leaf."""
        return job_words(self.identity, self.stated.scalars())


@dataclass(frozen=True)
class JobsVerifyingKeys:
    """The keys of a tree over jobs, as its verifier has them."""

    leaves: tuple[MultilinearKey, ...]
    """Of each leaf, in order."""
    node: MultilinearKey
    root: MultilinearKey


def work_of_listed(key: Any, partitions: Sequence[PartitionProof]) -> TreeWork:
    """What decides how much work the tree over a job's listed partitions is. Raises InvalidProof, FormatError."""
    checked = checked_key(key)
    return checked, kinds_of_listed(checked, partitions)[ROOT].leaves


def places_of(jobs: Sequence[JobRoot]) -> list[tuple[Child, ...]]:
    """The places of each leaf over these jobs, in order. Absent ones have the form of the first."""
    children = [job.child for job in jobs]
    return [(*own, *[own[0]] * (MOST_CHILDREN - len(own))) for own in in_fours(children)]


def check_together(keys: Sequence[Any]) -> None:
    """Raise InvalidProof for jobs under these keys, of any engine, of which there is no one proof."""
    if not 2 <= len(keys) <= MOST_JOBS:
        raise InvalidProof(f"one proof is of 2 to {MOST_JOBS} jobs, not of {len(keys)}")
    asked = sorted({(key.params.security_bits, key.params.grinding_bits) for key in map(checked_key, keys)})
    if len(asked) > 1:
        told = ", ".join(f"{count_of(bits, 'bit')} with {grinding} of work" for bits, grinding in asked)
        raise InvalidProof(f"jobs in one proof ask for the same bits of security and of work; these for {told}")


def jobs_statement(keys: JobsVerifyingKeys, jobs: Sequence[JobRoot]) -> Stated:
    """What the root of the tree over these jobs must state."""
    lists = [list_digest([job.words for job in own], MOST_CHILDREN, JOBS) for own in in_fours(jobs)]
    node = Identity.of(keys.node)
    digest = tree_digest(lists, [Identity.of(leaf) for leaf in keys.leaves], node)
    return Stated(NODE_CHALLENGE, digest, ZERO, node)


def verify_jobs_proof(keys: JobsVerifyingKeys, record: Any, jobs: Sequence[JobRoot]) -> None:
    """Raise InvalidProof or FormatError unless `record` proves that there is a valid proof of each job's root.

    `keys` must be those of the tree over these jobs: nothing in the proof chooses them. That the lists are whole jobs
    is for `verify_job`.
    """
    if len(keys.leaves) != -(-len(jobs) // MOST_CHILDREN):
        raise InvalidProof(f"{count_of(len(jobs), 'job')} under {count_of(len(keys.leaves), 'leaf', 'leaves')}")
    verify_root_proof(keys.root, record, jobs_statement(keys, jobs))


def verify_job(job: JobRoot, partitions: Sequence[PartitionProof], output: bytes | None) -> None:
    """Raise InvalidProof unless the listed partitions of a job whose root is proven are one job. Raises OutputMissing
    without an output that it has."""
    verify_listed(job.key, job.stated, commitments_of(partitions), output)


def jobs_layers(keys: JobsVerifyingKeys) -> list[Layer]:
    """The layers that the tree over jobs adds to theirs: its leaves and nodes, whose keys are of one frame, and its
    root."""
    nodes = len(plan_above([[str(number)] for number in range(len(keys.leaves))])) - 1
    return node_layers([(keys.node, nodes), (keys.root, 1)])
