"""proof.msgpack: the partition proofs of one job, bound into one file that verifies without a GPU, a key file or Ray.

Layout (canonical MessagePack, see `distprove.formats.canonical`; every map has exactly these keys):

    {binding: bin32, format: "distprove.proof", job: bin32, key: bin32, partitions: [partition...], system: str,
     verification_key: map, version: 1}
    partition = {data: map, digest: bin32, name: str, public: [bin...]}

Version 2 has one proof of all partitions together, `whole: map`, behind `version: 2`. The data of its partitions are
what this proof is about, and prove nothing by themselves. A job with a wrap has `salt: bin32` in `whole` too: secret
random bytes, without which the wrap's public value says nothing of the partitions.

Public values are big-endian without leading zeros (zero is one zero byte). The digests, all SHA-256 with domains:

    partition digest = H(key digest, index, name, public values[, heights])   one partition's statement and index
    job digest       = H(system, key digest, count, partition digests)        the statement of the whole file
    binding          = H(job digest, verification key, data of every partition[, whole])

`heights` is the field of that name in the data of a system whose proofs are of tables (a STARK): log2 of the rows of
each table, one byte per table. A system without tables (Groth16) has no such field, and the digest leaves it out.

What this gives: a file that was changed in any way (a partition dropped, doubled, swapped or renamed, a public value,
a proof or the key altered) without recomputing the digests is rejected when it is read. Someone who recomputes them
gets a file with *another job digest*, and each of its partition proofs must still verify: they can leave out or
reorder true statements, but never state a false one. So a reader who needs exactly the job that was ordered, and not
just true statements under a key, passes the expected job digest to `verify`; it fixes the number and order of
partitions, their names, every public value and the heights of tables. Anyone can compute the digest from those public
facts with `job_digest`. It does not fix the proofs' own bytes (Groth16 proofs can be re-randomised by anyone);
`binding` does, as a checksum.

Digests of inputs are left out on purpose: a hash of a secret input that can be guessed would let anyone confirm a
guess.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

from distprove.errors import FormatError, InputError, InvalidProof
from distprove.formats import canonical
from distprove.formats.files import read_bounded, write_atomically
from distprove.formats.folder import Folder
from distprove.formats.names import is_name
from distprove.formats.notebook import facts_html
from distprove.host import forks
from distprove.host.beside import in_order
from distprove.system import (
    DeviceTask,
    FindsInvalid,
    HasOutput,
    PartitionProof,
    ProofSystem,
    VerifiesInPython,
    VerifiesJob,
)
from kernels.host.units import count_of

if TYPE_CHECKING:
    from mmap import mmap

FORMAT = "distprove.proof"
BEGINS = (b"\x88\xa7binding", b"\x89\xa7binding")
"""The first bytes of every proof file, of either version: a map of eight or nine entries, the first of which is the
binding."""
VERSION, WHOLE_VERSION = 1, 2
PROOF_FILE = "proof.msgpack"
"""Name of the proof file in a run folder."""
KEY_FILE = "verifying_key.msgpack"
"""Name of the verifying key's file in a run folder, where the proof does not carry the key."""
OUTPUT_FILE = "output.bin"
"""Name of the file in a run folder that holds the job's output of variable length."""
LONG = 1 << 18
"""Bytes of a partition's data from which hashing them takes several times as long as the start of a thread."""
MAX_BYTES = 1 << 30
MAX_OUTPUT = 1 << 24
"""Maximum bytes of a job's output."""
FORKS_PAY = 0.1
"""Seconds of verification in one process beyond which several take less: each costs some 10 ms."""
NAMED, SEARCHED = 8, 64
"""Invalid partitions that are named when a file does not verify, and number of those that are searched at a time."""
SALT, SALT_BYTES = "salt", 32
"""The field of the one proof that has the salt of the job's wrap, and its size."""
MAX_PUBLIC_BYTES = 64
"""Maximum bytes of one public value. The largest scalar field in use needs 32."""


class Verifier(Protocol):
    """Checks proofs under a proof system's verification key. Every `ProofSystem` is one."""

    def key_digest(self) -> bytes: ...

    def verify(self, proof: PartitionProof) -> bool: ...

    def verify_batch(self, proofs: list[PartitionProof]) -> bool: ...


@runtime_checkable
class TakesOutput(Protocol):
    """Optional interface of a verifier of jobs that may have an output of variable length."""

    @property
    def has_output(self) -> bool:
        """Whether a job under this key has an output, without which it cannot be verified."""

    def with_output(self, output: bytes) -> Verifier:
        """The verifier of the job with this output."""


