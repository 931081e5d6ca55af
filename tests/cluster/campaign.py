"""Random schedules of faults, over all transports. A seed makes a schedule, and the same one each time.

    python -m tests.cluster.campaign --transport processes --seeds 0:200 --out outcomes.jsonl
    python -m tests.cluster.campaign --sum docs/results/fault-campaign.json outcomes.jsonl

A job meets the faults of its schedule, session after session, until its proof is there. Every job must come out right,
or end with a reason and be resumed; nothing is on disk that does not verify; and when a session is over, however it
ended, no process and no temporary file of it is left.
"""

from __future__ import annotations

import argparse
import errno
import faulthandler
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from cluster import session
from cluster.executor.opening import open_executor
from cluster.record.journal import read_journal
from cluster.record.report import public_message
from cluster.record.run import Run, is_run
from distprove.errors import exit_code, typed
from distprove.proof import PROOF_FILE, Proof
from distprove.settings import ExecutorSettings
from distprove.system import PartitionProof
from tests.support import ROOT
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

MARK = "DISTPROVE_CAMPAIGN"
"""Variable in the environment of every process of a schedule."""
SESSIONS = 8
"""Sessions in which a job must be done: each fault ends one, at most."""
LONGEST = 150.0
"""Seconds after which a session counts as stuck."""
LEAK = 5.0
"""Seconds after a session in which all that it started has ended, on a machine that has nothing else to do."""
ANYWHERE = ("bad_proof", "fault", "out_of_memory", "slow", "bad_input", "disk_full", "kill_driver", "cut_files")
IN_PROCESSES = ("kill_prover", "kill_synthesiser", "stop_prover", "stop_synthesiser", "kill_verifier", "stop_verifier")
OF_A_CLUSTER = ("lost_node", "lost_head")
TRANSPORTS = {
    "threads": ANYWHERE,
    "processes": (*ANYWHERE, *IN_PROCESSES),
    "ray": (*(kind for kind in ANYWHERE if kind != "kill_driver"), *IN_PROCESSES, *OF_A_CLUSTER),
}
OUTSIDE = ("kill_driver", "cut_files", "disk_full", *OF_A_CLUSTER)
"""Faults that do not happen inside of a worker or verifier."""


@dataclass(frozen=True)
class Schedule:
    """A job, and what befalls it."""

    seed: int
    transport: str
    partitions: int
    workers: int
    barrier: bool
    in_python: bool
    """Whether its verifier is Python, and runs in processes of its own."""
    faults: tuple[tuple[str, str], ...]
    """Kinds of faults, each with the partition that it happens at."""
    after: float
    """Seconds into the session after which the driver, a node or the head is killed."""

    @classmethod
    def of(cls, seed: int, transport: str) -> Schedule:
        """The schedule of a seed."""
        chance = random.Random(f"{transport} {seed}")
        count = chance.randint(3, 12)
        in_python = transport != "threads" and chance.random() < 0.4
        kinds = [kind for kind in TRANSPORTS[transport] if in_python or not kind.endswith("_verifier")]
        faults = tuple((chance.choice(kinds), f"p{chance.randrange(count)}") for _ in range(chance.randint(1, 4)))
        workers = chance.randint(1, 3) if transport != "ray" else 1
        return cls(seed, transport, count, workers, chance.random() < 0.3, in_python, faults, chance.uniform(0.05, 2.5))

    def system(self, folder: Path) -> ToySystem:
        """The job's proof system, whose faults count in `folder`."""
        inside: dict[str, Any] = {}
        for kind, name in self.faults:
            if kind == "bad_input":
                inside[kind] = (*inside.get(kind, ()), name)
            elif kind == "slow":
                inside.setdefault(kind, {})[name] = 1.5
            elif kind not in OUTSIDE:
                of_kind = inside.setdefault(kind, {})
                of_kind[name] = of_kind.get(name, 0) + 1
        inside["slow"] = {**{f"p{i}": 0.03 for i in range(self.partitions)}, **inside.get("slow", {})}
        return ToySystem(self.partitions, Faults(folder, **inside), self.barrier, self.in_python)

    def settings(self, address: str | None = None) -> ExecutorSettings:
        """How the job is run: patient enough for its faults, and quick to hold who is silent for hung."""
        common: dict[str, Any] = {"backend": TOY_BACKEND, "max_retries": 50, "hang_timeout": 3.0}
        if self.transport == "ray":
            return ExecutorSettings(**common, gpus=0, address=address)
        isolate = self.transport == "processes"
        return ExecutorSettings(**common, local=True, isolate=isolate, threads=2, gpu_workers=self.workers)

    def has(self, kind: str) -> bool:
        return any(each == kind for each, _ in self.faults)


