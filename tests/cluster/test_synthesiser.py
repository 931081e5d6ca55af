"""A synthesiser and the throttle word of its node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from toy_system import Faults, ToySystem

from actors import synthesiser
from actors.synthesiser import SynthesiserWorker
from kernels.throttle import Throttle


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
