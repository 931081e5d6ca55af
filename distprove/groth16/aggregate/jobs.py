"""aggregate.msgpack: the proofs of one or more jobs under one key, aggregated, with what they state.

Layout (canonical MessagePack, see `distprove.formats.canonical`; every map has exactly these keys):

    {aggregate: bin, curve: str, format: "distprove.aggregate", insecure: bool, jobs: [job...], key: bin32, keys: bin32,
     statement: statement or nil, system: "groth16", version: 1}
    job = {count: int, digest: bin32}
    statement = [[{name: str, public: [bin...]}...]...]    partitions of each job; public values as in proof.msgpack

`key` is the digest of the verification key, `keys` that of the aggregation keys. A job's digest (`distprove.proof`)
fixes the number and order of its partitions, their names and every public value. A statement that is left out lies in a
file of its own, {format: "distprove.statement", jobs: statement, version: 1}.

Included in the transcript is H("distprove/aggregate/1", key, keys, [[digest, count]...]) of `canonical.digest`: the
aggregate holds for no other statement, key or aggregation keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.formats.files import read_bounded, write_atomically
from distprove.formats.names import is_name
from distprove.groth16.aggregate.proof import Aggregate
from distprove.groth16.aggregate.srs import VerifierSrs
from distprove.groth16.aggregate.verifier import verify
from distprove.groth16.keys import VerificationKey, known_curve
from distprove.proof import Proof, check_fields, decode_public, encode_public, job_digest
from kernels.maths.curves import Curve

FORMAT = "distprove.aggregate"
STATEMENT_FORMAT = "distprove.statement"
VERSION = 1
SYSTEM = "groth16"
BEGINS = b"\x8a\xa9aggregate"
"""The first bytes of every such file: a map of ten entries, the first of which is the aggregate."""
AGGREGATE_FILE = "aggregate.msgpack"
"""Name of the file in a run folder."""
MAX_BYTES = 1 << 30

Partitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Name and public values of each partition of a job, in order."""


@dataclass(frozen=True)
class JobDigest:
    """A job as an aggregate names it."""

    digest: bytes
    count: int
    """Number of its partitions."""


@dataclass(frozen=True)
class Statement:
    """What is stated: the partitions of each job."""

    jobs: tuple[Partitions, ...] = field(repr=False)

    @classmethod
    def of(cls, proofs: Sequence[Proof]) -> Statement:
        return cls(tuple(tuple((p.name, p.public) for p in proof.partitions) for proof in proofs))

    @property
    def public(self) -> list[tuple[int, ...]]:
        """The public values of every proof, in order."""
        return [public for job in self.jobs for _, public in job]

    def digests(self, key_digest: bytes) -> tuple[JobDigest, ...]:
        """The jobs under the key of that digest."""
        return tuple(
            JobDigest(job_digest(SYSTEM, key_digest, [(name, public, None) for name, public in job]), len(job))
            for job in self.jobs
        )

    def to_bytes(self) -> bytes:
        """Encode the statement as a file of its own."""
        return canonical.encode({"format": STATEMENT_FORMAT, "version": VERSION, "jobs": self._encoded()})

    @classmethod
    def from_bytes(cls, data: bytes, what: str = "statement") -> Statement:
        """Read what `to_bytes` wrote. Raises FormatError."""
        top = canonical.decode(data, what)
        check_fields(top, {"format": str, "version": int, "jobs": list}, what)
        if (top["format"], top["version"]) != (STATEMENT_FORMAT, VERSION):
            raise FormatError(f"{what}: not a statement of an aggregate, version {VERSION}")
        return cls._decoded(top["jobs"], what)

    @classmethod
    def read(cls, path: Path) -> Statement:
        """Read a statement's file. Raises InputError or FormatError."""
        return cls.from_bytes(read_bounded(path, MAX_BYTES), str(path))

    def _encoded(self) -> list[Any]:
        return [[{"name": name, "public": [encode_public(v) for v in public]} for name, public in j] for j in self.jobs]

    @classmethod
    def _decoded(cls, value: Any, what: str) -> Statement:
        jobs: list[Partitions] = []
        for number, job in enumerate(value):
            where = f"{what}: job {number}"
            if not isinstance(job, list) or not job:
                raise FormatError(f"{where}: not a list of partitions")
            for partition in job:
                check_fields(partition, {"name": str, "public": list}, where)
                if not is_name(partition["name"]):
                    raise FormatError(f"{where}: not a partition name")
            if len({partition["name"] for partition in job}) != len(job):
                raise FormatError(f"{where}: two partitions have the same name")
            jobs.append(tuple((partition["name"], decode_public(partition["public"], where)) for partition in job))
        return cls(tuple(jobs))


