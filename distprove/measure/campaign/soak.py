"""Thousands of small partitions: memory and mappings stay flat, every lease comes back, nothing waits for ever.

    python -m distprove.measure.campaign.soak --partitions 2000 --over processes

In this process, on threads, the partitions run undisturbed. Over processes or Ray, a prover and a synthesiser are
killed on the way. The command prints the samples of memory, and ends with 1 where a bound was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import Run
from cluster.scheduler.jobs import Progress
from cluster.scheduler.loop import Client
from distprove.circuits.synthetic import synthetic_circuit
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16System
from distprove.groth16.wtns import write_wtns
from distprove.options import InputFile
from distprove.settings import ExecutorSettings
from kernels.cpu.backend import CpuBackend
from kernels.host import arena as host_arena
from kernels.maths.curves import BN254

CONSTRAINTS = 500
PATIENCE = 180.0
"""Seconds in which all leases come back after a job, which over Ray nobody waits for."""
RECORD = 5 << 10
"""Bytes that a driver keeps of a partition until the job ends, at most: its proof, its times and steps, its row of the
report. Traced they are 4.1 KiB."""
SMALL = 4096
"""Bytes from which vectors come from the host's arena, so that those of small partitions do."""


@dataclass
class Measured:
    """A process's memory at points of a job."""

    done: list[int] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    mappings: list[int] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)

    def take(self, done: int, pid: int) -> None:
        """Sample a process; one that was killed and not started again is left out."""
        try:
            process = psutil.Process(pid)
            resident, handles = process.memory_info().rss, process.num_fds()
            mappings = len(Path(f"/proc/{pid}/maps").read_text().splitlines())
        except (psutil.NoSuchProcess, OSError):  # a zombie is one of the former
            return
        self.done.append(done)
        self.resident.append(resident)
        self.mappings.append(mappings)
        self.handles.append(handles)

    def show(self, what: str) -> None:
        for done, resident, mappings in zip(self.done, self.resident, self.mappings, strict=True):
            print(f"{what}: {done:5d} partitions, {resident / 2**20:7.1f} MiB resident, {mappings:4d} mappings")

    def growth(self) -> tuple[int, int, int]:
        """Partitions, bytes and mappings from a third of the way to the end."""
        third = len(self.done) // 3
        return (
            self.done[-1] - self.done[third],
            self.resident[-1] - self.resident[third],
            self.mappings[-1] - self.mappings[third],
        )

    def broken(self, what: str, most_resident: int, most_mappings: int, a_partition: int = 0) -> list[str]:
        """Print the samples, and return which bounds the growth exceeds, with so many bytes more a partition."""
        self.show(what)
        partitions, resident, mappings = self.growth()
        most = most_resident + a_partition * partitions
        found = [f"{what} grew by {resident} bytes, more than {most}"] if resident >= most else []
        return found + ([f"{what} has {mappings} mappings more"] if mappings > most_mappings else [])


def make_job(folder: Path, count: int) -> Groth16System:
    """A job of `count` partitions of a small circuit, whose key and witness lie in `folder`."""
    key, witness = folder / "small.zkey", folder / "w.wtns"
    if not key.exists():
        cpu = CpuBackend()
        circuit = synthetic_circuit(BN254, CONSTRAINTS, cpu, public_inputs=2)
        setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=key)
        write_wtns(witness, BN254, circuit.witness)
    return Groth16System(key, [InputFile(f"p{i}", witness) for i in range(count)])


def soak(
    job: Groth16System, folder: Path, settings: ExecutorSettings, seen: Callable[[Progress, Client], None]
) -> dict[str, Any]:
    """Prove all partitions; the report of the node's governor at the end."""
    with Run.create(folder, job, job.plan()) as run, open_client(settings) as client:
        proof = drive(job, client, run, settings, lambda progress: seen(progress, client))
        (report,) = client.governor_report(0.0)
        late = time.monotonic() + PATIENCE
        while report["held"] and time.monotonic() < late:
            time.sleep(0.1)
            (report,) = client.governor_report(0.0)
    proof.verify(job)
    print(report["leases"], "leases,", report["reclaimed"], "reclaimed,", report["held"], "held at the end")
    return report


