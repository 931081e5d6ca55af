"""Keys that are loaded before any job asks for them, and put away on request."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from actors.worker import RANKS
from cluster.scheduler import events as e
from cluster.scheduler.ahead import RANK
from cluster.scheduler.views import identity
from cluster.service.views import Priority
from distprove.errors import ClusterError, UsageError
from distprove.settings import ExecutorSettings
from tests.cluster.scheduler.test_rules import Rig
from tests.cluster.scheduler.world import SYSTEMS, make_job
from tests.cluster.test_scheduler import Gate, Jobs, Toy, at_the_prover, digests, gate, standing, toy, until, waiting  # noqa: F401
from tests.support.toy_system import RESIDENT


@pytest.mark.parametrize("apart", [False, True], ids=["local", "processes"])
def test_a_job_of_a_key_that_was_loaded_ahead_does_not_wait_for_it(
    local: ExecutorSettings,
    toy: Toy,  # noqa: F811
    tmp_path: Path,
    apart: bool,
) -> None:
    system = toy(2)
    with standing(replace(local, isolate=apart)) as scheduler:
        loading = scheduler.load_ahead(identity(system), system)
        assert loading.done.result(120) is None
        assert (loading.seconds or 0) > 0
        (view,) = scheduler.keys()
        assert (view.id, view.workers > 0, view.jobs, view.loading) == (identity(system), True, 0, 0)
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", system)
        jobs.proven("a", system)
        assert jobs.clients["a"].cold is False
        assert scheduler.put_away(identity(system))
        until(lambda: not scheduler.keys(), "it is still there")
        assert scheduler.evicted == 0, "it made room for nothing"
        if not apart:
            until(lambda: not RESIDENT, "its memory is not given back")
        jobs.start("b", system)
        jobs.proven("b", system)
        assert jobs.clients["b"].cold is True


def test_a_key_in_use_is_not_put_away_and_one_that_is_not_there_is_away(
    local: ExecutorSettings,
    toy: Toy,  # noqa: F811
    tmp_path: Path,
) -> None:
    system, done = toy(2), threading.Event()
    with standing(local) as scheduler:
        assert scheduler.put_away(identity(system))
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", system, done)
        until(lambda: "a" in jobs.proofs, "it is not proven")
        assert not scheduler.put_away(identity(system))
        assert digests(scheduler) == {system.key_digest().hex()}
        done.set()
        jobs.proven("a", system)
        until(lambda: scheduler.put_away(identity(system)), "it is in use")


def test_a_key_that_cannot_be_loaded_says_why_and_may_be_tried_again(
    local: ExecutorSettings,
    toy: Toy,  # noqa: F811
    tmp_path: Path,
) -> None:
    with standing(local) as scheduler:
        for _ in range(2):
            loading = scheduler.load_ahead("no room", toy(1, capacity=0))
            with pytest.raises(ClusterError, match="no room for another key"):
                loading.done.result(120)
        assert not scheduler.keys()
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", toy(1))
        jobs.proven("a", toy(1))


def test_a_scheduler_that_is_closed_ends_what_waits(local: ExecutorSettings, toy: Toy, tmp_path: Path) -> None:  # noqa: F811
    one, other = toy(2, capacity=1), toy(2, key=b"another", capacity=1)
    done = threading.Event()
    with standing(local) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", one, done)
        until(lambda: "a" in jobs.proofs, "it is not proven")
        loading = scheduler.load_ahead(identity(other), other)
        with pytest.raises(UsageError, match="already"):
            scheduler.load_ahead(identity(other), other)
        assert not loading.done.done(), "it waits for room beside a key in use"
        done.set()
        jobs.proven("a", one)
        assert loading.done.result(120) is None, "it takes the place of the idle one"
        jobs.start("b", other, done := threading.Event())
        until(lambda: "b" in jobs.proofs, "it is not proven")
        waiting = scheduler.load_ahead(identity(one), one)
        done.set()
        jobs.ended("b")
    assert waiting.done.done()


def test_workers_that_were_lost_are_started_for_it(
    local: ExecutorSettings,
    toy: Toy,  # noqa: F811
) -> None:
    system = toy(1)
    with standing(local) as scheduler:
        scheduler._lost(scheduler.fleet, "a test")
        assert scheduler.load_ahead(identity(system), system).done.result(120) is None
        assert len(scheduler.keys()) == 1
        waiting = scheduler.load_ahead("another", toy(1, key=b"another", capacity=0))
        scheduler._lost(scheduler.fleet, "a test")
        with pytest.raises(ClusterError):
            waiting.done.result(120)


# -- the machine -------------------------------------------------------------------------------------------------------


def ahead(name: str, key: str, **given: object) -> e.JobAdded:
    return e.JobAdded(make_job(name, key, 0, rank=RANK, ahead=True, **given))  # type: ignore[arg-type]


def ended(rig: Rig) -> list[str]:
    return [effect.job for effect in rig.effects if isinstance(effect, e.Ended) and effect.error is None]


def test_it_is_loaded_where_there_is_room_and_does_not_wait_for_the_rest() -> None:
    """One device has room for two keys, and the other for one, which a job uses."""
    rig = Rig(2, standing=True, room=2)
    rig.on = {"w0": {"other"}}
    rig.send(e.JobAdded(make_job("long", "used")))
    rig.send(ahead("one", "a"))
    assert rig.on == {"w0": {"other", "used"}, "w1": {"used", "a"}}
    assert ended(rig) == ["one"]


def test_keys_of_jobs_are_loaded_first() -> None:
    rig = Rig(1, standing=True)
    rig.ignored = {e.Load}
    rig.send(e.JobAdded(make_job("low", "first", rank=3)))
    rig.send(ahead("ahead", "second"), e.JobAdded(make_job("job", "third", rank=3)))
    loads = [effect for effect in rig.effects if isinstance(effect, e.Load)]
    assert [load.key for load in loads] == ["first"]
    rig.ignored = set()
    event = rig.do(loads[0])
    assert event is not None
    rig.send(event)
    assert [effect.key for effect in rig.effects if isinstance(effect, e.Load)] == ["first", "third", "second"]


def test_a_key_is_checked_ahead_too() -> None:
    rig = Rig(1, standing=True)
    rig.ignored = {e.Check}
    rig.send(ahead("one", "a", system=SYSTEMS[1]))
    assert any(isinstance(effect, e.Check) for effect in rig.effects)
    assert not ended(rig)


def test_without_a_worker_it_ends_with_the_reason() -> None:
    rig = Rig(1, standing=True)
    rig.ignored = {e.Load}
    rig.send(ahead("one", "a"))
    rig.send(e.Left("w0"))
    (end,) = [effect for effect in rig.effects if isinstance(effect, e.Ended)]
    assert "no prover is left (its node left the cluster)" in str(end.error)


@pytest.mark.parametrize("in_flight", [1, 3])
def test_an_urgent_job_passes_a_long_one_of_another_key_on_the_same_device(
    local: ExecutorSettings,
    toy: Toy,  # noqa: F811
    tmp_path: Path,
    gate: Gate,  # noqa: F811
    in_flight: int,
) -> None:
    """As a WinningPoSt and then a WindowPoSt pass a sector's partitions, with all three keys resident. They wait for
    the one that the device is at, however many the prover has."""
    sizes = {"porep": 9, "window": 2, "winning": 1}
    ranks = {"porep": Priority.NORMAL, "window": Priority.HIGH, "winning": Priority.URGENT}
    systems = {name: toy(size, key=name.encode(), gate=gate) for name, size in sizes.items()}
    with standing(replace(local, in_flight=in_flight)) as scheduler:
        for system in systems.values():
            scheduler.load_ahead(identity(system), system).done.result(120)
        assert len(digests(scheduler)) == 3
        jobs = Jobs(scheduler, tmp_path)
        for name, system in systems.items():
            jobs.start(name, system, rank=ranks[name].rank)
            if name == "porep":
                assert gate.held.wait(120), "its first partition is being proven"

        def there() -> bool:
            """Whether all orders of the urgent jobs are with the prover or ready."""
            ranks = at_the_prover(scheduler)
            return 0 in ranks and ranks.count(1) + waiting(scheduler)["window"][1] == sizes["window"]

        until(there, "they get not ready")
        gate.open.set()
        for name, system in systems.items():
            jobs.proven(name, system)
            assert jobs.clients[name].cold is False
    order = [place.split()[0] for place in gate.came]
    first = order.index("winning")
    assert first == 1
    assert order[0] == "porep"
    assert order[first:] == ["winning", "window", "window", *["porep"] * (sizes["porep"] - first)]


def test_there_is_a_rank_for_each_priority() -> None:
    assert len(Priority) == RANKS
