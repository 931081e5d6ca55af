"""Memory plans on a real GPU: in less memory the same proof, and peaks as predicted."""

from __future__ import annotations

from typing import Any

import pytest

from distprove.formats import canonical
from distprove.stark.barrier import job_challenge
from distprove.stark.params import Parameters
from distprove.stark.plan import MemoryPlan
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from distprove.stark.prover import commit, prove
from distprove.stark.proving_key import make_key
from distprove.steps import Steps
from kernels.cuda.backend import CudaBackend

pytestmark = pytest.mark.gpu


def proof_in(backend: CudaBackend, program: Program, params: Parameters) -> tuple[bytes, MemoryPlan, int]:
    """A proof, its plan, and the most memory that it and its key had in use at once."""
    before = backend.device.memory_free()
    pk = make_key(program, params, backend)
    part = program.slices(1)[0]
    backend.watch_memory()
    committed = commit(pk, part.name, program.inputs(part.source), Steps())
    challenge = job_challenge(pk.key.digest, [committed.commitment])
    record = prove(pk, committed, challenge, Steps()).to_record()
    other = backend.info().memory_budget - before
    return canonical.encode(record), committed.plan, backend.memory_peak() - other


@pytest.mark.parametrize(
    ("name", "arguments", "log_blowup"),
    [
        ("wide-fibonacci", {"rows": 1 << 19, "width": 100}, 1),
        ("wide-fibonacci", {"rows": 1 << 18, "width": 60}, 3),
        ("range-check", {"values": 1 << 20, "bits": 16}, 1),
    ],
)
def test_streamed_and_whole(cuda: CudaBackend, name: str, arguments: dict[str, Any], log_blowup: int) -> None:
    program, params = load_program(name, arguments), Parameters(log_blowup, 50, 8, 1)
    whole, plan, peak = proof_in(cuda, program, params)
    assert plan.name == "whole"
    assert peak == pytest.approx(plan.peak, rel=0.1)
    backend = CudaBackend(threads=8, budget=plan.peak)
    try:
        streamed, lean, peak = proof_in(backend, program, params)
    finally:
        backend.close()
    assert lean.name == "streamed"
    assert peak == pytest.approx(lean.peak, rel=0.1)
    assert streamed == whole
