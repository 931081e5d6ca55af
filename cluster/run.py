"""A run on disk: one folder that survives anything short of losing the disk.

    job.json                    the job's record, the plan (names and digests), public facts; written once
    journal.jsonl               one event a line, appended; synced with each that tells of trouble, of the barrier and
                                of the end; a torn last line is cut off when it is opened again
    partitions/<name>.msgpack   a verified partition proof; what is there is done, after it has been verified again
    partitions/<number>.pack    several of these files that were written at once (`cluster.packs`)
    barrier.msgpack             commitments and shared challenge, for systems with a barrier
    proof.msgpack               the job's proof
    timeline.json, report.json  when what happened where, and the summary
    lock                        held by the driver at work

Partition files are the truth about progress; the journal tells the story. Every file but the journal is written to a
temporary name, synced and renamed. Nothing secret is written: no witness, no input, only paths and digests. A digest
of an input that can be guessed lets the owner of this folder's job.json confirm the guess, so the folder is made for
its owner alone (mode 0700), and none of these digests is in the proof. Whether an input is still the one the run began
with is therefore told by its size and time of change, not by a hash.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from cluster.packs import LEAST, Packs
from distprove import canonical, jsontext
from distprove.errors import FormatError, InputError, UsageError
from distprove.files import read_bounded, sync_folder, write_atomically
from distprove.job import Job
from distprove.names import is_name
from distprove.proof import check_fields, decode_partition, encode_partition
from distprove.system import Partition, PartitionProof, ProofSystem

FORMAT = "distprove.run"
VERSION = 1
MAX_RECORD = 1 << 28
MAX_PARTITION = 1 << 28

Barrier = tuple[dict[str, bytes], bytes]
"""Commitments by partition, and the challenge drawn from them."""


class Run:
    """An open run folder, locked for this process. Use as a context manager."""

    def __init__(self, path: Path, record: dict[str, Any], lock: IO[str]) -> None:
        self.path = path
        self.record = record
        """The content of job.json."""
        self._lock = lock
        self._journal = _open_journal(path / "journal.jsonl")
        self._packs = Packs(path / "partitions")

    @classmethod
    def create(cls, path: Path, system: ProofSystem, plan: list[Partition], job: Job | None = None) -> Run:
        """Make the folder of a new run. Raises UsageError where one is already, or other files are."""
        if path.exists() and (not path.is_dir() or any(entry.name != "lock" for entry in path.iterdir())):
            if (path / "job.json").is_file():
                raise UsageError(f"{path} already holds a run; resume it, or choose another folder")
            raise UsageError(f"{path} is not empty and not a run; choose another folder")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _take_lock(path)
        record = {
            "format": FORMAT,
            "version": VERSION,
            "created": time.time(),
            "system": system.name,
            "key_digest": system.key_digest().hex(),
            "facts": system.describe(),
            "job": job.to_record() if job is not None else None,
            "partitions": [{"name": p.name, "digest": p.digest.hex()} for p in plan],
            "sources": _stamps(job) if job is not None else {},
        }
        (path / "partitions").mkdir(exist_ok=True)
        write_atomically(path / "job.json", _json(record))
        return cls(path, record, lock)

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open an existing run to resume it. Raises UsageError, InputError or FormatError."""
        require_run(path)
        lock = _take_lock(path)
        try:
            return cls(path, read_record(path), lock)
        except BaseException:
            lock.close()
            raise

    def job(self) -> Job:
        """The job as it was given. Raises InputError when its files are gone, UsageError for a run made without one."""
        if self.record["job"] is None:
            raise UsageError(f"{self.path} was made from Python without a job; resume it from there")
        return Job.from_record(self.record["job"])

    def check_plan(self, system: ProofSystem, plan: list[Partition]) -> None:
        """Raise InputError unless the key and every input are what they were when the run began."""
        if system.name != self.record["system"] or system.key_digest().hex() != self.record["key_digest"]:
            raise InputError(f"{self.path}: the key is not the one that this run began with")
        began = [(item["name"], item["digest"]) for item in self.record["partitions"]]
        now = [(p.name, p.digest.hex()) for p in plan]
        if [name for name, _ in began] != [name for name, _ in now]:
            raise InputError(f"{self.path}: the partitions are not those that this run began with")
        stamps = _stamps(self.job()) if self.record["sources"] else {}
        changed = [name for (name, old), (_, new) in zip(began, now, strict=True) if old != new]
        recorded = self.record["sources"]
        changed += [s for s in {**recorded, **stamps} if recorded.get(s) != stamps.get(s) and s not in changed]
        if changed:
            raise InputError(f"{self.path}: changed since the run began: {', '.join(changed[:8])}")

    # -- events -----------------------------------------------------------------------------------------------------

    def note(self, event: str, *, sync: bool = True, **facts: Any) -> None:
        """Append an event to the journal. If `sync`, it is on disk when this returns, with all before it; otherwise it
        outlives this process, and a power cut once another is synced."""
        self.note_all(event, [facts], sync=sync)

    def note_all(self, event: str, each: Iterable[Mapping[str, Any]], *, sync: bool = True) -> None:
        """The same for several events of a kind, given by their facts: one call to the system for all of them."""
        now = round(time.time(), 6)
        lines = [json.dumps({"time": now, "event": event, **facts}, separators=(",", ":")) for facts in each]
        self._journal.write("".join(f"{line}\n" for line in lines).encode())
        self._journal.flush()
        if sync:
            os.fsync(self._journal.fileno())

    def events(self) -> Iterator[dict[str, Any]]:
        """The journal so far, oldest first."""
        return read_journal(self.path)

    # -- partitions -------------------------------------------------------------------------------------------------

    def partition_path(self, name: str) -> Path:
        if not is_name(name):
            raise ValueError("not a partition name")
        return self.path / "partitions" / f"{name}.msgpack"

    def store(self, proofs: Sequence[PartitionProof]) -> None:
        """Keep verified partition proofs; all are on disk when this returns. Any thread may call it."""
        contents = {proof.name: _partition_content(proof) for proof in proofs}
        if len(contents) >= LEAST:
            self._packs.write(contents)
            return
        for name, content in contents.items():
            write_atomically(self.partition_path(name), content)

    def stored(self) -> set[str]:
        """Names of the partitions of which something is stored."""
        return {path.stem for path in (self.path / "partitions").glob("*.msgpack")} | set(self._packs.found)

    def load(self, partition: Partition) -> PartitionProof | None:
        """The stored proof of a partition, or None. It is not verified. Raises FormatError for a damaged file."""
        path = self.partition_path(partition.name)
        data = read_bounded(path, MAX_PARTITION) if path.exists() else self._packs.found.get(partition.name)
        if data is None:
            return None
        content = canonical.decode(data, str(path))
        check_fields(content, {"format": str, "version": int, "body": bytes, "sha256": bytes}, str(path))
        if content["version"] != VERSION or hashlib.sha256(content["body"]).digest() != content["sha256"]:
            raise FormatError(f"{path}: damaged, or of another version")
        proof = decode_partition(canonical.decode(content["body"], str(path)), str(path))
        if (proof.name, proof.digest) != (partition.name, partition.digest):
            raise FormatError(f"{path}: the proof of another partition")
        return proof

    def discard(self, partition: Partition) -> None:
        """Remove a stored proof that does not hold. One in a pack stays there, and is not looked at again."""
        self._packs.found.pop(partition.name, None)
        path = self.partition_path(partition.name)
        path.unlink(missing_ok=True)
        sync_folder(path.parent)

    # -- the barrier ------------------------------------------------------------------------------------------------

    def store_barrier(self, commitments: dict[str, bytes], challenge: bytes) -> None:
        """Keep the commitments that the shared challenge was drawn from: a retried partition must reproduce its own."""
        write_atomically(
            self.path / "barrier.msgpack", canonical.encode({"commitments": commitments, "challenge": challenge})
        )

    def load_barrier(self) -> Barrier | None:
        """Commitments and challenge, or None before the barrier. Raises FormatError."""
        path = self.path / "barrier.msgpack"
        if not path.exists():
            return None
        content = canonical.decode(read_bounded(path, MAX_RECORD), str(path))
        check_fields(content, {"commitments": dict, "challenge": bytes}, str(path))
        if not all(isinstance(value, bytes) for value in content["commitments"].values()):
            raise FormatError(f"{path}: a commitment that is not a byte string")
        return content["commitments"], content["challenge"]

    # -- results ----------------------------------------------------------------------------------------------------

    @property
    def proof_path(self) -> Path:
        return self.path / "proof.msgpack"

    def store_proof(self, content: bytes) -> None:
        """`content`: of a proof, as `Proof.to_bytes` gives it."""
        write_atomically(self.proof_path, content)

    def store_json(self, name: str, record: Mapping[str, Any]) -> None:
        """Write `report.json`."""
        write_atomically(self.path / name, _json(record))

    def store_text(self, name: str, text: str) -> None:
        """Write `timeline.json`."""
        write_atomically(self.path / name, text.encode())

    # -- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the journal and give up the lock."""
        self._journal.close()
        self._lock.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _partition_content(proof: PartitionProof) -> bytes:
    """A partition's file."""
    body = canonical.encode(encode_partition(proof))
    # The checksum tells a damaged disk from a bad prover; it protects against nobody.
    checksum = hashlib.sha256(body).digest()
    return canonical.encode({"format": "distprove.partition", "version": VERSION, "body": body, "sha256": checksum})


