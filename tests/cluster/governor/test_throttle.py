"""The throttle of a node: what the settings ask for, and what a governor and its workers hold to."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from cluster.executor.local import LocalFleet
from cluster.governor.budget import budget_of
from cluster.governor.local import LocalGovernor
from distprove.errors import UsageError
from distprove.settings import ExecutorSettings, settings_from
from kernels.host.arena import HostArena
from tests.support import ROOT


@pytest.mark.parametrize("throttle", [{}, {"threads": 2}, {"threads": 9, "deallocations": 3}])
def test_a_governor_holds_the_throttle_and_reports_it(throttle: dict[str, int]) -> None:
    settings = ExecutorSettings(throttle=throttle)
    governor = LocalGovernor(budget_of(6, 100, 0, settings.throttle))
    threads, deallocations = throttle.get("threads", 6), throttle.get("deallocations", 1)
    with governor.lease(threads=16) as lease:
        assert lease.threads == threads
    assert governor.report()["limits"] == {"threads": threads, "deallocations": deallocations}


@pytest.mark.parametrize("deallocations", [1, 3])
def test_arenas_of_a_node_give_back_memory_as_many_at_a_time_as_the_throttle_says(deallocations: int) -> None:
    governor = LocalGovernor(budget_of(1, 100, 0, {"deallocations": deallocations}))
    lock, now, most = threading.Lock(), 0, 0
    together = threading.Barrier(deallocations)

    @contextmanager
    def noted() -> Iterator[None]:
        nonlocal now, most
        with governor.lease(reclaim=True):
            with lock:
                now += 1
                most = max(most, now)
            together.wait(60.0)  # so many do get in
            time.sleep(0.002)  # and more would
            with lock:
                now -= 1
            yield

    arenas = [HostArena(keep=0, reclaim_lock=noted) for _ in range(6)]
    for arena in arenas:
        array = arena.empty((1 << 20,), np.uint8)
        del array
    for arena in arenas:
        arena.settle()
        arena.close()
    assert most == deallocations


@pytest.mark.parametrize(
    ("settings", "threads"),
    [({}, 6), ({"throttle": {"threads": 2}}, 2), ({"throttle": {"threads": 9}}, 6)],
)
def test_synthesisers_have_no_more_threads_than_the_throttle(settings: dict[str, object], threads: int) -> None:
    fleet = LocalFleet(ExecutorSettings(local=True, isolate=False, backend="cpu", threads=6, **settings))  # type: ignore[arg-type]
    fleet.open(None, lambda what: None)
    try:
        assert [site.threads for site in fleet.sites.values()] == [threads]
    finally:
        fleet.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"throttle": {"thread": 3}},
        {"throttle": {"threads": 0}},
        {"throttle": {"threads": "3"}},
        {"throttle": {"deallocations": 0}},
        {"limits": {"synthesis": 3}},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        settings_from(wrong)


def test_a_governor_starts_without_what_computes() -> None:
    """Over Ray it is a process of its own, and the first proof waits for it."""
    code = "import cluster.governor.actor, sys; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
