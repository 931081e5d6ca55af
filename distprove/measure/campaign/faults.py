"""Random schedules of faults, over all transports. A seed makes a schedule, and the same one each time.

    python -m distprove.measure.campaign.faults --transport processes --seeds 0:200 --out outcomes.jsonl
    python -m distprove.measure.campaign.faults --transport ray --seeds 0:60 --out outcomes.jsonl
    python -m distprove.measure.campaign.faults --sum docs/results/fault-campaign.json outcomes.jsonl

A job meets the faults of its schedule, session after session, until its proof is there. Every job must come out right,
or end with a reason and be resumed; nothing is on disk that does not verify; and when a session is over, however it
ended, no process and no temporary file of it is left.

Over Ray the job runs on a cluster of two or three nodes on this machine (`CLUSTER`), which may lose nodes,
its head or its network; or, one time in eight, on a Ray that the job starts for itself.
"""

from __future__ import annotations

import argparse
import errno
import faulthandler
import importlib
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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from cluster import session
from cluster.opening import open_client
from cluster.record.journal import read_journal
from cluster.record.report import public_message
from cluster.record.run import Run, is_run
from distprove.errors import exit_code, typed
from distprove.formats.owncode import import_named
from distprove.measure.campaign import CLUSTER, ROOT, TOY, Cluster, Toy, load_toy
from distprove.measure.campaign.processes import after_death, can_cut, end_with_parent, marked
from distprove.proof import PROOF_FILE, Proof
from distprove.settings import ExecutorSettings
from distprove.system import PartitionProof, ProofSystem

