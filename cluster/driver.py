"""The driver: a plan in, a proof out, everything on disk on the way."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import BinaryIO

from actors import patience
from cluster.aggregation import aggregated
from cluster.record.report import REPORT, PartitionReport, Report, public_message
from cluster.record.run import Barrier, Run, json_text
from cluster.record.status import StatusFile, status_view
from cluster.record.timeline import FILE, Session, place_of, read_timeline, timeline_json
from cluster.scheduler.barrier import draw_challenge, made_of, made_under
from cluster.scheduler.events import Note, Proved, StoreBarrier, Tell
from cluster.scheduler.jobs import Job, Progress
from cluster.scheduler.loop import Client
from cluster.scheduler.views import identity
from distprove.errors import (
    CalledOff,
    FormatError,
    InputError,
    InvalidProof,
    JobFailed,
    ResourceError,
    UsageError,
    typed,
)
from distprove.formats.folder import Folder
from distprove.host.collector import collecting_seldom
from distprove.host.memory import most_resident
from distprove.proof import (
    OUTPUT_FILE,
    PROOF_FILE,
    Aggregates,
    Proof,
    Publishes,
    invalid_among,
)
from distprove.settings import ExecutorSettings
from distprove.system import (
    ChecksCommitments,
    Explains,
    Partition,
    PartitionProof,
    PlansChallenge,
    ProofSystem,
    VerifiesJob,
)
from distprove.wanted import require_wanted
from kernels.host.private import NotPrivate, temporary_root
from kernels.host.units import count_of


def drive(
    system: ProofSystem,
    client: Client,
    run: Run,
    settings: ExecutorSettings,
    progress: Callable[[Progress], None] | None = None,
    plan: list[Partition] | None = None,
    ended: Callable[[Report], None] = lambda report: None,
) -> Proof:
    """Prove every partition of `system` that `run` does not hold yet, and bind them into one proof.

    Starting and resuming are the same thing: what the run holds is verified and kept, the rest is proven. The workers
    are started if there is anything to do; closing the client is the caller's business. Writes report.json and
    timeline.json however it ends, and calls `ended` with the report before. `plan`: the system's plan, where the caller
    made it.

    Raises InputError when the key or plan is not usable, ClusterError when the workers cannot be placed, JobFailed
    when some partition could not be proven (the others are kept), KeyboardInterrupt on SIGINT and SIGTERM, CalledOff
    where `distprove.wanted.unless` holds, and what `progress` raises. In all these cases the run can be resumed.
    """
    with interruptible(), collecting_seldom():
        session = Session(executor=client.kind)
        status = StatusFile(run.folder, lambda: client.governor_report(session.began))
        report = Report(system.name, system.describe(), client.kind, system.key_digest().hex(), [])
        report.started, report.chosen = session.began, client.chosen
        report.left_out = [*(run.record["job"] or {}).get("left_out", ())]
        try:
            # 1. Plan. The same job gives the same partitions, and a resumed run must still be about the same inputs.
            plan = plan if plan is not None else system.plan()
            run.check_plan(system, plan)
            check_needs(plan)
            report.partitions = [PartitionReport(p.name) for p in plan]
            if run.ended_without_a_word():
                run.note("driver-died", sync=False, reason="the last session ended without a word: it has no report")
            run.note("session", sync=False, executor=client.kind, partitions=len(plan))

            # 2. Take up what an earlier session left. A file proves nothing by being there: each is verified again.
            done, barrier = take_up(system, run, plan, report)

            # 3. Dispatch until each partition is proven and verified, or has failed.
            shown = _raising(progress)
            if shown is not None and client.chosen:
                shown(Progress("chosen", None, None, None, 0, 0, len(plan), client.chosen))
            job = Job(
                id=client.job,
                key=client.known_as or (identity(system) if client.scheduler.standing else ""),
                system=system,
                plan=[replace(p, job=client.job) for p in plan] if client.job else plan,
                report=report,
                session=session,
                max_retries=settings.max_retries,
                rank=client.rank,
                proofs=done,
                barrier=barrier,
                listens=shown is not None,
            )
            with status:
                try:
                    _follow(job, client, run, shown, status)
                finally:
                    client.finish()
                    report.workers = list(job.workers.values())
            proofs = job.proofs
            failed = [p for p in report.partitions if p.status == "failed"]
            if failed:
                more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
                raise JobFailed(
                    f"{len(failed)} of {count_of(len(plan), 'partition')} failed: {failed[0].name}: "
                    f"{failed[0].error}{more}",
                    [partition.error_kind for partition in failed],
                )

            # 4. Bind them, in the plan's order, and read back what will be published before calling it done.
            ordered = [proofs[p.name] for p in plan]
            proof = Proof.assemble(system, ordered)
            with run.folder.filling(PROOF_FILE, proof.write_to) as written:  # most of it lets go of the lock
                if isinstance(system, VerifiesJob):
                    try:
                        system.verify_job(ordered)
                    except (InvalidProof, FormatError) as error:
                        raise JobFailed(f"the partitions' proofs hold, but not together: {error}") from None
                explained = system.explain(ordered) if isinstance(system, Explains) else report.proven
                _read_back(proof, written())
                if proof.output is not None:
                    run.folder.write(OUTPUT_FILE, proof.output)
            if isinstance(system, Aggregates) and (made := aggregated(system, proof, client, run)):
                run.folder.write(*made)
                report.aggregate = made[0]
            if isinstance(system, Publishes):
                for name, content in system.published(ordered).items():
                    run.folder.write(name, content)
                    report.files.append(name)
            report.proven = explained
            report.status, report.job_digest = "proved", proof.job_digest.hex()
        except (KeyboardInterrupt, SystemExit):  # Ray, once connected, turns SIGTERM into the latter
            report.status, report.error = "interrupted", "interrupted; the run can be resumed"
            raise KeyboardInterrupt from None
        except _Raised as raised:
            reason = f"`progress` raised {type(raised.error).__name__}"
            report.status, report.error = "interrupted", f"{reason}; the run can be resumed"
            raise raised.error from None
        except CalledOff as error:
            report.status, report.error = "interrupted", str(error)
            raise
        except BaseException as error:
            told = typed(error)
            report.status, report.error = "failed", public_message(told)
            raise told from (error if told is not error else None)
        finally:
            # 5. Report, whatever happened.
            report.wall_seconds = time.time() - session.began
            report.driver_memory = most_resident()
            report.governors = client.governor_report(session.began)
            busy = session.busy()
            for worker in report.workers:
                worker.busy_seconds = busy[worker.id]
            session.wall_seconds, session.status = report.wall_seconds, report.status
            session.workers = [place_of(worker) for worker in report.workers]
            ended(report)
            _write_report(run, report, session, status)
    return proof


def _follow(
    job: Job, client: Client, run: Run, progress: Callable[[Progress], None] | None, status: StatusFile
) -> None:
    """Have the job proven, and write and show what comes of it, until each partition is done or has failed."""
    if not job.open:
        return

    def waits(what: str) -> None:
        if progress is not None:
            progress(job.progress("waiting", detail=what))

    client.begin(job, run.store, waits)
    for effect in client.effects():
        require_wanted()
        match effect:
            case Note():
                run.note(effect.event, sync=effect.sync, **effect.facts)
            case Proved():
                run.note_all("proved", [report.proved_json() for report in effect.reports], sync=False)
            case Tell() if progress is not None:
                progress(effect.progress)
            case StoreBarrier():
                run.store_barrier(effect.commitments, effect.challenge)
                client.barrier_stored()
        status.post(client.view)


def _read_back(proof: Proof, file: BinaryIO) -> None:
    """Raise FormatError or InvalidProof unless a file holds the proof. It need not be on disk."""
    try:
        content = mmap(file.fileno(), 0, access=ACCESS_READ)
    except OSError:  # some file systems map nothing
        file.seek(0)
        Proof.from_bytes(file.read(), written=proof)
        return
    except ValueError:
        raise FormatError(f"{PROOF_FILE}: an empty file") from None
    with content:
        Proof.from_bytes(content, written=proof)


def _write_report(run: Run, report: Report, session: Session, status: StatusFile) -> None:
    """Write how the session ended. Raises ResourceError for what cannot be written, after all that can; a report for
    which the run's disk has no room goes to a folder for temporary files."""
    lost: list[BaseException] = []
    durable = report.wall_seconds > patience.SHORT_SESSION
    writes: list[Callable[[], None]] = [
        lambda: run.folder.write(REPORT, json_text(report.to_record()), durable=durable),
        lambda: run.folder.write(FILE, timeline_json([*_earlier_sessions(run), session]).encode(), durable=durable),
        lambda: status.finish(status_view(report, Counter(p.status for p in report.partitions))),
        lambda: run.note(report.status, wall_seconds=round(report.wall_seconds, 6), job=report.job_digest),
    ]
    for write in writes:
        try:
            write()
        except (OSError, ResourceError) as error:
            lost.append(typed(error, run.path))
    run.is_new = False
    if not lost or report.status == "interrupted":
        return
    message = f"{report.error}; {lost[0]}" if report.error else str(lost[0])
    with suppress(OSError, NotPrivate):
        elsewhere = Folder.open_ours(Path(tempfile.mkdtemp(prefix="distprove-report-", dir=temporary_root())))
        elsewhere.write(REPORT, json_text(report.to_record()))
        message += f" (the report is in {elsewhere.path})"
    raise ResourceError(message)


