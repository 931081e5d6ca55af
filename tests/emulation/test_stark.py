"""Whole STARK proofs by the CUDA kernels on the host: byte for byte those of the CPU backend."""

from __future__ import annotations

from typing import Any

import pytest
from stark.stark_programs import Fibonacci, Ring

from distprove import canonical
from distprove.stark.barrier import job_challenge
from distprove.stark.key import make_key
from distprove.stark.params import Parameters
from distprove.stark.program import Program
from distprove.stark.prover import commit, prove
from distprove.stark.timing import Phases
from kernels.backend import Backend
from kernels.cpu import CpuBackend
from kernels.cuda import CudaBackend

SMALL = Parameters(log_blowup=1, queries=9, grinding_bits=3, security_bits=1, log_final=1, log_cap=2)


def job(program: Program, backend: Backend) -> list[Any]:
    """Encoded proofs of two partitions."""
    pk = make_key(program, SMALL, backend)
    committed = [commit(pk, s.name, program.inputs(s.source), Phases()) for s in program.slices(2)]
    challenge = job_challenge(pk.key.digest, [c.commitment for c in committed])
    return [canonical.encode(prove(pk, c, challenge, Phases()).to_record()) for c in committed]


@pytest.mark.parametrize("program", [Ring(3), Fibonacci(4)], ids=lambda p: p.name)
def test_proofs_are_those_of_the_cpu(program: Program, emulated: CudaBackend) -> None:
    with CpuBackend() as cpu:
        assert job(program, emulated) == job(program, cpu)
