"""Jobs of simulated proofs, and aggregates of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from distprove.groth16.aggregate.aggregator import aggregate_jobs, run_on
from distprove.groth16.aggregate.jobs import AggregatedJobs
from distprove.groth16.aggregate.srs import Srs
from distprove.groth16.aggregate.srs_setup import insecure_srs
from distprove.groth16.proof import Groth16Proof
from distprove.proof import Proof, partition_digest
from distprove.system import PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import Curve
from tests.support.simulated_proofs import Trapdoor, trapdoor

N_PUBLIC = 2
MOST = 8
"""Proofs that the keys serve."""


@cache
def secret_of(curve: Curve) -> Trapdoor:
    return trapdoor(curve, N_PUBLIC)


@cache
def keys_of(curve: Curve, seed: int = 0) -> Srs:
    """Aggregation keys, other ones for each seed."""
    with CpuBackend() as cpu:
        return insecure_srs(curve, MOST, cpu)


def job(curve: Curve, public: Sequence[Sequence[int]], title: str = "p", proofs: Sequence[Groth16Proof] = ()) -> Proof:
    """A job's proof of these public values, or with other partition proofs in their places."""
    secret = secret_of(curve)
    key = secret.key.digest()
    made = proofs or [secret.prove(list(values), seed=i) for i, values in enumerate(public)]
    partitions = []
    for i, (values, proof) in enumerate(zip(public, made, strict=True)):
        name = f"{title}{i}"
        digest = partition_digest(key, i, name, values)
        partitions.append(PartitionProof(name, digest, tuple(values), proof.to_dict()))
    return Proof("groth16", key, secret.key.to_dict(), tuple(partitions))


def aggregated(curve: Curve, *jobs: Proof) -> AggregatedJobs:
    with CpuBackend() as cpu:
        return aggregate_jobs(jobs, keys_of(curve), run_on(cpu, 1))