@runtime_checkable
class VerifiesWhole(Protocol):
    """Optional interface of a verifier that can verify one proof of all partitions of a job."""

    def verify_whole(self, partitions: Sequence[PartitionProof], whole: dict[str, Any], output: bytes | None) -> None:
        """Verify `whole`, under which the partitions are one job, with its output, if it has one. Raises InvalidProof,
        OutputMissing, FormatError, TooMuchWork."""

    def explain_whole(self, partitions: Sequence[PartitionProof]) -> dict[str, Any]:
        """Tell what the one proof of these partitions states, as `distprove.system.Explains` does."""


@runtime_checkable
class BoundsWork(Protocol):
    """Optional interface of a verifier of one proof of a job, for which circuits are made that the file chooses."""

    def with_tree_wires(self, most: int) -> Verifier:
        """The verifier that makes circuits of at most so many wires. Beyond that `verify_whole` raises TooMuchWork."""


@dataclass(frozen=True)
class TakenWrap:
    """A wrap that is verified in place of a job's one proof."""

    key_digest: bytes
    """Of its verification key, which does not show how it was made."""
    public: int
    """Its public value: a digest of the job's list and of its salt, by which a contract knows the job."""
    kind: str
    """The kind of proof, in words."""
    soundness: str
    """What is known of the soundness of such proofs, in words."""


@runtime_checkable
class TakesWrap(Protocol):
    """Optional interface of a verifier of one proof of a job, which may be wrapped in a proof of another kind."""

    def with_wrap(self, beside: Path, key: Path) -> Verifier:
        """The verifier that takes the wrap in a run's folder, or beside a proof's file, in place of the one proof.

        The verification key is in the file `key`. Raises InputError, FormatError."""

    def wrap_taken(self) -> TakenWrap | None:
        """The wrap that it takes; None without one."""


@runtime_checkable
class StatesCircuit(Protocol):
    """Optional interface of a verifier of proofs whose statement, which the prover wrote, names the circuit that the
    key is for. The key itself does not show its circuit: several have the same number of public values."""

    def stated_circuit(self) -> str:
        """The name of that circuit."""

    def stated_type(self) -> str:
        """The type of proof that the statement names. It decides what is stated beside the circuit."""

    def types_of_circuit(self) -> Sequence[str]:
        """All types of proofs of that circuit, the stated one among them."""


@runtime_checkable
class BindsWhole(Protocol):
    """Optional interface of a proof system that ends a job in one proof of all partitions."""

    def bind_whole(self, proofs: Sequence[PartitionProof]) -> tuple[Sequence[PartitionProof], dict[str, Any]] | None:
        """The partitions as they are listed beside the one proof, and that proof, from all proofs of the plan; None for
        a job that ends in a proof for each partition."""