MARK = "DISTPROVE_CAMPAIGN"
"""Variable in the environment of every process of a schedule."""
SESSIONS = 8
"""Sessions in which a job must be done: each fault ends one, at most."""
CAMPAIGN = "DISTPROVE_CAMPAIGN_PID"
"""Variable in the environment of all processes of a campaign: the id of the one that began it."""
LONGEST = 400.0
"""Seconds after which a session counts as stuck."""
OTHERS_FILES = ("distprove-report-", "pymp-", "ray")
"""Beginnings of names of temporary files that may stay: reports for which a disk had no room, and what libraries remove
at the end of their process, which here ends at once, or never."""
LEAK = 5.0
"""Seconds after a session in which all that it started has ended, on a machine that has nothing else to do."""
ANYWHERE = ("bad_proof", "fault", "out_of_memory", "slow", "bad_input", "disk_full", "kill_driver", "cut_files")
IN_PROCESSES = ("kill_prover", "kill_synthesiser", "stop_prover", "stop_synthesiser", "kill_verifier", "stop_verifier")
IN_ACTORS = ("kill_actor", "stop_actor")
OF_A_CLUSTER = ("lost_node", "lost_raylet", "returning_node", "lost_head", "cut", "cut_for_good", "cut_from_head")
OF_AN_OWN_RAY = ("lost_head", "lost_raylet")
TRANSPORTS = {
    "threads": ANYWHERE,
    "processes": (*ANYWHERE, *IN_PROCESSES),
    "ray": (*ANYWHERE, *IN_PROCESSES, *IN_ACTORS),
}
OUTSIDE = ("kill_driver", "cut_files", "disk_full", *OF_A_CLUSTER)
"""Faults that do not happen inside of a worker or verifier."""
CUTS = (3.0, 8.0, 20.0)
"""Seconds for which a network is cut."""
RESTARTED = 10.0
"""Seconds of a cut after which a node is started anew: its Ray may have given it up."""


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
    """Seconds into the session after which the driver is killed."""
    nodes: int = 1
    """Nodes of the Ray that the job joins; 0: it starts its own."""
    toy: str = TOY
    """The module of the job's proof system."""

    @classmethod
    def over_ray(cls, seed: int) -> Schedule:
        """The schedule of a seed over Ray: most have one fault of the cluster, and up to three others."""
        chance = random.Random(f"ray {seed}")
        count, in_python = chance.randint(4, 12), chance.random() < 0.3
        nodes = 0 if seed % 8 == 7 else 3 if seed % 16 >= 12 else 2
        kinds = [kind for kind in TRANSPORTS["ray"] if in_python or not kind.endswith("_verifier")]
        drawn = [chance.choice(kinds) for _ in range(chance.randint(0, 3))]
        if chance.random() < 0.75 or not drawn:
            drawn.append(chance.choice(OF_A_CLUSTER if nodes else OF_AN_OWN_RAY))
        faults = tuple((kind, f"p{chance.randrange(count)}") for kind in drawn)
        return cls(seed, "ray", count, 1, chance.random() < 0.25, in_python, faults, chance.uniform(0.1, 4.0), nodes)

    @classmethod
    def of(cls, seed: int, transport: str) -> Schedule:
        """The schedule of a seed."""
        if transport == "ray":
            return cls.over_ray(seed)
        chance = random.Random(f"{transport} {seed}")
        count = chance.randint(3, 12)
        in_python = transport != "threads" and chance.random() < 0.4
        kinds = [kind for kind in TRANSPORTS[transport] if in_python or not kind.endswith("_verifier")]
        faults = tuple((chance.choice(kinds), f"p{chance.randrange(count)}") for _ in range(chance.randint(1, 4)))
        workers = chance.randint(1, 3)
        return cls(seed, transport, count, workers, chance.random() < 0.3, in_python, faults, chance.uniform(0.05, 2.5))

    @property
    def bad_inputs(self) -> set[str]:
        """The partitions whose inputs are at fault."""
        return {name for kind, name in self.faults if kind == "bad_input"}

    def system(self, folder: Path) -> ProofSystem:
        """The job's proof system, whose faults count in `folder`."""
        toy = load_toy(self.toy)
        return toy.ToySystem(self.partitions, self._inside(toy, folder), self.barrier, self.in_python)

    def sound_system(self, folder: Path) -> ProofSystem:
        """The same system without faults, and with a verifier that is not run in processes."""
        toy = load_toy(self.toy)
        return toy.ToySystem(self.partitions, toy.Faults(folder), self.barrier)

    def _inside(self, toy: Toy, folder: Path) -> Any:
        """The faults that happen inside of workers and verifiers."""
        inside: dict[str, Any] = {}
        for kind, name in self.faults:
            if kind == "bad_input":
                inside[kind] = (*inside.get(kind, ()), name)
            elif kind == "slow":
                inside.setdefault(kind, {})[name] = 1.5
            elif kind in OF_A_CLUSTER:
                inside["outside"] = {name: 1}
            elif kind not in OUTSIDE:
                of_kind = inside.setdefault(kind, {})
                of_kind[name] = of_kind.get(name, 0) + 1
        usual = 0.2 if self.transport == "ray" else 0.03
        inside["slow"] = {**{f"p{i}": usual for i in range(self.partitions)}, **inside.get("slow", {})}
        return toy.Faults(folder, **inside)

    def settings(self, address: str | None = None) -> ExecutorSettings:
        """How the job is run: patient enough for its faults, and quick to hold who is silent for hung."""
        common: dict[str, Any] = {"backend": load_toy(self.toy).TOY_BACKEND, "max_retries": 50, "hang_timeout": 3.0}
        if self.transport == "ray":
            if not any(kind.startswith("stop_") for kind, _ in self.faults):
                common["hang_timeout"] = 60.0  # what befalls a node is seen before that
            return ExecutorSettings(**common, gpus=0, address=address, local=False, start_timeout=90.0)
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
    """Seconds from a death until the worker was ready again, by the kind of worker; from the loss of a node until what
    it had was handed to others; and from the loss of the head until the job ended with the reason, or went on."""
    seconds: float = 0.0


# -- one session, in a process of its own --------------------------------------------------------------------------


