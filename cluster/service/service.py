"""The standing service: takes jobs, keeps them on disk, and has several drivers at work on them with warm workers.

    submitted -> queued -> running -> proved | failed | cancelled

Each job is an ordinary run, driven by `cluster.driver.drive` on a thread of this process. Short jobs of a key that was
used before have no driver: the scheduler proves them, and those that are over in one tick are one transaction and one
sync (`cluster.service.short`). What is known of a job is in memory, and in the store (`cluster.service.store`) for the
next start: jobs that were queued or running then go on, from what their runs' folders hold. Nothing here knows of HTTP.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from actors import patience
from actors.protocol import Place
from cluster.driver import drive
from cluster.eventlog import harmless, log_progress
from cluster.opening import open_scheduler
from cluster.recent import Recent
from cluster.record.journal import journal_lines
from cluster.record.partitions import PartitionView, partition_views
from cluster.record.report import REPORT, public_message
from cluster.record.run import MAX_RECORD, RECORD, Run, delete_run, is_run, require_creatable, take_lock
from cluster.record.short import Common, Proven
from cluster.record.story import read_report
from cluster.scheduler import jobs as scheduled
from cluster.scheduler.fair import FairQueue
from cluster.scheduler.jobs import Progress
from cluster.scheduler.loop import Client, Scheduler
from cluster.service.keys import KeysAhead
from cluster.service.metrics import ServiceMetrics
from cluster.service.requests import (
    Limits,
    Looked,
    allowed_out,
    digest_of,
    files_stay_allowed,
    job_of,
    out_of,
    require_allowed_files,
    usual_priority,
)
from cluster.service.short import Short, ShortJobs, short
from cluster.service.store import Row, Store
from cluster.service.systems import Systems
from cluster.service.views import JobRequest, JobState, JobView, Overview, Priority, RunFile
from cluster.service.writer import RUNS, Writer, await_writer
from distprove.errors import (
    INTERRUPTED,
    CalledOff,
    DistproveError,
    IdTaken,
    InputError,
    NoSuchJob,
    QueueFull,
    ServiceGone,
    UsageError,
    exit_code,
    forget_frames,
    typed,
)
from distprove.formats.files import real, require_apart
from distprove.formats.folder import Folder
from distprove.formats.names import is_name
from distprove.formats.owncode import names_code
from distprove.host.collector import collecting_seldom
from distprove.host.provenance import version
from distprove.job import Job
from distprove.options import Options
from distprove.proof import KEY_FILE, OUTPUT_FILE, PROOF_FILE
from distprove.registry import SYSTEMS, entry_of
from distprove.settings import ExecutorSettings
from distprove.system import ProofSystem
from distprove.wanted import unless
from kernels.host.units import count_of

ATTEMPTS = 4
"""Times that a job is begun, at most, when it loses all its workers, or finds no memory beside other jobs."""
CHUNK = 32
"""Jobs that are forgotten at a time, or looked at before those that are short begin."""
BEHIND = 64
"""Jobs to be forgotten at which whoever ends a job forgets some too."""
NAMED = 1 << 10
"""Bytes of memory that a file which a job names takes, about: its path and its place in the job and in its record. One
pattern may stand for a million of them."""
LIGHT = 8
"""Short jobs that take the place of one with a driver of its own. Workers must not run dry while proofs of two
milliseconds are told, verified and kept, each of which waits for a moment to be done together."""
LOG = 1 << 20
"""Bytes of a log that are given at a time, at most."""


@dataclass
class _Ticket(Row):
    """A job of the service, which its lock guards."""

    job: Job | None = None
    """The job, while it is not over."""
    nbytes: int = 0
    """Bytes of memory that its inputs take (`_nbytes`), while it is not over."""
    known: bool = False
    """Whether an earlier service had it: there may be a run."""
    lent: Client | None = None
    """Workers that it has."""
    is_kept: bool = False
    """Whether it is on disk, so that it may begin."""
    short: Short | None = None
    """The job without a driver, while the scheduler has it: under its id, which no other job may have so long."""
    turn: int = 0
    """Its number in the fair queue of clients."""
    ending: bool = False
    """Whether its end is being written, as that of a short job: cancelling it waits for that."""
    alone: bool = False
    """Whether it is to have the workers to itself: beside others it did not find the memory that it needs."""
    news: threading.Event = field(default_factory=threading.Event)
    """Set once it is on disk, or could not be brought there; and again, another one, once it is over."""

    @property
    def order(self) -> tuple[int, bool, int, int]:
        """Its place in the queue: by priority; what was begun before first, then in turns of clients, then the
        oldest."""
        return self.view.priority.rank, not self.view.attempts, self.turn, self.seq


@dataclass(frozen=True)
class _Asked:
    """A request that was read and checked."""

    request: JobRequest
    digest: bytes
    job: Job
    record: dict[str, Any]
    out: Path | None
    """The run's folder, where the client names it."""
    run: str


