"""Thousands of small partitions: memory and mappings stay flat, every lease comes back, nothing waits for ever.

`DISTPROVE_SOAK=2000 pytest -s tests/cluster/test_soak.py` takes thousands, and prints what it measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

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
COUNT = int(os.environ.get("DISTPROVE_SOAK", "150"))
RECORD = 5 << 10
"""Bytes that a driver keeps of a partition until the job ends, at most: its proof, its times and steps, its row of the
report. Traced they are 4.1 KiB."""

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc/self/maps on this system"),
    pytest.mark.timeout(300 + COUNT),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small circuit's key, and a witness."""
    cpu, folder = CpuBackend(), tmp_path_factory.mktemp("soak")
    circuit = synthetic_circuit(BN254, CONSTRAINTS, cpu, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=folder / "small.zkey")
    write_wtns(folder / "w.wtns", BN254, circuit.witness)
    return folder


def system(files: Path, count: int) -> Groth16System:
    return Groth16System(files / "small.zkey", [InputFile(f"p{i}", files / "w.wtns") for i in range(count)])


@dataclass
class Measured:
    """A process's memory at points of a job."""

    done: list[int] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    mappings: list[int] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)

    def take(self, done: int, pid: int) -> None:
        """Nothing is noted of a process that a test has killed and that has not been started again yet."""
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


def soak(
    files: Path, count: int, folder: Path, settings: ExecutorSettings, seen: Callable[[Progress, Client], None]
) -> dict[str, Any]:
    """Prove `count` partitions; the node's governor's report at the end."""
    job = system(files, count)
    with Run.create(folder / "run", job, job.plan()) as run, open_client(settings) as client:
        proof = drive(job, client, run, settings, lambda progress: seen(progress, client))
        (report,) = client.governor_report(0.0)
        late = time.monotonic() + PATIENCE  # leases come back over Ray without being waited for
        while report["held"] and time.monotonic() < late:
            time.sleep(0.1)
            (report,) = client.governor_report(0.0)
    proof.verify(job)
    return report


def test_memory_and_mappings_stay_flat(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_arena, "LARGE", 4096)  # small vectors, too, come from the arena
    measured = Measured()

    def seen(progress: Progress, _: Client) -> None:
        if progress.event == "proved" and progress.done % (COUNT // 15) == 0:
            measured.take(progress.done, os.getpid())

    settings = ExecutorSettings(local=True, backend="cpu", threads=2)
    report = soak(files, COUNT, tmp_path, settings, seen)
    measured.show("in process")
    print(report["leases"], "leases,", report["held"], "held at the end")
    partitions, resident, mappings = measured.growth()
    assert resident < (3 << 19) + RECORD * partitions
    assert mappings <= 8
    assert report["held"] == 0
    assert report["leases"] >= 4 * COUNT


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
                return process.pid
    return None


@pytest.mark.parametrize("how", ["processes", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])])
def test_killed_workers_leave_no_lease_and_no_deadlock(
    files: Path, tmp_path: Path, request: pytest.FixtureRequest, how: str
) -> None:
    local = how == "processes"
    if not local:
        request.getfixturevalue("ray_cluster")
    measured = {"prover-0": Measured(), "synthesiser-0": Measured()}
    killed: list[int] = []
    doomed = [("prover-0", COUNT // 4), ("synthesiser-0", COUNT // 3)]

    def seen(progress: Progress, client: Client) -> None:
        if progress.event != "proved":
            return
        if doomed and progress.done >= doomed[0][1]:
            found = process_of(client, doomed[0][0])
            if found is not None and found not in killed:
                killed.append(found)
                os.kill(found, signal.SIGKILL)
                del doomed[0]
        elif progress.done > COUNT // 2 and progress.done % (COUNT // 20) == 0:
            for worker, taken in measured.items():
                found = process_of(client, worker)
                if found is not None and found not in killed:
                    taken.take(progress.done, found)

    settings = ExecutorSettings(local=local, isolate=local or None, backend="cpu", threads=2)
    here = psutil.Process().num_fds()
    report = soak(files, COUNT, tmp_path, settings, seen)
    assert not local or psutil.Process().num_fds() <= here + 2
    print(report["leases"], "leases,", report["reclaimed"], "reclaimed,", report["held"], "held at the end")
    assert len(set(killed)) == 2
    assert json.loads((tmp_path / "run" / "report.json").read_text())["counters"]["faults"] == 0
    assert report["held"] == 0
    for worker, taken in measured.items():
        taken.show(worker)
        _, resident, mappings = taken.growth()
        assert resident < (16 << 20)
        assert mappings <= 16
        assert max(taken.handles) <= min(taken.handles) + 8