def run_session(schedule: Schedule, folder: Path, address: str | None) -> None:
    """Prove, or resume, and write to `folder` how that ended."""
    system, settings, path = schedule.system(folder / "faults"), schedule.settings(address), folder / "run"
    if schedule.has("disk_full"):
        _fill_disk(folder, next(name for kind, name in schedule.faults if kind == "disk_full"))
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    told: dict[str, Any] = {"error": None, "message": None, "code": 0}
    try:
        opened = Run.open(path) if is_run(path) else Run.create(path, system, system.plan())
        with opened as run, open_client(settings) as executor:
            session._through_losses(system, executor, run, settings, None)
    except BaseException as error:
        raised = typed(error)
        told = {"error": type(raised).__name__, "message": public_message(raised), "code": exit_code(raised)}
        told["trace"] = traceback.format_exc()
    (folder / "end.json").write_text(json.dumps(told))


def _fill_disk(folder: Path, name: str) -> None:
    """Have the disk be full, once, when that partition is kept."""
    store = Run.store

    def full(run: Run, proofs: Sequence[PartitionProof]) -> None:
        with suppress(FileExistsError):
            if name in {proof.name for proof in proofs}:
                (folder / "disk-was-full").touch(exist_ok=False)
                raise OSError(errno.ENOSPC, "No space left on device")
        store(run, proofs)

    Run.store = full  # type: ignore[method-assign, assignment]