@dataclass(frozen=True, repr=False)
class Proof:
    """The proof of a job. `assemble`, `from_bytes` and `read` make it, with digests that are correct."""

    system: str
    key_digest: bytes
    verification_key: dict[str, Any]
    partitions: tuple[PartitionProof, ...]
    """The partition proofs in the job's order; `digest` of each is the partition digest of the module's text."""
    output: bytes | None = field(default=None, compare=False)
    """The job's output of variable length, if it has one and it is at hand. It lies beside the file and is no part of
    it: the public values have its length and digest. Nothing is known of it until the proof is verified."""
    whole: dict[str, Any] | None = None
    """One proof of all partitions together, in the proof system's own encoding; None where each has a proof."""

    def __repr__(self) -> str:
        """What it is of, without its bytes."""
        names = [p.name for p in self.partitions]
        shown = ", ".join(names if len(names) <= 4 else [*names[:3], "..."])
        return (
            f"<Proof: {self.system}, {count_of(len(names), 'partition')} ({shown}), job "
            f"{self.job_digest.hex()[:16]}...>"
        )

    def _repr_html_(self) -> str:
        names = [partition.name for partition in self.partitions]
        facts = {
            "partitions": ", ".join(names if len(names) <= 8 else [*names[:7], f"... ({len(names)})"]),
            "key": self.key_digest.hex(),
            "job": self.job_digest.hex(),
        }
        return facts_html(f"{self.system} proof, not verified", facts)

    @classmethod
    def assemble(cls, system: ProofSystem, partitions: Sequence[PartitionProof]) -> Proof:
        """Bind verified partition proofs, given in the job's order, into one proof."""
        made = system.bind_whole(partitions) if isinstance(system, BindsWhole) else None
        listed, whole = (partitions, None) if made is None else made
        bound = cls.bind(system.name, system.key_digest(), system.verification_key(), listed, whole)
        return replace(bound, output=system.output()) if isinstance(system, HasOutput) else bound

    @classmethod
    def bind(
        cls,
        system: str,
        key: bytes,
        verification_key: dict[str, Any],
        partitions: Sequence[PartitionProof],
        whole: dict[str, Any] | None = None,
    ) -> Proof:
        """As `assemble`, with the proof system's name, its key's digest and its verification key."""
        bound = tuple(
            p.named_by(partition_digest(key, index, p.name, p.public, heights_of(p)))
            for index, p in enumerate(partitions)
        )
        return cls(system, key, verification_key, bound, whole=whole)

    @property
    def salt(self) -> bytes | None:
        """The salt of the job's wrap, which is as secret as the list of partitions; None without one."""
        salt = (self.whole or {}).get(SALT)
        return salt if isinstance(salt, bytes) and len(salt) == SALT_BYTES else None

    @cached_property
    def job_digest(self) -> bytes:
        """32 bytes that identify the statement of the whole file; the module's text says what follows from it."""
        return _job_digest(self.system, self.key_digest, [p.digest for p in self.partitions])

    @cached_property
    def binding(self) -> bytes:
        """The checksum of everything in the file, 32 bytes."""
        hashed = self._binding_begun()
        for partition in self.partitions:
            hashed.update(partition.encode())
        self._bind_whole(hashed)
        return hashed.digest()

    def _binding_begun(self) -> hashlib._Hash:
        """The hash of the binding, up to the data of the partitions."""
        # As `canonical.digest` of the domain and of job digest, key, list of data and the one proof, if there is one,
        # without a copy of all data.
        hashed = hashlib.sha256(canonical.array_header(2) + canonical.encode("distprove/binding/1"))
        hashed.update(canonical.array_header(3 if self.whole is None else 4) + canonical.encode(self.job_digest))
        hashed.update(canonical.encode(self.verification_key) + canonical.array_header(len(self.partitions)))
        return hashed

    def _bind_whole(self, hashed: hashlib._Hash) -> None:
        """Hash what the binding has behind the data of the partitions."""
        if self.whole is not None:
            hashed.update(canonical.encode(self.whole))

    def to_bytes(self) -> bytes:
        """Encode the proof as the content of proof.msgpack."""
        content = io.BytesIO()
        self.write_to(content)
        return content.getvalue()

    def write_to(self, file: BinaryIO) -> None:
        """Write the content of proof.msgpack to a file that can seek, from its position on. A binding that is not known
        is hashed on the way, so that each partition is encoded once, and no copy is made of all of them."""
        known = vars(self).get("binding")
        hashed, start = self._binding_begun(), file.tell()
        first = {"binding": known or bytes(32), "format": FORMAT, "job": self.job_digest, "key": self.key_digest}
        last: dict[str, Any] = {"system": self.system, "verification_key": self.verification_key}
        last |= {"version": VERSION} if self.whole is None else {"version": WHOLE_VERSION, "whole": self.whole}
        # One map of all these keys, in their order, with the partitions between them.
        header = BEGINS[self.whole is not None][:1]
        file.writelines([header, canonical.entries(first), canonical.encode("partitions")])
        file.write(canonical.array_header(len(self.partitions)))
        # Hashing long data lets go of the interpreter's lock: the next ones are encoded and written beside it.
        long = known is None and self.partitions and len(self.partitions[0].encode()) >= LONG
        with in_order(2 if long else 1, hashed.update) as take:
            for partition in self.partitions:
                data = partition.encode()
                if known is None:
                    take(data)
                file.writelines(partition_parts(partition, data))
        file.write(canonical.entries(last))
        if known is None:
            self._bind_whole(hashed)
            vars(self)["binding"] = hashed.digest()
            end = file.tell()
            file.seek(start + len(BEGINS[0]) + len(canonical.bytes_header(32)))
            file.write(self.binding)
            file.seek(end)

    @classmethod
    def from_bytes(cls, data: bytes | mmap, what: str = "proof", written: Proof | None = None) -> Proof:
        """Parse and check the binding; no partition proof is verified yet. Raises FormatError or InvalidProof.

        `written` is the proof that the caller has just written as `data`: where what is parsed equals it, its digests
        are compared and not computed again.
        """
        top = canonical.decode(data, what)
        if not isinstance(top, dict) or top.get("format") != FORMAT:
            raise FormatError(f"{what}: not a distprove proof")
        if top.get("version") not in (VERSION, WHOLE_VERSION):
            known = f"{VERSION} and {WHOLE_VERSION}"
            raise FormatError(f"{what}: version {top.get('version')!r}; this distprove reads versions {known}")
        fields = {"format": str, "version": int, "system": str, "key": bytes, "verification_key": dict}
        fields |= {"whole": dict} if top["version"] == WHOLE_VERSION else {}
        check_fields(top, {**fields, "job": bytes, "partitions": list, "binding": bytes}, what)
        if not top["partitions"]:
            raise FormatError(f"{what}: no partitions")
        partitions = tuple(decode_partition(p, f"{what}: partition {i}") for i, p in enumerate(top["partitions"]))
        if len({p.name for p in partitions}) != len(partitions):
            raise InvalidProof(f"{what}: two partitions have the same name")
        if len(top["key"]) != 32:
            raise FormatError(f"{what}: a key's digest has 32 bytes")
        proof = cls(top["system"], top["key"], top["verification_key"], partitions, whole=top.get("whole"))
        if proof == written:
            proof = written
        for index, partition in enumerate(partitions if proof is not written else ()):
            stated = partition.name, partition.public, heights_of(partition)
            if partition.digest != partition_digest(proof.key_digest, index, *stated):
                raise InvalidProof(
                    f"{what}: partition {index} ({partition.name}) is not what its digest says: "
                    "it was moved, renamed, or its public values or heights changed"
                )
        if proof.job_digest != top["job"]:
            raise InvalidProof(f"{what}: the partitions are not those that the job digest binds")
        if proof.binding != top["binding"]:
            raise InvalidProof(f"{what}: the content does not match its binding")
        return proof

    @classmethod
    def read(cls, path: Path) -> Proof:
        """Read proof.msgpack and check its binding, without the output beside it. Raises InputError, FormatError or
        InvalidProof."""
        return cls.from_bytes(read_bounded(path, MAX_BYTES, begins=BEGINS, kind=f"a {PROOF_FILE}"), str(path))

    @classmethod
    def read_from(cls, path: Path, *, with_output: bool = True) -> Proof:
        """Read the proof in a file or a run folder, with the output that lies beside it under the names that a run has
        for both, unless the caller has another one. Raises as `read` does, and UsageError for a link to a folder."""
        if path.is_dir():
            with Folder.open(path) as folder:
                if not folder.has(PROOF_FILE):
                    raise InputError(f"{path} has no {PROOF_FILE}: it is not a run. Name a run, or the file of a proof")
                proof = cls.from_bytes(folder.read(PROOF_FILE, MAX_BYTES, begins=BEGINS), str(path / PROOF_FILE))
        else:
            proof = cls.read(path)
            with_output &= path.name == PROOF_FILE
            path = path.parent
        if not with_output or not os.path.lexists(path / OUTPUT_FILE):
            return proof
        with Folder.open(path) as folder:
            return replace(proof, output=folder.read(OUTPUT_FILE, MAX_OUTPUT))

    def write(self, path: Path) -> None:
        """Write proof.msgpack, atomically."""
        write_atomically(path, self.to_bytes())

    def verify(self, verifier: Verifier, expected_job: bytes | None = None, processes: int = 1) -> None:
        """Verify all partitions as one batch under `verifier`'s key, then check that they fit each other.

        With several `processes` a verifier in Python verifies one by one, in so many forks of this process where that
        takes less time. Raises InvalidProof, which says what does not hold, the same for any number of them.

        `expected_job` is the digest of the job that the caller expects. Without it, success only means that each of
        these statements is true under this key. A job with an output is verified with the one at hand (`output`);
        without it OutputMissing is raised if all else holds. An output beside the proof of a job without is refused, so
        that nobody takes it for proven.
        """
        if verifier.key_digest() != self.key_digest:
            raise InvalidProof(
                f"the proof is for key {self.key_digest.hex()[:16]}..., not for {verifier.key_digest().hex()[:16]}..."
            )
        if expected_job is not None and expected_job != self.job_digest:
            raise InvalidProof(f"the proof is of job {self.job_digest.hex()}, not of {expected_job.hex()}")
        if self.whole is not None:
            self._verify_whole(verifier, self.whole)
            return
        listed = list(self.partitions)
        if processes > 1 and isinstance(verifier, VerifiesInPython) and verifier.verifies_in_python:
            bad = _invalid_apart(verifier, listed, processes)
        else:
            bad = [] if _holds(lambda: verifier.verify_batch(listed)) else _some_invalid(verifier, listed)
        if bad:
            raise InvalidProof(f"does not verify: {', '.join(bad[:NAMED])}{' ...' if len(bad) > NAMED else ''}")
        if self.output is not None:
            verifier = self._takes_output(verifier).with_output(self.output)
        if isinstance(verifier, VerifiesJob):
            verifier.verify_job(self.partitions)

    def _verify_whole(self, verifier: Verifier, whole: dict[str, Any]) -> None:
        if not isinstance(verifier, VerifiesWhole):
            raise FormatError(f"a proof of {self.system} has no one proof of all its partitions")
        if self.output is not None:
            self._takes_output(verifier)
        verifier.verify_whole(self.partitions, whole, self.output)

    def _takes_output(self, verifier: Verifier) -> TakesOutput:
        if not isinstance(verifier, TakesOutput) or not verifier.has_output:
            raise InvalidProof(
                f"an output lies beside the proof ({OUTPUT_FILE}), and the statement of this proof has none: "
                "nothing is proven of these bytes; move them elsewhere"
            )
        return verifier