@dataclass
class Outcome:
    """What became of a schedule."""

    seed: int
    transport: str
    faults: list[str]
    outcome: str = "wrong"
    """ "proved", "resumed", "refused" for inputs that are at fault, or "wrong"."""
    why: list[str] = field(default_factory=list)
    """What was wrong."""
    ends: list[str] = field(default_factory=list)
    """How each session ended."""
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from a death until the worker was ready again, by the kind of worker; and from the loss of a node or head
    until the next partition was proven."""
    seconds: float = 0.0


# -- one session, in a process of its own --------------------------------------------------------------------------


def run_session(schedule: Schedule, folder: Path, address: str | None) -> None:
    """Prove, or resume, and write to `folder` how that ended."""
    system, settings, path = schedule.system(folder / "faults"), schedule.settings(address), folder / "run"
    if schedule.has("disk_full"):
        _fill_disk(system.faults, next(name for kind, name in schedule.faults if kind == "disk_full"))
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    told: dict[str, Any] = {"error": None, "message": None, "code": 0}
    try:
        opened = Run.open(path) if is_run(path) else Run.create(path, system, system.plan())
        with opened as run, open_executor(settings) as executor:
            session._prove(system, executor, run, settings, None)
    except BaseException as error:
        raised = typed(error)
        told = {"error": type(raised).__name__, "message": public_message(raised), "code": exit_code(raised)}
        told["trace"] = traceback.format_exc()
    (folder / "end.json").write_text(json.dumps(told))


def _fill_disk(faults: Faults, name: str) -> None:
    """Have the disk be full, once, when that partition is kept."""
    store = Run.store

    def full(run: Run, proofs: Sequence[PartitionProof]) -> None:
        if name in {proof.name for proof in proofs} and faults.first(f"disk_full-{name}-0"):
            raise OSError(errno.ENOSPC, "No space left on device")
        store(run, proofs)

    Run.store = full  # type: ignore[method-assign]


class Sessions:
    """Runs sessions of schedules, each in a process of its own: forked from this one, or, over Ray, started."""

    def __init__(self, schedule: Schedule, folder: Path, address: str | None = None) -> None:
        self._schedule = schedule
        self._folder = folder
        self._address = address

    def start(self) -> int:
        """The process of a session."""
        (self._folder / "end.json").unlink(missing_ok=True)
        if self._schedule.transport == "ray":
            words = ["--session", self._folder, self._schedule.seed, self._address]
            command = [sys.executable, "-m", "tests.cluster.campaign", *map(str, words)]
            with open(self._folder / "output", "ab") as output:
                environment = {**os.environ, MARK: str(self._folder), "PYTHONPATH": str(ROOT)}
                return subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=ROOT).pid
        pid = os.fork()
        if pid:
            return pid
        try:  # the life of the child
            os.setsid()
            os.environ[MARK] = str(self._folder)
            os.environ["TMPDIR"] = tempfile.tempdir = str(self._folder / "tmp")
            output = os.open(self._folder / "output", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            run_session(self._schedule, self._folder, None)
        finally:
            sys.stdout.flush()
            os._exit(0)

    def wait(self, pid: int, kill_after: float | None, meanwhile: Callable[[], None] | None) -> str:
        """How the session ended: "done", an error's name, "killed", or "stuck". What is to be done `meanwhile` is done
        after that time, as is the killing of the driver."""
        began, done = time.monotonic(), False
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            passed = time.monotonic() - began
            if kill_after is not None and passed > kill_after and not done:
                done = True
                if meanwhile is not None:
                    meanwhile()
                else:
                    os.kill(pid, signal.SIGKILL)
            if passed > LONGEST:
                os.kill(pid, signal.SIGUSR1)  # it writes what its threads are at
                time.sleep(1.0)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return "stuck"
            time.sleep(0.02)
        try:
            told = json.loads((self._folder / "end.json").read_text())
        except (OSError, ValueError):
            return "killed"
        return told["error"] or "done"


# -- one schedule ---------------------------------------------------------------------------------------------------


def play(schedule: Schedule, folder: Path, cluster: Any = None, leak: float = LEAK) -> Outcome:
    """Play a schedule, and say what became of it."""
    outcome = Outcome(schedule.seed, schedule.transport, [kind for kind, _ in schedule.faults])
    for name in ("faults", "tmp"):
        (folder / name).mkdir(mode=0o700)
    began = time.monotonic()
    system = schedule.system(folder / "faults")
    bad = set(system.faults.bad_input)
    pending = [kind for kind, _ in schedule.faults if kind in ("kill_driver", "lost_node", "lost_head")]
    cuts = sum(kind == "cut_files" for kind, _ in schedule.faults)
    end = ""
    while len(outcome.ends) < SESSIONS:
        sessions = Sessions(schedule, folder, cluster.address if cluster is not None else None)
        kind, meanwhile = (pending.pop(0), None) if pending else (None, None)
        if kind in OF_A_CLUSTER:
            meanwhile = cluster.lose_node if kind == "lost_node" else cluster.lose_head
        # Over Ray a session connects for some seconds before it begins.
        after = schedule.after * (4 if cluster is not None else 1) if kind else None
        end = sessions.wait(sessions.start(), after, meanwhile)
        outcome.ends.append(end)
        outcome.why += leaks(folder, leak) + unverified(schedule, folder)
        if cluster is not None:
            cluster.mend()
        if end == "stuck":
            outcome.why.append(f"a session took more than {LONGEST:.0f} s")
            break
        if not told(end, folder):
            outcome.why.append(f"the session ended with {end}, which its report does not say")
        over = end == "done" or (end == "JobFailed" and bad and failed(folder) == refused(schedule, bad))
        if cuts and (folder / "run" / "job.json").exists():
            cuts -= 1
            cut(folder / "run", random.Random(f"cut {schedule.seed} {cuts}"))
        elif over and not pending:
            break
    judge(schedule, folder, outcome, end, bad)
    outcome.recoveries = recoveries(folder)
    outcome.seconds = round(time.monotonic() - began, 3)
    if outcome.why:
        outcome.outcome = "wrong"
        with suppress(OSError):
            outcome.why.append((folder / "output").read_text()[-6000:])
            outcome.why.append((folder / "end.json").read_text()[-2000:])
    return outcome


def judge(schedule: Schedule, folder: Path, outcome: Outcome, end: str, bad: set[str]) -> None:
    """Whether the job came to what it had to come to."""
    several = len([each for each in outcome.ends if each != "done"]) > 0
    if bad:
        outcome.outcome = "refused"
        if end != "JobFailed" or failed(folder) != refused(schedule, bad):
            outcome.why.append(f"inputs are at fault, and the job ended with {end}")
        return
    outcome.outcome = "resumed" if several else "proved"
    try:
        proof = Proof.read(folder / "run" / PROOF_FILE)
        proof.verify(schedule.system(folder / "faults"))
        if [p.public for p in proof.partitions] != [(i * i, 0) for i in range(schedule.partitions)]:
            outcome.why.append("the proof is of something else")
    except Exception as error:
        outcome.why.append(f"no good proof: {type(error).__name__}: {error}")


def refused(schedule: Schedule, bad: set[str]) -> set[str]:
    """The partitions that fail for inputs at fault: where all have a challenge in common, all."""
    return {f"p{i}" for i in range(schedule.partitions)} if schedule.barrier else bad


def report(folder: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads((folder / "run" / "report.json").read_text())
    except (OSError, ValueError):
        return {"partitions": [], "status": None, "error": None}
    return value


def failed(folder: Path) -> set[str]:
    return {entry["name"] for entry in report(folder)["partitions"] if entry["status"] == "failed"}


def told(end: str, folder: Path) -> bool:
    """Whether a session that failed has a report that says so, with the reason."""
    if end in ("done", "killed", "stuck"):
        return True
    found = report(folder)
    return found["status"] in ("failed", "interrupted") and bool(found["error"])


def unverified(schedule: Schedule, folder: Path) -> list[str]:
    """Partitions on disk whose proofs do not hold."""
    system = schedule.system(folder / "faults")
    wrong: list[str] = []
    with suppress(Exception), Run.open(folder / "run") as run:  # there is none if the session was killed before
        for partition in system.plan():
            with suppress(Exception):  # one that was cut
                proof = run.load(partition)
                if proof is not None and not ToySystem.verify(_quiet(system), proof):
                    wrong.append(f"{partition.name} is on disk and does not verify")
    return wrong


def _quiet(system: ToySystem) -> ToySystem:
    """The system without faults of verifiers."""
    return ToySystem(system.count, Faults(system.faults.folder), system.needs_barrier)


def leaks(folder: Path, patience: float) -> list[str]:
    """Processes and temporary files of a session that is over. Those that the session itself stopped are continued: a
    process whose parent is gone sees that only then."""
    late = time.monotonic() + patience * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    while True:
        for process in marked(folder):
            with suppress(psutil.Error):
                if process.status() == psutil.STATUS_STOPPED and process.ppid() == 1:
                    process.send_signal(signal.SIGCONT)
        left = [f"process {process.pid}, {_name_of(process)}" for process in marked(folder)]
        files = [str(path) for path in (folder / "tmp").iterdir() if not path.name.startswith("distprove-report-")]
        if not left and not files:
            return []
        if time.monotonic() > late:
            for process in marked(folder):
                process.kill()
            for path in (folder / "tmp").iterdir():
                shutil.rmtree(path, ignore_errors=True)
            return [f"left after {patience:.0f} s: {each}" for each in (*left, *files)]
        time.sleep(0.05)


def _name_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[-80:]
    except psutil.Error:
        return "which is ending"


def marked(folder: Path) -> list[psutil.Process]:
    """The processes that belong to a schedule."""
    mark, found = f"{MARK}={folder}\0".encode(), []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, psutil.Error, ValueError):
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes() + b"\0":
                process = psutil.Process(int(entry.name))
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
    return found


def cut(run: Path, chance: random.Random) -> None:
    """Cut off the end of some file of a run, as a power cut may."""
    told = [
        path for path in run.rglob("*") if path.is_file() and path.name not in ("job.json", "job.json.copy", "lock")
    ]
    if told:
        path = chance.choice(sorted(told))
        size = path.stat().st_size
        os.truncate(path, chance.randrange(size) if size else 0)
        (run / PROOF_FILE).unlink(missing_ok=True)


def recoveries(folder: Path) -> dict[str, list[float]]:
    """Seconds from each death until the worker was ready again, as the journal has them. Where a fault has a time of
    its own, that counts as the start."""
    with suppress(Exception):
        events = list(read_journal(folder / "run"))
        found: dict[str, list[float]] = {}
        for index, event in enumerate(events):
            if event["event"] != "death":
                continue
            kind = str(event["worker"]).partition("-")[0]
            struck = [at for at in _struck(folder, f"kill_{kind}") if at <= event["time"]]
            began = max(struck, default=event["time"])
            began = began if event["time"] - began < 60 else event["time"]
            for later in events[index:]:
                if later["event"] == "session":
                    break
                if later["event"] == "worker-ready" and later["worker"] == event["worker"]:
                    found.setdefault(kind, []).append(round(later["time"] - began, 3))
                    break
        return found
    return {}


def _struck(folder: Path, kind: str) -> list[float]:
    return [path.stat().st_mtime for path in (folder / "faults").glob(f"{kind}-*")]


# -- a cluster ------------------------------------------------------------------------------------------------------


class SmallCluster:
    """A Ray of two nodes on this machine, which may lose either."""

    def __init__(self) -> None:
        self._cluster: Any = None
        self._second: Any = None
        self.mend()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def lose_node(self) -> None:
        if self._second is not None:
            self._cluster.remove_node(self._second, allow_graceful=False)
            self._second = None

    def lose_head(self) -> None:
        for process in psutil.Process().children():
            with suppress(psutil.Error):
                if process.name() == "gcs_server":
                    process.kill()
        self.close()

    def mend(self) -> None:
        """Start what is missing."""
        from ray.cluster_utils import Cluster

        from tests.support.ray_nodes import patiently, raylet

        if self._cluster is None:
            head = {**raylet(), "include_dashboard": False}
            self._cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        if self._second is None:
            self._second = patiently(lambda: self._cluster.add_node(**raylet()))

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.shutdown()
        self._cluster = self._second = None


# -- many schedules -------------------------------------------------------------------------------------------------


def campaign(seeds: Sequence[int], transport: str) -> Iterator[Outcome]:
    """Play the schedules of these seeds. More at a time are more processes of this module, each with its own seeds."""
    cluster = SmallCluster() if transport == "ray" else None
    try:
        for seed in seeds:
            with scratch() as folder:
                yield play(Schedule.of(seed, transport), folder, cluster)
    finally:
        if cluster is not None:
            cluster.close()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts by fault, transport and outcome, and times of recovery."""
    times: dict[str, list[float]] = {}
    for outcome in outcomes:
        for kind, seconds in outcome.recoveries.items():
            times.setdefault(f"{outcome.transport} {kind}", []).extend(seconds)
    by_fault: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        for kind in outcome.faults:
            by_fault.setdefault(f"{outcome.transport} {kind}", Counter())[outcome.outcome] += 1
    return {
        "format": "distprove.fault-campaign",
        "what": "random schedules of faults (tests/cluster/campaign.py): a toy proof system on a machine with 2 cores",
        "schedules": dict(Counter(outcome.transport for outcome in outcomes)),
        "faults": sum(len(outcome.faults) for outcome in outcomes),
        "outcomes": {
            transport: dict(Counter(each.outcome for each in outcomes if each.transport == transport))
            for transport in sorted({outcome.transport for outcome in outcomes})
        },
        "by_fault": {kind: dict(counts) for kind, counts in sorted(by_fault.items())},
        "recovery_seconds": {
            kind: {"count": len(found), "median": round(statistics.median(found), 3), "worst": max(found)}
            for kind, found in sorted(times.items())
        },
        "wrong": [asdict(outcome) for outcome in outcomes if outcome.outcome == "wrong"],
    }


def main() -> None:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Play random schedules of faults.")
    parser.add_argument("--transport", default="processes", choices=TRANSPORTS)
    parser.add_argument("--seeds", default="0:10", help="from:to")
    parser.add_argument("--out", type=Path, help="where every outcome is added, one a line")
    parser.add_argument("--sum", type=Path, nargs="+", help="only write to the first file what the others come to")
    parser.add_argument("--session", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sum:
        target, *files = given.sum
        lines = [line for file in files for line in file.read_text().splitlines()]
        target.write_text(json.dumps(summary([Outcome(**json.loads(line)) for line in lines]), indent=1) + "\n")
        return
    if given.session:
        folder, seed, address = given.session
        run_session(Schedule.of(int(seed), "ray"), Path(folder), address)
        os._exit(0)  # Ray may have nothing to say goodbye to
    first, _, last = given.seeds.partition(":")
    for outcome in campaign(range(int(first), int(last)), given.transport):
        facts = asdict(outcome)
        print(*(facts[key] for key in ("transport", "seed", "outcome", "ends", "faults", "seconds")), flush=True)
        print(*outcome.why, sep="\n", end="\n" if outcome.why else "", flush=True)
        if given.out is not None:
            with given.out.open("a") as out:
                out.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
