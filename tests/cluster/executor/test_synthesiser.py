"""Synthesisers and what is placed on the host, and the throttle word of their node."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from actors import synthesiser
from actors.backends import BackendChoice, place_operations
from actors.synthesiser import SynthesiserWorker
from distprove.offload import parse_place
from kernels.cpu.backend import CpuBackend
from kernels.host.throttle import Throttle
from tests.support.toy_system import Faults, ToySystem


def test_a_word_is_heeded_until_another_takes_its_place_and_none_is_missed(
    faults: Callable[..., Faults], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesiser, "PATIENCE", 0.0)
    system = ToySystem(1, faults())
    (partition,) = system.plan()
    worker = SynthesiserWorker(system, 1)
    with Throttle(tmp_path) as throttle:
        worker.yield_to(throttle.path)
        worker.yield_to(throttle.path)  # as after a second `load`
        worker.load(system.shared())
        throttle.write(1)
        assert worker.synthesise(partition).name == partition.name
    for gone in (throttle.path, None):
        worker.yield_to(gone)
        assert worker.synthesise(partition).name == partition.name


def test_a_prover_places_on_the_host_without_a_word_where_there_is_none(
    faults: Callable[..., Faults], tmp_path: Path
) -> None:
    choice = BackendChoice("cpu", placing=parse_place("msm_g2=cpu"))
    os.mkfifo(tmp_path / "pipe")
    for word in (tmp_path / "absent", tmp_path / "pipe"):
        placed = place_operations(CpuBackend(), choice, ToySystem(1, faults()), {}, throttle=word)
        assert placed.placement.host == {"msm_g2"}
        placed.backend.close()
