"""Limits of lease classes: what the settings ask for, and what a governor holds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cluster.governor.budget import limits_of
from cluster.governor.local import LocalGovernor
from cluster.governor.state import Budget
from distprove.errors import UsageError
from distprove.host.lease_class import LeaseClass
from distprove.settings import ExecutorSettings
from tests.support import ROOT


def test_a_governor_holds_a_limit_and_reports_it() -> None:
    governor = LocalGovernor(Budget(16, 100), limits_of(ExecutorSettings(limits={"cpu_msm": 6})))
    with governor.lease(lease_class=LeaseClass.CPU_MSM, threads=16) as lease:
        assert lease.threads == 6
    report = governor.report()
    assert report["limits"] == {"cpu_msm": 6}


@pytest.mark.parametrize(
    "wrong",
    [
        {"limits": {"synthesiss": 3}},
        {"limits": {"synthesis": 0}},
        {"limits": {"synthesis": "3"}},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ExecutorSettings(**wrong)  # type: ignore[arg-type]


def test_a_governor_starts_without_what_computes() -> None:
    """Over Ray it is a process of its own, and the first proof waits for it."""
    code = "import cluster.governor.actor, sys; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
