"""Whole proofs on the reference kernels: honest ones hold, and others do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from distprove.errors import InvalidProof, UsageError
from distprove.stark.air import Air
from distprove.stark.barrier import job_challenge
from distprove.stark.params import Parameters
from distprove.stark.program import Program
from distprove.stark.proof import StarkProof
from distprove.stark.prover import commit, prove
from distprove.stark.proving_key import make_key
from distprove.stark.verifier import verify, verify_job
from distprove.stark.verifying_key import VerifyingKey
from distprove.steps import Steps
from kernels.interface.backend import Backend
from tests.support.stark_programs import Fibonacci, FibonacciAir, Ring
from tests.support.stark_reference import ReferenceBackend

SMALL = Parameters(log_blowup=1, queries=9, grinding_bits=3, security_bits=1, log_final=1)


def prove_job(program: Program, partitions: int, params: Parameters = SMALL, backend: Backend | None = None):
    """Key, names, public values and proofs of a whole job."""
    pk = make_key(program, params, backend or ReferenceBackend())
    slices = program.slices(partitions)
    committed = [commit(pk, s.name, program.inputs(s.source), Steps()) for s in slices]
    challenge = job_challenge(pk.key.digest, [c.commitment for c in committed])
    proofs = [prove(pk, c, challenge, Steps()) for c in committed]
    return pk.key, [s.name for s in slices], [c.commitment.public for c in committed], proofs


def check(key: VerifyingKey, names, publics, proofs, output: bytes | None = None) -> None:
    """As a stranger would: through the encoding, partition by partition, then the job."""
    key = VerifyingKey.from_record(key.to_record())
    parsed = []
    for name, public, proof in zip(names, publics, proofs, strict=True):
        again, shape = StarkProof.from_record(proof.to_record(), key)
        verify(key, name, public, again, shape)
        parsed.append(again)
    verify_job(key, names, publics, parsed, output)


@pytest.mark.parametrize("log_blowup", [1, 2, 3])
@pytest.mark.parametrize("program", [Fibonacci(3), Fibonacci(0), Ring(3), Ring(5)], ids=["f3", "f0", "r3", "r5"])
def test_honest_jobs_verify(program: Program, log_blowup: int) -> None:
    params = Parameters(log_blowup, 9, 3, 1, log_final=1)
    check(*prove_job(program, 2, params))


def test_tables_of_one_name_are_refused() -> None:
    class Twice(Fibonacci):
        @property
        def tables(self) -> Sequence[Air]:
            return (FibonacciAir(), FibonacciAir())

    with pytest.raises(UsageError, match="two tables have the same name"):
        make_key(Twice(3), SMALL, ReferenceBackend())


def test_a_wrong_public_value_does_not() -> None:
    key, names, publics, proofs = prove_job(Fibonacci(3), 1)
    first, second, last = publics[0]
    with pytest.raises(InvalidProof):
        check(key, names, [(first, second, last + 1)], proofs)


def test_a_trace_that_breaks_a_constraint_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Fibonacci.trace

    def broken(self, inputs, backend):
        trace = honest(self, inputs, backend)
        trace.main[0][1, 4] += np.uint64(1)
        return trace

    monkeypatch.setattr(Fibonacci, "trace", broken)
    with pytest.raises(InvalidProof, match="constraints"):
        check(*prove_job(Fibonacci(3), 1))


def test_a_missing_partition_is_noticed() -> None:
    key, names, publics, proofs = prove_job(Ring(), 3)
    check(key, names, publics, proofs)
    with pytest.raises(InvalidProof, match="part of this job"):
        check(key, names[:2], publics[:2], proofs[:2])
