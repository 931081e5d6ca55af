"""What a proof of the multilinear engine asks of a device: launches and waits do not grow with the tables."""

from __future__ import annotations

from collections import Counter

import pytest

from distprove.stark.multilinear.job_challenge import multilinear_job_challenge
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.prover import commit, prove
from distprove.stark.multilinear.proving_key import make_key
from distprove.stark.program import Program
from kernels.cuda.backend import CudaBackend
from tests.emulation.test_stark_traffic import CountedSteps
from tests.support.emulated_device import EmulatedDevice
from tests.support.stark_programs import Fibonacci, Ring, Tables

PARAMS = Parameters(1, 0, (4,) * 8, 2, 0, log_final=1)


@pytest.mark.parametrize("program", [Fibonacci(6), Ring(4), Tables(6)], ids=lambda p: p.name)
def test_rounds_over_all_tables(emulated: CudaBackend, program: Program) -> None:
    device = emulated.device
    assert isinstance(device, EmulatedDevice)
    pk = make_key(program, PARAMS, emulated)
    part = program.slices(1)[0]
    steps = CountedSteps(device)
    committed = commit(pk, part.name, program.inputs(part.source), steps)
    prove(pk, committed, multilinear_job_challenge(pk.key, [committed.commitment]), steps)
    assert steps.did["univariate"]["launch"] <= 6
    assert steps.did["univariate"]["download"] == 0
    assert steps.did["rounds"]["launch"] == 3 * committed.shape.row_variables
    assert steps.did["rounds"]["download"] == 1
    assert steps.did["reduction"]["download"] <= 3  # what was drawn, and the values of both stacks
    assert sum(steps.did.values(), Counter[str]())["download"] <= 40
