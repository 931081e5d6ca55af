"""The challenge of a job under the multilinear engine, in the form that its key asks for."""

from __future__ import annotations

from collections.abc import Sequence

from distprove.stark.barrier import Commitment, job_challenge
from distprove.stark.multilinear.challenges import list_challenge
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.places import places_challenge

JOB = b"distprove multilinear job 1"


def multilinear_job_challenge(
    key: MultilinearKey, commitments: Sequence[Commitment], output: bytes | None = None
) -> bytes:
    """The challenge of a job, 32 bytes, which every partition's transcript starts from. `output` is the job's, for keys
    with places alone. Raises as `places_challenge`."""
    if key.params.places is not None:
        return places_challenge(key.digest, key.params.places, commitments, output)
    if not key.needs_barrier:
        return list_challenge(key, [c.name for c in commitments])
    return job_challenge(key.digest, commitments, JOB)
