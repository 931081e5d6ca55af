"""Measures the cost of orchestration beside the prover: the same partitions in a bare loop and through the whole
pipeline.

The bare loop hands partitions to provers in this process that hold their key, as many in flight as a worker has, and
does nothing else. The pipeline is what `distprove prove --local` runs: driver, dispatch, governor, leases, verification
of every proof, journal, a file for each partition, status, the bound proof, timeline and report. They take turns, with
the same witnesses, which were made before: nothing is synthesised while the clock runs. Where the pipeline's provers
are processes, the bare loop has provers of its own on the same devices; else both use the same ones.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from actors.backends import leases_from
from actors.inflight import Timed
from actors.process import Kept
from actors.prover import SWITCH_INTERVAL, ProverWorker
from actors.threads import RoomsHere
from cluster.dispatch import draw_challenge
from cluster.driver import prove
from cluster.executor.base import Worker
from cluster.executor.local import (
    InProcessExecutor,
    ProcessExecutor,
    isolates,
)
from cluster.executor.tasks import Finished, Kind
from cluster.record.analysis import devices
from cluster.record.run import Run
from cluster.record.timeline import Place, Session, Span, read_timeline
from distprove.errors import JobFailed, UsageError
from distprove.proof import invalid_among
from distprove.settings import ExecutorSettings
from distprove.system import Partition, PartitionProof, ProofSystem, StepTimes, Witness
from kernels.host.arena import HostArena

TIMED = (
    "witnesses in host memory, keys loaded: bare, from the first partition handed over to the last proof in host "
    "memory; pipeline, from making the run's folder to the bound proof, timeline and report in it; the two in turn"
)
CHECKED = "every proof of both; those of the bare loop after the clock has stopped"


@dataclass(frozen=True)
class Pass:
    """All partitions once, one way. Seconds."""

    wall: float
    proving: float
    """Seconds from the first work on a device to the last result."""
    device: float
    """Seconds of work, over all devices."""
    idle_share: float
    """Idle share of the devices' time from their first work to their last."""
    by_events: bool


@dataclass(frozen=True)
class Cost:
    """The passes under one policy."""

    what: str
    policy: str
    partitions: int
    bare: tuple[Pass, ...]
    pipeline: tuple[Pass, ...]

    def cost(self, part: Callable[[Pass], float] = lambda each: each.wall) -> float:
        """Extra time of the pipeline as a share of the bare loop's time; of medians; below 0 where it is faster."""
        return _median(self.pipeline, part) / _median(self.bare, part) - 1

    @property
    def by_events(self) -> bool:
        return all(each.by_events for each in (*self.bare, *self.pipeline))

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "policy": self.policy,
            "partitions": self.partitions,
            "cost": self.cost(),
            "cost_while_proving": self.cost(lambda each: each.proving),
            "by_events": self.by_events,
            **{
                name: {
                    "seconds_per_partition": _median(passes, lambda each: each.wall) / self.partitions,
                    "device_seconds_per_partition": _median(passes, lambda each: each.device) / self.partitions,
                    "idle_share": _median(passes, lambda each: each.idle_share),
                    "beside_proving": _median(passes, lambda each: each.wall - each.proving),
                    "passes": [asdict(each) for each in passes],
                }
                for name, passes in (("bare", self.bare), ("pipeline", self.pipeline))
            },
        }


def measure_orchestration(
    system: ProofSystem,
    settings: ExecutorSettings,
    what: str,
    scratch: Path,
    *,
    partitions: int | None = None,
    repeats: int = 5,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Cost, dict[str, Any]]:
    """Measure what the pipeline costs on this machine under `settings`, and the facts of the first prover.

    `partitions`: how many are proven in a pass, the job's own ones again and again; None: the job's. `scratch` holds
    the runs meanwhile. Raises UsageError where they cannot be repeated, and what `driver.prove` raises.
    """
    own, plan = system.plan(), repeated(system, partitions)
    count = len(plan)
    tell("making the witnesses")
    synthesiser = system.synthesiser(system.shared(), settings.threads or 1)
    witnesses = [synthesiser.synthesise(partition) for partition in own[:count]]

    def given(partition: Partition) -> Witness:
        return replace(witnesses[partition.index % len(witnesses)], name=partition.name)

    with ExitStack() as stack:
        arena = stack.enter_context(HostArena(shared=True))
        prepared = PreparedProcesses if isolates(settings) else PreparedThreads
        executor: PreparedThreads = prepared(settings, witnesses, arena)
        stack.enter_context(executor)
        tell("loading keys")
        _pipeline(system, settings, executor, plan, scratch)  # loads, checks the key, warms up
        provers = executor.bare_provers(system)
        loaded = [prover.load(system.shared()) for prover in provers]

        def bare_pass() -> Pass:
            return bare_loop(system, settings, provers, plan, [given(partition) for partition in plan])

        bare_pass()
        bare, pipeline = [], []
        for number in range(repeats):
            tell(f"repeat {number + 1} of {repeats}")
            bare.append(bare_pass())
            pipeline.append(_pipeline(system, settings, executor, plan, scratch))
    return Cost(what, settings.policy, count, tuple(bare), tuple(pipeline)), loaded[0].value


