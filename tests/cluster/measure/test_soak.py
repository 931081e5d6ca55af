"""Short forms of `distprove.measure.campaign.soak`, which takes thousands of partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from distprove.groth16.system import Groth16System
from distprove.measure.campaign import soak

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc/self/maps on this system"),
    pytest.mark.timeout(450),
]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Groth16System:
    return soak.make_job(tmp_path_factory.mktemp("soak"), 150)


def test_memory_and_mappings_stay_flat(job: Groth16System, tmp_path: Path) -> None:
    assert soak.undisturbed(job, tmp_path / "run") == []


@pytest.mark.parametrize("how", ["processes", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])])
def test_killed_workers_leave_no_lease_and_no_deadlock(
    job: Groth16System, tmp_path: Path, request: pytest.FixtureRequest, how: str
) -> None:
    if how == "ray":
        request.getfixturevalue("ray_cluster")
    assert soak.with_kills(job, tmp_path / "run", local=how == "processes") == []