class Service:
    """The service in one folder, which is private and locked. Thread-safe; `start` once, then ask."""

    def __init__(
        self,
        folder: Path,
        settings: ExecutorSettings,
        limits: Limits | None = None,
        scheduler: Callable[[ExecutorSettings], Scheduler] = open_scheduler,
        writer: Callable[[Path], Writer] | None = None,
    ) -> None:
        """Open the folder, made if there is none, and read what is there. `writer` makes what writes the runs of short
        jobs, by default this process. Raises InUse where another service is at work, InputError or UsageError for a
        folder that is not ours or of another version."""
        own = Folder.make(folder)
        own.close_to_others()
        self.folder, self.settings = real(folder), settings
        limits = limits or Limits()
        if limits.roots is not None:
            limits = replace(limits, roots=(*limits.roots, *map(real, limits.roots)))
        self.limits = limits
        self._lock_file: IO[str] = take_lock(own)
        try:
            await_writer(own)
            self._runs = own.folder(RUNS)
            self._runs.remove_temporaries()
            self._store = Store(self.folder)
        except BaseException:
            self._lock_file.close()
            raise
        self._make_scheduler = scheduler
        self._writer = Writer(self._runs) if writer is None else writer(self.folder)
        self._systems = Systems()
        self.keys = KeysAhead(lambda: self._scheduler, self.limits, self.folder)
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        """Held by one that reads what was submitted: many at once would take the interpreter's lock in turn, and those
        that drive jobs and keep their ends would wait for it behind them all."""
        self.listeners: list[Callable[[JobView], None]] = []
        """Called with each job that changed, on whatever thread and under a lock: they return at once, ask the service
        nothing, and raise nothing."""
        self.metrics = ServiceMetrics(self.overview, self.jobs, lambda: self._scheduler.evicted)
        self.listeners.append(self.metrics.changed)
        self._tickets: dict[str, _Ticket] = {}
        self._waiting: list[tuple[tuple[int, bool, int, int], str]] = []
        """Queued jobs in the order in which they begin: place and id."""
        self._queue = FairQueue()
        self._running: Counter[int] = Counter()
        """Number of running jobs by rank of their priority."""
        self._alone = False
        """Whether a job has the workers to itself."""
        self._nbytes = 0
        """Bytes of memory that the inputs of jobs which are not over take (`_nbytes`)."""
        self._counts: Counter[str] = Counter()
        self._ended: deque[float] = deque(maxlen=1000)
        """Times at which jobs ended."""
        self._proven = Recent(patience.RATE)
        """Partitions that were proven."""
        self._partitions = 0
        self._began = time.time()
        self._accepting = False
        self._closing = False
        """Whether no job begins any more."""
        self._stopping = False
        """Whether those that run are to stop."""
        self._opened = ExitStack()
        self._over, self._gone = threading.Event(), threading.Event()
        self._fresh: list[_Ticket] = []
        """Started jobs not yet classified as short or long."""
        self._sorting = False
        self._light: Counter[int] = Counter()
        """Number of short jobs at work by rank of their priority."""
        self._ended_one = threading.Condition(self._lock)
        """Notified when a job is at work no more."""
        self._drivers = ThreadPoolExecutor(len(Priority) * self.limits.running, "distprove-job")
        self._tidier = threading.Thread(target=self._tidy_on, name="distprove-tidy", daemon=True)
        self._key = self._store.key()
        for row in self._store.rows():
            record = {} if row.view.state.final else row.record
            ticket = _Ticket(row.seq, row.digest, record, row.view, row.client, known=True, is_kept=True)
            self._tickets[row.view.id] = ticket
        self._restore_runs()
        self._last = max((ticket.seq for ticket in self._tickets.values()), default=0)

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the workers, take up the jobs that are not over, and accept others. Raises ClusterError."""
        self._scheduler = self._make_scheduler(self.settings)
        self._opened.callback(self._scheduler.close)
        self._scheduler.start()
        self._shorts = ShortJobs(self._scheduler, self._keep, self._short_ended, self.metrics.trouble)
        self._writer.start()
        self._opened.enter_context(collecting_seldom())  # for good: drivers come and go
        with self._lock:
            for ticket in self._tickets.values():
                self._counts[ticket.view.state.value] += 1
            for ticket in [ticket for ticket in self._tickets.values() if not ticket.view.state.final]:
                self._take_up(ticket)
            self._accepting = True
            self._begin()
        self._tidier.start()

    def close(self, *, drain: bool) -> None:
        """Take no more jobs and stop. With `drain` those that run end first; else they stop, and go on at the next
        start, as queued ones do in any case. May be called again, to stop what the first call waits for."""
        with self._lock:
            first, self._accepting, self._closing = not self._closing, False, True
            if not drain:
                self._stopping = True
                for ticket in self._tickets.values():
                    if ticket.lent is not None:
                        ticket.lent.stop(KeyboardInterrupt())
                    elif ticket.short is not None and not ticket.ending:
                        self._scheduler.stop(ticket.view.id, KeyboardInterrupt())
            self._ended_one.wait_for(lambda: not self._running.total() and not self._sorting)
        self._drivers.shutdown(wait=True)
        if not first:
            self._gone.wait()
            return
        self._over.set()
        for ticket in self._tickets.values():
            ticket.news.set()  # who waits for it has waited long enough
        if self._tidier.is_alive():
            self._tidier.join()
        self._opened.close()
        self._writer.close()
        self._store.close()
        self.metrics.close()
        self._lock_file.close()
        self._gone.set()

    # -- asking -----------------------------------------------------------------------------------------------------

    def submit(self, request: JobRequest, client: str = "") -> JobView:
        """Take a job of a client, by its name, or of the service's owner; it is on disk when this returns. The same job
        under the same id is not taken twice.

        Raises UsageError and InputError for what cannot be a job here, IdTaken where another one has the id, QueueFull
        when no more may wait, ServiceGone when the service is closing, ResourceError when it cannot be written.
        """
        (told,) = self.submit_all([request], client)
        try:
            if isinstance(told, DistproveError):
                raise told
            return told
        finally:
            del told  # else this frame and the error hold each other

    def submit_all(self, requests: Sequence[JobRequest], client: str = "") -> list[JobView | DistproveError]:
        """Take several jobs of a client as `submit` takes one, in order and in one transaction, and return for each
        what is known of it or why it is refused. Those that are refused leave the others as they are."""
        told: list[JobView | DistproveError | None] = [None] * len(requests)
        asked: dict[int, _Asked] = {}
        looked = Looked()
        for place, request in enumerate(requests):
            try:
                found = self._asked(request, looked)
            except DistproveError as error:
                forget_frames(error)
                told[place] = error
                continue
            if isinstance(found, JobView):
                told[place] = found
            else:
                asked[place] = found
        again: list[int] = []
        """Jobs whose ids others took meanwhile, or an earlier one of these."""
        new: dict[int, _Ticket] = {}
        with self._lock:
            for place, each in asked.items():
                try:
                    ticket = self._admit(each, client)
                except DistproveError as error:
                    forget_frames(error)
                    told[place] = error
                    continue
                if ticket is None:
                    again.append(place)
                else:
                    new[place] = ticket
        try:
            self._store.insert((ticket, _contents(ticket.job)) for ticket in new.values())
        except DistproveError as error:
            self._take_back(new.values())
            forget_frames(error)
            told = [error if place in new else before for place, before in enumerate(told)]
        except BaseException:
            self._take_back(new.values())
            raise
        else:
            for place, view in zip(new, self._have_kept(new.values()), strict=True):
                told[place] = view
        if again:
            for place, outcome in zip(again, self.submit_all([requests[i] for i in again], client), strict=True):
                told[place] = outcome
        return [each for each in told if each is not None]

    def _asked(self, request: JobRequest, looked: Looked) -> _Asked | JobView:
        """A request, read and checked; or what is known of the job, where it was submitted before. Raises as
        `submit`."""
        digest = digest_of(request, self._key, self.limits)
        while (known := self._tickets.get(request.id)) is not None:
            with self._lock:
                if known.digest != digest:
                    raise IdTaken(f"another job was submitted as {request.id}")
                if known.is_kept:
                    return self._view(known)
                news = known.news
            news.wait()  # for whoever is at it
        self._require_room()
        with _briefly_held(self._reading):
            job = job_of(request, self.settings, self.limits, self.folder, looked)
        out = out_of(request, self.limits, self.folder)
        if out is not None:
            require_apart([], job.files, [out])
            require_creatable(out)
        return _Asked(request, digest, job, job.to_record(), out, str(out or self.folder / RUNS / request.id))

    def _admit(self, asked: _Asked, client: str) -> _Ticket | None:
        """Queue a job, which is not on disk yet; None where its id is taken. The lock is held. Raises UsageError,
        QueueFull, ServiceGone."""
        request, job, nbytes = asked.request, asked.job, _nbytes(asked.job)
        self._require_room(nbytes)
        if request.id in self._tickets:
            return None
        if asked.out is not None and any(
            t.view.run == asked.run and not t.view.state.final for t in self._tickets.values()
        ):
            raise UsageError(f"{asked.out} is the folder of another job")
        view = JobView(
            *(request.id, JobState.QUEUED, request.priority or usual_priority(job), job.system, job.title, asked.run),
            submitted=time.time(),
        )
        self._last += 1
        turn = self._queue.take(view.priority.rank, client).turn
        ticket = _Ticket(self._last, asked.digest, asked.record, view, client, job, nbytes, turn=turn)
        self._tickets[request.id] = ticket
        self._nbytes += nbytes
        insort(self._waiting, (ticket.order, request.id))
        return ticket

    def _take_back(self, tickets: Collection[_Ticket]) -> None:
        """Jobs that were queued could not be written."""
        with self._lock:
            for ticket in tickets:
                del self._tickets[ticket.view.id]
                self._nbytes -= ticket.nbytes
                self._waiting.remove((ticket.order, ticket.view.id))
        for ticket in tickets:
            ticket.news.set()

    def _have_kept(self, tickets: Collection[_Ticket]) -> list[JobView]:
        """Jobs that were queued are on disk: what is known of each."""
        waiting: list[threading.Event] = []
        with self._lock:
            for ticket in tickets:
                ticket.is_kept = True
                waiting.append(ticket.news)
                ticket.news = threading.Event()
                self._counts[JobState.QUEUED.value] += 1
            self._begin()
            for ticket in tickets:
                self._tell(ticket)
            told = [self._view(ticket) for ticket in tickets]
        for news in waiting:
            news.set()
        return told

    def job(self, id: str) -> JobView:
        """What is known of a job. Raises NoSuchJob."""
        with self._lock:
            return self._view(self._ticket(id))

    def jobs(
        self, state: JobState | None = None, *, limit: int = 100, before: str | None = None, search: str = ""
    ) -> list[JobView]:
        """The newest jobs, in that `state`, older than the job `before`, that have `search` in their id or title, in
        capitals or not. Raises NoSuchJob."""
        found: list[JobView] = []
        with self._lock:
            last = self._ticket(before).seq if before is not None else self._last + 1
            for ticket in reversed(self._tickets.values()):
                if len(found) >= limit:
                    break
                if (
                    ticket.seq < last
                    and ticket.is_kept
                    and state in (None, ticket.view.state)
                    and ticket.view.has(search)
                ):
                    found.append(self._view(ticket))
        return found

    def cancel(self, id: str) -> JobView:
        """Cancel a job: at once if it is queued, soon if it runs. One that is over stays what it is. What is proven
        stays in its run. Raises NoSuchJob."""
        with self._lock:
            ticket = self._ticket(id)
            self._ended_one.wait_for(lambda: not ticket.ending)
            if ticket.view.state is JobState.QUEUED:
                self._waiting.remove((ticket.order, id))
                self._settle(ticket, JobState.CANCELLED, KeyboardInterrupt())
            elif (
                ticket.view.state is JobState.RUNNING and ticket.short is not None
            ):  # nothing of it is on disk, and its proof will not count
                self._scheduler.stop(id, KeyboardInterrupt())
                self._let_go(ticket)
                self._settle(ticket, JobState.CANCELLED, KeyboardInterrupt())
                self._begin()
            elif ticket.view.state is JobState.RUNNING and not ticket.view.cancelling:
                self._change(ticket, cancelling=True)
                if ticket.lent is not None:
                    ticket.lent.stop(KeyboardInterrupt())
            promise = self._store.promise(ticket)
        promise.wait()  # whoever was told so is right, also after a crash
        return self.job(id)

    def log(self, id: str, after: int = 0) -> tuple[list[str], int]:
        """Whole lines of the journal of a job's run from byte `after` on, and where the next ones begin. Raises
        NoSuchJob, InputError."""
        return journal_lines(self.run(id), after, LOG)

    def run(self, id: str) -> Path:
        """The folder of a job's run, to read from. Raises NoSuchJob, and UsageError where a link that was laid above it
        since leads out of the folders that are allowed."""
        run = Path(self.job(id).run)
        return run if run.parent == self.folder / RUNS else allowed_out(run, self.limits, self.folder)

    def partitions(self, id: str) -> list[PartitionView]:
        """The partitions of a job as they stand, in the order of its plan; none before it is planned. Raises
        NoSuchJob, FormatError."""
        run = self.run(id)
        if not os.path.lexists(run / RECORD):
            return []
        return partition_views(run)

    def files(self, id: str) -> list[RunFile]:
        """The files of a job's run that others need: proof, output, verifying key, report, and what its proof system
        wrote for other software. None before its end. Raises NoSuchJob, FormatError."""
        run = self.run(id)
        if not self.job(id).state.final or not os.path.lexists(run / REPORT):
            return []
        report = read_report(run)
        names = [PROOF_FILE, OUTPUT_FILE, *(report.get("files") or []), report.get("aggregate"), KEY_FILE, REPORT]
        with Folder.open(run) as folder:
            sizes = {name: folder.size(name) for name in names if is_name(name)}
        return [RunFile(name, size) for name, size in sizes.items() if size is not None]

    def proof(self, id: str) -> Path:
        """The file of a job's proof. Raises NoSuchJob, and InputError unless it is proved."""
        view = self.job(id)
        if view.state is not JobState.PROVED:
            raise InputError(f"{id} has no proof: it is {view.state.value}")
        return self.run(id) / PROOF_FILE

    def output(self, id: str) -> Path:
        """The file of a job's output of variable length. Raises NoSuchJob, and InputError unless the job is proved and
        has one."""
        path = self.proof(id).with_name(OUTPUT_FILE)
        if not os.path.lexists(path):
            raise InputError(f"{id} has no output beside its proof: its statement has none")
        return path

    def overview(self) -> Overview:
        """The service at a glance."""
        now, keys, workers = time.time(), self._scheduler.keys(), self._scheduler.workers()
        with self._lock:
            recent = self._proven.total(now)
            return Overview(
                version(),
                self._began,
                self._accepting,
                len(self._waiting),
                self._running.total(),
                self.limits.queued,
                {state.value: self._counts[state.value] for state in JobState},
                self._partitions,
                recent / min(patience.RATE, max(1.0, now - self._began)),
                tuple(keys),
                tuple(workers),
            )

    # -- jobs at work -----------------------------------------------------------------------------------------------

    def _take_up(self, ticket: _Ticket) -> None:
        """Queue a job that an earlier service had. The lock is held."""
        if ticket.view.cancelling:
            self._settle(ticket, JobState.CANCELLED, KeyboardInterrupt())
            return
        try:
            ticket.job = self._recalled(ticket)
        except DistproveError as error:
            self._settle(ticket, JobState.FAILED, error)
            return
        ticket.nbytes = _nbytes(ticket.job)
        self._nbytes += ticket.nbytes
        ticket.turn = self._queue.take(ticket.view.priority.rank, ticket.client).turn
        self._change(ticket, state=JobState.QUEUED)
        insort(self._waiting, (ticket.order, ticket.view.id))

    def _recalled(self, ticket: _Ticket) -> Job:
        """The job in a row of the store. Raises UsageError and InputError."""
        contents = iter(self._store.inputs(ticket.seq))
        for item in ticket.record["options"].get("inputs", ()):
            if not item["path"]:
                item["content"] = next(contents, None)
        system = ticket.record["system"]
        kind = entry_of(system).options if system in SYSTEMS else Options
        program = ticket.record["options"].get(kind.code_field) or ""
        own = program if self.limits.allow_code and names_code(program) else None
        return Job.from_record(ticket.record, program=own, executor=self.settings)

    def _begin(self) -> None:
        """Begin as many jobs as may run. The lock is held."""
        while self._waiting and not self._closing:
            ticket = self._tickets[self._waiting[0][1]]
            rank = ticket.view.priority.rank
            # Where the most urgent one may not begin, no other one may.
            if not ticket.is_kept or self._taken(rank) >= self.limits.running:
                break
            if self._alone or (ticket.alone and self._running.total()):
                break
            self._alone = ticket.alone
            del self._waiting[0]
            self._queue.begun(Place(rank, ticket.turn))
            self._running[rank] += 1
            attempts, started = ticket.view.attempts + 1, ticket.view.started or time.time()
            self._change(ticket, state=JobState.RUNNING, attempts=attempts, started=started)
            self._fresh.append(ticket)
        if self._fresh and not self._sorting:
            self._sorting = True
            self._drivers.submit(self._sort)

    def _taken(self, rank: int) -> float:
        """Places that running jobs of that rank and the more urgent ones take. The lock is held."""
        ranks = range(rank + 1)
        light = sum(self._light[r] for r in ranks)
        return sum(self._running[r] for r in ranks) - light * (1 - 1 / LIGHT)

    def _let_go(self, ticket: _Ticket) -> None:
        """A job is at work no more, and is not over yet. The lock is held."""
        rank = ticket.view.priority.rank
        self._light[rank] -= ticket.short is not None
        self._running[rank] -= 1
        self._ended_one.notify_all()

    def _work(self, ticket: _Ticket) -> None:
        """Do a job by itself, from its beginning to its end."""
        with self._lock:
            self._store.save(ticket)
        error: BaseException | None = None
        try:
            self._prove(ticket)
        except CalledOff:
            error = KeyboardInterrupt()
        except BaseException as caught:  # whatever it is, it is the job's end and not the service's
            error = typed(caught)
        with self._lock:
            lent, ticket.lent = ticket.lent, None
            again = lent is not None and (lent.lost or lent.crowded) and ticket.view.attempts < ATTEMPTS
            self._let_go(ticket)
            self._alone = self._alone and not ticket.alone
            if error is None:
                self._settle(ticket, JobState.PROVED, None)
            elif ticket.view.cancelling:
                self._settle(ticket, JobState.CANCELLED, KeyboardInterrupt())
            elif again and lent is not None and not self._stopping:
                ticket.known, ticket.alone = True, lent.crowded
                self._change(ticket, state=JobState.QUEUED)
                self._store.save(ticket)
                insort(self._waiting, (ticket.order, ticket.view.id))
            elif not self._stopping or not isinstance(error, KeyboardInterrupt):
                self._settle(ticket, JobState.FAILED, error)
            self._begin()
        if error is not None:
            forget_frames(error)  # what the job held, its witness perhaps, goes now
        self._keep_up()

    def _prove(self, ticket: _Ticket) -> None:
        job, out = ticket.job, Path(ticket.view.run)
        assert job is not None, "it is not over"
        require_allowed_files(job, self.limits, self.folder, Looked())
        with files_stay_allowed(self.limits, self.folder):
            if out.parent != self.folder / RUNS:
                allowed_out(out, self.limits, self.folder)
            with unless(lambda: ticket.view.cancelling or self._stopping):  # a guest is run here
                system, known_as = self._systems.load(job)
                plan = system.plan()
            with self._lock:
                self._change(ticket, partitions=len(plan))
            with self._open(ticket, job, system) as run:
                rank = ticket.view.priority.rank
                lent = self._scheduler.lend(job=ticket.view.id, rank=rank, known_as=known_as)
                with lent:
                    with self._lock:
                        if ticket.view.cancelling or self._stopping:
                            raise KeyboardInterrupt
                        ticket.lent = lent
                    told = harmless(partial(self._heard, ticket))
                    drive(system, lent, run, self.settings, told, ended=self.metrics.session)

    def _open(self, ticket: _Ticket, job: Job, system: ProofSystem) -> Run:
        """The run of a job, with what it holds if it was begun before. Raises UsageError, InputError."""
        path = Path(ticket.view.run)
        if not ticket.known or not is_run(path):
            inside = self._runs if path.parent == self.folder / RUNS else None
            return Run.create(path, system, system.plan(), job, inside=inside)
        run = Run.open(path)
        if not run.is_of(job):
            run.close()
            raise UsageError(f"{path} is a run of another job")
        run.keep_key(system)
        return run

    def _heard(self, ticket: _Ticket, event: Progress) -> None:
        """A job's driver tells how far it is."""
        log_progress(ticket.view.id, event)
        if event.done == ticket.view.done:
            return
        now, proved = time.time(), event.event == "proved"
        with self._lock:
            self._partitions += proved
            if proved:
                self._proven.add(now)
            first = ticket.view.first_proof or now
            self._change(ticket, done=event.done, first_proof=first, cold=ticket.lent.cold if ticket.lent else None)

    # -- short jobs -------------------------------------------------------------------------------------------------

    def _sort(self) -> None:
        """Begin the short ones of the jobs that begin, and give the others drivers."""
        while True:
            with self._lock:
                fresh, self._fresh = self._fresh, []
                if not fresh:
                    self._sorting = False
                    self._ended_one.notify_all()
                    return
            looked = Looked()
            for start in range(0, len(fresh), CHUNK):
                with _briefly_held(self._reading):
                    found = [(ticket, self._as_short(ticket, looked)) for ticket in fresh[start : start + CHUNK]]
                with self._lock:
                    for ticket, made in found:
                        if made is None or self._stopping or ticket.view.cancelling:
                            self._drivers.submit(self._work, ticket)
                        else:
                            self._begin_short(ticket, made)
                    self._begin()  # short ones take less of a place than those that are not classified yet

    def _as_short(self, ticket: _Ticket, looked: Looked) -> Short | None:
        """The job as a short one; None unless it is short, and its key one that was used before. Files that were
        `looked` at for jobs that begin with it are not again."""
        job, run = ticket.job, Path(ticket.view.run)
        if job is None or ticket.alone or len(job.sources) > 1 or run.parent != self.folder / RUNS:
            return None
        if ticket.known and run.exists():
            return None  # it goes on from there
        try:
            require_allowed_files(job, self.limits, self.folder, looked)
            known = self._systems.known(job)
            if known is None:
                return None
            with files_stay_allowed(self.limits, self.folder):
                return short(ticket.view.id, known, job, ticket.record, run)
        except Exception:  # whatever it is, it is found again by a driver, and told
            return None

    def _begin_short(self, ticket: _Ticket, made: Short) -> None:
        """Have the scheduler prove a short job. The lock is held: who cancels it finds it there."""
        rank = ticket.view.priority.rank
        try:
            self._shorts.begin(made, rank)
        except Exception:  # as in `_as_short`
            self._drivers.submit(self._work, ticket)
            return
        ticket.short = made
        self._light[rank] += 1
        self._change(ticket, partitions=1)

    def _short_ended(self, id: str) -> None:
        """The scheduler is done with a short job, whose id is free: it is over, or left over."""
        ticket = self._tickets[id]
        if ticket.view.state.final:  # no need to take the lock
            ticket.short = None
            return
        with self._lock:
            ticket.short = None
            if ticket.view.state.final:
                return
            self._light[ticket.view.priority.rank] -= 1
            if not ticket.ending:  # else it is left over if that fails
                self._leave_over(ticket)

    def _leave_over(self, ticket: _Ticket) -> None:
        """A short job met trouble, or was stopped: a driver of its own begins it anew. The lock is held."""
        ticket.known = True  # its run may be there
        if self._stopping:
            self._let_go(ticket)
        else:
            self._drivers.submit(self._work, ticket)

    def _keep(self, common: Common, proven: list[Proven], jobs: Sequence[scheduled.Job]) -> None:
        """Short jobs are proven: make their runs, and write their ends in one transaction."""
        with self._lock:
            tickets = [(self._tickets.get(each.id), each, job) for each, job in zip(proven, jobs, strict=True)]
            counts = [
                (ticket, each, job)
                for ticket, each, job in tickets
                if ticket is not None and ticket.short is not None and not ticket.view.state.final
            ]
            for ticket, *_ in counts:  # the others were cancelled, or are left over
                ticket.ending = True
        try:
            self._write_ended(common, counts)
        except BaseException:
            with self._lock:
                for ticket, *_ in counts:
                    ticket.ending = False
                    if ticket.short is None and not ticket.view.state.final:
                        self._leave_over(ticket)
                self._ended_one.notify_all()
            raise
        self._keep_up(len(counts))

    def _write_ended(self, common: Common, proven: list[tuple[_Ticket, Proven, scheduled.Job]]) -> None:
        contents = self._writer.add(common, [each for _, each, _ in proven])
        now = time.time()
        told: Any = {"state": JobState.PROVED, "exit_code": 0, "done": 1}
        ended = [
            (ticket, ticket.view.changed(first_proof=now, ended=now, cold=job.cold, **told))
            for ticket, _, job in proven
        ]
        self._store.save_ended(
            (Row(ticket.seq, ticket.digest, ticket.record, view), {RECORD: each.record, PROOF_FILE: content})
            for (ticket, view), (_, each, _), content in zip(ended, proven, contents, strict=True)
        )
        self.metrics.short(common.report, [each.report for _, each, _ in proven])
        with self._lock:
            for ticket, view in ended:
                ticket.ending = False
                self._let_go(ticket)
                self._end(ticket, view)
            self._partitions += len(ended)
            self._proven.add(now, len(ended))
            self._begin()

    def _restore_runs(self) -> None:
        """Make the runs of short jobs whole again, where a power cut took of them."""
        if not self._store.of_another_boot():
            return
        known = {ticket.seq: ticket for ticket in self._tickets.values()}
        for seq, files in self._store.runs():
            if seq not in known:
                continue
            with suppress(DistproveError):  # somebody laid something else there
                run = self._runs.folder(known[seq].view.id)
                for name, content in files.items():
                    if not run.has(name) or run.read(name, MAX_RECORD) != content:
                        run.write(name, content)

    def _settle(self, ticket: _Ticket, state: JobState, error: BaseException | None) -> None:
        """A job is over. The lock is held."""
        told: dict[str, Any] = {"exit_code": 0}
        if state is JobState.CANCELLED:
            told = {"exit_code": INTERRUPTED, "error": "cancelled", "cancelling": True}
        elif error is not None:
            kind, message = type(error).__name__, public_message(error)
            told = {"exit_code": exit_code(error), "error": message, "error_kind": kind}
        if state is JobState.PROVED:
            told["done"] = ticket.view.partitions
        view = ticket.view.changed(state=state, ended=time.time(), **told)
        self._store.save(Row(ticket.seq, ticket.digest, ticket.record, view))
        self._end(ticket, view)

    def _end(self, ticket: _Ticket, view: JobView) -> None:
        """A job is over, and that is written or will be. The lock is held."""
        ticket.job, ticket.record = None, {}
        self._nbytes, ticket.nbytes = self._nbytes - ticket.nbytes, 0
        self._ended.append(view.ended or 0.0)
        self._change(ticket, **vars(view))
        ticket.news.set()

    # -- books ------------------------------------------------------------------------------------------------------

    def _change(self, ticket: _Ticket, **facts: Any) -> None:
        before = ticket.view
        ticket.view = before.changed(**facts)
        if ticket.view.state is not before.state:
            self._counts[before.state.value] -= 1
            self._counts[ticket.view.state.value] += 1
        self._tell(ticket)

    def _tell(self, ticket: _Ticket) -> None:
        for listener in self.listeners:
            listener(ticket.view)

    def _ticket(self, id: str) -> _Ticket:
        ticket = self._tickets.get(id)
        if ticket is None or not ticket.is_kept:
            raise NoSuchJob(f"the service has no job {id}")
        return ticket

    def _view(self, ticket: _Ticket) -> JobView:
        if ticket.view.state is not JobState.QUEUED:
            return ticket.view
        return ticket.view.changed(place=bisect_left(self._waiting, (ticket.order, ticket.view.id)))

    def _require_room(self, nbytes: int = 0) -> None:
        if not self._accepting:
            raise ServiceGone("the service takes no more jobs: it is closing")
        if len(self._waiting) < self.limits.queued and (
            not nbytes or self._nbytes + nbytes <= self.limits.queued_bytes
        ):
            return
        after = self._pause()
        what = count_of(len(self._waiting), "job") + (
            f" with {count_of(self._nbytes, 'byte')} of inputs" if nbytes else ""
        )
        raise QueueFull(f"the queue is full, with {what}; try again in {after:.0f} s", after)

    def _pause(self) -> float:
        """Seconds after which to ask again when the queue is full: the time in which a job ended lately."""
        ended = tuple(self._ended)  # at once: jobs end meanwhile, and the lock need not be held
        now = time.time()
        recent = [when for when in ended if when > now - patience.RATE]
        return min(60.0, max(1.0, (now - recent[0]) / len(recent))) if recent else 10.0

    # -- retention --------------------------------------------------------------------------------------------------

    def _tidy_on(self) -> None:
        while not self._over.wait(patience.SERVICE_TIDY):
            self.tidy()

    def tidy(self) -> None:
        """Forget the oldest jobs that are over, as the limits say, and delete their runs if they are in the service's
        own folder."""
        # A few at a time: the service may end meanwhile, and what is not deleted yet is still known.
        while not self._over.is_set() and (old := self._take_old(CHUNK)):
            self._delete(old)

    def _keep_up(self, count: int = 1) -> None:
        """Forget two jobs for each that is over, where tidying has fallen behind: deleting a run may take longer than
        making one, and what is left would grow for as long as the service is busy."""
        if self._beyond() > BEHIND:
            self._delete(self._take_old(2 * count))

    def _beyond(self) -> int:
        """Number of jobs that are over beyond those that are kept."""
        with self._lock:
            return len(self._tickets) - len(self._waiting) - self._running.total() - self.limits.kept

    def _take_old(self, most: int) -> list[_Ticket]:
        """The oldest jobs that are to be forgotten, at most so many. They are known no more."""
        since, old = self.limits.kept_seconds, list[_Ticket]()
        with self._lock:
            beyond = self._beyond()
            for ticket in self._tickets.values():
                if len(old) == most or (since is None and len(old) >= beyond):
                    break
                expired = since is not None and (ticket.view.ended or 0.0) < time.time() - since
                if ticket.view.state.final and ticket.short is None and (len(old) < beyond or expired):
                    old.append(ticket)
            for ticket in old:
                del self._tickets[ticket.view.id]
        return old

    def _delete(self, old: list[_Ticket]) -> None:
        for ticket in old:
            path = Path(ticket.view.run)
            if path.parent == self.folder / RUNS and path.is_dir():
                with suppress(DistproveError):  # somebody reads it, or it was never made
                    delete_run(path)
        self._store.forget(old)


@contextmanager
def _briefly_held(lock: threading.Lock) -> Iterator[None]:
    """Hold a lock, or go on without it: whoever has it may wait for a slow disk."""
    held = lock.acquire(timeout=patience.SERVICE_POLITE)
    try:
        yield
    finally:
        if held:
            lock.release()


def _contents(job: Job | None) -> list[bytes]:
    """The inputs that a job was given as values."""
    return [source.content for source in job.sources if source.content is not None] if job is not None else []


def _nbytes(job: Job) -> int:
    """Bytes of memory that a job's inputs take while it waits: those that it was given as values, and the names of the
    others. A job's first input is not counted: each job takes so much."""
    return NAMED * max(0, len(job.sources) - 1) + sum(map(len, _contents(job)))
