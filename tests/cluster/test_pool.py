"""A pool of workers: several keys, several jobs, one set of processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.driver import prove
from cluster.executor.pool import Client, Pool
from cluster.record.run import Run
from cluster.record.story import read_report
from distprove.errors import UsageError
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from tests.support.toy_system import Faults, ToySystem

Make = Callable[..., Faults]


class Jobs:
    """Jobs at work with one pool, each on a thread of its own."""

    def __init__(self, pool: Pool, folder: Path) -> None:
        self._pool = pool
        self._folder = folder
        self._threads: dict[str, threading.Thread] = {}
        self.clients: dict[str, Client] = {}
        self.proofs: dict[str, Proof] = {}
        self.errors: dict[str, BaseException] = {}

    def start(self, name: str, system: ToySystem, rank: int = 2) -> Client:
        client = self.clients[name] = self._pool.lend(system, job=name, rank=rank)
        thread = self._threads[name] = threading.Thread(target=self._run, args=(name, system, client))
        thread.start()
        return client

    def _run(self, name: str, system: ToySystem, client: Client) -> None:
        try:
            with client, Run.create(self._folder / name, system, system.plan()) as run:
                self.proofs[name] = prove(system, client, run, self._pool.settings)
        except BaseException as error:
            self.errors[name] = error

    def wait(self, *names: str) -> None:
        for name in names or tuple(self._threads):
            self._threads[name].join(120)
            assert not self._threads[name].is_alive(), name

    def proven(self, name: str, system: ToySystem) -> None:
        """Wait for a job, which must have been proven."""
        self.wait(name)
        assert name not in self.errors, repr(self.errors[name])
        self.proofs[name].verify(system)
        assert {p["status"] for p in read_report(self._folder / name)["partitions"]} == {"proved"}


@pytest.fixture
def pool(settings: ExecutorSettings) -> Pool:
    return Pool(settings)


def test_two_keys_and_three_jobs_at_once_with_equal_names(pool: Pool, faults: Make, tmp_path: Path) -> None:
    """Each key is loaded once, also for a job that comes later."""
    one, other = ToySystem(4, faults()), ToySystem(5, faults(), key=b"another key")
    with pool:
        jobs = Jobs(pool, tmp_path)
        jobs.start("a", one)
        jobs.start("b", other)
        jobs.start("c", one)
        for name, system in (("a", one), ("b", other), ("c", one)):
            jobs.proven(name, system)
        assert sorted(jobs.clients[name].cold or False for name in ("a", "c")) == [False, True]
        assert jobs.clients["b"].cold
        jobs.start("d", other)
        jobs.proven("d", other)
        assert jobs.clients["d"].cold is False
        resident = pool.keys()
        assert sorted((key.digest, key.workers, key.jobs) for key in resident) == sorted(
            (system.key_digest().hex(), 1, 0) for system in (one, other)
        )
        assert sum(worker.proven for worker in pool.workers()) == 4 + 5 + 4 + 5


def test_a_job_has_a_name_of_its_own(local: ExecutorSettings, faults: Make) -> None:
    system = ToySystem(1, faults())
    with Pool(local) as pool, pool.lend(system, job="a"), pytest.raises(UsageError, match="at work already"):
        pool.lend(system, job="a")
