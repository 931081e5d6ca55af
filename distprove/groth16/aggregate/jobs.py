"""aggregate.msgpack: the proofs of one or more jobs under one key, aggregated, with what they state.

Layout (canonical MessagePack, see `distprove.formats.canonical`; every map has exactly these keys):

    {aggregate: bin, curve: str, format: "distprove.aggregate", insecure: bool, jobs: bin, key: bin32, keys: bin32,
     statement: statement or nil, system: "groth16", version: 1}
    jobs = for each job its digest, 32 bytes, and the number of its partitions, u32 big-endian
    statement = {counts: bin, names: str, public: bin, values: int}

`key` is the digest of the verification key, `keys` that of the aggregation keys. A job's digest (`distprove.proof`)
fixes the number and order of its partitions, their names and every public value.

A statement tells the partitions of all jobs, in order, in few values, whose decoding costs no more than reading them:
`counts` is the number of partitions of each job, u32 big-endian, `names` the names of all partitions, one a line, and
`public` the public values of all partitions, 32 bytes big-endian each, of which each partition has `values`. A
statement that is left out lies in a file of its own, {format: "distprove.statement", statement: statement, version: 1}.

Included in the transcript is H("distprove/aggregate/1", key, keys, [[digest, count]...]) of `canonical.digest`: the
aggregate holds for no other statement, key or aggregation keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.formats.files import read_bounded
from distprove.formats.names import is_name
from distprove.groth16.aggregate.proof import MAX_ROUNDS, Aggregate
from distprove.groth16.aggregate.srs import VerifierSrs
from distprove.groth16.aggregate.verifier import check_count, verify
from distprove.groth16.job_verifier import plain_key
from distprove.groth16.keys import VerificationKey, known_curve
from distprove.proof import Proof, check_fields, job_digest
from kernels.host.units import count_of
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
VALUE_BYTES = 32
"""Bytes of a public value in a statement."""
_COUNT_BYTES = 4
_OTHER_STATEMENT = "the statement is not that of the aggregate's jobs"

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
    """What is stated: names and public values of the partitions of each job, as in a file. `jobs` decodes them."""

    counts: tuple[int, ...]
    """Number of partitions of each job."""
    values: int
    """Number of public values of each partition."""
    names: str = field(repr=False)
    """Names of all partitions, one a line."""
    encoded: bytes = field(repr=False)
    """Public values of all partitions, `VALUE_BYTES` big-endian bytes each."""

    @classmethod
    def of(cls, proofs: Sequence[Proof]) -> Statement:
        """The statement of these jobs' proofs. Raises InvalidProof for public values that no key of this system has."""
        partitions = partitions_of(proofs)
        values = len(partitions[0].public)
        for partition in partitions:
            if len(partition.public) != values:
                raise InvalidProof(
                    f"{partition.name}: {count_of(len(partition.public), 'public value')}, others have {values}"
                )
            if any(value.bit_length() > 8 * VALUE_BYTES or value < 0 for value in partition.public):
                raise InvalidProof(f"{partition.name}: a public value is not in the scalar field")
        return cls(
            tuple(len(proof.partitions) for proof in proofs),
            values,
            "\n".join(partition.name for partition in partitions),
            b"".join(value.to_bytes(VALUE_BYTES, "big") for partition in partitions for value in partition.public),
        )

    @cached_property
    def jobs(self) -> tuple[Partitions, ...]:
        """The partitions of each job. Raises FormatError for what `of` does not make."""
        names, count = self.names.split("\n"), sum(self.counts)
        if len(names) != count or len(self.encoded) != VALUE_BYTES * self.values * count:
            raise FormatError("statement: not as many names and public values as it has partitions")
        if not all(map(is_name, names)):
            raise FormatError("statement: not a partition name")
        numbers = [
            int.from_bytes(self.encoded[at : at + VALUE_BYTES], "big")
            for at in range(0, len(self.encoded), VALUE_BYTES)
        ]
        of_each = (tuple(numbers[at : at + self.values]) for at in range(0, self.values * count, self.values or 1))
        partitions = zip(names, of_each if self.values else repeat(()), strict=False)
        jobs = tuple(tuple(islice(partitions, count)) for count in self.counts)
        if any(len({name for name, _ in job}) != len(job) for job in jobs):
            raise FormatError("statement: two partitions have the same name")
        return jobs

    @property
    def public(self) -> list[tuple[int, ...]]:
        """The public values of every proof, in order."""
        return [public for job in self.jobs for _, public in job]

    def digests(self, key_digest: bytes) -> tuple[JobDigest, ...]:
        """The jobs under the key of that digest. Raises FormatError as `jobs` does."""
        return tuple(
            JobDigest(job_digest(SYSTEM, key_digest, [(name, public, None) for name, public in job]), len(job))
            for job in self.jobs
        )

    def to_bytes(self) -> bytes:
        """Encode the statement as a file of its own."""
        return canonical.encode({"format": STATEMENT_FORMAT, "version": VERSION, "statement": self.to_dict()})

    @classmethod
    def from_bytes(cls, data: bytes, what: str = "statement") -> Statement:
        """Read what `to_bytes` wrote; names and values are not decoded yet. Raises FormatError."""
        top = canonical.decode(data, what)
        check_fields(top, {"format": str, "version": int, "statement": dict}, what)
        if (top["format"], top["version"]) != (STATEMENT_FORMAT, VERSION):
            raise FormatError(f"{what}: not a statement of an aggregate, version {VERSION}")
        return cls.from_dict(top["statement"], what)

    @classmethod
    def read(cls, path: Path) -> Statement:
        """Read a statement's file. Raises InputError or FormatError."""
        return cls.from_bytes(read_bounded(path, MAX_BYTES), str(path))

    def to_dict(self) -> dict[str, Any]:
        """The statement as a map of a file."""
        counts = b"".join(count.to_bytes(_COUNT_BYTES, "big") for count in self.counts)
        return {"counts": counts, "names": self.names, "public": self.encoded, "values": self.values}

    @classmethod
    def from_dict(cls, value: Any, what: str) -> Statement:
        """Read what `to_dict` made, of at most 2^`MAX_ROUNDS` partitions. Raises FormatError."""
        check_fields(value, {"counts": bytes, "names": str, "public": bytes, "values": int}, what)
        counts = _counts(_records(value["counts"], _COUNT_BYTES, what), what)
        if value["values"] < 0 or len(value["public"]) != VALUE_BYTES * value["values"] * sum(counts):
            raise FormatError(f"{what}: not {VALUE_BYTES} bytes for each public value of each partition")
        if value["names"].count("\n") != sum(counts) - 1:
            raise FormatError(f"{what}: not one name for each partition")
        return cls(counts, value["values"], value["names"], value["public"])