@dataclass(frozen=True, repr=False)
class AggregatedJobs:
    """The content of aggregate.msgpack. Construction raises InvalidProof for a statement that is not of these jobs."""

    curve: Curve
    key_digest: bytes
    srs_digest: bytes
    insecure: bool
    """Whether the aggregation keys say that they were made without ceremonies."""
    jobs: tuple[JobDigest, ...]
    statement: Statement | None
    """What is stated; None where it lies in a file of its own."""
    aggregate: bytes

    def __post_init__(self) -> None:
        if len({job.digest for job in self.jobs}) != len(self.jobs):
            raise InvalidProof("the aggregate counts a job twice")
        if self.statement is not None and self.statement.digests(self.key_digest) != self.jobs:
            raise InvalidProof("the statement is not that of the aggregate's jobs")

    def __repr__(self) -> str:
        return f"<AggregatedJobs: {len(self.jobs)} jobs, {self.count} proofs, {len(self.aggregate)} bytes>"

    @property
    def count(self) -> int:
        """Number of proofs, without padding."""
        return sum(job.count for job in self.jobs)

    @property
    def included(self) -> bytes:
        """What the transcript includes of the statement."""
        return included(self.key_digest, self.srs_digest, self.jobs)

    def with_statement(self, statement: Statement | None) -> AggregatedJobs:
        """The same with a statement that lay elsewhere, or without. Raises InvalidProof."""
        return replace(self, statement=statement)

    def verify(
        self,
        key: VerificationKey,
        srs: VerifierSrs,
        expected_jobs: Sequence[bytes] | None = None,
        *,
        threads: int = 1,
    ) -> None:
        """Raise InvalidProof, CurveMismatch or FormatError unless every partition that is stated has a witness.

        `expected_jobs` are the digests of the jobs that the caller expects, in any order. Without them, success means
        that what the statement says is true under this key. Raises UsageError where the statement lies elsewhere.
        """
        if self.statement is None:
            raise UsageError("the aggregate comes without its statement: the names and public values of its partitions")
        if key.digest() != self.key_digest:
            raise InvalidProof(f"the aggregate is for key {self.key_digest.hex()[:16]}..., not for the one given")
        if srs.digest != self.srs_digest:
            raise InvalidProof("the aggregate is for other aggregation keys than those given")
        if self.insecure != srs.insecure:
            raise InvalidProof("the aggregate and its keys differ on whether these were made by ceremonies")
        if expected_jobs is not None and sorted(expected_jobs) != sorted(job.digest for job in self.jobs):
            raise InvalidProof("the aggregate is of other jobs than those expected")
        aggregate = Aggregate.from_bytes(self.curve, self.aggregate, "aggregate", threads)
        if not verify(key, srs, self.statement.public, self.included, aggregate, threads=threads):
            raise InvalidProof("the aggregate does not verify")

    def to_bytes(self) -> bytes:
        """Encode it as the content of aggregate.msgpack."""
        return canonical.encode(
            {
                "format": FORMAT,
                "version": VERSION,
                "system": SYSTEM,
                "curve": self.curve.name,
                "key": self.key_digest,
                "keys": self.srs_digest,
                "insecure": self.insecure,
                "jobs": [{"digest": job.digest, "count": job.count} for job in self.jobs],
                "statement": None if self.statement is None else self.statement._encoded(),
                "aggregate": self.aggregate,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, what: str = "aggregate") -> AggregatedJobs:
        """Read what `to_bytes` wrote; nothing is verified yet. Raises FormatError or InvalidProof."""
        top = canonical.decode(data, what)
        if not isinstance(top, dict) or (top.get("format"), top.get("version")) != (FORMAT, VERSION):
            raise FormatError(f"{what}: not an aggregate, version {VERSION}")
        kinds: dict[str, type] = {
            "format": str,
            "version": int,
            "system": str,
            "curve": str,
            "key": bytes,
            "keys": bytes,
        }
        kinds |= {"insecure": bool, "jobs": list, "statement": type(top.get("statement")), "aggregate": bytes}
        check_fields(top, kinds, what)
        if top["system"] != SYSTEM or not isinstance(top["statement"], (list, type(None))):
            raise FormatError(f"{what}: not of {SYSTEM}, or a statement that is no list")
        if len(top["key"]) != 32 or len(top["keys"]) != 32 or not top["jobs"]:
            raise FormatError(f"{what}: a digest has 32 bytes, and there is at least one job")
        jobs: list[JobDigest] = []
        for job in top["jobs"]:
            check_fields(job, {"digest": bytes, "count": int}, what)
            if len(job["digest"]) != 32 or job["count"] < 1:
                raise FormatError(f"{what}: a job has a digest of 32 bytes and at least one partition")
            jobs.append(JobDigest(job["digest"], job["count"]))
        statement = None if top["statement"] is None else Statement._decoded(top["statement"], what)
        curve = known_curve(top["curve"], what)
        return cls(curve, top["key"], top["keys"], top["insecure"], tuple(jobs), statement, top["aggregate"])

    @classmethod
    def read(cls, path: Path) -> AggregatedJobs:
        """Read aggregate.msgpack. Raises InputError, FormatError or InvalidProof."""
        return cls.from_bytes(read_bounded(path, MAX_BYTES, begins=BEGINS), str(path))

    def write(self, path: Path) -> None:
        """Write aggregate.msgpack, atomically."""
        write_atomically(path, self.to_bytes())


def included(key_digest: bytes, srs_digest: bytes, jobs: Sequence[JobDigest]) -> bytes:
    """What the transcript of an aggregate of these jobs includes, 32 bytes."""
    return canonical.digest("distprove/aggregate/1", key_digest, srs_digest, [[job.digest, job.count] for job in jobs])


def key_of(proofs: Sequence[Proof]) -> VerificationKey:
    """The verification key that all of them carry. Raises UsageError, FormatError, InvalidKey or InvalidProof."""
    if not proofs:
        raise UsageError("an aggregate is of at least one job")
    if any(proof.system != SYSTEM for proof in proofs):
        raise UsageError(f"only proofs of {SYSTEM} can be aggregated")
    if len({proof.key_digest for proof in proofs}) > 1:
        raise UsageError("the jobs are under different keys; an aggregate is of proofs under one")
    if len({proof.job_digest for proof in proofs}) < len(proofs):
        raise UsageError("a job is given twice")
    key = VerificationKey.from_dict(proofs[0].verification_key)
    if key.digest() != proofs[0].key_digest:
        raise InvalidProof("the key that came with the proof is not the one that its digest names")
    return key


def partitions_of(proofs: Sequence[Proof]) -> list[Any]:
    """The partition proofs of all jobs, in order."""
    return list(chain.from_iterable(proof.partitions for proof in proofs))
