"""The prover of one proof of several jobs: the keys of the tree over their roots, and its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.recursion.jobs_keys import jobs_tree
from distprove.stark.recursion.jobs_root import JobRoot
from distprove.stark.recursion.node import MOST_CHILDREN, NODE, NODE_CHALLENGE, Child, Proven
from distprove.stark.recursion.plan import in_fours, plan_above
from distprove.stark.recursion.tree import NodeKeys
from distprove.steps import Steps
from kernels.interface.backend import Backend


class JobsKeys(NodeKeys):
    """The keys of the tree over the roots of some jobs."""

    def __init__(self, jobs: Sequence[JobRoot], backend: Backend) -> None:
        super().__init__(*jobs_tree(jobs), backend)
        self._children = {job.identity: job.child for job in jobs}

    def places(self, children: Sequence[Proven]) -> Sequence[Child]:
        own = [self._children[child.key] for child in children if child.key is not None]
        return [*own, *[own[0]] * (MOST_CHILDREN - len(own))]


def prove_jobs(jobs: Sequence[JobRoot], roots: Sequence[Any], backend: Backend, steps: Steps) -> MultilinearProof:
    """The proof of the tree's root, from the records of the proofs of the jobs' roots, in the same order.

    Raises InvalidProof where a root's proof does not verify, FormatError, OutOfMemory, UsageError.
    """
    keys = JobsKeys(jobs, backend)
    made: dict[str, Proven] = {}
    for number, (job, record) in enumerate(zip(jobs, roots, strict=True)):
        proof, _ = MultilinearProof.from_record(record, job.root, NODE)
        made[f"job-{number}"] = Proven(NODE, job.stated.scalars(), proof, job.identity)
    nodes = plan_above(in_fours(list(made)))
    for node in nodes:
        made[node.name] = keys.prove(node, [made[name] for name in node.children], NODE_CHALLENGE, steps)
    return made[nodes[-1].name].proof
