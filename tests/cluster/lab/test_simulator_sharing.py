"""The simulator where workers share a GPU behind a lock, where synthesis is held whole, and where a session closes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster.lab.simulator.engine import Load, Sharing, simulate
from cluster.lab.simulator.hardware import Demand, Machine, Running, Work, rates
from cluster.policy import Fixed, Limits, off
from distprove.host.phases import Phase

MACHINE = Machine("ample", cores=1000, bandwidth=1e15, cache=1e12, gpus=1, memory=10**12, shootdown=0.0, unmap=1e15)
"""Nothing is ever in the way of anything."""
LOAD = Load(
    jobs=10,
    partitions=1,
    parallel=1,
    proofs=10,
    synthesis=1.0,
    spmv=0.0,
    gpu=2.0,
    cpu_msm=0.0,
    verification=0.0,
    scratch=0,
    witness=1,
    pool=1,
    demands=dict.fromkeys(Work, Demand(1.0, 0.0)),
    noise=0.0,
    in_flight=2,
    sharing=Sharing(preparation=1.5, late=1.0, epilogue=0.5, scratch=1),
    closes=True,
)
SHARING = LOAD.sharing
assert SHARING is not None


def seconds(**changes: object) -> float:
    return simulate(MACHINE, LOAD, off(), **changes).seconds


def test_two_workers_leave_the_gpu_no_gap() -> None:
    """The first waits 0.5 s for its preparation; the others are prepared while the one before them computes."""
    assert seconds() == pytest.approx(1.0 + 10 * 2.0 + 0.5 + 0.5, rel=1e-6)


def test_one_worker_waits_for_each_preparation_and_its_epilogue() -> None:
    assert seconds(in_flight=1) == pytest.approx(1.0 + 10 * (2.5 + 0.5), rel=1e-6)


def test_a_worker_has_its_partition_while_it_waits_for_the_lock() -> None:
    one, two = (simulate(MACHINE, LOAD, off(), in_flight=workers).proving for workers in (1, 2))
    assert one.mean == pytest.approx(3.0)
    assert two.most == pytest.approx(2 * 2.0 + 1.0, abs=1.0)
    assert two.mean > one.mean


@pytest.mark.parametrize(("keeps", "each"), [(True, 1.5 + 4.0), (False, 2.5 + 0.5)])
def test_a_worker_is_free_before_its_group_sum_if_it_does_not_keep(keeps: bool, each: float) -> None:
    outcome = simulate(MACHINE, LOAD, off(), in_flight=1, cpu_msm=4.0, sharing=replace(SHARING, keeps=keeps))
    assert outcome.proving.mean == pytest.approx(each)


def test_synthesis_held_whole_counts_its_products_against_its_limit() -> None:
    policy = Fixed("static", Limits({Phase.SYNTHESIS: 1}))
    free, whole = (
        simulate(MACHINE, LOAD, policy, spmv=3.0, gpu=0.01, sharing=None, whole_synthesis=whole).seconds
        for whole in (False, True)
    )
    assert free == pytest.approx(10 * 1.0 + 3.0, abs=0.1)
    assert whole == pytest.approx(10 * (1.0 + 3.0), abs=0.1)


def test_a_session_that_closes_begins_no_more_than_it_counts() -> None:
    assert simulate(MACHINE, LOAD, off(), jobs=3, proofs=3) == simulate(MACHINE, LOAD, off(), jobs=8, proofs=3)
    ended = simulate(MACHINE, LOAD, off(), jobs=3, proofs=3)
    assert simulate(MACHINE, LOAD, off(), jobs=3, proofs=3, closes=False) != ended


def test_gaps_are_when_no_worker_has_anything() -> None:
    """One job: its next synthesis begins when a proof is done."""
    outcome = simulate(MACHINE, LOAD, off(), jobs=1, proofs=4)
    assert outcome.gaps == pytest.approx([1.0] * 3)


def test_what_yields_is_the_loads() -> None:
    policy = Fixed("static", Limits(yields=True))
    slowed = dict.fromkeys((Work.SYNTHESIS, Work.PREPARATION), 0.1)
    times = [simulate(MACHINE, LOAD, policy, cpu_msm=3.0, yielding=yielding).seconds for yielding in ({}, slowed)]
    assert times[0] < times[1]


def test_hyperthreads_add_what_they_add() -> None:
    machine = replace(MACHINE, cores=10, switching=0.0, hyperthreads=0.3)
    for threads, speed in ((10, 10.0), (15, 11.5), (20, 13.0), (40, 13.0)):
        found = rates(machine, LOAD.demands, 0.0, Running({Work.SYNTHESIS: threads}, {}))[Work.SYNTHESIS]
        assert threads * found == pytest.approx(speed)


def test_a_pools_serial_share_may_be_its_own() -> None:
    demands = {**LOAD.demands, Work.SPMV: Demand(1.0, 0.0, serial=0.0)}
    times = [
        simulate(MACHINE, LOAD, off(), spmv=8.0, pool=8, serial=0.5, demands=found).synthesis.mean
        for found in (LOAD.demands, demands)
    ]
    assert times == pytest.approx([1.0 + 8.0 * (0.5 + 0.5 / 8), 1.0 + 1.0])