@runtime_checkable
class Aggregates(Protocol):
    """Optional interface of a proof system that can make one small proof of a job's partition proofs."""

    def aggregates(self) -> bool:
        """Whether the job asks for an aggregate."""

    def aggregate(self, proof: Proof, run: Callable[[DeviceTask], Any]) -> tuple[str, bytes] | None:
        """Name and content of the aggregate's file, which has been verified; None for a job that asks for none.

        `run` has a task done, somewhere, and returns what it comes to. Raises InvalidProof, InputError, and what `run`
        raises."""


@runtime_checkable
class Publishes(Protocol):
    """Optional interface of a proof system whose jobs end in files that other software reads."""

    def published(self, proofs: Sequence[PartitionProof]) -> Mapping[str, bytes]:
        """Contents of these files by their names, from all proofs of the plan, in its order. Each was verified."""


def _some_invalid(verifier: Verifier, proofs: list[PartitionProof]) -> list[str]:
    """Names of invalid proofs of a batch that does not hold, in order; more than are told end the search, as to find
    them all in a file of nothing else takes many times what it takes to verify one that holds."""
    bad: list[str] = []
    for start in range(0, len(proofs), SEARCHED):
        some = proofs[start : start + SEARCHED]
        bad += [some[i].name for i in invalid_among(verifier, some)]
        if len(bad) > NAMED:
            break
    return bad or [proof.name for proof in proofs]