def check_needs(plan: Sequence[Partition]) -> None:
    """Raise UsageError for a plan whose partitions need others which it lacks, or each other."""
    needs = {p.name: p.needs for p in plan if p.needs}
    if not needs:
        return
    names = {p.name for p in plan}
    absent = next((name for each in needs.values() for name in each if name not in names), None)
    if absent is not None:
        raise UsageError(f"the plan lacks {absent}, which another partition needs")
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        raise UsageError(f"partitions need each other: {', '.join(error.args[1])}") from None


def take_up(
    system: ProofSystem, run: Run, plan: list[Partition], report: Report
) -> tuple[dict[str, PartitionProof], Barrier | None]:
    """The stored partition proofs that are readable and verify, by name; others are removed, counted and proven again,
    and so are those of packs that cannot be read.

    For a system with a barrier also its commitments and challenge. Proofs without them, or they without a proof of a
    partition that took part, bind nothing, and the session starts over.
    """
    found: dict[str, PartitionProof] = {}
    if run.is_new:
        return found, None
    for pack, reason in run.remove_damaged_packs().items():
        report.counters.damaged_files += 1
        run.note("damaged", file=pack, reason=reason)
    kept = run.stored()
    for partition in (p for p in plan if p.name in kept):
        try:
            proof = run.load(partition)
        except InputError as error:
            _discard(run, partition, report, str(error))
            continue
        if proof is not None:
            found[partition.name] = proof
    _discard_unlike(system, run, plan, report, found)  # before they are verified: each would name what that takes
    stored = [partition for partition in plan if partition.name in found]
    for place in invalid_among(system, [found[partition.name] for partition in stored]):
        del found[stored[place].name]
        _discard(run, stored[place], report, "does not verify")
    barrier = _load_barrier(system, run, plan) if system.needs_barrier and found else None
    if system.needs_barrier:
        lost = "the commitments it was proven under are lost" if barrier is None else "it was proven under others"
        for partition in plan:
            proof = found.get(partition.name)
            if proof is None or not partition.commits:
                continue
            if barrier is None or not made_under(system, partition, proof, barrier):
                del found[partition.name]
                _discard(run, partition, report, lost)
        barrier = barrier if any(p.commits and p.name in found for p in plan) else None
    elif isinstance(system, PlansChallenge):
        challenge = system.planned_challenge()
        for partition in plan:
            proof = found.get(partition.name)
            if proof is not None and partition.commits and _challenge(system, proof) != challenge:
                del found[partition.name]
                _discard(run, partition, report, "it was proven for another list of partitions")
    _discard_unlike(system, run, plan, report, found)
    for entry in report.partitions:
        if entry.name in found:
            entry.status = "resumed"
    if found:
        run.note("resumed", partitions=len(found))
    return found, barrier


