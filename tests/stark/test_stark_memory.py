"""Predicted memory: against what NumPy allocates for the same proof, and the refusal of what does not fit."""

from __future__ import annotations

import dataclasses

import pytest
from stark_programs import Fibonacci, Ring

from distprove.stark.key import make_key
from distprove.stark.memory import committed_bytes, peak_bytes, stages
from distprove.stark.params import Parameters
from distprove.stark.prover import commit
from distprove.stark.timing import Phases
from kernels.backend import DeviceInfo, OutOfMemory
from kernels.cpu import CpuBackend

PARAMS = Parameters(1, 9, 0, 1)


class SmallDevice(CpuBackend):
    budget = 1 << 40

    def info(self) -> DeviceInfo:
        return dataclasses.replace(super().info(), memory_budget=self.budget)


@pytest.mark.parametrize("program", [Fibonacci(10), Ring(8)], ids=lambda p: p.name)
def test_a_commitment_holds_what_was_predicted(program: Fibonacci | Ring) -> None:
    with SmallDevice() as backend:
        pk = make_key(program, PARAMS, backend)
        committed = commit(pk, "a", program.inputs(program.slices(1)[0].source), Phases())
        assert committed.nbytes == committed_bytes(committed.shape)
        assert peak_bytes(committed.shape) >= max(stages(committed.shape).values()) > committed.nbytes


def test_what_does_not_fit_is_refused_with_what_it_needs() -> None:
    program = Fibonacci(10)
    with SmallDevice() as backend:
        pk = make_key(program, PARAMS, backend)
        inputs = program.inputs(program.slices(1)[0].source)
        needed = peak_bytes(commit(pk, "a", inputs, Phases()).shape)
        backend.budget = needed - 1
        with pytest.raises(OutOfMemory, match="more partitions"):
            commit(pk, "a", inputs, Phases())
        backend.budget = needed
        commit(pk, "a", inputs, Phases())
