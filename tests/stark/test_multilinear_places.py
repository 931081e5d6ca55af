"""The challenge of jobs that a contract can read: what it binds, and which keys and outputs have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from distprove.errors import FormatError, InvalidProof, OutputMissing, UsageError
from distprove.stark.barrier import Commitment
from distprove.stark.heights import encode_heights
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.multilinear.job_challenge import multilinear_job_challenge
from distprove.stark.multilinear.key import MultilinearKey, with_params
from distprove.stark.multilinear.proof import MultilinearPart
from distprove.system import PartitionProof
from kernels.interface.tree_hash import TreeHash
from tests.support import second_multilinear_verifier as second
from tests.support.multilinear_golden import golden, golden_job
from tests.support.multilinear_jobs import MultilinearJob

NAME = "multilinear-places"


@pytest.fixture(scope="module")
def job() -> MultilinearJob:
    return golden_job(NAME)


def commitments(job: MultilinearJob) -> list[Commitment]:
    parts = [(p, MultilinearPart.of_record(p.data, job.key, p.name)) for p in job.proofs]
    return [part.commitment(p.name, p.public) for p, part in parts]


def both(job: MultilinearJob, listed: Sequence[Commitment], output: bytes) -> bytes:
    """The challenge, on which both verifiers must agree."""
    found = multilinear_job_challenge(job.key, listed, output)
    plain = [(c.name, list(encode_heights(c.log_heights)), list(c.public), c.main_root, c.anchors) for c in listed]
    assert second.job_challenge(second.Key(job.key.to_record()), plain, output) == found
    return found


def refused(job: MultilinearJob, proofs: Sequence[PartitionProof], output: bytes) -> None:
    with pytest.raises(InvalidProof):
        StarkVerifier(job.key, output=output).verify_job(proofs)
    parts = [(p.name, list(p.public), p.data) for p in proofs]
    with pytest.raises(second.Refused):
        second.verify_job(job.key.to_record(), parts, output)


def test_the_challenge_binds_each_part_of_the_job(job: MultilinearJob) -> None:
    listed, output = commitments(job), job.output
    assert output is not None
    first = listed[0]
    zeroed = bytes(32)
    changes = [
        [replace(first, name="other"), *listed[1:]],
        [replace(first, public=(1, *first.public[1:])), *listed[1:]],
        [replace(first, log_heights=(9,)), *listed[1:]],
        [replace(first, main_root=zeroed), *listed[1:]],
        [replace(first, anchors=bytes(24)), *listed[1:]],
        [listed[1], first, *listed[2:]],
        listed[:2],
        [*listed, first],
        [first, *listed],
    ]
    found = [both(job, listed, output), *(both(job, changed, output) for changed in changes)]
    found += [both(job, listed, other) for other in (output[:-4], output + bytes(4), b"A" + output[1:], b"")]
    assert len(set(found)) == 1 + len(changes) + 4


def test_a_job_of_other_partitions_or_of_another_output_is_refused(job: MultilinearJob) -> None:
    a, b, c = job.proofs
    output = job.output
    assert output is not None
    for proofs in ([a, b], [b, a, c], [a, a, b, c], [a, b, c, c]):
        refused(job, proofs, output)
    for other in (b"", output[:-4], output + bytes(4), b"A" + output[1:], output[:-1], bytes(36)):
        refused(job, job.proofs, other)
    with pytest.raises(OutputMissing):
        StarkVerifier(job.key).verify_job(job.proofs)


def test_a_challenge_of_the_list_form_is_refused(job: MultilinearJob) -> None:
    """Under the key without places the job has another challenge, and the other way round."""
    other = with_params(job.key, replace(job.key.params, places=None))
    assert multilinear_job_challenge(other, commitments(job)) != multilinear_job_challenge(
        job.key, commitments(job), job.output
    )
    assert other.digest != job.key.digest


def test_more_partitions_than_places_have_no_challenge(job: MultilinearJob) -> None:
    listed = commitments(job) * 2
    with pytest.raises(InvalidProof, match="6 partitions in a job that has places for 5"):
        multilinear_job_challenge(job.key, listed, job.output)
    plain = [(c.name, list(encode_heights(c.log_heights)), list(c.public), c.main_root, c.anchors) for c in listed]
    with pytest.raises(second.Refused):
        second.job_challenge(second.Key(job.key.to_record()), plain, job.output)


@pytest.mark.parametrize("places", [0, 65, None, True, "5"])
def test_a_number_of_places_that_no_key_has(places: object) -> None:
    record = golden(NAME)["key"]
    record["params"]["places"] = places
    with pytest.raises(FormatError):
        MultilinearKey.from_record(record)
    with pytest.raises(second.Refused):
        second.Key(record)


def test_places_need_poseidon2_and_an_output(job: MultilinearJob) -> None:
    for tree_hash in (TreeHash.KECCAK, TreeHash.POSEIDON2_BINARY, TreeHash.POSEIDON2_BN254):
        with pytest.raises(UsageError, match="hash poseidon2"):
            replace(job.key.params, tree_hash=tree_hash)
    record = golden("multilinear-poseidon2")["key"]  # of a statement without an output
    record["params"]["places"] = 4
    with pytest.raises(FormatError, match="no output"):
        MultilinearKey.from_record(record)
    with pytest.raises(second.Refused):
        second.Key(record)
