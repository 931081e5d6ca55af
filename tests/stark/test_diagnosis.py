"""A trace that breaks a rule: the job says which, and where, and nothing of the trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distprove.errors import UnsatisfiedWitness
from distprove.stark.params import Parameters
from distprove.stark.program import Program, Trace
from distprove.stark.system import StarkSystem
from kernels.cpu.backend import CpuBackend
from tests.support.stark_programs import Fibonacci, Ring

SECRET = 123456789123


class Broken(Fibonacci):
    """Row 4 is not what the rows before make it."""

    def trace(self, inputs: Any, backend: Any) -> Trace:
        trace = super().trace(inputs, backend)
        trace.main[0][0, 4] = np.uint64(SECRET)
        return trace


def diagnose(program: Program) -> None:
    system = StarkSystem(program, Parameters(1, 9, 0, 1), 1)
    (partition,) = system.plan()
    work = system.synthesiser({}, 1).synthesise(partition)
    with CpuBackend() as backend:
        system.prover({}, backend).diagnose(partition, work)


def test_the_rule_and_row_are_named_and_no_value() -> None:
    with pytest.raises(UnsatisfiedWitness, match=r"part-0: .*FibonacciAir: .*row 3") as caught:
        diagnose(Broken(3))
    assert str(SECRET) not in str(caught.value)


class Miscounted(Ring):
    """The table of squares says that one of its rows is used once more than it is."""

    def __init__(self, row: int) -> None:
        super().__init__()
        self.row = row

    def trace(self, inputs: Any, backend: Any) -> Trace:
        trace = super().trace(inputs, backend)
        trace.main[1][0, self.row] += np.uint64(1)
        return trace


def test_a_bus_is_named_with_a_row_that_uses_the_tuple() -> None:
    with pytest.raises(UnsatisfiedWitness, match=r"a rule: bus range, SquaresAir row 0$"):
        diagnose(Miscounted(3))


def test_no_row_of_a_lookup_table_is_named() -> None:
    """Its number is the value that was looked up, or that a trace forgot to look up."""
    with pytest.raises(UnsatisfiedWitness, match=r"a rule: bus range$"):
        diagnose(Miscounted(7))


def test_an_honest_trace_is_not_to_blame() -> None:
    diagnose(Fibonacci(3))