def _discard_unlike(
    system: ProofSystem, run: Run, plan: list[Partition], report: Report, found: dict[str, PartitionProof]
) -> None:
    """Discard proofs of partitions that depend on others, where one of these is lost or is not what they were made
    of."""
    needs = {p.name: p.needs for p in plan if p.needs}
    planned = {p.name: p for p in plan}
    for name in TopologicalSorter(needs).static_order() if needs else ():  # what others need comes first
        if name not in found:
            continue
        own = needs.get(name, ())
        alone = any(needed not in found for needed in own)
        if alone or not made_of(system, planned[name], found[name], [found[needed] for needed in own]):
            del found[name]
            reason = "the proof of a child is lost" if alone else "it was made from other proofs than its children's"
            _discard(run, planned[name], report, reason)


def _earlier_sessions(run: Run) -> list[Session]:
    """Sessions in a resumed run's timeline; none if it is damaged, because nothing depends on it."""
    if run.is_new:
        return []
    try:
        return read_timeline(run.path)
    except InputError:
        return []


def _load_barrier(system: ProofSystem, run: Run, plan: list[Partition]) -> Barrier | None:
    """The stored barrier, if it is of this plan and job, and its challenge follows from its commitments."""
    try:
        barrier = run.load_barrier()
        names = [p.name for p in plan if p.commits]
        if barrier is None or barrier[0].keys() != {*names}:
            return None
        commitments = {name: barrier[0][name] for name in names}
        if isinstance(system, ChecksCommitments):
            system.check_commitments(list(commitments.values()))  # of another output, no proof made under it will do
        return barrier if draw_challenge(system, commitments) == barrier[1] else None
    except (InputError, InvalidProof):
        return None


