"""A service that is asked for twice as much as it can do, by many clients, for as long as one likes.

    python -m distprove.measure.campaign.service_load --seconds 600 --clients 50 --out docs/results/service-load.json

The service runs in a process of its own behind its HTTP server, with workers that prove in no time: what is measured is
what keeping, driving and telling of jobs costs. Where there are two cores it has one, and the clients have the others.
Clients submit jobs by the lot, evenly: with a request for each they would take more of a core than the service. Every
few seconds they begin to submit more than twice as many a second as were done in the last ones, so that the service is
soon asked for twice what it can do, whatever else the machine does. One client in five waits for ends of jobs that were
accepted instead, and one listener follows all events.

Counted as errors: any answer that is neither an acceptance nor "full", any job that was accepted and is not proved at
the end, and any that is known and was not asked for. Memory, descriptors and threads of the service are sampled.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import queue
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from cluster.service.client import Client, request_of
from cluster.service.contact import Contact
from cluster.service.http.access import TOKENS, make_tokens
from cluster.service.http.server import Options, Server
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.views import JobState
from distprove.errors import DistproveError, QueueFull
from distprove.formats.owncode import import_named
from distprove.host.memory import share_arenas
from distprove.host.provenance import provenance
from distprove.measure.campaign import ROOT, write_result
from distprove.registry import SYSTEMS
from distprove.settings import ExecutorSettings

QUEUED, RUNNING, KEPT = 200, 64, 2000
"""Limits of the service. Few jobs are kept, so that memory that grows is no job that is kept."""
OVERLOAD = 2.2
"""Jobs that are asked for, of those that were done: a tenth more than twice, as what is done changes meanwhile."""
LOT = 32
"""Jobs of a request."""
PATIENCE = 0.25
"""Seconds after which a client sees that it is to submit more often."""
IDLE = 5.0
"""Seconds after which a client does not use a connection again."""
WINDOW = 4
"""Looks over which it is counted what was done: a lot is many jobs at once."""
FIRST_RATE = 200.0
"""Jobs a second that are submitted first."""
PARTITIONS = 1
ENTRY, SCHEDULER = "tests.support.toy_entry", "tests.support.instant_fleet:instant_scheduler"
"""The proof system of the jobs, and the scheduler whose workers prove in no time, as a checkout has them."""


def serve(folder: Path) -> None:
    """Serve until standard input ends; its first line of output says where."""
    share_arenas()  # as `distprove up` has it
    SYSTEMS["toy"] = ENTRY  # type: ignore[index]
    (folder / "faults").mkdir()
    make_tokens(folder / TOKENS)
    limits = Limits(queued=QUEUED, running=RUNNING, kept=KEPT)
    scheduler = partial(import_named(SCHEDULER), most=RUNNING)
    service = Service(folder / "service", ExecutorSettings(local=True), limits, scheduler)
    service.start()
    server = Server(service, Options(folder / TOKENS, rate=1e6), lambda drain: None)
    server.start()
    print(server.url, flush=True)
    sys.stdin.read()
    server.close()
    service.close(drain=True)


@contextmanager
def on_cores(first: int, last: int | None) -> Iterator[None]:
    """Have this thread, and those that it starts within the block, run on these of the cores that it may use, if there
    are two and more."""
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:
        os.sched_setaffinity(0, sorted(cores)[first:last])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


class Line:
    """A connection that stays, over which requests go that were put together before: what a client costs is what it
    reads."""

    def __init__(self, contact: Contact) -> None:
        host, _, port = contact.url.partition("//")[2].rpartition(":")
        token = Path(contact.token_file).read_text().split()[1]
        self._head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        self._address = host, int(port)
        self._asked = time.monotonic()
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=60.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def post(self, path: str, body: bytes) -> Any:
        """The answer to a request. Raises OSError and ValueError for one that is not 200 with JSON."""
        if time.monotonic() - self._asked > IDLE:  # the service ends a connection that asks nothing
            self.close()
            self._connect()
        self._asked = time.monotonic()
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode() + body)
        status, length = self._answers.readline(), 0
        while (line := self._answers.readline()).strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        answer = self._answers.read(length)
        if status.split()[1:2] != [b"200"]:
            raise ValueError(f"{status!r} {answer[:200]!r}")
        return json.loads(answer)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


@dataclass
class Load:
    """What clients do to a service, and what they see. Every list is appended to by many threads."""

    contact: Contact
    job: dict[str, Any]
    accepted: list[float] = field(default_factory=list)
    """Seconds until a job was accepted."""
    full: list[float] = field(default_factory=list)
    """Seconds until it was said that there is no room."""
    ends: list[float] = field(default_factory=list)
    """Seconds from the submission of a job to the answer that it is over."""
    errors: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    every: float = 1.0
    """Seconds from one request of a client to its next."""
    events: int = 0
    """Events that the listener heard."""
    listening: socket.socket | None = None
    over: threading.Event = field(default_factory=threading.Event)
    waiting: queue.Queue[tuple[str, float]] = field(default_factory=lambda: queue.Queue(100))
    numbers: Any = field(default_factory=count)

    text: str = ""
    """The request for a job whose id is `@`, as JSON."""

    def __post_init__(self) -> None:
        self.text = json.dumps(asdict(request_of(self.job, id="ID"))).replace('"ID"', '"@"')

    def client(self) -> Client:
        return Client(self.contact, patience=0.0)

    def submit(self, line: Line) -> tuple[str, float] | None:
        """Submit a lot of jobs; the id of the last that was accepted, and when that was asked."""
        ids = [f"job-{next(self.numbers)}" for _ in range(LOT)]
        body = ",".join(self.text.replace("@", id) for id in ids)
        began, taken = time.monotonic(), None
        try:
            told = line.post("/v1/submissions", f'{{"jobs":[{body}]}}'.encode())["jobs"]
        except (OSError, ValueError) as error:
            self.errors.append(f"submit: {type(error).__name__}: {error}")
            self.over.wait(1.0)
            return None
        took = time.monotonic() - began
        for id, each in zip(ids, told, strict=True):
            if each["job"] is not None:
                self.accepted.append(took)
                self.ids.append(id)
                taken = id, began
            elif each["error"]["kind"] == QueueFull.__name__:
                self.full.append(took)
            else:
                self.errors.append(f"submit: {each['error']}")
        return taken

    def wait(self, client: Client, id: str, began: float) -> None:
        """Wait for a job's end."""
        try:
            view = client.wait(id, 120.0)
        except DistproveError as error:
            self.errors.append(f"wait: {type(error).__name__}: {error}")
            return
        self.ends.append(time.monotonic() - began)
        if view.state is not JobState.PROVED:
            self.errors.append(f"{id} is {view.state.value}: {view.error}")

    def drain(self) -> dict[str, int]:
        """Wait until no job is left, and count them by how they ended."""
        with Client(self.contact) as client:
            while (overview := client.overview()).queued + overview.running:
                time.sleep(0.05)
        return overview.counts

    def paced(self) -> None:
        """Submit a lot of jobs every so many seconds; one that is late does not catch up."""
        due = time.monotonic() + random.random() * self.every
        with closing(Line(self.contact)) as line:
            while not self.over.wait(max(0.0, min(PATIENCE, due - time.monotonic()))):
                due = min(due, time.monotonic() + self.every)
                if time.monotonic() < due:
                    continue
                due = max(due + self.every, time.monotonic() - self.every)
                if (taken := self.submit(line)) is not None and not self.waiting.full():
                    self.waiting.put(taken)

    def waits(self) -> None:
        with self.client() as client:
            while not self.over.is_set():
                try:
                    self.wait(client, *self.waiting.get(timeout=0.1))
                except queue.Empty:
                    continue

    def listens(self, token: str) -> None:
        """Follow all events."""
        connection = http.client.HTTPConnection(self.contact.url.partition("//")[2], timeout=60)
        connection.connect()
        self.listening = connection.sock
        if self.over.is_set():
            connection.close()
            return
        try:
            connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            while line := response.readline():
                self.events += line.startswith(b"data: ")
        except (OSError, http.client.HTTPException) as error:
            if not self.over.is_set():
                self.errors.append(f"events: {type(error).__name__}")
        finally:
            connection.close()

    def stop(self) -> None:
        """Have all clients end."""
        self.over.set()
        if self.listening is not None:
            with suppress(OSError):  # the service has ended it
                self.listening.shutdown(socket.SHUT_RDWR)


