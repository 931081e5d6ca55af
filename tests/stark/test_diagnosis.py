"""A trace that breaks a rule: the job says which, and where, and nothing of the trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distprove.errors import UnsatisfiedWitness
from distprove.stark.params import Parameters
from distprove.stark.program import Trace
from distprove.stark.system import StarkSystem
from kernels.cpu.backend import CpuBackend
from tests.support.stark_programs import Fibonacci

SECRET = 123456789123


class Broken(Fibonacci):
    """Row 4 is not what the rows before make it."""

    def trace(self, inputs: Any, backend: Any) -> Trace:
        trace = super().trace(inputs, backend)
        trace.main[0][0, 4] = np.uint64(SECRET)
        return trace


def diagnose(program: Fibonacci) -> None:
    system = StarkSystem(program, Parameters(1, 9, 0, 1), 1)
    (partition,) = system.plan()
    work = system.synthesiser({}, 1).synthesise(partition)
    with CpuBackend() as backend:
        system.prover({}, backend).diagnose(partition, work)


def test_the_rule_and_row_are_named_and_no_value() -> None:
    with pytest.raises(UnsatisfiedWitness, match=r"part-0: .*FibonacciAir: .*row 3") as caught:
        diagnose(Broken(3))
    assert str(SECRET) not in str(caught.value)


def test_an_honest_trace_is_not_to_blame() -> None:
    diagnose(Fibonacci(3))
