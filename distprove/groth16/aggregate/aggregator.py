"""Aggregates the proofs of jobs under one key, on a device that may be elsewhere, and verifies what was made here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from distprove.errors import CurveMismatch, FormatError, InvalidProof
from distprove.groth16.aggregate.jobs import AggregatedJobs, Statement, included, key_of, partitions_of
from distprove.groth16.aggregate.prover import aggregate
from distprove.groth16.aggregate.srs import Srs, size_for
from distprove.groth16.job_verifier import Groth16Verifier
from distprove.groth16.proof import Groth16Proof
from distprove.proof import NAMED, Proof, invalid_among
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend

FEW = 128
"""Most proofs that stay on the CPU: 16 cores aggregate so many in 0.14 s over BLS12-381, about as soon as an H200 does,
whose kernels may have to be compiled first."""


@dataclass(frozen=True)
class Aggregation:
    """A `DeviceTask`: the arguments of `prover.aggregate`. It comes to the bytes of an aggregate, not yet verified."""

    srs: Srs = field(repr=False)
    proofs: Sequence[Groth16Proof] = field(repr=False)
    included: bytes

    @property
    def large(self) -> bool:
        return len(self.proofs) > FEW

    def run(self, backend: Backend, host: Backend | None) -> bytes:
        return aggregate(self.srs, self.proofs, self.included, backend, host).to_bytes()


def aggregate_jobs(
    proofs: Sequence[Proof], srs: Srs, run: Callable[[Aggregation], bytes], *, threads: int = 1
) -> AggregatedJobs:
    """Aggregate all partitions of the jobs `proofs`, which are under one key, where `run` has it done (`run_on`).

    The result has been verified, on so many `threads`. Raises UsageError, CurveMismatch, what `run` raises, and
    InvalidProof, which names partitions that do not hold.
    """
    # 1. The proofs, padded to a power of two by repeating the last.
    key = key_of(proofs)
    if key.curve is not srs.curve:
        raise CurveMismatch(f"aggregation keys over {srs.curve.title}, proofs over {key.curve.title}")
    statement = Statement.of(proofs)
    partitions = partitions_of(proofs)
    own = [Groth16Proof.from_dict(partition.data) for partition in partitions]
    own += own[-1:] * (size_for(len(own)) - len(own))
    # 2. The aggregate, with all that is stated in its transcript.
    jobs = statement.digests(key.digest())
    bound = included(key.digest(), srs.verifier.digest, jobs)
    try:
        made = run(Aggregation(srs.for_proofs(len(own)), own, bound))
        result = AggregatedJobs(key.curve, key.digest(), srs.verifier.digest, srs.insecure, jobs, statement, made)
        # 3. It holds, or one of the proofs does not.
        result.verify(key, srs.verifier, threads=threads)
    except (InvalidProof, FormatError, ValueError) as error:
        bad = [partitions[i].name for i in invalid_among(Groth16Verifier(key), partitions)]
        if not bad:
            raise InvalidProof(
                f"the aggregate does not verify though every proof does: are the aggregation keys damaged? ({error})"
            ) from error
        shown = ", ".join(bad[:NAMED]) + (" ..." if len(bad) > NAMED else "")
        raise InvalidProof(f"does not verify, and cannot be aggregated: {shown}") from None
    return result


def run_on(backend: Backend, threads: int) -> Callable[[Aggregation], bytes]:
    """What has an aggregation done in this process, with so many threads of the CPU beside a GPU."""

    def run(task: Aggregation) -> bytes:
        if backend.info().kind == "cpu":
            return task.run(backend, None)
        with CpuBackend(threads=threads) as host:
            return task.run(backend, host)

    return run
