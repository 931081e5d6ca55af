"""Random schedules of faults, over all transports. A seed makes a schedule, and the same one each time.

    python -m distprove.measure.campaign.faults --transport processes --seeds 0:200 --lines outcomes.jsonl
    python -m distprove.measure.campaign.faults --transport ray --seeds 0:60 --lines outcomes.jsonl
    python -m distprove.measure.campaign.faults --sum docs/results/fault-campaign.json outcomes.jsonl

On a machine with many cores, for five minutes:

    python -m distprove.measure.campaign.faults --transport threads processes ray own-ray --seeds 0:100000 \\
        --processes 48 --rays 8 --seconds 300 --out counts.json

A job meets the faults of its schedule, session after session, until its proof is there. Every job must come out right,
or end with a reason and be resumed; nothing is on disk that does not verify; and when a session is over, however it
ended, no process and no temporary file of it is left.

Over "ray" the job runs on a cluster of two or three nodes on this machine (`CLUSTER`), which may lose nodes, its head
or its network; over "own-ray" on a Ray that the job starts for itself. Two jobs of five are a tree of partitions:
leaves, nodes that are made of the proofs of up to four others, and a root.
"""

from __future__ import annotations

import argparse
import errno
import faulthandler
import importlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from cluster import session
from cluster.opening import open_client
from cluster.record.journal import read_journal
from cluster.record.report import public_message
from cluster.record.run import Run, is_run
from cluster.scheduler.barrier import made_of
from distprove.errors import exit_code, typed
from distprove.formats.owncode import import_named
from distprove.measure.campaign import CLUSTER, ROOT, TOY, Cluster, made_by, python_path, write_result
from distprove.measure.campaign.fault_schedules import (
    OF_A_CLUSTER,
    TRANSPORTS,
    Outcome,
    Schedule,
    merged,
    summary,
)
from distprove.measure.campaign.processes import after_death, can_cut, end_with_parent, marked
from distprove.proof import PROOF_FILE, Proof
from distprove.system import PartitionProof

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
CUTS = (3.0, 8.0, 20.0)
"""Seconds for which a network is cut."""
COUNTED = 2.0
"""Seconds between two countings of what many processes have played."""
RESTARTED = 10.0
"""Seconds of a cut after which a node is started anew: its Ray may have given it up."""


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
        environment = {MARK: str(self._folder), "TMPDIR": str(self._folder / "tmp"), "PYTHONPATH": python_path()}
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
    outcome = Outcome(schedule.seed, schedule.transport, [kind for kind, _ in schedule.faults], schedule.tree)
    if any(kind in OF_A_CLUSTER and kind.startswith("cut") for kind in outcome.faults) and not can_cut():
        outcome.outcome = "skipped"  # no network namespaces here
        return outcome
    for name in ("faults", "tmp"):
        (folder / name).mkdir(mode=0o700)
    began = time.monotonic()
    bad = schedule.bad_inputs
    kills = sum(kind == "kill_driver" for kind, _ in schedule.faults)
    cuts = sum(kind == "cut_files" for kind, _ in schedule.faults)
    outside = Outside(schedule, folder, cluster)
    end = ""
    while len(outcome.ends) < SESSIONS:
        if cluster is not None:
            cluster.mend(schedule.nodes)
        # Over Ray a session connects for some seconds before it begins.
        after = schedule.after * (4 if schedule.on_ray else 1) if kills else None
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
        over = end == "done" or (end == "JobFailed" and bad and failed(folder) == schedule.refused)
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
        if end != "JobFailed" or failed(folder) != schedule.refused:
            outcome.why.append(f"inputs are at fault, and the job ended with {end}")
        return
    outcome.outcome = "resumed" if several else "proved"
    try:
        proof = Proof.read(folder / "run" / PROOF_FILE)
        proof.verify(schedule.system(folder / "faults"))
        for index, (found, (name, needs)) in enumerate(zip(proof.partitions, schedule.needs.items(), strict=True)):
            if found.name != name or (not needs and found.public[0] != index * index):
                outcome.why.append(f"the proof of {name} is of something else")
    except Exception as error:
        outcome.why.append(f"no good proof: {type(error).__name__}: {error}")


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
    """Partitions on disk whose proofs do not hold, and nodes on disk of other proofs than those of their children."""
    system = schedule.sound_system(folder / "faults")
    found: dict[str, PartitionProof] = {}
    wrong: list[str] = []
    with suppress(Exception), Run.open(folder / "run") as run:  # there is none if the session was killed before
        for partition in system.plan():
            with suppress(Exception):  # one that was cut
                proof = run.load(partition)
                if proof is not None:
                    found[partition.name] = proof
    wrong += [f"{name} is on disk and does not verify" for name, proof in found.items() if not system.verify(proof)]
    for partition in system.plan():
        children = [found[name] for name in partition.needs if name in found]
        if partition.name not in found or not partition.needs:
            continue
        if len(children) == len(partition.needs):
            if not made_of(system, partition, found[partition.name], children):
                wrong.append(f"{partition.name} is on disk, made of other proofs than those of its children")
        elif not schedule.has("cut_files"):
            wrong.append(f"{partition.name} is on disk, and a proof that it needs is not")
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
    """What a process is, and whether it had the time to end: one that still starts has hardly computed."""
    try:
        age, used = time.time() - process.create_time(), sum(process.cpu_times()[:2])
        return f"{' '.join(process.cmdline()).strip()[-80:]}, {age:.0f} s old, {used:.1f} s of CPU"
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