def run(seconds: float, clients: int) -> dict[str, Any]:
    """Load a service; what came of it, as data."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [sys.executable, "-m", "distprove.measure.campaign.service_load", "--serve", name]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            contact = Contact(process.stdout.readline().strip(), str(folder / TOKENS))
            job = {"system": "toy", "folder": str(folder / "faults"), "count": PARTITIONS}
            with on_cores(1, None):
                found = _load(contact, job, seconds, clients, psutil.Process(process.pid))
            began = time.monotonic()
            process.stdin.close()
            if process.wait(600) != 0:
                found["errors"].append(f"the service ended with {process.returncode}")
            found["seconds_to_close"] = round(time.monotonic() - began, 2)
            found["runs_on_disk"] = len(list((folder / "service" / "runs").iterdir()))
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    return found


def _load(
    contact: Contact, job: dict[str, Any], seconds: float, clients: int, process: psutil.Process
) -> dict[str, Any]:
    made = provenance()  # now: what runs is of this commit
    load = Load(contact, job)
    waiting = max(1, clients // 5)
    submitting = max(1, clients - waiting)
    token = Path(contact.token_file).read_text().split()[1]
    acts = [load.paced] * submitting + [load.waits] * waiting + [partial(load.listens, token)]
    samples = _during(load, seconds, acts, process, submitting)
    if (counts := load.drain())["proved"] != len(load.ids):
        load.errors.append(f"{len(load.ids)} jobs were accepted, and the service counts {counts}")
    offered = len(load.accepted) + len(load.full)
    return {
        **{name: value for name, value in made.items() if name in ("version", "commit", "python")},
        "format": "distprove.service-load",
        "cores": os.cpu_count(),
        "cores_of_the_service": 1,
        "load_average": os.getloadavg()[0],
        "seconds": seconds,
        "clients": clients,
        "partitions_per_job": PARTITIONS,
        "limits": {"queued": QUEUED, "running": RUNNING, "kept": KEPT},
        "offered_per_second": offered / seconds,
        "asked_of_done": round(offered / max(1, len(load.accepted)), 2),
        "jobs": {"accepted": len(load.accepted), "full": len(load.full)},
        "done_per_second": len(load.accepted) / seconds,
        "events_heard": load.events,
        "latency_seconds": {
            "accepted": quantiles(load.accepted),
            "full": quantiles(load.full),
            "end_of_job": quantiles(load.ends),
        },
        "memory": growth([sample["rss"] for sample in samples]),
        "samples": samples,
        "errors": load.errors[:100],
    }


def _during(
    load: Load, seconds: float, acts: list[Any], process: psutil.Process, submitting: int
) -> list[dict[str, float]]:
    """Have clients act for so long, `submitting` of them submit, and look at the service's process meanwhile."""
    load.every = submitting * LOT / FIRST_RATE
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    samples: list[dict[str, float]] = []
    began = time.monotonic()
    counted: deque[tuple[float, int, int]] = deque(maxlen=WINDOW)
    while (now := time.monotonic()) - began < seconds:
        done = len(load.accepted)
        counted.append((now, done, done + len(load.full)))
        took, *rates = (last - first for first, last in zip(counted[0], counted[-1], strict=True))
        done_rate, asked_rate = (rate / (took or 1.0) for rate in rates)
        load.every = submitting * LOT / max(FIRST_RATE, OVERLOAD * done_rate)
        with process.oneshot():
            samples.append(
                {
                    "at": round(now - began, 1),
                    "rss": process.memory_info().rss,
                    "descriptors": process.num_fds(),
                    "threads": process.num_threads(),
                    "asked_per_second": round(asked_rate, 1),
                    "done_per_second": round(done_rate, 1),
                }
            )
        time.sleep(max(0.0, min(seconds - (now - began), max(0.5, seconds / 120))))
    load.stop()
    for thread in threads:
        thread.join()
    return samples


def quantiles(values: list[float]) -> dict[str, float]:
    """Median, 90, 99 and 99.9 per cent, and the most, in seconds."""
    if not values:
        return {}
    ordered = sorted(values)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
    return {n: round(ordered[int(s * (len(ordered) - 1))], 5) for n, s in shares.items()} | {
        "max": round(ordered[-1], 5)
    }


def growth(rss: list[float]) -> dict[str, float]:
    """Bytes of memory at the median of the second quarter of the time, and of the last."""
    quarter = max(1, len(rss) // 4)
    early, late = (sorted(part)[len(part) // 2] for part in (rss[quarter : 2 * quarter] or rss, rss[-quarter:]))
    return {"second_quarter": early, "last_quarter": late, "most": max(rss)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        with on_cores(0, 1):
            serve(given.serve)
        return
    found = run(given.seconds, given.clients)
    write_result(found, given.out, left_out="samples")
    raise SystemExit(1 if found["errors"] else 0)


if __name__ == "__main__":
    main()
