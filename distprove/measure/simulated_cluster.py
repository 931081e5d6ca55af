"""Measures the driver on a cluster that is larger than any machine at hand: its workers only sleep.

    python -m distprove.measure.simulated_cluster --workers 1000 --partitions 100000 --seconds 1 --lost 20

All that the driver does is done: the plan, orders in chunks, batches of outcomes, verification, journal, files of the
proofs, status, the bound proof, timeline and report. A simulated worker takes orders and gives batches as
`actors.worker.Worker` does; one thread lets the time of all of them pass. Its CPU time is not the driver's, and is told
apart; what messages cost on their way (pickling, Ray) is left out.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import itertools
import json
import random
import resource
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors import patience
from actors.backends import BackendChoice
from actors.messages import WorkerSpec
from actors.protocol import Batch, Host, Interval, Loaded, Order, Outcome, Timed, UnderWay, WorkerDied
from actors.spans import span_json
from actors.worker import Worker
from cluster.driver import drive
from cluster.executor.fleet import Fleet, Site
from cluster.record.run import Run
from cluster.record.story import read_report
from cluster.scheduler.loop import Scheduler
from cluster.scheduler.workers import WorkerHandle
from distprove.errors import UsageError
from distprove.host.machine import inspect_machine
from distprove.measure.results import report
from distprove.settings import ExecutorSettings
from distprove.system import Partition, PartitionProof, ProofSystem, StepTimes
from kernels.interface.backend import Backend, DeviceInfo

TIMED = (
    "from making the run's folder to the bound proof, timeline and report in it; ideal: all partitions on all workers "
    "without a pause; CPU of the driver's process without what the simulated workers took there"
)

CHECKED = "each proof's digest, by the driver, as it verifies others; the job ended proved"
PER_NODE = 8
"""Number of simulated workers on a node."""
SEED = 1
"""Seed of the simulated workers' times, and of which workers are lost."""


@dataclass(frozen=True)
class Simulated:
    """What driving a simulated cluster took. Seconds and bytes."""

    workers: int
    partitions: int
    seconds: float
    """Mean time of a partition on its worker."""
    lost: int
    """Workers that died on the way."""
    wall: float
    ideal: float
    driver_cpu: float
    """CPU time of the driver's process."""
    thread_cpu: float
    """CPU time of the job's thread, which writes what comes of it, and of the scheduler's."""
    simulation_cpu: float
    """CPU time of the simulated workers, which is not in `driver_cpu`."""
    peak_memory: int
    """Peak resident memory of the process."""

    def to_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "efficiency": self.ideal / self.wall,
            "driver_cpu_per_partition": self.driver_cpu / self.partitions,
            "thread_cpu_per_partition": self.thread_cpu / self.partitions,
            "driver_share": self.driver_cpu / self.wall,
        }


