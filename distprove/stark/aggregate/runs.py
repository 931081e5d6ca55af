"""One proof of the STARK jobs of some runs or proof files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from distprove.proof import Proof
from distprove.stark.aggregate.file import StarkAggregate
from distprove.stark.aggregate.prover import aggregate_jobs, require_one_proofs
from distprove.stark.aggregate.trusted import MAKERS, read_keys, trusted
from distprove.stark.export import key_in
from distprove.stark.programs import PROGRAMS
from kernels.interface.backend import Backend


def aggregated(runs: Sequence[Path], proofs: Sequence[Proof], vks: Sequence[Path], backend: Backend) -> StarkAggregate:
    """One proof of the jobs in some runs or files, which has been verified.

    The key of a job's program that does not ship is among `vks`, or lies in the job's run. Raises as `aggregate_jobs`
    and `trusted`.
    """
    require_one_proofs(proofs)
    keys = read_keys(vks)
    for run, proof in zip(runs, proofs, strict=True):
        named = proof.verification_key
        if named.get("program") not in PROGRAMS and not any(key.is_named(named) for key in keys.values()):
            keys[str(run)] = key_in(run)
    verifiers = [own.verifier for own in trusted(proofs, keys)]
    return aggregate_jobs(proofs, verifiers, MAKERS, backend)
