"""Jobs of one key after each other: what a job proves does not depend on the jobs that its key was warm with."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import Run
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.systems import Systems
from cluster.service.views import JobRequest, JobState
from distprove.errors import UsageError
from distprove.groth16.aggregate.srs_setup import insecure_srs
from distprove.groth16.setup import setup
from distprove.groth16.wtns import write_wtns
from distprove.job import Job
from distprove.proof import PROOF_FILE, Proof
from distprove.settings import ExecutorSettings
from distprove.stark.air import Air, Table
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.statement import Statement
from kernels.cpu.backend import CpuBackend
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254
from tests.circuits.test_registry import inputs as circuit_inputs
from tests.circuits.test_registry import squares
from tests.support import riscv_asm as asm
from tests.support.await_end import await_end
from tests.support.riscv_elf import code_file

PATIENCE = 300.0
THREADS = ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu")
TRANSPORTS = {
    "threads": THREADS,
    "processes": ExecutorSettings(local=True, isolate=True, threads=2, backend="cpu"),
    "ray": ExecutorSettings(local=False, threads=2, backend="cpu"),
}
WEAK = {"system": "stark", "security": 1, "queries": 5, "grinding": 0}
"""Few queries, the same ones for all numbers of partitions: the jobs of a program have one key."""

MULTILINEAR = {"system": "stark", "security": 1, "grinding": 0, "engine": "multilinear", "hash": "poseidon2"}


class LineAir(Air):
    name = "line"
    main = {"x": 1}  # noqa: RUF012
    public = ("start", "end")

    def define(self, t: Table) -> None:
        t.first(t.this.x - t.public.start)
        t.transition(t.next.x - t.this.x - 1)
        t.last(t.this.x - t.public.end)


class Line(Program):
    """A user's program whose trace reads an argument of the prover's own, and not its slice."""

    name = "line"
    tables = (LineAir(),)
    statement = Statement(public=(("start", 1), ("end", 1)))

    def __init__(self, start: int = 0, log_rows: int = 3) -> None:
        self.start, self.log_rows = start, log_rows

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [(self.log_rows,)] * partitions

    def slices(self, partitions: int) -> list[Slice]:
        return [Slice(f"part-{index}", {}) for index in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        return {"x": np.arange(1 << self.log_rows, dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        return Trace(
            [(inputs["x"] + np.uint64(self.start)).reshape(1, -1)], (self.start, self.start + (1 << self.log_rows) - 1)
        )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys, inputs and guests of the jobs."""
    folder = tmp_path_factory.mktemp("files")
    with CpuBackend() as cpu:
        circuit = squares().build()
        setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=folder / "squares.zkey")
        for number in range(4):
            given = circuit_inputs((number, number + 7))[0]
            (folder / f"squares-{number}.json").write_text(json.dumps(given))
            write_wtns(folder / f"squares-{number}.wtns", BN254, circuit.witness(given, cpu))
    loop = [asm.imm("addi", 5, 5, 1), asm.branch("bne", 5, asm.A0, -4)]
    (folder / "guest.elf").write_bytes(code_file([*asm.call(3), *loop, *asm.call(2), *asm.leave()]))
    for number in (50, 200):  # rounds: one segment of 256 cycles, and two
        (folder / f"rounds-{number}").write_bytes(number.to_bytes(4, "little"))
    (folder / "small").write_bytes(bytes(300))
    (folder / "large").write_bytes(bytes(range(256)) * 9)
    return folder


def menu(files: Path) -> dict[str, Callable[[random.Random], dict[str, Any]]]:
    """Makers of random jobs: one for each program that ships, a user's own, and each source of a Groth16 witness."""

    def stark(program: str, partitions: int | None, **arguments: Any) -> dict[str, Any]:
        return {**WEAK, "program": program, "partitions": partitions, "arguments": arguments}

    def groth16(source: str, suffix: str, r: random.Random, **more: str) -> dict[str, Any]:
        chosen = r.sample(range(4), r.randint(1, 3))
        inputs = [str(files / f"{source}-{number}.{suffix}") for number in chosen]
        kind = "witnesses" if suffix == "wtns" else "inputs"
        return {"system": "groth16", "zkey": str(files / "squares.zkey"), kind: inputs, **more}

    def guest(r: random.Random) -> dict[str, Any]:
        given = files / f"rounds-{r.choice((50, 200))}"
        return stark("riscv", None, elf=str(files / "guest.elf"), input=str(given), segment=256)

    def root_of(r: random.Random) -> dict[str, Any]:
        return stark("file-root", r.choice((None, 1, 2)), file=str(files / r.choice(("small", "large"))))

    def multilinear(program: str, partitions: int | None, **arguments: Any) -> dict[str, Any]:
        return {**MULTILINEAR, "program": program, "partitions": partitions, "arguments": arguments}

    def tree(r: random.Random) -> dict[str, Any]:
        return {**multilinear("fibonacci", 2, rows=16, first=r.randint(0, 9)), "one_proof": True}

    def own(r: random.Random) -> dict[str, Any]:
        made = r.choice((stark, multilinear))
        return made(f"{__name__}:Line", r.randint(1, 2), start=r.randint(0, 99), log_rows=r.randint(2, 6))

    return {
        "fibonacci": lambda r: stark("fibonacci", r.randint(1, 4), rows=16, first=r.randint(0, 9)),
        "multilinear": lambda r: multilinear("fibonacci", r.randint(1, 4), rows=16, first=r.randint(0, 9)),
        "barrier": lambda r: multilinear("range-check", r.randint(1, 3), values=r.randint(1, 99), bits=4),
        "one-proof": tree,
        "wide-fibonacci": lambda r: stark("wide-fibonacci", r.randint(1, 3), rows=16, width=4, seed=r.randint(1, 9)),
        "keccak-f": lambda r: stark("keccak-f", r.randint(1, 2), permutations=r.randint(1, 3), first=r.randint(0, 9)),
        "range-check": lambda r: stark("range-check", r.randint(1, 3), values=r.randint(1, 99), bits=4),
        "file-root": root_of,
        "riscv": guest,
        "own": own,
        "witnesses": lambda r: groth16("squares", "wtns", r),
        "circuit": lambda r: groth16("squares", "json", r, circuit="tests.circuits.test_registry:squares"),
    }


