"""The file of one proof of several STARK jobs: what each of them states, and the proof of all.

Layout (canonical MessagePack, see `distprove.formats.canonical`; every map has exactly these keys):

    {binding: bin32, format: "distprove.stark-aggregate", jobs: [job...], proof: map, version: 1}
    job = {digest: bin32, key: bin32, output: bin or nil, partitions: [partition...], sum: bin24, verification_key: map}

A job's entries are those of its own proof.msgpack of version 2 (`distprove.proof`), without the proof of its root: key,
verification key and partitions, its job digest, and the sum of its global buses. `output` are the bytes of its output,
if its statement has one.

    binding = H("distprove/stark-aggregate/1", [[binding of the job, output]...], proof)

where a job's binding is that of a proof.msgpack whose `whole` is {sum}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from distprove.errors import FormatError, InvalidProof
from distprove.formats import canonical
from distprove.formats.files import read_bounded
from distprove.proof import MAX_BYTES, MAX_OUTPUT, Proof, check_fields, decode_partition, encode_public
from distprove.stark.aggregate import BEGINS
from distprove.stark.recursion.jobs_root import MOST_JOBS
from kernels.host.units import count_of

FORMAT = "distprove.stark-aggregate"
VERSION = 1
SYSTEM = "stark"
_JOB: dict[str, type] = {"digest": bytes, "key": bytes, "partitions": list, "sum": bytes, "verification_key": dict}


@dataclass(frozen=True, repr=False)
class StarkAggregate:
    """The content of such a file. `distprove.stark.aggregate.verifier` says whether any of it is true."""

    jobs: tuple[Proof, ...]
    """Each job, with its output. In place of the proof of its root, `whole` is {sum}."""
    proof: dict[str, Any]
    """The proof of all jobs."""

    def __repr__(self) -> str:
        return (
            f"<StarkAggregate: {count_of(len(self.jobs), 'job')} "
            f"({', '.join(job.job_digest.hex()[:16] for job in self.jobs)})>"
        )

    @classmethod
    def of(cls, proofs: Sequence[Proof], proof: dict[str, Any]) -> StarkAggregate:
        """The aggregate of jobs that end in one proof each."""
        return cls(tuple(replace(job, whole={"sum": _whole(job)["sum"]}) for job in proofs), proof)

    @cached_property
    def binding(self) -> bytes:
        """The checksum of everything in the file, 32 bytes."""
        told = [[job.binding, job.output] for job in self.jobs]
        return canonical.digest("distprove/stark-aggregate/1", told, self.proof)

    def to_bytes(self) -> bytes:
        """Encode it as the content of its file."""
        jobs = [
            {
                "digest": job.job_digest,
                "key": job.key_digest,
                "output": job.output,
                "partitions": [
                    {"data": p.data, "digest": p.digest, "name": p.name, "public": _encoded(p.public)}
                    for p in job.partitions
                ],
                "sum": _whole(job)["sum"],
                "verification_key": job.verification_key,
            }
            for job in self.jobs
        ]
        top = {"format": FORMAT, "version": VERSION, "jobs": jobs, "proof": self.proof, "binding": self.binding}
        return canonical.encode(top)

    @classmethod
    def from_bytes(cls, data: bytes, what: str = "aggregate") -> StarkAggregate:
        """Parse and check the binding; nothing is verified yet. Raises FormatError or InvalidProof."""
        top = canonical.decode(data, what)
        if not isinstance(top, dict) or (top.get("format"), top.get("version")) != (FORMAT, VERSION):
            raise FormatError(f"{what}: not a proof of several STARK jobs, version {VERSION}")
        check_fields(top, {"format": str, "version": int, "jobs": list, "proof": dict, "binding": bytes}, what)
        if not 2 <= len(top["jobs"]) <= MOST_JOBS:
            raise FormatError(f"{what}: of 2 to {MOST_JOBS} jobs, not of {len(top['jobs'])}")
        jobs = tuple(_job(job, f"{what}: job {number}") for number, job in enumerate(top["jobs"], 1))
        made = cls(jobs, top["proof"])
        if made.binding != top["binding"]:
            raise InvalidProof(f"{what}: the content does not match its binding")
        return made

    @classmethod
    def read(cls, path: Path) -> StarkAggregate:
        """Read such a file and check its binding. Raises InputError, FormatError or InvalidProof."""
        kind = "a proof of several STARK jobs"
        return cls.from_bytes(read_bounded(path, MAX_BYTES, begins=BEGINS, kind=kind), str(path))


def _whole(job: Proof) -> dict[str, Any]:
    assert job.whole is not None, "a job that ends in one proof"
    return job.whole


def _encoded(public: Sequence[int]) -> list[bytes]:
    return [encode_public(value) for value in public]


def _job(record: Any, what: str) -> Proof:
    """The job of a record. Raises FormatError, InvalidProof."""
    output = record.get("output") if isinstance(record, dict) else None
    check_fields(record, {**_JOB, "output": type(output)}, what)
    if not isinstance(output, (bytes, type(None))) or len(output or b"") > MAX_OUTPUT:
        raise FormatError(f"{what}: an output is at most {MAX_OUTPUT} bytes")
    if not record["partitions"]:
        raise FormatError(f"{what}: no partitions")
    if len(record["key"]) != 32:
        raise FormatError(f"{what}: a key's digest has 32 bytes")
    given = tuple(decode_partition(p, f"{what}: partition {i}") for i, p in enumerate(record["partitions"]))
    if len({p.name for p in given}) != len(given):
        raise InvalidProof(f"{what}: two partitions have the same name")
    job = Proof.bind(SYSTEM, record["key"], record["verification_key"], given, {"sum": record["sum"]})
    if [p.digest for p in job.partitions] != [p.digest for p in given] or job.job_digest != record["digest"]:
        raise InvalidProof(f"{what}: the job digest binds other partitions")
    return replace(job, output=output)


read = StarkAggregate.read
