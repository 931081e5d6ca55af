"""A group sum's pool is limited by the caches of its node, unless the configuration says otherwise."""

from __future__ import annotations

import pytest

from cluster.governor import Budget, LocalGovernor
from cluster.policy import Auto, Limits, fitted, off, static
from distprove.host.phases import Phase
from distprove.host.topology import Domain, Topology
from kernels.cpu.groups import MSM_THREAD_BYTES

SHORT = Topology(16, 1, (Domain("0-15", 16, 6 * MSM_THREAD_BYTES + 1),))
AMPLE = Topology(16, 1, (Domain("0-15", 16, 64 * MSM_THREAD_BYTES),))


def test_static_gets_a_limit_where_caches_are_short() -> None:
    assert fitted(static(16, {}), SHORT).limits == Limits({Phase.CPU_MSM: 6}, 16)
    assert fitted(static(16, {Phase.SYNTHESIS: 3}), SHORT).limits.phases == {Phase.SYNTHESIS: 3, Phase.CPU_MSM: 6}
    two = Topology(16, 1, (*SHORT.l3, Domain("16-31", 16, 4 * MSM_THREAD_BYTES)))
    assert fitted(static(16, {}), two).limits.phases == {Phase.CPU_MSM: 10}


@pytest.mark.parametrize("topology", [AMPLE, Topology()], ids=["ample", "unknown"])
def test_without_need_or_knowledge_there_is_none(topology: Topology) -> None:
    policy = static(16, {})
    assert fitted(policy, topology) is policy


def test_what_was_asked_for_wins_and_off_is_left_alone() -> None:
    for policy in (static(16, {Phase.CPU_MSM: 16}), off()):
        assert fitted(policy, SHORT) is policy


def test_auto_begins_with_it() -> None:
    policy = fitted(Auto(16), SHORT)
    assert isinstance(policy, Auto)
    assert policy.limits == Limits({Phase.CPU_MSM: 6}, 16)


def test_a_governor_fits_its_policy_when_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.governor.service.read_topology", lambda: SHORT)
    governor = LocalGovernor(Budget(16, 100), static(16, {}))
    governor.start()
    try:
        with governor.lease(phase=Phase.CPU_MSM, threads=16) as lease:
            assert lease.threads == 6
        report = governor.report()
    finally:
        governor.close()
    assert report["limits"] == {"cpu_msm": 6}
    assert report["topology"]["l3"][0]["cpus"] == "0-15"