def _invalid_apart(verifier: Verifier, proofs: list[PartitionProof], processes: int) -> list[str]:
    """Names of the invalid proofs, in order, each of which is verified alone. The first one is here, and shows whether
    the others take long enough for several processes."""

    def holds(index: int) -> bool:
        return _holds(partial(verifier.verify, proofs[index]))

    began = time.perf_counter()
    found = {0: holds(0)}
    left = range(1, len(proofs))
    if (time.perf_counter() - began) * len(left) > FORKS_PAY and forks.can_fork():
        found |= forks.verdicts(holds, left, min(processes, len(left)))
    return [proof.name for index, proof in enumerate(proofs) if not (found[index] if index in found else holds(index))]


def invalid_among(verifier: Verifier, proofs: Sequence[PartitionProof]) -> list[int]:
    """Indices of the proofs that are malformed or do not hold under the verifier's key, in order.

    The proofs are checked as one batch, and singly only if that fails. If the batch fails although each proof holds
    alone, the bad ones cannot be told from the others, and all count as invalid.
    """
    listed = list(proofs)
    if not listed or _holds(lambda: verifier.verify_batch(listed)):
        return []
    if isinstance(verifier, FindsInvalid):
        bad = verifier.find_invalid(listed)
    else:
        bad = [i for i, proof in enumerate(listed) if not _holds(partial(verifier.verify, proof))]
    return bad or list(range(len(listed)))


def _holds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (InvalidProof, InputError):
        return False  # a proof that cannot even be read is a proof that does not hold