class Alone:
    """What jobs come to by themselves: the proof of a STARK job, which is the same each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, bytes] = {}

    def proof(self, job: dict[str, Any]) -> bytes:
        name = json.dumps(job)
        if name not in self._known:
            system, run = load(job), self._folder / str(len(self._known))
            with open_client(THREADS) as executor, Run.create(run, system, system.plan()) as made:
                drive(system, executor, made, THREADS)
            self._known[name] = (run / PROOF_FILE).read_bytes()
        return self._known[name]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    return Alone(tmp_path_factory.mktemp("alone"))


def load(job: dict[str, Any]) -> Any:
    options = {key: value for key, value in job.items() if key != "system"}
    return Job.from_table(job["system"], "", options, Path("/")).load()


def check(service: Service, id: str, job: dict[str, Any], alone: Alone) -> None:
    """A job was proven, and states what it states alone."""
    system, path = load(job), service.proof(id)
    proof = Proof.read(path)
    proof.verify(system)
    if job["system"] == "stark":
        assert path.read_bytes() == alone.proof(job)
        return
    paths = [Path(each) for each in job.get("inputs") or job["witnesses"]]
    expected = [(n * n + (n + 7) ** 2,) for n in (int(path.stem.rpartition("-")[2]) for path in paths)]
    assert [partition.public for partition in proof.partitions] == expected


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_warm_job_proves_what_it_proves_alone(transport: str, files: Path, alone: Alone, tmp_path: Path) -> None:
    """The heights, the number of partitions and the arguments of the job that a key was loaded for stayed with it."""
    seed = int(os.environ.get("WARM_SEED", "31"))
    print(f"WARM_SEED={seed}")  # which pytest shows of a test that fails
    chosen, makers = random.Random(seed), menu(files)
    light = [name for name in makers if name not in ("file-root", "riscv", "keccak-f", "one-proof")]
    names = [*makers, *makers, *light] if transport == "threads" else ["keccak-f", "keccak-f", *light, *light]
    jobs = [makers[name](chosen) for name in names]
    chosen.shuffle(jobs)
    service = Service(tmp_path / "service", TRANSPORTS[transport], Limits(running=2, allow_code=True))
    service.start()
    try:
        for number, job in enumerate(jobs):
            service.submit(JobRequest(f"job-{number}", job))
        views = [await_end(service, f"job-{number}", PATIENCE) for number in range(len(jobs))]
        failed = [(job, view.error) for job, view in zip(jobs, views, strict=True) if view.state is not JobState.PROVED]
        assert not failed
        assert sum(view.cold is False for view in views) >= len(jobs) // 3, "too few keys were warm"
        for view, job in zip(views, jobs, strict=True):
            check(service, view.id, job, alone)
    finally:
        service.close(drain=False)


def test_a_users_program_is_asked_for_each_job(tmp_path: Path) -> None:
    """It may read files that its job does not name, or the clock: nothing tells whether those are as they were."""
    options = {"program": f"{__name__}:Line", "partitions": 1, "queries": 5, "security": 1}
    job, systems = Job.from_table("stark", "", options, tmp_path), Systems()
    (first, _), (again, _) = systems.load(job), systems.load(job)
    assert again is not first
    assert systems.known(job) is None


def test_each_job_of_a_key_is_held_against_its_aggregation_keys(files: Path, tmp_path: Path) -> None:
    with CpuBackend() as cpu:
        insecure_srs(BN254, 2, cpu).write(tmp_path / "keys.srs")
    common = {"zkey": "squares.zkey", "aggregate": str(tmp_path / "keys.srs")}
    few, many = (
        Job.from_table("groth16", "", {**common, "witnesses": [f"squares-{n}.wtns" for n in range(count)]}, files)
        for count in (2, 3)
    )
    systems = Systems()
    systems.load(few)
    with pytest.raises(UsageError, match="keys for 2 proofs, the job has 3"):
        systems.load(many)


def test_a_warm_key_does_without_the_files_of_its_first_job(files: Path, tmp_path: Path) -> None:
    """A worker that died loaded the key again from the ELF file of the job that had brought it, which was gone."""
    service = Service(tmp_path / "service", TRANSPORTS["processes"])
    service.start()
    try:
        for number in range(3):
            guest = tmp_path / f"{number}.elf"
            guest.write_bytes((files / "guest.elf").read_bytes())
            arguments = {"elf": str(guest), "input": str(files / "rounds-200"), "segment": 256}
            service.submit(JobRequest(f"job-{number}", {**WEAK, "program": "riscv", "arguments": arguments}))
            view = await_end(service, f"job-{number}", PATIENCE)
            assert view.state is JobState.PROVED, view.error
            guest.unlink()
            (resident,) = service._scheduler._residents.values()
            verifiers = resident._verifiers
            assert verifiers is not None
            for transport in (*resident.transports.values(), *(each.transport for each in verifiers._all)):
                transport.kill()
    finally:
        service.close(drain=False)
