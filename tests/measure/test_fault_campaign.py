"""Some of the schedules of faults of `distprove.measure.campaign.faults`; it plays hundreds when it is asked to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from distprove.measure.campaign.fault_schedules import Schedule
from distprove.measure.campaign.faults import play
from tests.support import LONG, ROOT


@pytest.mark.parametrize(
    ("transport", "seed"), [("threads", 0), ("threads", 3), ("threads", 6), ("threads", 9), ("processes", 2)]
)
def test_a_job_comes_out_right_whatever_befalls_it(transport: str, seed: int, tmp_path: Path) -> None:
    outcome = play(Schedule.of(seed, transport), tmp_path, leak=60.0)  # of a machine that does much else
    assert outcome.why == []
    assert outcome.outcome in ("proved", "resumed", "refused")


@LONG
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_over_ray_outlives_an_actor_a_node_and_a_network(tmp_path: Path) -> None:
    """In a process of its own: what a Ray reads when it is imported differs from that of other tests."""
    seeds = [4, 16, 0]
    assert [Schedule.of(seed, "ray").faults[-1][0] for seed in seeds] == ["kill_actor", "lost_node", "cut_for_good"]
    command = [sys.executable, "-m", "distprove.measure.campaign.faults", "--transport", "ray", "--leak", "60"]
    command += ["--seeds", ",".join(map(str, seeds)), "--lines", str(tmp_path / "outcomes")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = [json.loads(line) for line in (tmp_path / "outcomes").read_text().splitlines()]
    assert [outcome["why"] for outcome in outcomes] == [[], [], []]
    found = [outcome["outcome"] for outcome in outcomes]
    assert found[:2] == ["proved", "proved"]
    assert found[2] in ("proved", "skipped"), "it is skipped where no network namespaces can be made"


def test_a_seed_makes_the_same_schedule_each_time() -> None:
    assert [Schedule.of(seed, "ray") for seed in range(50)] == [Schedule.of(seed, "ray") for seed in range(50)]
