"""Measures one setting: copies of a job proven at once on shared workers, again and again."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cluster.driver import drive
from cluster.opening import open_scheduler
from cluster.record.analysis import Spread, devices, stage_samples
from cluster.record.nodestory import NodeStory
from cluster.record.run import Run
from cluster.record.story import read_report
from cluster.record.timeline import Session, read_timeline
from distprove.errors import ClusterError
from distprove.measure.sweep.grid import Cell
from distprove.measure.sweep.results import Measured
from distprove.settings import ExecutorSettings
from distprove.system import Partition, ProofSystem


@dataclass(frozen=True)
class Copy:
    """One copy of the job, proven."""

    began: float
    ended: float
    session: Session
    report: dict[str, Any]


def measure_in_turn(
    system: ProofSystem,
    base: ExecutorSettings,
    cells: Sequence[Cell],
    scratch: Path,
    *,
    repeats: int,
    warmup: int,
    tell: Callable[[Cell, str], None] = lambda _, __: None,
) -> list[Measured]:
    """Start the workers that each cell asks for, prove, and take the figures. `scratch` holds the runs meanwhile.

    The workers of all cells are there at once, and each cell has a repeat in turn, forwards and backwards: what the
    machine does meanwhile, it does to all alike. Memory is that of all together.

    Raises what `driver.drive` raises; a measurement in which a partition failed is none.
    """
    with ExitStack() as stack:
        benches = [Bench(stack, system, base, cell, scratch / cell.id, partial(tell, cell)) for cell in cells]
        for number in range(warmup):
            for bench in benches:
                bench.warm(number, warmup)
        for number in range(repeats):
            for bench in benches[:: -1 if number % 2 else 1]:
                bench.repeat(number, repeats)
        return [bench.figures() for bench in benches]


class Bench:
    """The workers of one setting, with their key loaded, and what was measured of it."""

    def __init__(
        self,
        stack: ExitStack,
        system: ProofSystem,
        base: ExecutorSettings,
        cell: Cell,
        scratch: Path,
        tell: Callable[[str], None],
    ) -> None:
        """Start the workers, which are ended with the `stack`."""
        self._system = system
        self._cell = cell
        self._settings = cell.settings(base)
        self._scratch = scratch
        self._tell = tell
        self._rounds: list[list[Copy]] = []
        self._warmed = 0
        starting = time.perf_counter()
        self._tell("starting workers")
        self._scheduler = stack.enter_context(open_scheduler(self._settings))
        self._scheduler.start()
        self._load_seconds = time.perf_counter() - starting
        # The first round has the workers load the key, and check it; those that follow only warm up.
        self._tell("loading keys")
        first = self._round(replace(self._cell, jobs=1), "load")
        self._scheduler.settle(self._settings.start_timeout)
        self._load_seconds += max(worker["load_seconds"] for worker in first[0].report["workers"])

    def warm(self, number: int, total: int) -> None:
        """A round that does not count."""
        self._tell(f"warming up, {number + 1} of {total}")
        self._round(self._cell, "warmup")
        self._warmed += 1

    def repeat(self, number: int, total: int) -> None:
        """A round that counts."""
        self._tell(f"repeat {number + 1} of {total}")
        self._rounds.append(self._round(self._cell, "repeat"))

    def figures(self) -> Measured:
        """Figures of all repeats together."""
        rounds = self._rounds
        nodes = [NodeStory.of(record) for record in self._scheduler.governor_report(rounds[0][0].began)]
        copies = [copy for each in rounds for copy in each]
        spans = [span for copy in copies for span in copy.session.spans]
        samples = stage_samples(spans)
        shares, gaps, idle, width, busy, by_events = [], [], 0.0, 0.0, 0.0, []
        for each in rounds:
            for use in devices(_together(each)):
                if use.busy:
                    by_events.append(use.by_events)
                    shares.append(use.share)
                    busy += use.busy_seconds
                    lengths = [end - start for start, end in use.gaps]
                    gaps += lengths
                    idle += sum(lengths)
                    width += use.busy[-1][1] - use.busy[0][0]
        workers = [place for place in copies[0].session.workers if place.role == "prover"]
        counters: dict[str, int] = {}
        for copy in copies:
            for name, count in copy.report["counters"].items():
                counters[name] = counters.get(name, 0) + count
        return Measured(
            self._cell,
            len(copies[0].report["partitions"]),
            tuple(max(c.ended for c in each) - min(c.began for c in each) for each in rounds),
            Spread.of(copy.ended - copy.began for copy in copies),
            Spread.of(samples.get("prove", ())),
            {name: Spread.of(values) for name, values in samples.items()},
            sum(shares) / len(shares) if shares else 0.0,
            busy / sum(len(copy.report["partitions"]) for copy in copies),
            Spread.of(gaps),
            idle / width if width else 0.0,
            _device_peak(copies),
            int(max((s.memory_used or 0 for node in nodes for s in node.samples if s.time >= 0), default=0)),
            self._load_seconds,
            tuple(place.device for place in workers),
            counters,
            self._warmed,
            tuple({"node": node.node, "limits": dict(node.limits)} for node in nodes),
            bool(by_events) and all(by_events),
        )

    def _round(self, cell: Cell, name: str) -> list[Copy]:
        """Prove `cell.jobs` copies at once, each by a driver of its own; the first that fails ends the others. Their
        runs are deleted at the end."""
        scratch, system = self._scratch / name, self._system
        together = threading.Barrier(cell.jobs)
        clients = [self._scheduler.lend(job=f"copy-{number}") for number in range(cell.jobs)]

        def prove_copy(number: int) -> Copy:
            path, plan = scratch / f"copy-{number}", _renamed(system, number)
            with Run.create(path, system, plan) as run:
                with closing(clients[number]) as client:
                    together.wait()
                    began = time.time()
                    drive(system, client, run, self._settings, plan=plan)
                ended = time.time()
            report = read_report(path)
            if given_up := [worker["id"] for worker in report["workers"] if worker["status"] == "retired"]:
                # Without it what is measured is not what was asked for.
                raise ClusterError(f"{given_up[0]} was given up while settings were compared")
            return Copy(began, ended, read_timeline(path)[-1], report)

        try:
            with ThreadPoolExecutor(cell.jobs, "distprove-copy") as threads:
                copies = [threads.submit(prove_copy, number) for number in range(cell.jobs)]
                try:
                    for copy in as_completed(copies):
                        copy.result()
                except BaseException as error:
                    for client in clients:
                        client.stop(error if isinstance(error, Exception) else KeyboardInterrupt())
                    together.abort()
                    raise
            return [copy.result() for copy in copies]
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _renamed(system: ProofSystem, number: int) -> list[Partition]:
    """The plan under names of its own for each copy: their timelines are read as one."""
    return [replace(partition, name=f"copy{number}-{partition.index}") for partition in system.plan()]


def _together(copies: Sequence[Copy]) -> Session:
    """Join the sessions of all copies of a round into one."""
    session = Session(min(copy.began for copy in copies), workers=copies[0].session.workers)
    for copy in copies:
        session.spans += copy.session.spans
    return session


def _device_peak(copies: Sequence[Copy]) -> int:
    """The most that all provers of one device took, each at its worst."""
    devices_of = {place.id: place.node + "".join(place.gpus or (place.id,)) for place in copies[0].session.workers}
    most: dict[str, int] = {}
    for copy in copies:
        for partition in copy.report["partitions"]:
            worker = str(partition.get("worker"))
            most[worker] = max(most.get(worker, 0), int(partition.get("device_peak") or 0))
    by_device: dict[str, int] = {}
    for worker, peak in most.items():
        name = devices_of.get(worker, worker)
        by_device[name] = by_device.get(name, 0) + peak
    return max(by_device.values(), default=0)
