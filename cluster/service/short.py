"""Short jobs of a service: jobs of one partition without a driver of their own.

The scheduler treats them as it does all others. Their sink makes the run of each at once and in full, several of them
together, from what the scheduler reports (`cluster.record.short`). Nothing is tried again here: a short job that meets
any trouble has nothing on disk, and gets a driver of its own (`cluster.driver`), which begins it anew.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from actors import patience
from cluster.eventlog import log_progress
from cluster.record.journal import facts_json, lines_of
from cluster.record.report import Counters, PartitionReport, Report, WorkerReport
from cluster.record.run import new_record, record_text
from cluster.record.short import Common, Proven
from cluster.record.timeline import Session, span_text
from cluster.scheduler.events import Ended, Note, Tell
from cluster.scheduler.jobs import Job
from cluster.scheduler.loop import ForJob, Scheduler
from cluster.service.systems import Known
from distprove.host.log import wants_json
from distprove.host.memory import most_resident
from distprove.job import Job as AskedJob
from distprove.proof import Aggregates
from distprove.system import Explains, Partition, PartitionProof, ProofSystem, VerifiesJob, implements


@dataclass(frozen=True)
class Short:
    """A job of one partition."""

    id: str
    system: ProofSystem
    key: str
    """Identity of its key."""
    partition: Partition
    record: bytes
    """The content of its run's job.json, which has the inputs as they were before they were proven about."""


def short(id: str, known: Known, job: AskedJob, asked: dict[str, Any], run: Path) -> Short | None:
    """The job as a short one, with its record as it was `asked` for, whose run is to be at that absolute path; None
    for one that is not short, or whose proof does not hold without others. Raises InputError for an input that is not
    there."""
    system = known.system
    plan = system.plan()
    if len(plan) != 1 or system.needs_barrier or implements(type(system), VerifiesJob):
        return None
    if implements(type(system), Aggregates) and cast(Aggregates, system).aggregates():
        return None  # seconds of work at its end, which others do not wait for
    record = record_text(new_record(run, known.common, plan, job, asked), known.written)
    return Short(id, system, known.key, replace(plan[0], job=id), record)


@dataclass(eq=False)
class _Group:
    """What short jobs of one key that begin within a moment have in common."""

    system: ProofSystem
    report: Report
    until: float
    """Time until which jobs join, on the monotonic clock."""
    session: Session
    workers: dict[str, WorkerReport] = field(default_factory=dict)
    notes: list[bytes] = field(default_factory=list)
    """Lines of the journal that are of all jobs."""
    counted: dict[str, int] = field(default_factory=lambda: dict(vars(Counters())))
    """What went wrong, as far as the metrics have it."""


class ShortJobs:
    """The sink of all short jobs of a service. Any thread may call."""

    def __init__(
        self,
        scheduler: Scheduler,
        keep: Callable[[Common, list[Proven], Sequence[Job]], None],
        ended: Callable[[str], None],
        trouble: Callable[[Mapping[str, int]], None],
    ) -> None:
        """`keep` makes the runs of proven jobs, on another thread; they are over when it returns. `ended` hears of each
        job whose id is free again; one that is not over then met trouble, or was stopped, and gets a driver of its own.
        It must be quick. `trouble` counts what went wrong, by the names of a report's counters."""
        self._scheduler = scheduler
        self._keep = keep
        self._ended = ended
        self._trouble = trouble
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}
        """The last group of each key."""
        self._shorts: dict[str, tuple[Short, Job, _Group]] = {}
        """Jobs at work."""

    def begin(self, short: Short, rank: int) -> None:
        """Begin a short job."""
        group = self._group(short)
        job = Job(
            id=short.id,
            key=short.key,
            system=short.system,
            plan=[short.partition],
            report=group.report,
            session=Session(group.session.began, group.session.spans, executor=self._scheduler.kind),
            max_retries=0,
            rank=rank,
            listens=wants_json(),
            reports=[PartitionReport(short.partition.name)],
            workers=group.workers,
        )
        with self._lock:
            self._shorts[short.id] = short, job, group
        self._scheduler.add(job, self)

    def _group(self, of: Short) -> _Group:
        now = time.monotonic()
        with self._lock:
            group = self._groups.get(of.key)
            if group is None or now > group.until:
                self._groups = {key: each for key, each in self._groups.items() if now <= each.until}
                session, system, kind = Session(executor=self._scheduler.kind), of.system, self._scheduler.kind
                report = Report(system.name, system.describe(), kind, system.key_digest().hex(), [])
                report.started, report.chosen = session.began, self._scheduler.chosen
                group = self._groups[of.key] = _Group(system, report, now + patience.SHORT_GROUP, session)
                group.notes += lines_of("session", [facts_json({"executor": kind, "partitions": 1})])
        return group

    # -- as a sink --------------------------------------------------------------------------------------------------

    def take(self, effects: Sequence[ForJob]) -> None:
        ended = []
        for effect in effects:
            if isinstance(effect, Ended):
                ended.append(effect.job)
            elif isinstance(effect, Note) and "partition" not in effect.facts:  # that is one that is left over
                self._shorts[effect.job][2].notes += lines_of(effect.event, [facts_json(effect.facts)])
            elif isinstance(effect, Tell):
                log_progress(effect.job, effect.progress)
        with self._lock:
            groups = {group for _, _, group in [self._shorts.pop(job) for job in ended]}
        self._scheduler.leave(*ended)
        for group in groups:
            found = vars(group.report.counters)
            if found != group.counted:
                self._trouble(Counter(found) - Counter(group.counted))
                group.counted = dict(found)
        for job in ended:
            self._ended(job)

    def keep(self, proofs: Sequence[tuple[Job, PartitionProof]]) -> None:
        groups: dict[_Group, list[tuple[Short, Job, PartitionProof]]] = {}
        with self._lock:
            for job, proof in proofs:
                short, known, group = self._shorts.get(job.id, (None, None, None))
                if short is not None and known is job and group is not None:  # it was not stopped meanwhile
                    groups.setdefault(group, []).append((short, job, proof))
        for group, found in groups.items():
            began, spans = group.session.began, tuple(group.session.spans)
            report = replace(
                group.report,
                workers=list(group.workers.values()),
                governors=self._scheduler.governor_report(began),
                status="proved",
                driver_memory=most_resident(),
                wall_seconds=time.time() - began,
            )
            written = tuple(span_text(span, began) for span in spans)
            common = Common(group.system.verification_key(), report, written, tuple(group.notes))
            self._keep(common, [_proven(*each) for each in found], [job for _, job, _ in found])


def _proven(of: Short, job: Job, proof: PartitionProof) -> Proven:
    explained = cast(Explains, of.system).explain([proof]) if implements(type(of.system), Explains) else {}
    (report,) = job.reports
    own = replace(report, status="proved")
    return Proven(of.id, of.record, proof, own, explained, job.session.written, dict(job.session.busy_by))
