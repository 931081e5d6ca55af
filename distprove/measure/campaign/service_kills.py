"""A service that is killed at random moments, many times, and what is found afterwards.

    python -m distprove.measure.campaign.service_kills --kills 100 --seed 1 --out docs/results/service-kills.json

The service runs in a process of its own, on real Groth16 keys of a small circuit, and is asked for jobs all the time.
SIGKILL ends it: in the course of its start, some time later, as soon as it has acknowledged a job, or as soon as it
tells that a job changed (begins, has a partition more, is over). Some jobs come in bursts, of one partition each, which
the service proves together; of half of the bursts all jobs are in one request, one of them twice. Then it is started
again, and what was not acknowledged is asked for again under the same id. Checked after each kill, and after a last
start that is left to finish:

* a partition whose proof is on disk after a kill is there for good, and is the same proof: Groth16 proofs are random,
  so one that was proven again would be another one. No journal tells of a partition twice, or of a damaged file;
* every job that was acknowledged is known, once, under its id; no other is; each has a run of its own and no run is
  without a job;
* every job is proved, with every partition in order, its proof verifies under the key, and a proof that was there
  after a kill is there unchanged; a job whose cancelling was acknowledged is what the acknowledgement said.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from actors.bootstrap import forking_from_here
from cluster.record.journal import read_journal
from cluster.record.run import LOCK, StoredRun, is_run
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.views import JobRequest, JobState, JobView, Priority
from cluster.service.writer import WriterBeside
from distprove.circuits.merkle import MembershipTree, membership_circuit, random_members
from distprove.errors import DistproveError
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16System
from distprove.groth16.wtns import write_wtns
from distprove.measure.campaign import made_by, write_result
from distprove.options import InputFile
from distprove.proof import PROOF_FILE, Proof, fingerprint
from distprove.settings import ExecutorSettings
from distprove.system import Partition
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254

SETTINGS = ExecutorSettings(local=True, isolate=False, gpus=0, backend="cpu", threads=2)
MEMBERS = 6
DEPTH = 3
LONGEST = 2.0
"""Seconds for which a service takes jobs, at most, before it is killed."""
BURST = 12
"""Jobs of a burst: enough that some of them are proven together."""
MOMENTS = ("start", "time", "time", "ready", "kept", "kept", "running", "changed", "proved", "cancelled")
"""What a service is killed at: in the course of its start, some time later, or at once when it tells this."""


def make_key(folder: Path) -> None:
    """A key and witnesses."""
    backend = CpuBackend(threads=2)
    tree = MembershipTree(BN254.fr, random_members(BN254.fr, MEMBERS), DEPTH)
    circuit = membership_circuit(BN254, DEPTH)
    witnesses = circuit.witnesses([tree.membership(i).inputs(scope=7) for i in range(MEMBERS)], backend)
    for i, witness in enumerate(witnesses):
        write_wtns(folder / f"w{i}.wtns", BN254, witness)
    setup(circuit.r1cs, insecure_dev=True, backend=backend, out=folder / "key.zkey")
    backend.close()


# -- the service's process --------------------------------------------------------------------------------------------


def serve(folder: Path, parent: Connection, forking: bool) -> None:
    """A service that does what it is sent, tells what happens, and ends when there is nothing left. `forking`: what it
    starts is forked from a copy of it, and its workers are processes, as of `distprove up`."""
    with forking_from_here() if forking else nullcontext():
        _serve(folder, parent, replace(SETTINGS, isolate=forking))


def _serve(folder: Path, parent: Connection, settings: ExecutorSettings) -> None:
    service = Service(folder, settings, Limits(running=BURST), writer=WriterBeside)
    lock = threading.Lock()

    def tell(**facts: Any) -> None:
        with lock:
            parent.send_bytes(json.dumps(facts).encode())

    def changed(view: JobView) -> None:
        tell(changed=view.id, state=view.state.value, done=view.done)

    def do(asked: dict[str, Any]) -> None:
        try:
            if "cancel" in asked:
                tell(cancelled=asked["cancel"], state=service.cancel(asked["cancel"]).state.value)
            else:
                lot = [
                    JobRequest(each["id"], each["job"], priority=Priority(each["priority"]))
                    for each in asked.get("lot", [asked])
                ]
                for told in service.submit_all(lot):
                    tell(refused=str(told)) if isinstance(told, DistproveError) else tell(kept=told.id)
        except DistproveError as error:
            tell(refused=str(error))

    service.listeners.append(changed)
    service.start()
    tell(ready=True)
    with ThreadPoolExecutor(4) as threads:
        while asked := json.loads(parent.recv_bytes()):
            threads.submit(do, asked)
    for view in service.jobs(limit=10**6):
        while not service.job(view.id).state.final:
            time.sleep(0.01)
    tell(jobs=[asdict(view) for view in service.jobs(limit=10**6)])
    service.close(drain=True)


# -- the campaign -----------------------------------------------------------------------------------------------------


@dataclass
class Life:
    """A service's process, and what it said."""

    process: BaseProcess
    pipe: Connection
    said: list[dict[str, Any]] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)
    """Set once it takes jobs."""
    happened: threading.Event = field(default_factory=threading.Event)
    """Set when what the service is to be killed at happened."""

    def listen(self, at: str, after: int) -> None:
        while True:
            try:
                told = json.loads(self.pipe.recv_bytes())
            except (EOFError, OSError):  # it is dead
                break
            self.said.append(told)
            if "ready" in told:
                self.ready.set()
            if at in told or told.get("state") == at:
                after -= 1
                if after == 0:
                    self.happened.set()
                    self.process.kill()
        self.ready.set()  # nobody waits any longer for what is dead

    def ask(self, **asked: Any) -> None:
        with suppress(OSError):  # it is dead already
            self.pipe.send_bytes(json.dumps(asked).encode())

    def end(self, listener: threading.Thread) -> None:
        """Wait for the end of the process, which was told to end."""
        self.process.join()
        listener.join()
        self.pipe.close()


