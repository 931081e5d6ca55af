"""Small jobs whose proofs are kept beside this file, in golden; run it to write them again after a change of protocol.

    python -m tests.support.golden_jobs

Their parameters are far too weak for use; they are chosen so that few bytes take every path of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from distprove.formats import canonical
from distprove.proof import Proof, partition_digest
from distprove.stark.air import Air, Bus, Table
from distprove.stark.barrier import job_challenge
from distprove.stark.params import Parameters
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.proof import StarkProof
from distprove.stark.prover import commit, prove
from distprove.stark.proving_key import make_key
from distprove.stark.statement import Statement
from distprove.stark.transcript import Transcript, make_transcript
from distprove.stark.verifying_key import VerifyingKey
from distprove.steps import Steps
from distprove.system import PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.interface.tree_hash import TreeHash
from tests.support.output_program import Writes
from tests.support.stark_programs import Fibonacci, Ring, Sparse
from tests.support.stark_reference import keccak256

POSEIDON2 = TreeHash.POSEIDON2
FOLDER = Path(__file__).resolve().parent / "golden"

CUBES = Bus("cubes", 2)


class CubeAir(Air):
    """Rows of x, x^5 and a count down to zero; x is looked up with x^2 in the table of all."""

    main: ClassVar = {"x": 1, "fifth": 1, "left": 1}
    public = ("rows",)

    def define(self, t: Table) -> None:
        x = t.this.x
        t.always(t.this.fifth - x**5)
        t.first(t.this.left - t.public.rows[1] + 1)
        t.transition(t.next.left - t.this.left + 1)
        t.last(t.this.left)
        t.send(CUBES, (x, x * x))


class SquareAir(Air):
    """Numbers from 0 and their squares."""

    main: ClassVar = {"number": 1, "square": 1, "times": 1}

    def define(self, t: Table) -> None:
        t.first(t.this.number)
        t.transition(t.next.number - t.this.number - 1)
        t.always(t.this.square - t.this.number * t.this.number)
        t.receive(CUBES, (t.this.number, t.this.square), times=t.this.times)


class OneRowAir(Air):
    """A table of a single row, a fixed height, whose next row is itself."""

    main: ClassVar = {"rows": 1}
    public = ("rows",)

    def define(self, t: Table) -> None:
        t.first(t.this.rows - t.public.rows[1])
        t.always(t.next.rows - t.this.rows)


class Mixed(Program):
    """Three heights, the lowest one row and fixed; degrees 5 and 2; a local bus only; no preprocessed columns."""

    name = "test-mixed"

    @property
    def tables(self) -> Sequence[Air]:
        return (SquareAir(), OneRowAir(), CubeAir())

    @property
    def buses(self) -> Sequence[Bus]:
        return (CUBES,)

    @property
    def statement(self) -> Statement:
        return Statement((("rows", 2),))

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        return {"OneRowAir": 0}

    def slices(self, partitions: int) -> list[Slice]:
        return [Slice(f"part-{i}", {"offset": i}) for i in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {"offset": np.array([source["offset"]], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        numbers = np.arange(8, dtype=np.uint64)
        x = (np.arange(64, dtype=np.uint64) * np.uint64(3) + backend.to_host(inputs["offset"])) % np.uint64(7)
        squares = np.stack((numbers, numbers**2, np.bincount(x.astype(np.int64), minlength=8).astype(np.uint64)))
        cubes = np.stack((x, x**5, np.arange(64, dtype=np.uint64)[::-1]))
        columns = (squares, np.array([[64]], dtype=np.uint64), cubes)
        return Trace([backend.to_device(c) for c in columns], (8, 64))


@dataclass(frozen=True)
class GoldenJob:
    program: Program
    partitions: int
    params: Parameters


JOBS = {
    "fibonacci": GoldenJob(
        Fibonacci(6), 1, Parameters(1, queries=3, grinding_bits=5, security_bits=5, log_arity=3, log_final=1)
    ),
    "ring": GoldenJob(Ring(6), 2, Parameters(1, queries=2, grinding_bits=3, security_bits=3, log_arity=1, log_final=2)),
    "mixed": GoldenJob(
        Mixed(), 2, Parameters(3, queries=2, grinding_bits=0, security_bits=2, log_arity=2, log_final=5)
    ),
    "output": GoldenJob(
        Writes(b"seventeen bytes.."), 2, Parameters(1, queries=4, grinding_bits=1, security_bits=2, log_final=1)
    ),
    "sparse": GoldenJob(
        Sparse(), 2, Parameters(1, queries=2, grinding_bits=2, security_bits=2, log_arity=2, log_final=2)
    ),
    "poseidon2": GoldenJob(
        Mixed(), 2, Parameters(2, 2, grinding_bits=3, security_bits=2, log_arity=2, log_final=3, tree_hash=POSEIDON2)
    ),
}


@dataclass(frozen=True)
class ProvenJob:
    """A job as a verifier gets it."""

    key: VerifyingKey
    names: list[str]
    publics: list[tuple[int, ...]]
    proofs: list[StarkProof]
    transcript: list[list[list[Any]]]
    """Per partition what was absorbed and drawn, as section 13 of the specification says."""
    output: bytes | None = None

    def to_bytes(self) -> bytes:
        partitions = [
            {"name": name, "public": list(public), "proof": proof.to_record()}
            for name, public, proof in zip(self.names, self.publics, self.proofs, strict=True)
        ]
        output = {} if self.output is None else {"output": self.output}
        record = {"key": self.key.to_record(), "partitions": partitions, "transcript": self.transcript}
        return canonical.encode(record | output)


def prove_job(job: GoldenJob, backend: Backend) -> ProvenJob:
    """All partitions of a job, with the transcripts of their proofs."""
    pk = make_key(job.program, job.params, backend)
    slices = job.program.slices(job.partitions)
    committed = [commit(pk, s.name, job.program.inputs(s.source), Steps()) for s in slices]
    challenge = job_challenge(pk.key.digest, [c.commitment for c in committed])
    proofs, transcript = [], []
    for part in committed:
        events: list[list[Any]] = []
        with mock.patch("distprove.stark.challenges.make_transcript", partial(recording, events)):
            proofs.append(prove(pk, part, challenge, Steps()))
        transcript.append(events)
    publics, output = [c.commitment.public for c in committed], job.program.cut(job.partitions, lambda _: True).output
    return ProvenJob(pk.key, [s.name for s in slices], publics, proofs, transcript, output)


Events = list[list[Any]]


@dataclass
class RecordingTranscript(Transcript):
    """Notes what is absorbed and drawn."""

    inner: Transcript
    events: Events

    def absorb(self, label: bytes, data: bytes) -> None:
        self.inner.absorb(label, data)
        self.events.append([label.decode(), keccak256(data)])

    def words(self) -> NDArray[np.uint64]:
        return self.inner.words()

    def resume(self, words: NDArray[np.uint64]) -> None:
        self.inner.resume(words)

    def absorb_words(self, label: bytes, words: NDArray[np.uint64]) -> None:
        self.inner.absorb_words(label, words)
        self.events.append([label.decode(), keccak256(words.astype("<u8").tobytes())])

    def absorb_root(self, label: bytes, root: bytes) -> None:
        self.inner.absorb_root(label, root)
        self.events.append([label.decode(), keccak256(root)])

    def extension(self, label: bytes) -> tuple[int, int, int]:
        drawn = self.inner.extension(label)
        self.events.append([label.decode(), list(drawn)])
        return drawn

    def indices(self, label: bytes, count: int, bits: int) -> list[int]:
        drawn = self.inner.indices(label, count, bits)
        self.events.append([label.decode(), drawn])
        return drawn

    def grinding_seed(self) -> bytes:
        seed = self.inner.grinding_seed()
        self.events.append(["grind", seed])
        return seed


def recording(events: Events, purpose: bytes, tree_hash: TreeHash) -> Transcript:
    """Return a transcript that notes in `events` what is absorbed and drawn, its purpose first."""
    events.append(["purpose", keccak256(purpose)])
    return RecordingTranscript(make_transcript(purpose, tree_hash), events)


def golden(name: str) -> dict[str, Any]:
    """The kept job."""
    data = (FOLDER / f"{name}.msgpack").read_bytes()
    record: dict[str, Any] = canonical.decode(data, name)
    return record


def golden_file(job: dict[str, Any]) -> Proof:
    """A kept job as proof.msgpack holds it."""
    key = VerifyingKey.from_record(job["key"])
    parts = tuple(
        PartitionProof(
            p["name"],
            partition_digest(key.digest, i, p["name"], p["public"], p["proof"]["heights"]),
            tuple(p["public"]),
            p["proof"],
        )
        for i, p in enumerate(job["partitions"])
    )
    return Proof("stark", key.digest, key.named(), parts, job.get("output"))


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, job in JOBS.items():
        with CpuBackend(threads=1) as backend:
            data = prove_job(job, backend).to_bytes()
        (FOLDER / f"{name}.msgpack").write_bytes(data)
        print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    write()