def require_run(path: Path) -> None:
    """Raise UsageError unless `path` is the folder of a run."""
    if not (path / "job.json").is_file():
        raise UsageError(f"{path} is not a run (it has no job.json)")


def read_record(path: Path) -> dict[str, Any]:
    """The content of a run's job.json, checked. Raises InputError or FormatError."""
    file = path / "job.json"
    record = jsontext.read(file, MAX_RECORD)
    if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("version") != VERSION:
        raise FormatError(f"{file}: not a run that this distprove reads")
    kinds = {"system": str, "key_digest": str, "facts": dict, "partitions": list, "sources": dict}
    if not all(isinstance(record.get(key), kind) for key, kind in kinds.items()) or "job" not in record:
        raise FormatError(f"{file}: incomplete")
    for item in record["partitions"]:
        if not isinstance(item, dict) or not is_name(item.get("name")) or not isinstance(item.get("digest"), str):
            raise FormatError(f"{file}: a partition without a name or digest")
    return record


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The events of the run at `path`, oldest first; a torn last line is left out. Needs no lock."""
    with open(path / "journal.jsonl", "rb") as file:
        yield from _events(file)


def journal_tail(path: Path, nbytes: int) -> list[dict[str, Any]]:
    """The events in the last `nbytes` of a run's journal, oldest first; none where there is no journal yet."""
    try:
        with open(path / "journal.jsonl", "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - nbytes)
            file.seek(start)
            if start:
                file.readline()  # a line that begins before
            return list(_events(file))
    except OSError:
        return []


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            event = jsontext.loads(line, "journal") if line.endswith(b"\n") else None
        except ValueError:
            event = None  # the disk's fault: the journal is a story, the partition files are the state
        if isinstance(event, dict):
            yield event


def _stamps(job: Job) -> dict[str, list[int]]:
    """Size and time of change (nanoseconds) of each input's file, by its name in the job. Raises InputError."""
    stamps = {}
    for source in job.sources:
        try:
            status = source.path.stat()
        except OSError as error:
            raise InputError(f"{source.path}: {error.strerror}") from None
        stamps[source.name] = [status.st_size, status.st_mtime_ns]
    return stamps


def _open_journal(path: Path) -> IO[bytes]:
    """Open to append, after cutting off a line that a crash left unfinished."""
    file = open(path, "a+b")  # noqa: SIM115 - closed by Run.close
    end = file.seek(0, os.SEEK_END)
    position = end
    while position > 0:
        start = max(0, position - 4096)
        file.seek(start)
        block = file.read(position - start)
        newline = block.rfind(b"\n")
        if newline >= 0:
            position = start + newline + 1
            break
        position = start
    if position != end:
        file.truncate(position)
        os.fsync(file.fileno())
    sync_folder(path.parent)
    return file


def _take_lock(path: Path) -> IO[str]:
    """Lock the folder for this process; the kernel gives the lock back however the process ends. Raises UsageError."""
    lock = open(path / "lock", "a+", encoding="utf-8")  # noqa: SIM115 - held as long as the run is open
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read(200).strip() or "another process"
        lock.close()
        raise UsageError(f"{path} is in use by {holder}") from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    lock.flush()
    return lock


def _json(record: Mapping[str, Any]) -> bytes:
    """A field a line, and an item a line of those that are lists: readable, and as fast as `json` is, whose own
    indentation is made in Python. A large run's report has thousands of items."""
    return (
        "{\n" + ",\n".join(f"  {json.dumps(name)}: {_field(value)}" for name, value in record.items()) + "\n}\n"
    ).encode()


def _field(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f"    {json.dumps(item)}" for item in value) + "\n  ]"