@dataclass
class Campaign:
    """Kills a service at random moments, restarts it, and checks what it kept."""

    folder: Path
    seed: int
    forking: bool = False
    """As of `serve`."""
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Jobs by id."""
    kept: set[str] = field(default_factory=set)
    """Jobs that were acknowledged."""
    cancelled: dict[str, str] = field(default_factory=dict)
    """Jobs whose cancelling was acknowledged, with the state that was told; "running" stands for what comes of it."""
    cancelling: set[str] = field(default_factory=set)
    """Jobs whose cancelling was asked for: a service that is killed may have done so, and have told nobody."""
    proofs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """Fingerprints of all partition proofs that were on disk after a kill."""
    whole: dict[str, bytes] = field(default_factory=dict)
    """The content of jobs' proofs that were there after a kill."""
    faults: list[str] = field(default_factory=list)
    moments: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    starting: float = 1.0
    """Seconds that the last start took."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.service = self.folder / "service"
        make_key(self.folder)

    def run(self, kills: int) -> dict[str, Any]:
        began = time.time()
        for _ in range(kills):
            self.live_and_die()
            self.look()
        views = self.finish()
        self.look()
        self.check(views)
        return {
            "format": "distprove.service-kills",
            "what": "SIGKILL of a service under load, at random moments; real Groth16 keys on the CPU",
            "made_by": made_by(),
            "seed": self.seed,
            "forking": self.forking,
            "kills": self.kills,
            "moments": dict(sorted(self.moments.items())),
            "jobs": len(self.asked),
            "partitions": sum(len(asked["job"]["witnesses"]) for asked in self.asked.values()),
            "states": dict(Counter(view["state"] for view in views)),
            "attempts": dict(sorted(Counter(view["attempts"] for view in views).items())),
            "partitions_found_after_a_kill": len(self.proofs),
            "proofs_found_after_a_kill": len(self.whole),
            "jobs_proven_together": sum(not (path / LOCK).exists() for path in (self.service / "runs").iterdir()),
            "faults": self.faults,
            "seconds": round(time.time() - began, 1),
        }

    def start(self) -> Life:
        """Start a service: forked from a process that has imported what it needs, which would take longer than it
        lives."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(
            ["cluster.service.service", "distprove.circuits.merkle", "distprove.groth16.setup"]
        )
        pipe, theirs = context.Pipe()
        process = context.Process(target=serve, args=(self.service, theirs, self.forking))
        process.start()
        theirs.close()
        return Life(process, pipe)

    def live_and_die(self) -> None:
        """One start of the service, until it is killed."""
        at = self.random.choice(MOMENTS)
        life, began = self.start(), time.monotonic()
        listener = threading.Thread(target=life.listen, args=(at, self.random.randint(1, 4) if at != "ready" else 1))
        listener.start()
        if at == "start":
            life.ready.wait(self.random.uniform(0.0, self.starting))
        else:
            assert life.ready.wait(120.0), "it does not start"
            self.starting = max(0.1, time.monotonic() - began)
        late = time.monotonic() + LONGEST * {"start": 0.0, "time": self.random.random()}.get(at, 1.0)
        again = [id for id in self.asked if id not in self.kept]
        while time.monotonic() < late and not life.happened.is_set():
            if again:
                life.ask(**self.asked[again.pop()])
            elif len(self.asked) < 6 * (self.kills + 1):
                burst = self.random.random() < 0.3
                lot = [self.asked[self.new(1 if burst else None)] for _ in range(BURST if burst else 1)]
                if burst and self.random.random() < 0.5:  # in one request, one of them twice
                    life.ask(lot=[*lot, lot[0]])
                    lot = []
                for asked in lot:
                    life.ask(**asked)
            if self.kept and self.random.random() < 0.05:
                cancel = self.random.choice(sorted(self.kept)[-3:])
                self.cancelling.add(cancel)
                life.ask(cancel=cancel)
            if self.kept and self.random.random() < 0.1:  # what was acknowledged is asked for again
                life.ask(**self.asked[self.random.choice(sorted(self.kept))])
            life.happened.wait(self.random.uniform(0.0, 0.3))
        life.process.kill()
        life.end(listener)
        self.kills += 1
        self.moments[at if life.happened.is_set() or at == "start" else "time"] += 1
        self.learn(life)

    def new(self, partitions: int | None) -> str:
        id = f"job-{len(self.asked)}"
        witnesses = self.random.sample(range(MEMBERS), partitions or self.random.randint(1, MEMBERS))
        paths = [str(self.folder / f"w{i}.wtns") for i in witnesses]
        job = {"system": "groth16", "zkey": str(self.folder / "key.zkey"), "witnesses": paths}
        priority = Priority.NORMAL if partitions else self.random.choice([*Priority])
        self.asked[id] = {"id": id, "job": job, "priority": priority.value}
        return id

    def learn(self, life: Life) -> None:
        """Take in what a service acknowledged."""
        for told in life.said:
            if "kept" in told:
                self.kept.add(told["kept"])
            if "cancelled" in told:
                self.cancelled.setdefault(told["cancelled"], told["state"])
            if "refused" in told:
                self.faults.append(f"refused: {told['refused']}")

    def look(self) -> None:
        """Look at all runs, while there is no service."""
        found: dict[tuple[str, str], bytes] = {}
        runs = self.service / "runs"
        for path in sorted(runs.iterdir()) if runs.is_dir() else []:
            if not is_run(path):
                continue
            run = StoredRun.read(path)
            for index, item in enumerate(run.record["partitions"]):
                proof = run.load(Partition(index, item["name"], bytes.fromhex(item["digest"]), {}))
                if proof is not None:
                    found[path.name, item["name"]] = fingerprint(proof)
            if (path / "journal.jsonl").exists():
                events = list(read_journal(path))
                told = [event for event in events if "partition" in event]  # the others are of the whole job
                proved = Counter(event["partition"] for event in told if event["event"] == "proved")
                self.faults += [f"{path.name}: {name} was proved twice" for name, n in proved.items() if n > 1]
                self.faults += [f"{path.name}: {event}" for event in events if event["event"] in ("damaged", "failed")]
            if (path / PROOF_FILE).exists():
                content = (path / PROOF_FILE).read_bytes()
                if self.whole.setdefault(path.name, content) != content:
                    self.faults.append(f"{path.name}: its proof changed")
        for place, proven in self.proofs.items():
            if found.get(place) != proven:
                self.faults.append(f"{'/'.join(place)}: {'lost' if place not in found else 'proven again'}")
        self.proofs |= found

    def finish(self) -> list[dict[str, Any]]:
        """A last start, which nothing ends before all jobs are over."""
        life = self.start()
        listener = threading.Thread(target=life.listen, args=("", 0))
        listener.start()
        for id in self.asked:
            life.ask(**self.asked[id])
        life.ask()  # for nothing more
        life.end(listener)
        if life.process.exitcode != 0:
            self.faults.append(f"the last service ended with {life.process.exitcode}")
        self.learn(life)
        views: list[dict[str, Any]] = next((told["jobs"] for told in life.said if "jobs" in told), [])
        return views

    def check(self, views: list[dict[str, Any]]) -> None:
        """Check what has become of every job."""
        ids = Counter(view["id"] for view in views)
        self.faults += [f"{id} is there {ids[id]} times" for id in self.asked if ids[id] != 1]
        self.faults += [f"{id} was never asked for" for id in ids.keys() - self.asked.keys()]
        self.faults += [
            f"{path.name}: a run of no job" for path in (self.service / "runs").iterdir() if path.name not in ids
        ]
        key = Groth16System(self.folder / "key.zkey", [InputFile("w0", self.folder / "w0.wtns")])
        for view in views:
            state, id = view["state"], view["id"]
            told = self.cancelled.get(id)
            if told in (None, "running", "proved") and state == JobState.PROVED:
                expected = [Path(path).stem for path in self.asked[id]["job"]["witnesses"]]
                proof = Proof.read(Path(view["run"]) / PROOF_FILE)
                try:
                    proof.verify(key)
                except DistproveError as error:
                    self.faults.append(f"{id}: {error}")
                if [p.name for p in proof.partitions] != expected or view["done"] != len(expected):
                    self.faults.append(f"{id}: not the partitions that were asked for")
            elif told == "proved" or state != JobState.CANCELLED or id not in self.cancelling:
                self.faults.append(f"{id} is {state}, its cancelling said {told}: {view['error']}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill a service at random moments, and look what is left.")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--forking", action="store_true", help="what the service starts is forked, workers too")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = Campaign(Path(folder), given.seed, given.forking).run(given.kills)
    write_result(result, given.out)
    sys.exit(1 if result["faults"] else 0)


if __name__ == "__main__":
    main()