class _Raised(BaseException):
    """Carries an error of the caller's `progress` past all that handles errors of the job."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _raising(progress: Callable[[Progress], None] | None) -> Callable[[Progress], None] | None:
    """`progress`, whose errors end the job."""

    def told(event: Progress) -> None:
        assert progress is not None
        try:
            progress(event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also SystemExit, or that a task of asyncio is cancelled
            raise _Raised(error) from None

    return told if progress is not None else None


def _challenge(system: PlansChallenge, proof: PartitionProof) -> bytes | None:
    """The challenge that a kept proof names; None for one that is none of the system's."""
    try:
        return system.made_under(proof)[1]
    except FormatError:
        return None


def _discard(run: Run, partition: Partition, report: Report, reason: str) -> None:
    report.counters.damaged_files += 1
    run.note("damaged", partition=partition.name, reason=reason)
    run.discard(partition)


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside the block SIGTERM raises KeyboardInterrupt, as SIGINT does: a scheduler's stop ends like a person's.

    So does SIGHUP, of a terminal that is closed, unless it is ignored, as under `nohup`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers; whoever runs us in another one stops us in another way
        return

    def interrupt() -> None:
        raise KeyboardInterrupt

    with handling((n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN), interrupt):
        yield


@contextmanager
def handling(signals: Iterable[signal.Signals], call: Callable[[], None]) -> Iterator[None]:
    """Inside the block these signals call `call`. For the main thread alone."""
    before = {number: signal.signal(number, lambda *_: call()) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