@dataclass(frozen=True, repr=False)
class AggregatedJobs:
    """The content of aggregate.msgpack. `verify` says whether any of it is true."""

    curve: Curve
    key_digest: bytes
    srs_digest: bytes
    insecure: bool
    """Whether the aggregation keys say that they were made without ceremonies."""
    jobs: tuple[JobDigest, ...]
    statement: Statement | None
    """What is stated; None where it lies in a file of its own."""
    aggregate: bytes

    def __repr__(self) -> str:
        return (
            f"<AggregatedJobs: {count_of(len(self.jobs), 'job')}, {count_of(self.count, 'proof')}, "
            f"{count_of(len(self.aggregate), 'byte')}>"
        )

    @property
    def count(self) -> int:
        """Number of proofs, without padding."""
        return sum(job.count for job in self.jobs)

    @property
    def included(self) -> bytes:
        """What the transcript includes of the statement."""
        return included(self.key_digest, self.srs_digest, self.jobs)

    def with_statement(self, statement: Statement | None) -> AggregatedJobs:
        """The same with a statement that lay elsewhere, or without."""
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
        statement = self.statement
        if statement is None:
            raise UsageError("the aggregate comes without its statement: the names and public values of its partitions")
        # 1. What is compared at once, before anything is decoded or hashed that an aggregate may have a million of.
        if key.digest() != self.key_digest:
            raise InvalidProof(f"the aggregate is for key {self.key_digest.hex()[:16]}..., not for the one given")
        if srs.digest != self.srs_digest:
            raise InvalidProof("the aggregate is for other aggregation keys than those given")
        if self.insecure != srs.insecure:
            raise InvalidProof("the aggregate and its keys differ on whether these were made by ceremonies")
        if expected_jobs is not None and sorted(expected_jobs) != sorted(job.digest for job in self.jobs):
            raise InvalidProof("the aggregate is of other jobs than those expected")
        if len({job.digest for job in self.jobs}) != len(self.jobs):
            raise InvalidProof("the aggregate counts a job twice")
        if statement.values != key.n_public:
            raise InvalidProof(
                f"{count_of(statement.values, 'public value')} for each proof, the key has {key.n_public}"
            )
        if statement.counts != tuple(job.count for job in self.jobs):
            raise InvalidProof(_OTHER_STATEMENT)
        aggregate = Aggregate.from_bytes(self.curve, self.aggregate, "aggregate", threads)
        check_count(aggregate, self.count)
        # 2. The statement is that of the jobs, and the aggregate that of the statement.
        if statement.digests(self.key_digest) != self.jobs:
            raise InvalidProof(_OTHER_STATEMENT)
        if not verify(key, srs, statement.public, self.included, aggregate, threads=threads):
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
                "jobs": b"".join(job.digest + job.count.to_bytes(_COUNT_BYTES, "big") for job in self.jobs),
                "statement": None if self.statement is None else self.statement.to_dict(),
                "aggregate": self.aggregate,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, what: str = "aggregate") -> AggregatedJobs:
        """Read what `to_bytes` wrote; nothing is verified yet. Raises FormatError."""
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
        kinds |= {"insecure": bool, "jobs": bytes, "statement": type(top.get("statement")), "aggregate": bytes}
        check_fields(top, kinds, what)
        if top["system"] != SYSTEM or not isinstance(top["statement"], (dict, type(None))):
            raise FormatError(f"{what}: not of {SYSTEM}, or a statement that is no map")
        if len(top["key"]) != 32 or len(top["keys"]) != 32:
            raise FormatError(f"{what}: a digest has 32 bytes")
        jobs = _records(top["jobs"], 32 + _COUNT_BYTES, what)
        counts = _counts([job[32:] for job in jobs], what)
        listed = tuple(JobDigest(job[:32], count) for job, count in zip(jobs, counts, strict=True))
        statement = None if top["statement"] is None else Statement.from_dict(top["statement"], what)
        curve = known_curve(top["curve"], what)
        return cls(curve, top["key"], top["keys"], top["insecure"], listed, statement, top["aggregate"])

    @classmethod
    def read(cls, path: Path) -> AggregatedJobs:
        """Read aggregate.msgpack. Raises InputError or FormatError."""
        return cls.from_bytes(read_bounded(path, MAX_BYTES, begins=BEGINS, kind=f"an {AGGREGATE_FILE}"), str(path))


