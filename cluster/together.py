"""Short jobs of one key, proven by one driver: what a job costs beside its proof is shared by all that are at hand.

Each is a job of one partition. To the dispatcher they are partitions of one job, named after their jobs: handed to the
workers in chunks, and verified in batches, of which, if one fails, every proof is looked at by itself. That is for
systems whose proofs hold under any name. A proof that holds is bound to its own job, and its run is made at once and in
full (`cluster.record.short`).

Nothing is tried again here. A job that meets any trouble is left over, with nothing of it on disk, and is for a driver
of its own (`cluster.driver`) to begin with.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from cluster.dispatch import Progress, State, dispatch
from cluster.eventlog import log_progress
from cluster.executor.base import Executor
from cluster.record.journal import facts_json, lines_of
from cluster.record.report import PartitionReport, Report
from cluster.record.run import new_record, record_text
from cluster.record.short import Common, Proven
from cluster.record.timeline import Session, span_text
from distprove.host.log import wants_json
from distprove.host.memory import most_resident
from distprove.job import Job
from distprove.proof import Aggregates
from distprove.settings import ExecutorSettings
from distprove.system import Explains, Partition, PartitionProof, ProofSystem, VerifiesJob, implements


@dataclass(frozen=True)
class Short:
    """A job of one partition."""

    id: str
    """Name of the job, which no other one here has."""
    system: ProofSystem
    partition: Partition
    record: bytes
    """The content of its run's job.json, which tells the inputs as they were before they were proven about."""


def short(id: str, system: ProofSystem, job: Job, asked: dict[str, Any], run: Path) -> Short | None:
    """The job as a short one, with its record as it was `asked` for, whose run is to be at that absolute path; None
    for one that is not short, and for one whose proof would not hold under another name than its own, or not without
    others. Raises InputError for an input that is not there."""
    plan = system.plan()
    if len(plan) != 1 or system.names_bind or system.needs_barrier or implements(type(system), VerifiesJob):
        return None
    if implements(type(system), Aggregates) and cast(Aggregates, system).aggregates():
        return None  # seconds of work at its end, which others do not wait for
    return Short(id, system, plan[0], record_text(new_record(run, system, plan, job, asked)))


def prove_together(
    shorts: Sequence[Short],
    executor: Executor,
    settings: ExecutorSettings,
    keep: Callable[[Common, list[Proven]], None],
    more: Callable[[bool], Sequence[Short]] = lambda idle: (),
    ended: Callable[[Report], None] = lambda report: None,
) -> None:
    """Prove short jobs of one key. `keep` is given those that are proven, a few at a time, on a thread of its own, and
    what they have in common: they are over when it returns. Those that it was not given when this returns or raises
    are left over. `more` gives others that came meanwhile (`Executor.wake` has it asked), and is told whether all
    before are over: when it gives none then, this returns. `ended` is called with the report of all at the end."""
    system, session = shorts[0].system, _Spans(executor.kind)
    report = Report(system.name, system.describe(), executor.kind, system.key_digest().hex(), [])
    report.started, report.chosen = session.began, executor.chosen
    runs = _Runs(executor, report, session, keep)
    runs.note("session", executor=executor.kind, partitions=1)
    told = runs.log if wants_json() else None
    state = State(system, [], {}, None, executor, runs, replace(settings, max_retries=0), report, session, told)

    def add(new: Sequence[Short]) -> None:
        for each in new:
            state.partitions.add(replace(each.partition, name=each.id), runs.add(each))

    add(shorts)
    try:
        dispatch(state, lambda view: add(more(not state.partitions.open)))
    finally:
        ended(report)


class _Spans(Session):
    """A session that keeps the spans of each partition apart."""

    def __init__(self, executor: str) -> None:
        super().__init__(executor=executor)
        self.of: defaultdict[str, list[tuple[str, float, str]]] = defaultdict(list)

    def add(self, partition: str, worker: str, seconds: float, written: str) -> None:
        self.of[partition].append((worker, seconds, written))


class _Runs:
    """Stands for the run where there are several: makes the files of each."""

    def __init__(
        self,
        executor: Executor,
        report: Report,
        session: _Spans,
        keep: Callable[[Common, list[Proven]], None],
    ) -> None:
        self._shorts: dict[str, Short] = {}
        self._executor = executor
        self._report = report
        self._session = session
        self._keep = keep
        self._reports: dict[str, PartitionReport] = {}
        self._told: list[bytes] = []
        """Lines of the journal that tell of all jobs."""

    def add(self, short: Short) -> PartitionReport:
        """Another job; the report of its partition."""
        self._shorts[short.id] = short
        report = self._reports[short.id] = PartitionReport(short.id)
        return report

    def note(self, event: str, *, sync: bool = True, **facts: Any) -> None:
        if "partition" not in facts:  # that is one that is left over
            self._told += lines_of(event, [facts_json(facts)])

    def note_all(self, event: str, each: Iterable[str], *, sync: bool = True) -> None:
        """Partitions are told of in the runs of their own."""

    def store_barrier(self, commitments: dict[str, bytes], challenge: bytes) -> None:
        raise AssertionError("short jobs have no barrier")

    def log(self, event: Progress) -> None:
        """Log an event of one job."""
        of = self._shorts.get(event.partition or "")
        if of is not None:
            partition = of.partition.name
            log_progress(of.id, event._replace(partition=partition, done=int(event.event == "proved"), total=1))

    def store(self, proofs: Sequence[PartitionProof]) -> None:
        """Have the jobs of verified partition proofs kept."""
        system, session = next(iter(self._shorts.values())).system, self._session
        report = replace(
            self._report,
            partitions=[],
            governors=self._executor.governor_report(session.began),
            status="proved",
            driver_memory=most_resident(),
            wall_seconds=time.time() - session.began,
        )
        spans = tuple(span_text(span, session.began) for span in session.spans)
        common = Common(system.verification_key(), report, spans, tuple(self._told))
        self._keep(common, [self._proven(proof) for proof in proofs])

    def _proven(self, proven: PartitionProof) -> Proven:
        of = self._shorts[proven.name]
        name = of.partition.name
        proof = PartitionProof(name, of.partition.digest, proven.public, proven.data)
        explained = cast(Explains, of.system).explain([proof]) if implements(type(of.system), Explains) else {}
        own = replace(self._reports[of.id], name=name, status="proved")
        return Proven(of.id, of.record, proof, own, explained, tuple(self._session.of[of.id]))
