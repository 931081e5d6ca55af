"""Both verifiers as functions of a kept job's record: they return, or raise one of `REFUSALS` and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distprove.errors import DistproveError
from distprove.stark.proof import StarkProof
from distprove.stark.verifier import verify, verify_job
from distprove.stark.verifying_key import VerifyingKey
from tests.support import second_verifier

Verify = Callable[[dict[str, Any]], None]
REFUSALS = (DistproveError, second_verifier.Refused)


def ours(job: dict[str, Any]) -> None:
    key = VerifyingKey.from_record(job["key"])
    names, publics = ([p[field] for p in job["partitions"]] for field in ("name", "public"))
    proofs = []
    for part in job["partitions"]:
        proof, shape = StarkProof.from_record(part["proof"], key)
        verify(key, part["name"], part["public"], proof, shape)
        proofs.append(proof)
    verify_job(key, names, publics, proofs, job.get("output"))


def second(job: dict[str, Any]) -> None:
    parts = [(p["name"], p["public"], p["proof"]) for p in job["partitions"]]
    second_verifier.verify_job(job["key"], parts, job.get("output"))


VERIFIERS = [ours, second]