def campaign(
    seeds: Sequence[int], transport: str, leak: float = LEAK, toy: str = TOY, seconds: float = math.inf
) -> Iterator[Outcome]:
    """Play the schedules of these seeds, one after the other. None begins after that many `seconds`."""
    late = time.monotonic() + seconds
    cluster: Cluster | None = import_named(CLUSTER)(apart=can_cut()) if transport == "ray" else None
    if cluster is not None:
        os.environ |= {name: value for name, value in cluster.environment.items() if name.startswith("RAY_")}
        importlib.import_module("cluster.executor.ray")  # sessions are forked, and need not import it each
    try:
        for seed in seeds:
            if time.monotonic() > late:
                return
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


@dataclass
class Player:
    """A process that plays schedules of one transport."""

    transport: str
    seeds: Sequence[int]
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self, given: argparse.Namespace) -> None:
        command = [sys.executable, "-m", "distprove.measure.campaign.faults", "--transport", self.transport]
        command += ["--seeds", as_text(self.seeds), "--lines", str(self.folder / "lines")]
        command += ["--seconds", str(given.seconds), "--leak", str(given.leak), "--toy", given.toy]
        environment = {**os.environ, "PYTHONPATH": python_path()}
        with (self.folder / "output").open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=ROOT)

    def plays(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code of the process, once it has ended."""
        return None if self.process is None else self.process.returncode

    def outcomes(self) -> list[Outcome]:
        """What became of the schedules that are over. A line that is being written is left out."""
        lines = self.folder / "lines"
        told = lines.read_text() if lines.exists() else ""
        return [Outcome(**json.loads(line)) for line in told.splitlines(keepends=True) if line.endswith("\n")]

    def output(self) -> str:
        """The end of what the process printed."""
        return (self.folder / "output").read_text(errors="replace")[-4000:]


def shares(transports: Sequence[str], processes: int, rays: int) -> list[str]:
    """The transport of each of so many processes: at most `rays` of them have a Ray, if others are to be played."""
    with_ray = [each for each in transports if each.endswith("ray")]
    others = [each for each in transports if not each.endswith("ray")]
    count = min(rays, processes) if others else processes
    on_ray = [with_ray[i % len(with_ray)] for i in range(count)] if with_ray else []
    return on_ray + ([others[i % len(others)] for i in range(processes - len(on_ray))] if others else [])


def play_beside(given: argparse.Namespace, seeds: Sequence[int], folder: Path) -> dict[str, Any]:
    """Play schedules in many processes; the counts of all. Ends those that are not done in time, or all if it is told
    to end itself. Meanwhile `--out` has the counts so far, in case that the machine is taken away."""
    kinds = shares(given.transport, given.processes, given.rays)
    players = []
    for index, kind in enumerate(kinds):
        own = folder / str(index)
        own.mkdir()
        players.append(Player(kind, seeds[kinds[:index].count(kind) :: kinds.count(kind)], own))
    began = time.monotonic()
    cut_short: list[Player] = []
    try:
        for player in players:
            player.start(given)
        while time.monotonic() < began + given.seconds + given.grace and any(map(Player.plays, players)):
            time.sleep(COUNTED if given.out else 0.1)
            if given.out is not None:
                given.out.write_text(json.dumps(counts(players, time.monotonic() - began), indent=1) + "\n")
    except SystemExit:
        pass  # what was played is told
    finally:
        cut_short += filter(Player.plays, players)
        processes = [player.process for player in players if player.process is not None]
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
    if given.lines is not None:
        with given.lines.open("a") as lines:
            lines.writelines(json.dumps(asdict(each)) + "\n" for player in players for each in player.outcomes())
    return counts(players, time.monotonic() - began, cut_short)


def counts(players: Sequence[Player], seconds: float, cut_short: Sequence[Player] = ()) -> dict[str, Any]:
    """What the players have played so far. `cut_short`: those that were ended."""
    failed = [each for each in players if each not in cut_short and not each.plays() and each.code]
    in_hand = [(each.transport, each.seeds[len(each.outcomes()) :]) for each in cut_short]
    return summary([outcome for player in players for outcome in player.outcomes()]) | {
        "made_by": made_by(),
        "processes": dict(Counter(player.transport for player in players)),
        "seconds": round(seconds, 1),
        "cut_short": [f"{transport} {left[0]}" for transport, left in in_hand if left],
        "players_that_failed": [{"transport": each.transport, "output": each.output()} for each in failed],
    }


def as_text(seeds: Sequence[int]) -> str:
    """What `seeds_of` takes."""
    return f"{seeds.start}:{seeds.stop}:{seeds.step}" if isinstance(seeds, range) else ",".join(map(str, seeds))


def seeds_of(text: str) -> Sequence[int]:
    """The seeds of "from:to" or "from:to:step", or of some, as "3,5,8"."""
    return range(*map(int, text.split(":"))) if ":" in text else [int(each) for each in text.split(",")]


def main() -> None:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Play random schedules of faults.")
    parser.add_argument("--transport", nargs="+", default=["processes"], choices=TRANSPORTS)
    parser.add_argument("--seeds", default="0:10", type=seeds_of, help="from:to, or some, as 3,5,8")
    parser.add_argument("--lines", type=Path, help="file to which every outcome is added, one a line")
    parser.add_argument("--out", type=Path, help="file for the counts of all outcomes, as JSON")
    parser.add_argument("--processes", type=int, default=1, help="processes that play schedules at the same time")
    parser.add_argument("--rays", type=int, default=4, help="how many of them have a Ray, beside other transports")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no schedule begins after that")
    parser.add_argument("--grace", type=float, default=120.0, help="seconds after which schedules are cut short then")
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
        run_session(replace(Schedule.of(int(seed), "own-ray"), toy=given.toy), Path(folder), None)
        os._exit(0)  # Ray may have nothing to say goodbye to
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ[CAMPAIGN] = str(os.getpid())
    after_death(lambda: _end_all(os.environ[CAMPAIGN]))
    if given.processes > 1 or len(given.transport) > 1:
        with scratch() as folder:
            result = play_beside(given, given.seeds, folder)
    else:
        result = summary(list(_told(given)))
    write_result(result, given.out)
    sys.exit(1 if result["wrong"] or result.get("players_that_failed") else 0)


def _told(given: argparse.Namespace) -> Iterator[Outcome]:
    """Plays schedules here, and prints each outcome."""
    for outcome in campaign(given.seeds, given.transport[0], given.leak, given.toy, given.seconds):
        facts = asdict(outcome)
        print(*(facts[key] for key in ("transport", "seed", "outcome", "ends", "faults", "seconds")), flush=True)
        print(*outcome.why, sep="\n", end="\n" if outcome.why else "", flush=True)
        if given.lines is not None:
            with given.lines.open("a") as out:
                out.write(json.dumps(facts) + "\n")
        yield outcome


if __name__ == "__main__":
    main()
