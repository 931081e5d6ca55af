"""The verifier of one proof of several STARK jobs, and what it states of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from distprove.errors import DistproveError, InvalidProof
from distprove.proof import check_fields
from distprove.stark.aggregate.file import StarkAggregate
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.multilinear.proof import FIELDS
from distprove.stark.recursion.jobs_root import (
    JobRoot,
    JobsVerifyingKeys,
    check_together,
    jobs_layers,
    verify_job,
    verify_jobs_proof,
    work_of_listed,
)
from distprove.stark.recursion.security import Layer, bits_of
from distprove.stark.recursion.work import TreeWork, check_work_of_jobs


@dataclass(frozen=True)
class KeyMakers:
    """What makes the keys of trees. They are given, since a verifier imports nothing of provers."""

    node_key: Callable[[Any, Any], Any]
    """Makes a job's keys: `distprove.stark.keyfile.node_key`."""
    jobs_keys: Callable[[Sequence[JobRoot]], JobsVerifyingKeys]
    """Makes those over jobs: `distprove.stark.keyfile.jobs_keys`."""


@dataclass(frozen=True)
class Explained:
    """What a proof of several jobs states, once it holds."""

    jobs: tuple[dict[str, Any], ...]
    """For each job, the statement of its own proof (`distprove.system.Explains`), with the bits of its own tree."""
    layers: tuple[Layer, ...]
    """Those that the tree over the jobs adds."""

    @property
    def bits(self) -> float:
        """Bits of the weakest layer of all."""
        return self._weakest[0]

    @property
    def weakest(self) -> str:
        """The layer of fewest bits, in words."""
        return self._weakest[1]

    @property
    def _weakest(self) -> tuple[float, str]:
        found = [
            (float(layer["bits"]), f"job {number}, {layer['program']}")
            for number, job in enumerate(self.jobs, 1)
            for layer in job["security"]["layers"]
        ]
        found += [(bits_of([layer]), f"the tree over the jobs, {layer.program}") for layer in self.layers]
        return min(found, key=lambda layer: layer[0])


def check_jobs(aggregate: StarkAggregate, verifiers: Sequence[StarkVerifier]) -> None:
    """Raise InvalidProof for jobs of which there is no one proof."""
    if len({job.job_digest for job in aggregate.jobs}) < len(aggregate.jobs):
        raise InvalidProof("a job is given twice")
    check_together([verifier.key for verifier in verifiers])


def roots_of(
    aggregate: StarkAggregate,
    verifiers: Sequence[StarkVerifier],
    makers: KeyMakers,
    tree_wires: int | None = None,
) -> list[JobRoot]:
    """What the root of each job must state, under which key, for a verifier of each. Raises InvalidProof,
    FormatError, which name the job, and TooMuchWork before any key is made if all need circuits of more than
    `tree_wires` wires."""
    work: list[TreeWork] = []
    for number, (job, verifier) in enumerate(zip(aggregate.jobs, verifiers, strict=True), 1):
        with naming_job(number):
            work.append(work_of_listed(verifier.key, job.partitions))
    check_work_of_jobs(work, tree_wires)
    found = []
    for number, (job, verifier) in enumerate(zip(aggregate.jobs, verifiers, strict=True), 1):
        with naming_job(number):
            if verifier.key_digest() != job.key_digest:
                own, given = job.key_digest.hex()[:16], verifier.key_digest().hex()[:16]
                raise InvalidProof(f"it is for key {own}..., not for {given}...")
            if job.output is not None and not verifier.has_output:
                raise InvalidProof("it comes with an output, and its statement has none")
            assert job.whole is not None, "the sum of the job's global buses"
            listed = job.partitions, job.whole["sum"], job.output
            found.append(JobRoot.of(verifier.key, makers.node_key, *listed, tree_wires))
    return found


@contextmanager
def naming_job(number: int) -> Iterator[None]:
    """Put the number of a job, from 1 on, before the message of an error."""
    try:
        yield
    except DistproveError as error:
        raise type(error)(f"job {number}: {error}") from None


def verify_aggregate(
    aggregate: StarkAggregate,
    verifiers: Sequence[StarkVerifier],
    makers: KeyMakers,
    tree_wires: int | None = None,
) -> tuple[Layer, ...]:
    """Raise InvalidProof, OutputMissing or FormatError unless each job is proven under the key of its verifier.

    All keys of trees follow from the jobs' keys and lists. Raises TooMuchWork before any is made if those of all jobs
    need circuits of more than `tree_wires` wires. Returns the layers that the tree over the jobs adds.
    """
    # 1. What each job's root must state, from its key and list of partitions alone.
    check_fields(aggregate.proof, FIELDS, "the proof of the jobs")  # before keys are made
    check_jobs(aggregate, verifiers)
    roots = roots_of(aggregate, verifiers, makers, tree_wires)
    # 2. The proof: each of these roots has a proof that verifies.
    keys = makers.jobs_keys(roots)
    verify_jobs_proof(keys, aggregate.proof, roots)
    # 3. Each list is a whole job.
    for number, (root, job) in enumerate(zip(roots, aggregate.jobs, strict=True), 1):
        with naming_job(number):
            verify_job(root, job.partitions, job.output)
    return tuple(jobs_layers(keys))


def explained(aggregate: StarkAggregate, verifiers: Sequence[StarkVerifier], layers: Sequence[Layer]) -> Explained:
    """What an aggregate that holds states of its jobs."""
    jobs = tuple(v.explain_whole(job.partitions) for v, job in zip(verifiers, aggregate.jobs, strict=True))
    return Explained(jobs, tuple(layers))