def undisturbed(job: Groth16System, folder: Path) -> list[str]:
    """Prove on threads of this process, and return which bounds were broken."""
    count, measured = len(job.plan()), Measured()

    def seen(progress: Progress, _: Client) -> None:
        if progress.event == "proved" and progress.done % (count // 15) == 0:
            measured.take(progress.done, os.getpid())

    large, host_arena.LARGE = host_arena.LARGE, SMALL
    try:
        report = soak(job, folder, ExecutorSettings(local=True, backend="cpu", threads=2), seen)
    finally:
        host_arena.LARGE = large
    found = measured.broken("this process", 3 << 19, 8, RECORD)
    found += [f"{report['held']} leases are held"] if report["held"] else []
    return found + ([f"only {report['leases']} leases"] if report["leases"] < 4 * count else [])


def actor_of(client: Client) -> int | None:
    """The process of prover-0's actor; None while it is being started again."""
    import ray

    actor = client.scheduler.fleet.sites["prover-0"].host.actor  # type: ignore[attr-defined]
    try:
        return int(ray.get(actor.__ray_call__.remote(lambda _: os.getpid())))
    except ray.exceptions.RayError:
        return None


def process_of(client: Client, worker: str) -> int | None:
    """The worker's process, if it is there: a synthesiser's is a child of its prover's."""
    above = psutil.Process().pid if client.scheduler.settings.local else actor_of(client)
    if above is None or (not client.scheduler.settings.local and worker == "prover-0"):
        return above
    for process in psutil.Process(above).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            if f"distprove-{worker}" in process.cmdline():
                return int(process.pid)
    return None


def with_kills(job: Groth16System, folder: Path, *, local: bool) -> list[str]:
    """Prove with a prover and a synthesiser that are killed on the way, and return which bounds were broken."""
    count, measured = len(job.plan()), {"prover-0": Measured(), "synthesiser-0": Measured()}
    doomed = [("prover-0", count // 4), ("synthesiser-0", count // 3)]
    killed: list[int] = []

    def seen(progress: Progress, client: Client) -> None:
        if progress.event != "proved":
            return
        if doomed and progress.done >= doomed[0][1]:
            found = process_of(client, doomed[0][0])
            if found is not None and found not in killed:
                killed.append(found)
                os.kill(found, signal.SIGKILL)
                del doomed[0]
        elif progress.done > count // 2 and progress.done % (count // 20) == 0:
            for worker, taken in measured.items():
                found = process_of(client, worker)
                if found is not None and found not in killed:
                    taken.take(progress.done, found)

    settings = ExecutorSettings(local=local, isolate=local or None, backend="cpu", threads=2)
    here = psutil.Process().num_fds()
    report = soak(job, folder, settings, seen)
    left = psutil.Process().num_fds() - here
    faults = json.loads((folder / "report.json").read_text())["counters"]["faults"]
    found = [f"{left} handles are left open"] if local and left > 2 else []
    found += [f"{len(set(killed))} workers were killed, not 2"] if len(set(killed)) != 2 else []
    found += [f"{faults} faults, {report['held']} leases held"] if faults or report["held"] else []
    for worker, taken in measured.items():
        found += taken.broken(worker, 16 << 20, 16)
        found += [f"{worker} opened handles"] if max(taken.handles) > min(taken.handles) + 8 else []
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--over", choices=("threads", "processes", "ray"), default="threads")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        job, run = make_job(Path(name), given.partitions), Path(name) / "run"
        threads = given.over == "threads"
        found = undisturbed(job, run) if threads else with_kills(job, run, local=given.over == "processes")
    print(*found, sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
