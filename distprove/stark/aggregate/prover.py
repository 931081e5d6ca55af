"""Makes one proof of several STARK jobs from their own proofs, on one backend."""

from __future__ import annotations

from collections.abc import Sequence

from distprove.errors import InvalidProof, UsageError
from distprove.proof import Proof
from distprove.stark.aggregate.file import SYSTEM, StarkAggregate
from distprove.stark.aggregate.verifier import KeyMakers, check_jobs, naming_job, roots_of, verify_aggregate
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.recursion.jobs_tree import prove_jobs
from distprove.steps import Steps
from kernels.interface.backend import Backend

_ANY = 1 << 63
"""Wires of circuits that no tree has."""


def require_one_proofs(proofs: Sequence[Proof]) -> None:
    """Raise UsageError unless all are proofs of STARK jobs that end in one proof."""
    for number, proof in enumerate(proofs, 1):
        if proof.system != SYSTEM:
            raise UsageError(
                f"job {number} is of {proof.system}: proofs of STARK jobs and of others have no aggregate in common"
            )
        if proof.whole is None:
            raise UsageError(
                f"job {number} has a proof for each partition. Only STARK jobs that end in one proof can be "
                "aggregated: prove them with --one-proof, under the multilinear engine and Poseidon2"
            )


def aggregate_jobs(
    proofs: Sequence[Proof],
    verifiers: Sequence[StarkVerifier],
    makers: KeyMakers,
    backend: Backend,
    steps: Steps | None = None,
) -> StarkAggregate:
    """One proof of several jobs, given a verifier for each. It has been verified.

    Raises UsageError for proofs that have no aggregate, InvalidProof for one that does not hold, OutOfMemory.
    """
    require_one_proofs(proofs)
    # 1. Each job's proof holds. What its root states follows from its key and list.
    jobs = StarkAggregate.of(proofs, {})
    try:
        check_jobs(jobs, verifiers)
    except InvalidProof as error:
        raise UsageError(str(error)) from None
    for number, (proof, verifier) in enumerate(zip(proofs, verifiers, strict=True), 1):
        with naming_job(number):
            proof.verify(verifier)
    roots = roots_of(jobs, verifiers, makers, _ANY)  # the caller chose these jobs
    # 2. The tree over the roots, and its own root's proof.
    root = prove_jobs(roots, [(p.whole or {})["proof"] for p in proofs], backend, steps or Steps())
    made = StarkAggregate(jobs.jobs, root.to_record())
    # 3. It holds, as its file has it.
    written = StarkAggregate.from_bytes(made.to_bytes())
    verify_aggregate(written, verifiers, makers, _ANY)
    return written