def published(made: AggregatedJobs | Statement) -> bytes:
    """The content of its file, which was read back. Raises UsageError for what would be too large a file."""
    content = made.to_bytes()
    if len(content) > MAX_BYTES:
        raise UsageError(
            f"{count_of(len(content), 'byte')}, a file has at most {MAX_BYTES}: aggregate fewer proofs at a time"
        )
    if type(made).from_bytes(content) != made:
        raise AssertionError("what was encoded is read as something else")
    return content


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
    return plain_key(proofs[0], "such proofs are not aggregated")


def partitions_of(proofs: Sequence[Proof]) -> list[Any]:
    """The partition proofs of all jobs, in order."""
    return list(chain.from_iterable(proof.partitions for proof in proofs))


def _records(data: bytes, size: int, what: str) -> list[bytes]:
    """The pieces of `data`, one for each job. Raises FormatError."""
    if not data or len(data) % size or len(data) > size << MAX_ROUNDS:
        raise FormatError(f"{what}: {count_of(size, 'byte')} for each job, and there is at least one")
    return [data[at : at + size] for at in range(0, len(data), size)]


def _counts(encoded: Sequence[bytes], what: str) -> tuple[int, ...]:
    """Numbers of partitions of jobs. Raises FormatError."""
    counts = tuple(int.from_bytes(one, "big") for one in encoded)
    if 0 in counts or sum(counts) > 1 << MAX_ROUNDS:
        raise FormatError(f"{what}: a job has at least one partition, and all have at most 2^{MAX_ROUNDS}")
    return counts
