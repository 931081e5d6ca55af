"""A job's rate by its number of devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.record.timeline import Session, read_timeline
from distprove.measure import scaling
from distprove.settings import ExecutorSettings
from tests.support.toy_system import Faults, ToySystem


def test_a_job_with_its_own_number_of_provers_uses_the_devices_that_are_measured(
    faults: Callable[..., Faults], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node with one prover would be said to use two devices, and would use one."""
    seen: list[Session] = []
    monkeypatch.setattr(scaling, "read_timeline", lambda path: seen.extend(read_timeline(path)) or seen)
    settings = ExecutorSettings(threads=2, backend="tests.support.toy_system:TOY_PAIR", gpu_workers=1)
    found = scaling.measure_scaling(
        ToySystem(16, faults()), settings, "toy", tmp_path, over=["local"], workers=[1, 2], gpus=True, partitions=16
    )
    assert [scale.workers for scale in found.scales] == [1, 2]
    assert [len([worker for worker in session.workers if worker.role == "prover"]) for session in seen] == [1, 2]