def repeated(system: ProofSystem, count: int | None) -> list[Partition]:
    """So many partitions: the job's own ones again and again, under other names; None: the job's as they are. Raises
    UsageError for partitions that fit each other."""
    own = system.plan()
    if count is None or (system.needs_barrier and count == len(own)):
        return own
    if system.needs_barrier:
        raise UsageError(f"the partitions of a {system.name} job fit each other: they cannot be repeated")
    return [replace(own[i % len(own)], index=i, name=f"partition-{i}") for i in range(count)]


class PreparedThreads(InProcessExecutor):
    """An executor whose witnesses are there before they are asked for, in an arena of this process, and whose workers
    serve run after run: on threads."""

    def __init__(self, settings: ExecutorSettings, witnesses: Sequence[Witness], arena: HostArena) -> None:
        super().__init__(settings)
        self._kept = Kept(arena)
        self._given = tuple(self._kept.send(witness) for witness in witnesses)
        self._workers: list[Worker] = []
        self._checked = False
        self._bare: list[ProverWorker] = []

    def start(self, system: ProofSystem) -> list[Worker]:
        self._workers = self._workers or super().start(system)
        return self._workers

    def check(self, worker: Worker) -> None:
        if self._checked:
            now = time.time()
            self._done.put(Finished(Kind.CHECK, worker.id, Timed(None, now, now)))
            return
        self._checked = True
        super().check(worker)

    def bare_provers(self, system: ProofSystem) -> list[ProverWorker]:
        """The pipeline's own provers."""
        hosts = [site.host for site in self.fleet.sites.values()]
        return [prover for host in hosts if isinstance(host, RoomsHere) for prover in host.rooms.provers]


class PreparedProcesses(PreparedThreads, ProcessExecutor):
    """Workers in processes of their own, with witnesses that are made beforehand."""

    def bare_provers(self, system: ProofSystem) -> list[ProverWorker]:
        """As many provers as the pipeline has, on the same devices, made in this process."""
        choices = [site.choice for site in self.fleet.sites.values()]
        self._bare = [ProverWorker(system, choice, leases_from(self.fleet.governor, choice)) for choice in choices]
        return self._bare

    def close(self, *, now: bool = False) -> None:
        for prover in self._bare:
            prover.close()
        super().close(now=now)


def bare_loop(
    system: ProofSystem,
    settings: ExecutorSettings,
    provers: Sequence[ProverWorker],
    plan: Sequence[Partition],
    works: Sequence[Witness],
) -> Pass:
    """Every prover takes its share of the partitions, `in_flight` at a time."""
    session = Session(workers=[Place(f"prover-{i}", "prover", "local") for i in range(len(provers))])
    pools = [ThreadPoolExecutor(settings.in_flight) for _ in provers]
    before = sys.getswitchinterval()

    def each(call: Callable[[ProverWorker, int], Timed]) -> list[Any]:
        """Results of `call` for each partition; partitions are handed over in order."""
        homes = list(itertools.islice(itertools.cycle(range(len(provers))), len(plan)))
        asked = [pools[home].submit(call, provers[home], i) for i, home in enumerate(homes)]
        timed = [future.result() for future in asked]
        for home, partition, found in zip(homes, plan, timed, strict=True):
            times: StepTimes = found.value[1]
            session.spans.append(
                Span(f"prover-{home}", partition.name, "prove", found.started, found.ended, on_device=times.on_device)
            )
        return [found.value[0] for found in timed]

    try:
        sys.setswitchinterval(SWITCH_INTERVAL)  # as in a worker's process
        began = time.perf_counter()
        challenge = None
        if system.needs_barrier:
            commitments = each(lambda prover, i: prover.commit(plan[i], works[i]))
            challenge = draw_challenge(system, {p.name: c for p, c in zip(plan, commitments, strict=True)})
        proofs: list[PartitionProof] = each(lambda prover, i: prover.prove(plan[i], works[i], challenge))
        wall = time.perf_counter() - began
    finally:
        sys.setswitchinterval(before)
        for pool in pools:
            pool.shutdown(cancel_futures=True)
    if invalid_among(system, proofs):
        raise JobFailed("a proof of the bare loop does not verify")
    return _pass(wall, session)


def _pipeline(
    system: ProofSystem, settings: ExecutorSettings, executor: InProcessExecutor, plan: list[Partition], scratch: Path
) -> Pass:
    path = scratch / "run"
    try:
        began = time.perf_counter()
        with Run.create(path, system, plan) as run:
            prove(system, executor, run, settings, plan=plan)
        wall = time.perf_counter() - began
        return _pass(wall, read_timeline(path)[-1])
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _pass(wall: float, session: Session) -> Pass:
    used = [use for use in devices(session) if use.busy]
    begins, ends = [use.busy[0][0] for use in used], [use.busy[-1][1] for use in used]
    width = sum(end - begin for begin, end in zip(begins, ends, strict=True))
    busy = sum(use.busy_seconds for use in used)
    return Pass(wall, max(ends) - min(begins), busy, 1 - busy / width, all(use.by_events for use in used))


def _median(passes: Sequence[Pass], part: Callable[[Pass], float]) -> float:
    return statistics.median(part(each) for each in passes)
