"""Some of the schedules of faults of `tests.cluster.campaign`; it plays hundreds when it is asked to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.campaign import Schedule, play


@pytest.mark.parametrize(
    ("transport", "seed"), [("threads", 0), ("threads", 3), ("threads", 6), ("threads", 9), ("processes", 2)]
)
def test_a_job_comes_out_right_whatever_befalls_it(transport: str, seed: int, tmp_path: Path) -> None:
    outcome = play(Schedule.of(seed, transport), tmp_path, leak=60.0)  # of a machine that does much else
    assert outcome.why == []
    assert outcome.outcome in ("proved", "resumed", "refused")


def test_a_seed_makes_the_same_schedule_each_time() -> None:
    assert [Schedule.of(seed, "ray") for seed in range(50)] == [Schedule.of(seed, "ray") for seed in range(50)]