class Sessions:
    """Runs sessions of schedules, each in a process of its own: forked from this one, or started, where it has a Ray of
    its own, which reads its environment when it is imported."""

    def __init__(self, schedule: Schedule, folder: Path, cluster: Cluster | None = None, node: int = 0) -> None:
        """`node`: where the driver runs, of a cluster."""
        self._schedule = schedule
        self._folder = folder
        self._cluster = cluster
        self._node = node

    def start(self) -> int:
        """The process of a session."""
        (self._folder / "end.json").unlink(missing_ok=True)
        environment = {MARK: str(self._folder), "TMPDIR": str(self._folder / "tmp"), "PYTHONPATH": str(ROOT)}
        if not self._schedule.nodes:
            command = [sys.executable, "-m", "distprove.measure.campaign.faults", "--toy", self._schedule.toy]
            command += ["--session", str(self._folder), str(self._schedule.seed)]
            kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
            with open(self._folder / "output", "ab") as told:
                return subprocess.Popen(command, stdout=told, stderr=told, env={**kept, **environment}, cwd=ROOT).pid
        pid = os.fork()
        if pid:
            return pid
        try:  # the life of the child
            os.setsid()
            end_with_parent()
            os.environ |= environment
            tempfile.tempdir = environment["TMPDIR"]
            output = os.open(self._folder / "output", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            if self._cluster is not None:
                self._cluster.enter(self._node)
            run_session(self._schedule, self._folder, self._cluster.address if self._cluster is not None else None)
        finally:
            sys.stdout.flush()
            os._exit(0)

    def wait(self, pid: int, kill_after: float | None, outside: Outside | None = None) -> str:
        """How the session ended: "done", an error's name, "killed", or "stuck". The driver is killed after that time.
        What is to happen `outside` does."""
        began = time.monotonic()
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            passed = time.monotonic() - began
            if kill_after is not None and passed > kill_after:
                kill_after = None
                os.kill(pid, signal.SIGKILL)
            if outside is not None:
                outside.look(pid)
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


class Outside:
    """Does to a cluster, or to the Ray of a session, what a schedule has in store, when its partition is proven."""

    def __init__(self, schedule: Schedule, folder: Path, cluster: Cluster | None) -> None:
        self._folder = folder
        self._cluster = cluster
        self._chance = random.Random(f"outside {schedule.seed}")
        self._pending = [(kind, name) for kind, name in schedule.faults if kind in OF_A_CLUSTER]
        self._due: list[tuple[float, Callable[[], object]]] = []
        self._starting: list[int] = []
        """Processes that start nodes."""
        self.node = self._chance.randrange(1, schedule.nodes) if schedule.nodes > 1 else 0
        """The node that is lost or cut off."""
        self.struck: dict[str, float] = {}
        """When what happened."""
        self.broken: set[int] = set()
        """Nodes that have to be started anew."""

    @property
    def driver(self) -> int:
        """The node that the driver is on."""
        return self.node if any(kind == "cut_from_head" for kind, _ in self._pending) else 0

    @property
    def lost(self) -> bool:
        """Whether the driver has lost its cluster."""
        return bool(self.struck.keys() & {"lost_head", "cut_from_head"})

    def look(self, pid: int) -> None:
        """Do what is due. `pid`: the session's process."""
        for kind, name in list(self._pending):
            if (self._folder / "faults" / f"outside-{name}-0").exists():
                self._pending.remove((kind, name))
                self.struck[kind] = time.time()
                self._strike(kind, pid)
        now = time.monotonic()
        for each in [each for each in self._due if each[0] <= now]:
            self._due.remove(each)
            each[1]()

    def _strike(self, kind: str, pid: int) -> None:
        cluster, node = self._cluster, self.node
        if cluster is None:
            wanted = "gcs_server" if kind == "lost_head" else "raylet"
            for process in psutil.Process(pid).children(recursive=True):
                with suppress(psutil.Error):
                    if process.name() == wanted:
                        process.kill()
        elif kind == "lost_head":
            self.broken.add(0)
            part = self._chance.choice(("gcs_server", "raylet", None))
            cluster.kill(0) if part is None else cluster.kill_one(0, part)
        elif kind == "lost_raylet":
            self.broken.add(node)
            cluster.kill_one(node, "raylet")
        elif kind == "lost_node":
            self.broken.add(node)
            cluster.kill(node)
        elif kind == "returning_node":
            cluster.kill(node)
            self._due.append((time.monotonic() + 1.0, lambda: self._starting.append(cluster.begin(node))))
        else:
            cluster.cut(node)
            lasts = self._chance.choice(CUTS)
            if kind == "cut":
                self._due.append((time.monotonic() + lasts, lambda: cluster.join(node)))
            if kind != "cut" or lasts > RESTARTED:
                self.broken.add(node)

    def end(self) -> None:
        """Undo the cuts. What is broken is ended: it may be mended for the next session."""
        while self._starting:
            with suppress(ChildProcessError):
                os.waitpid(self._starting.pop(), 0)
        if self._cluster is not None:
            if self._cluster.apart and self.node and self.struck.keys() & {"cut", "cut_for_good", "cut_from_head"}:
                self._cluster.join(self.node)
            for node in self.broken:
                self._cluster.kill(node)
        self.broken.clear()
        self._due.clear()


# -- one schedule ---------------------------------------------------------------------------------------------------


def play(schedule: Schedule, folder: Path, cluster: Cluster | None = None, leak: float = LEAK) -> Outcome:
    """Play a schedule, and say what became of it."""
    outcome = Outcome(schedule.seed, schedule.transport, [kind for kind, _ in schedule.faults])
    if any(kind in OF_A_CLUSTER and kind.startswith("cut") for kind in outcome.faults) and not can_cut():
        outcome.outcome = "skipped"  # no network namespaces here
        return outcome
    for name in ("faults", "tmp"):
        (folder / name).mkdir(mode=0o700)
    began = time.monotonic()
    bad = schedule.bad_inputs
    kills = sum(kind == "kill_driver" for kind, _ in schedule.faults)
    cuts = sum(kind == "cut_files" for kind, _ in schedule.faults)
    cluster = cluster if schedule.nodes and schedule.transport == "ray" else None
    outside = Outside(schedule, folder, cluster)
    end = ""
    while len(outcome.ends) < SESSIONS:
        if cluster is not None:
            cluster.mend(schedule.nodes)
        # Over Ray a session connects for some seconds before it begins.
        after = schedule.after * (4 if schedule.transport == "ray" else 1) if kills else None
        kills -= after is not None
        outside.struck = {}
        sessions = Sessions(schedule, folder, cluster, outside.driver)
        end = sessions.wait(sessions.start(), after, outside)
        ended = time.time()
        outcome.ends.append(end)
        if end == "killed" and after is None:
            outcome.why.append("the session's process died")
        if end == "ClusterError" and (code := json.loads((folder / "end.json").read_text())["code"]) != 3:
            outcome.why.append(f"the exit code is {code}")
        for kind, times in of_nodes(schedule, folder, outside, cluster, ended).items():
            outcome.recoveries.setdefault(kind, []).extend(times)
        outside.end()
        outcome.why += leaks(folder, leak, cluster, idle=not outside.lost) + unverified(schedule, folder)
        if end == "stuck":
            outcome.why.append(f"a session took more than {LONGEST:.0f} s")
            break
        if not told(end, folder):
            outcome.why.append(f"the session ended with {end}, which its report does not say")
        over = end == "done" or (end == "JobFailed" and bad and failed(folder) == refused(schedule, bad))
        if cuts and (folder / "run" / "job.json").exists():
            cuts -= 1
            cut(folder / "run", random.Random(f"cut {schedule.seed} {cuts}"))
        elif over and not kills:
            break
    judge(schedule, folder, outcome, end, bad)
    outcome.recoveries |= recoveries(folder)
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
    system = schedule.sound_system(folder / "faults")
    wrong: list[str] = []
    with suppress(Exception), Run.open(folder / "run") as run:  # there is none if the session was killed before
        for partition in system.plan():
            with suppress(Exception):  # one that was cut
                proof = run.load(partition)
                if proof is not None and not system.verify(proof):
                    wrong.append(f"{partition.name} is on disk and does not verify")
    return wrong


def leaks(folder: Path, patience: float, cluster: Cluster | None = None, *, idle: bool = True) -> list[str]:
    """Processes and temporary files of a session that is over, there and on the nodes of its cluster; `idle`: also
    Ray's own idle processes, which outlive its head by a minute. Those that the session itself stopped are continued: a
    process whose parent is gone sees that only then."""
    late = time.monotonic() + patience * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))

    def processes() -> list[psutil.Process]:
        return marked(MARK, str(folder)) + (cluster.left(idle=idle) if cluster is not None else [])

    while True:
        found = processes()
        for process in found:
            with suppress(psutil.Error):
                if process.status() == psutil.STATUS_STOPPED and process.ppid() == 1:
                    process.send_signal(signal.SIGCONT)
        left = [f"process {process.pid}, {_name_of(process)}" for process in found]
        files = [path for path in (folder / "tmp").iterdir() if not path.name.startswith(OTHERS_FILES)]
        if cluster is not None:
            files += [path for path in cluster.temporary.iterdir() if path.name.startswith(("dp-", "distprove-"))]
        if not left and not files:
            return []
        if time.monotonic() > late:
            for process in processes():
                process.kill()
            for path in files:
                shutil.rmtree(path, ignore_errors=True)
            return [f"left after {patience:.0f} s: {each}" for each in (*left, *map(str, files))]
        time.sleep(0.05 if cluster is None else 0.25)