def heights_of(proof: PartitionProof) -> bytes | None:
    """log2 of the rows of each table, one byte per table, from the proof's data; None for a system without tables.

    The proof system verifies the same field, and refuses any value there that is not bytes.
    """
    heights = proof.data.get("heights")
    return heights if isinstance(heights, bytes) else None


def partition_digest(
    key_digest: bytes, index: int, name: str, public: Sequence[int], heights: bytes | None = None
) -> bytes:
    """The digest of one partition's statement and of its index in the job. `heights` is as `heights_of` returns it."""
    stated = [key_digest, index, name, [encode_public(v) for v in public]]
    return canonical.digest("distprove/partition/1", *stated, *([] if heights is None else [heights]))


def job_digest(system: str, key_digest: bytes, statements: Sequence[tuple[str, Sequence[int], bytes | None]]) -> bytes:
    """The job digest of the statements (name, public values, heights) in order; a verifier computes the expected one.

    `heights` is as `heights_of` returns it: None for a system without tables.
    """
    digests = [partition_digest(key_digest, i, *statement) for i, statement in enumerate(statements)]
    return _job_digest(system, key_digest, digests)


def _job_digest(system: str, key_digest: bytes, partitions: list[bytes]) -> bytes:
    return canonical.digest("distprove/job/1", system, key_digest, len(partitions), partitions)


def encode_public(value: int) -> bytes:
    """Encode `value` big-endian without leading zeros; zero is one zero byte. Raises ValueError if out of range."""
    if value < 0 or value.bit_length() > 8 * MAX_PUBLIC_BYTES:
        raise ValueError("a public value is a non-negative integer of at most 64 bytes")
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def encode_partition(proof: PartitionProof) -> bytes:
    """Encode a partition proof as the map that represents it in proof.msgpack and in a run's partition files."""
    return b"".join(partition_parts(proof, proof.encoded))


def partition_parts(proof: PartitionProof, data: bytes) -> tuple[bytes, ...]:
    """What `encode_partition` joins. Its `data`, encoded, are one of the parts, in their place among the keys."""
    public = [encode_public(value) for value in proof.public]
    rest = canonical.entries({"digest": proof.digest, "name": proof.name, "public": public})
    return b"\x84\xa4data", data, rest


def fingerprint(proof: PartitionProof) -> bytes:
    """32 bytes that identify a partition proof, whatever it is of."""
    hashed = hashlib.sha256(b"distprove/fingerprint/2\0")
    for part in partition_parts(proof, proof.encoded):
        hashed.update(part)
    return hashed.digest()


def decode_partition(value: Any, what: str) -> PartitionProof:
    """Decode what `encode_partition` made, from untrusted data. Raises FormatError."""
    check_fields(value, {"name": str, "digest": bytes, "public": list, "data": dict}, what)
    if not is_name(value["name"]):
        raise FormatError(f"{what}: not a partition name")
    if len(value["digest"]) != 32:
        raise FormatError(f"{what}: a digest has 32 bytes")
    return PartitionProof(value["name"], value["digest"], decode_public(value["public"], what), value["data"])


def decode_public(items: list[Any], what: str) -> tuple[int, ...]:
    """Decode what `encode_public` made of each value, from untrusted data. Raises FormatError."""
    public = []
    for item in items:
        if not isinstance(item, bytes) or not 1 <= len(item) <= MAX_PUBLIC_BYTES or (len(item) > 1 and item[0] == 0):
            raise FormatError(f"{what}: a public value that is not a canonical big-endian integer")
        public.append(int.from_bytes(item, "big"))
    return tuple(public)


def salt_in(fields: Mapping[str, Any], what: str) -> bytes:
    """The salt of a job's wrap, from its one proof or from the data of the wrap's partition. Raises FormatError where
    there is none."""
    salt = fields.get(SALT)
    if not isinstance(salt, bytes) or len(salt) != SALT_BYTES:
        raise FormatError(f"{what}: no salt of {SALT_BYTES} bytes, which a job with a wrap has")
    return salt


def check_fields(value: Any, fields: dict[str, type], what: str) -> None:
    """Raise FormatError unless `value` is a map with exactly these keys, holding these types."""
    if not isinstance(value, dict) or value.keys() != fields.keys():
        raise FormatError(f"{what}: expected the keys {', '.join(sorted(fields))}")
    for key, kind in fields.items():
        if not isinstance(value[key], kind) or (kind is int and isinstance(value[key], bool)):
            raise FormatError(f"{what}: {key} must be of type {kind.__name__}")
