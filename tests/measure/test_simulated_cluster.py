"""A cluster whose workers sleep: the driver takes its job to the end, also where workers are lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from distprove.measure.simulated_cluster import simulate


def test_a_simulated_cluster_is_driven_to_the_end(tmp_path: Path) -> None:
    found = simulate(80, 400, 0.02, tmp_path, lost=5)
    assert (found.workers, found.partitions, found.lost) == (80, 400, 5)
    assert found.wall > found.ideal == pytest.approx(0.1)
    assert found.driver_cpu > found.thread_cpu > 0
    assert found.to_dict()["driver_cpu_per_partition"] == pytest.approx(found.driver_cpu / 400)