def _end_all(campaign: str) -> None:
    """End what a campaign that was killed has left."""
    for process in marked(CAMPAIGN, campaign):
        with suppress(psutil.Error):
            process.kill()


def _name_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()).strip()[-80:]
    except psutil.Error:
        return "which is ending"


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
            kinds = ("prover", "actor") if kind == "prover" else (kind,)
            struck = [at for of in kinds for at in _struck(folder, f"kill_{of}") if at <= event["time"]]
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


def of_nodes(
    schedule: Schedule, folder: Path, outside: Outside, cluster: Cluster | None, ended: float
) -> dict[str, list[float]]:
    """Seconds from the loss of a node until the death of its worker was known and what it had was handed on; and from
    the loss of the head until the session ended, or until it was ready to go on."""
    found: dict[str, list[float]] = {}
    with suppress(Exception):
        events = list(read_journal(folder / "run"))
        for kind, at in outside.struck.items():
            if outside.lost or cluster is None:
                again = [each["time"] for each in events if each["event"] == "worker-ready" and each["time"] > at]
                went_on = cluster is None and again and any(e["event"] == "session" and e["time"] > at for e in events)
                name = "own ray again" if cluster is None else "head"
                found.setdefault(name, []).append(round((again[0] if went_on else ended) - at, 3))
                continue
            there = {w["id"] for w in report(folder)["workers"] if w["node"] == cluster.address_of(outside.node)}
            told = [
                each["time"]
                for each in events
                if each["event"] in ("death", "retired") and each["worker"] in there and at < each["time"] < ended
            ]
            if told:
                found.setdefault("cut node" if kind.startswith("cut") else "node", []).append(round(told[0] - at, 3))
    return found


