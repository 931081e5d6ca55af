"""Whole STARK proofs by the CUDA kernels on the host: byte for byte those of the CPU backend."""

from __future__ import annotations

from typing import Any

import pytest

from distprove.formats import canonical
from distprove.stark.barrier import job_challenge
from distprove.stark.params import Parameters
from distprove.stark.plan import MemoryPlan, plans
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from distprove.stark.prover import commit, prove
from distprove.stark.proving_key import make_key
from distprove.stark.shape import ProofShape
from distprove.stark.timing import Steps
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.interface.backend import Backend
from tests.support.counted_program import Computer
from tests.support.emulated_device import EmulatedDevice
from tests.support.golden_jobs import FOLDER, JOBS
from tests.support.golden_jobs import prove_job as prove_golden
from tests.support.stark_programs import Fibonacci, Ring, Tables

SMALL = Parameters(log_blowup=1, queries=9, grinding_bits=3, security_bits=1, log_final=1)


def job(program: Program, backend: Backend) -> list[Any]:
    """Encoded proofs of two partitions."""
    pk = make_key(program, SMALL, backend)
    committed = [commit(pk, s.name, program.inputs(s.source), Steps()) for s in program.slices(2)]
    challenge = job_challenge(pk.key.digest, [c.commitment for c in committed])
    return [canonical.encode(prove(pk, c, challenge, Steps()).to_record()) for c in committed]


@pytest.mark.parametrize("program", [Ring(3), Fibonacci(4), Tables(7), Computer()], ids=lambda p: p.name)
def test_proofs_are_those_of_the_cpu(program: Program, emulated: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    with CpuBackend() as cpu:
        expected = job(program, cpu)
    assert job(program, emulated) == expected
    monkeypatch.setattr("distprove.stark.prover.choose", streamed)
    assert job(program, emulated) == expected


@pytest.mark.parametrize("name", JOBS)
def test_streamed_proofs_of_golden_jobs(name: str, emulated: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distprove.stark.prover.choose", streamed)
    assert prove_golden(JOBS[name], emulated).to_bytes() == (FOLDER / f"{name}.msgpack").read_bytes()


def streamed(shape: ProofShape, budget: int, held: int, *, key_streamed: bool, more: bool) -> MemoryPlan:
    """In place of `choose`, whatever the budget."""
    return next(plan for plan in plans(shape, key_streamed=key_streamed) if plan.streamed)


@pytest.mark.parametrize(
    ("name", "arguments", "log_blowup"),
    [
        ("wide-fibonacci", {"rows": 1 << 13, "width": 40}, 1),
        ("wide-fibonacci", {"rows": 1 << 13, "width": 20}, 3),
        ("range-check", {"values": 1 << 13, "bits": 12}, 1),
    ],
)
def test_peaks_are_those_predicted(name: str, arguments: dict[str, Any], log_blowup: int) -> None:
    """Of whole proofs, and of streamed ones in a device that has no room for whole ones; and they are the same."""
    # So many queries that some are on every coset: moving past one takes other constants, which are not predicted.
    program, params = load_program(name, arguments), Parameters(log_blowup, 60, 0, 1)
    proofs, budgets, expected = [], [1 << 34], ["whole", "streamed"]
    for plan in expected:
        device = EmulatedDevice(max_block=256, budget=budgets[-1])
        backend = CudaBackend(device)
        pk = make_key(program, params, backend)
        part = program.slices(1)[0]
        backend.watch_memory()
        committed = commit(pk, part.name, program.inputs(part.source), Steps())
        challenge = job_challenge(pk.key.digest, [committed.commitment])
        proofs.append(canonical.encode(prove(pk, committed, challenge, Steps()).to_record()))
        assert committed.plan.name == plan
        # Scratch that no plan counts, some of which depends on the queries drawn, is up to 3/4 MiB at these sizes.
        assert backend.memory_peak() == pytest.approx(committed.plan.peak, rel=0.1, abs=3 << 18)
        budgets.append(committed.plan.peak)
    assert proofs[0] == proofs[1]
