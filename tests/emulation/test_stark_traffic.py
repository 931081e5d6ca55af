"""What a proof asks of a device, step by step: transfers wait for the device, so each must be worth it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from distprove.stark.barrier import job_challenge
from distprove.stark.params import Parameters
from distprove.stark.program import Program
from distprove.stark.prover import commit, prove
from distprove.stark.proving_key import make_key
from distprove.steps import Steps
from kernels.cuda.backend import CudaBackend
from tests.support.emulated_device import EmulatedDevice
from tests.support.stark_programs import Fibonacci, Ring, Tables

PARAMS = Parameters(log_blowup=1, queries=9, grinding_bits=3, security_bits=1, log_arity=1, log_final=1)


class CountedSteps(Steps):
    """Adds up, instead of seconds, what the device was asked for."""

    def __init__(self, device: EmulatedDevice) -> None:
        super().__init__()
        self.did: dict[str, Counter[str]] = {}
        self._device = device

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        before = self._device.did.copy()
        yield
        self.did[name] = self.did.get(name, Counter()) + (self._device.did - before)


@dataclass(frozen=True)
class Counted:
    """What the second of two equal proofs did, when constants are resident."""

    did: dict[str, Counter[str]]
    layers: int
    """Of FRI."""


def counted(program: Program, backend: CudaBackend, device: EmulatedDevice) -> Counted:
    pk = make_key(program, PARAMS, backend)
    part = program.slices(1)[0]
    for _ in range(2):
        steps = CountedSteps(device)
        committed = commit(pk, part.name, program.inputs(part.source), steps)
        prove(pk, committed, job_challenge(pk.key.digest, [committed.commitment]), steps)
    return Counted(steps.did, len(committed.shape.steps))


@pytest.fixture(scope="module", params=[Ring(4), Fibonacci(6)], ids=lambda p: p.name)
def proof(request: Any, emulated: CudaBackend) -> Counted:
    assert isinstance(emulated.device, EmulatedDevice)
    return counted(request.param, emulated, emulated.device)


def test_queries_are_one_transfer(proof: Counted) -> None:
    assert proof.did["queries"] == {"upload": 1, "launch": 1, "download": 1}


def test_openings_of_all_heights_are_one_transfer(proof: Counted) -> None:
    assert proof.did["openings"]["download"] == 1
    assert proof.did["openings"]["upload"] == 0


def test_the_device_is_waited_for_once_a_layer(proof: Counted) -> None:
    """For a layer's root, which its challenge needs; constants are there."""
    assert proof.did["fri_tree"]["download"] == proof.layers
    assert proof.did["fri_tree"]["upload"] == proof.did["fri_fold"]["upload"] == proof.did["fri_fold"]["download"] == 0
    assert proof.did["fri_tree"]["launch"] == 2 * proof.layers
    assert proof.did["fri_fold"]["launch"] == proof.layers


def test_trees_are_waited_for_once(proof: Counted) -> None:
    for step in ("main_tree", "quotient_tree"):
        assert proof.did[step]["download"] == 1
        assert proof.did[step]["upload"] == 0


def test_small_tables_share_what_is_launched(emulated: CudaBackend) -> None:
    """Their constraints are programs of their own; else a program of many takes what one of few does."""
    assert isinstance(emulated.device, EmulatedDevice)
    few, many = (counted(Tables(small, 8), emulated, emulated.device).did for small in (5, 12))
    for step in ("main_lde", "main_tree", "quotient_lde", "quotient_tree"):
        assert many[step] == few[step], step
    assert few["main_lde"]["launch"] == few["quotient_lde"]["launch"] == 1
    for step in set(many) - {"trace"}:
        waits = [(did[step]["upload"], did[step]["download"]) for did in (few, many)]
        assert waits[0] == waits[1], step