def simulate(workers: int, partitions: int, seconds: float, scratch: Path, *, lost: int = 0) -> Simulated:
    """Prove so many partitions on so many workers, for each of which a partition takes `seconds`, a tenth more or less.

    `lost` workers die on the way, at random, and come back. `scratch` holds the run meanwhile. Raises what
    `driver.drive` raises.
    """
    system, settings = SleepingSystem(partitions), ExecutorSettings(local=True)
    path = scratch / "run"
    cpu, thread, began = time.process_time(), time.thread_time(), time.perf_counter()
    try:
        fleet = SleepingFleet(settings, workers, seconds, lost)
        with Scheduler(settings, lambda: fleet, standing=False, kind=fleet.kind) as scheduler:
            with Run.create(path, system, system.plan()) as run, scheduler.lend() as client:
                drive(system, client, run, settings)
                thread = time.thread_time() - thread + scheduler.ask(lambda state: time.thread_time())
            wall = time.perf_counter() - began
            simulation = fleet.clock.cpu
            cpu = time.process_time() - cpu - simulation
        assert read_report(path)["status"] == "proved"
    finally:
        shutil.rmtree(path, ignore_errors=True)
    rounds = -(-partitions // workers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Simulated(workers, partitions, seconds, lost, wall, rounds * seconds, cpu, thread, simulation, peak)


class SleepingSystem:
    """A proof system whose proofs are digests. Implements `distprove.system.ProofSystem`."""

    name = "sleeping"
    needs_barrier = False
    verifies_in_python = False

    def __init__(self, count: int) -> None:
        self.count = count

    def key_digest(self) -> bytes:
        return hashlib.sha256(b"sleeping").digest()

    def describe(self) -> dict[str, Any]:
        return {"what": "nothing", "insecure": True}

    def shared(self) -> dict[str, NDArray[np.uint8]]:
        return {}

    def plan(self) -> list[Partition]:
        return [Partition(i, f"partition-{i}", _digest(f"partition-{i}"), {}) for i in range(self.count)]

    def synthesiser(self, shared: dict[str, NDArray[np.uint8]], threads: int) -> Any:
        """Raise UsageError: no witness is made, for workers that sleep."""
        raise UsageError("workers that sleep make no witness")

    def prover(self, shared: dict[str, NDArray[np.uint8]], backend: Backend) -> Any:
        """Raise UsageError: nothing is proven by workers that sleep."""
        raise UsageError("workers that sleep prove nothing")

    def verify(self, proof: PartitionProof) -> bool:
        return proof.data == _proof(proof.name)

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        return all(self.verify(proof) for proof in proofs)

    def verification_key(self) -> dict[str, Any]:
        return {"key": b"sleeping"}


def _proof(name: str) -> dict[str, Any]:
    """Data of the shape and size of a Groth16 proof."""
    digest = _digest(name)
    return {"curve": "sleeping", "a": 2 * digest, "b": 4 * digest, "c": 2 * digest}


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


class Clock:
    """Calls what is due, on one thread, for all workers."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._over = False
        self.cpu = 0.0
        """CPU time of the thread, in seconds."""
        self._thread = threading.Thread(target=self._run, name="distprove-sleepers", daemon=True)
        self._thread.start()

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Have `call` called at that time of the monotonic clock."""
        with self._changed:
            heapq.heappush(self._due, (when, next(self._numbers), call))
            if self._due[0][0] == when:
                self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self.cpu = time.thread_time()
                while not self._over and (not self._due or (early := self._due[0][0] - time.monotonic()) > 0):
                    self._changed.wait(early if self._due else None)
                if self._over:
                    return
                call = heapq.heappop(self._due)[2]
            call()


class Sleeper:
    """A worker that sleeps instead of proving: a transport, whose verbs are carried out here."""

    def __init__(self, name: str, clock: Clock, seconds: float, dies_after: int | None) -> None:
        """`dies_after`: the number of partitions after which it dies, once."""
        self._name = name
        self._clock = clock
        self._seconds = seconds
        self._dies_after = dies_after
        self._random = random.Random(f"{SEED} {name}")
        self._news = threading.Condition()
        self._waiting: deque[Order] = deque()
        self._made = Batch()
        self._epoch = 0
        self._at: tuple[Order, float] | None = None
        self._told = 0.0
        self._proven = 0
        self._dead = self._over = False

    def start(self) -> None:
        with self._news:
            self._dead = False

    def call(self, verb: Any, *arguments: Any, **named: Any) -> Any:
        call: Callable[..., Any] = self._load if verb is Worker.load else self._batch
        return call(*arguments)

    def tell(self, verb: Any, *arguments: Any, **named: Any) -> None:
        if verb is Worker.take:
            self._take(*arguments)
        elif verb is Worker.give_back:
            self._give_back(*arguments)

    def kill(self) -> None:
        with self._news:
            self._dead = True
            self._news.notify_all()

    def end(self) -> None:
        with self._news:
            self._over = True
            self._news.notify_all()

    def _load(self, epoch: int, permitted: bool) -> Loaded:
        with self._news:
            self._epoch, self._at, self._made = epoch, None, Batch()
            self._waiting.clear()
        now = time.time()
        timed = Timed({"device": "none", "kind": "simulated", "gpus": [self._name]}, now, now)
        return Loaded(timed, {f"{self._name}-synthesiser": timed})

    def _take(self, epoch: int, orders: Sequence[Order], parallel: int | None) -> None:
        with self._news:
            if epoch == self._epoch:
                self._waiting += orders
                self._begin()

    def _give_back(self, count: int, committed: bool) -> None:
        with self._news:
            for _ in range(min(count, len(self._waiting))):
                self._made.returned.append(self._waiting.pop().id)
            self._news.notify()

    def _begin(self) -> None:
        """Begin the next order, if there is one; called with the lock held."""
        if self._at is None and self._waiting and not self._dead:
            self._at = self._waiting.popleft(), time.time()
            epoch, takes = self._epoch, self._seconds * self._random.uniform(0.9, 1.1)
            self._clock.at(time.monotonic() + takes, lambda: self._finish(epoch))

    def _finish(self, epoch: int) -> None:
        with self._news:
            if epoch != self._epoch or self._at is None or self._dead:
                return
            (order, started), ended, name = self._at, time.time(), self._name
            self._at, self._proven = None, self._proven + 1
            if self._proven == self._dies_after:
                self._dead = True
                self._news.notify_all()
                return
            partition, synthesiser = order.partition, f"{name}-synthesiser"
            proof = PartitionProof(partition.name, partition.digest, (), _proof(partition.name))
            intervals = []
            for who, stage in ((synthesiser, "synthesise"), (name, "prove")):
                span = span_json(who, partition.name, stage, started, ended, "ok", order.began, {})
                intervals.append(Interval(who, stage, started, ended, span))
            self._made.outcomes.append(Outcome(order.id, order.kind, name, proof, StepTimes(), None, 0, intervals))
            self._begin()
            if len(self._made.outcomes) == 1 or self._at is None:
                self._news.notify()

    def _linger(self, late: float) -> None:
        while not (self._dead or self._over):
            now, news = time.monotonic(), self._made
            due = self._told + patience.NEWS if news.outcomes or news.returned else late
            idle = bool(news.outcomes) and self._at is None
            if idle or now >= min(due, late):
                return
            self._news.wait(min(due, late) - now)

    def _batch(self, timeout: float) -> Batch:
        with self._news:
            self._linger(time.monotonic() + timeout)
            if self._dead or self._over:
                raise WorkerDied(f"{self._name} was lost")
            batch, self._made = self._made, Batch()
            if self._at is not None:
                batch.under_way = [UnderWay(self._at[0].id, "proving", self._name)]
            self._told = time.monotonic()
            return batch


class SleepingHost:
    """A process that does nothing; its worker is another object's business."""

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def end(self) -> None: ...


class SleepingFleet(Fleet):
    """Workers that sleep."""

    kind = "simulated"

    def __init__(self, settings: ExecutorSettings, workers: int, seconds: float, lost: int) -> None:
        super().__init__(settings)
        self.clock = Clock()
        chosen = random.Random(SEED)
        mortal = set(chosen.sample(range(workers), lost))
        self._sleepers = {
            name: Sleeper(name, self.clock, seconds, chosen.randrange(1, 10) if index in mortal else None)
            for index, name in enumerate(f"prover-{i}" for i in range(workers))
        }

    def _open(self, system: ProofSystem | None, waits_for: Callable[[str], None]) -> None:
        host: Host = SleepingHost()  # type: ignore[assignment]
        for index, name in enumerate(self._sleepers):
            worker = WorkerHandle(name, f"node-{index // PER_NODE}", (f"{name}-synthesiser",))
            self.sites[name] = Site(worker, BackendChoice("cpu"), 1, host)

    def slot(self, host: Host, spec: WorkerSpec, shared: Any) -> Any:
        return self._sleepers[spec.name]

    def opener(self, spec: WorkerSpec, host: Host, number: int, shared: Any) -> Callable[[], object]:
        raise AssertionError("slots need no opening")

    def remember(self, worker: WorkerHandle, device: str, reason: str) -> None: ...

    def keep(self, system: ProofSystem) -> Callable[[], None]:
        return lambda: None

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        return []

    def close(self, *, now: bool = False) -> None:
        self.sites = {}
        for sleeper in self._sleepers.values():
            sleeper.end()
        self.clock.stop()


def main() -> None:
    """Simulate a cluster and print the document of it, which docs/performance.md is made from."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=1.0, help="what a worker takes for a partition")
    parser.add_argument("--lost", type=int, default=0, help="workers that die on the way and come back")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="distprove-simulated-") as folder:
        found = simulate(given.workers, given.partitions, given.seconds, Path(folder), lost=given.lost)
    nowhere = DeviceInfo("none", "cpu", 0, 0)
    print(json.dumps(report("cluster", TIMED, CHECKED, nowhere, inspect_machine(), [found]), indent=2))


if __name__ == "__main__":
    main()