def _struck(folder: Path, kind: str) -> list[float]:
    return [path.stat().st_mtime for path in (folder / "faults").glob(f"{kind}-*")]


# -- many schedules -------------------------------------------------------------------------------------------------


def campaign(seeds: Sequence[int], transport: str, leak: float = LEAK, toy: str = TOY) -> Iterator[Outcome]:
    """Play the schedules of these seeds. More at a time are more processes of this module, each with its own seeds."""
    cluster: Cluster | None = import_named(CLUSTER)(apart=can_cut()) if transport == "ray" else None
    if cluster is not None:
        os.environ |= {name: value for name, value in cluster.environment.items() if name.startswith("RAY_")}
        importlib.import_module("cluster.executor.ray")  # sessions are forked, and need not import it each
    try:
        for seed in seeds:
            with scratch() as folder:
                yield play(replace(Schedule.of(seed, transport), toy=toy), folder, cluster, leak)
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
    outcomes = [outcome for outcome in outcomes if outcome.outcome != "skipped"]
    return {
        "format": "distprove.fault-campaign",
        "what": "random schedules of faults: a toy proof system on a machine with 2 cores",
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


def merged(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """What was found, with what is there of other transports."""

    def is_of_another(name: str) -> bool:
        return name.partition(" ")[0] not in found["schedules"]

    whole = {**before, **found}
    for part in ("schedules", "outcomes", "by_fault", "recovery_seconds"):
        kept = {name: value for name, value in before.get(part, {}).items() if is_of_another(name)}
        whole[part] = dict(sorted({**kept, **found[part]}.items()))
    whole["faults"] = sum(sum(counts.values()) for counts in whole["by_fault"].values())
    whole["wrong"] = [each for each in before.get("wrong", []) if is_of_another(each["transport"])] + found["wrong"]
    return whole


def main() -> None:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Play random schedules of faults.")
    parser.add_argument("--transport", default="processes", choices=TRANSPORTS)
    parser.add_argument("--seeds", default="0:10", help="from:to, or some, as 3,5,8")
    parser.add_argument("--out", type=Path, help="where every outcome is added, one a line")
    parser.add_argument("--leak", type=float, default=LEAK, help="seconds in which all must have ended")
    parser.add_argument(
        "--sum",
        type=Path,
        nargs="+",
        help="only write to the first file what the others come to, beside what it has of other transports",
    )
    parser.add_argument("--toy", default=TOY, help="module of the toy proof system")
    parser.add_argument("--session", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sum:
        target, *files = given.sum
        lines = [line for file in files for line in file.read_text().splitlines()]
        found = summary([Outcome(**json.loads(line)) for line in lines])
        before = json.loads(target.read_text()) if target.exists() else {}
        target.write_text(json.dumps(merged(before, found), indent=1) + "\n")
        return
    if given.session:
        folder, seed = given.session
        run_session(replace(Schedule.of(int(seed), "ray"), toy=given.toy), Path(folder), None)
        os._exit(0)  # Ray may have nothing to say goodbye to
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ[CAMPAIGN] = str(os.getpid())
    after_death(lambda: _end_all(os.environ[CAMPAIGN]))
    first, _, last = given.seeds.partition(":")
    seeds = range(int(first), int(last)) if last else [int(each) for each in given.seeds.split(",")]
    for outcome in campaign(seeds, given.transport, given.leak, given.toy):
        facts = asdict(outcome)
        print(*(facts[key] for key in ("transport", "seed", "outcome", "ends", "faults", "seconds")), flush=True)
        print(*outcome.why, sep="\n", end="\n" if outcome.why else "", flush=True)
        if given.out is not None:
            with given.out.open("a") as out:
                out.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
