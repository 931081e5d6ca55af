"""A run on disk: one folder that survives anything short of losing the disk.

    job.json                    the job's record, the plan (names and digests), public facts; ends in a checksum;
                                written once, and again when an input was mended before its partition was proven
    job.json.copy               the same
    journal.jsonl               one event a line, appended; synced with each that tells of trouble, of the barrier and
                                of the end; a torn last line is cut off when it is opened again
    partitions/<name>.msgpack   a verified partition proof; what is there is done, after it has been verified again
    partitions/<number>.pack    several of these files that were written at once (`cluster.record.packs`)
                                (a short job's partition is in its proof alone)
    barrier.msgpack             commitments and shared challenge, for systems with a barrier
    proof.msgpack               the job's proof
    output.bin                  the job's output, for a STARK whose statement has one of variable length
    aggregate.msgpack           the aggregate of its partitions' proofs, for a job that asks for it
    aggregate.bin               the same of a Filecoin job
    proof.bin                   of a Filecoin job: the partitions' proofs as its software takes them
    verifying_key.msgpack       a STARK's verifying key, which its proof does not carry
    timeline.json, report.json  when what happened where, and the summary
    lock                        held by the driver at work

Partition files are the truth about progress; the journal tells the story. Every file but the journal is written to a
temporary name, synced and renamed; a copy, a status and the story of a session of a second are not synced, so that a
power cut may take or empty them. A run may come from somebody else: no link in it is followed
(`distprove.formats.folder`), and it names no code (`Job.from_record`). Nothing secret is written: no witness and no
input, only paths. A digest of an input would let a reader confirm a guess of it, so whether an input is still the one
the run began with is told by its size and time of change. The folder is made for its owner alone (mode 0700).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import IO, Any

from actors.spans import quoted
from cluster.record.journal import JOURNAL, MAX_LINE, Journal, journal_tail
from cluster.record.packs import Packed, Packs, own_file
from cluster.record.report import REPORT
from cluster.record.status import FILE as STATUS
from cluster.record.timeline import FILE as TIMELINE
from distprove.errors import FormatError, InputError, InUse, InvalidProof, UsageError, typed
from distprove.formats import canonical, jsontext
from distprove.formats.files import is_file, is_temporary, real
from distprove.formats.folder import Folder
from distprove.formats.names import is_name
from distprove.formats.owncode import require_no_imports_from, require_outside
from distprove.formats.remote import fetch
from distprove.formats.shapes import fits
from distprove.host.provenance import provenance
from distprove.job import Job
from distprove.proof import (
    KEY_FILE,
    OUTPUT_FILE,
    PROOF_FILE,
    Proof,
    check_fields,
    decode_partition,
    invalid_among,
    partition_parts,
)
from distprove.settings import ExecutorSettings, Settings
from distprove.system import HasKeyFile, Partition, PartitionProof, PlansChallenge, ProofSystem, VerifiesJob
from kernels.host.units import count_of

FORMAT = "distprove.run"
VERSION = 1
BARRIER = "barrier.msgpack"
RECORD, COPY = "job.json", "job.json.copy"
LOCK, PARTITIONS = "lock", "partitions"
FILES = (RECORD, COPY, LOCK, BARRIER, JOURNAL, PROOF_FILE, KEY_FILE, OUTPUT_FILE, TIMELINE, REPORT, STATUS)
"""What a run is made of, beside its partitions."""
MAX_RECORD = 1 << 28
MAX_PARTITION = 1 << 28
NAME_BYTES = 255
"""Bytes of a name in a path, at most, on the file systems of Linux."""

Barrier = tuple[dict[str, bytes], bytes]
"""Commitments by partition, and the challenge drawn from them."""


class StoredRun:
    """A run folder to read, also while a driver is at work on it."""

    def __init__(self, folder: Folder, record: dict[str, Any], partitions: Folder | None) -> None:
        self.path = folder.path
        self.folder = folder
        self.record = record
        """The content of job.json."""
        self._stored = partitions
        self._job: Job | None = None
        """The job that is proven, whose files may lie elsewhere than when the run began."""

    @classmethod
    def read(cls, path: Path) -> StoredRun:
        """Raises UsageError, InputError or FormatError."""
        require_run(path)
        folder = Folder.open(path)
        partitions = Folder.open(path / PARTITIONS) if folder.is_folder(PARTITIONS) else None
        return cls(folder, read_record(folder), partitions)

    def job(self, program: str | None = None, executor: Settings | None = None) -> Job:
        """The job as it was given, with what takes the place of its `program` and settings; see `Job.from_record`.

        Raises InputError when its files are gone, UsageError for a run made without one, and for code and clusters that
        it names itself.
        """
        if self.record["job"] is None:
            raise UsageError(f"{self.path} was made from Python without a job; resume it from there")
        try:
            self._job = Job.from_record(self._moved(self.record["job"]), program=program, executor=executor)
        except (UsageError, InputError) as error:
            raise type(error)(f"{self.path}: {error}") from None
        return self._job

    @property
    def code_folder(self) -> str:
        """The folder that held the user's own code as the run began, as its record says; empty if it says none."""
        folder = (self.record["job"] or {}).get("code_folder", "")
        return folder if isinstance(folder, str) else ""

    def files(self) -> dict[str, str]:
        """The file that each partition is named after, by the partition's name, relative to the folder that holds them
        all; none of inputs that were given as values."""
        options = (self.record["job"] or {}).get("options")
        listed = [value for value in options.values() if isinstance(value, list)] if isinstance(options, dict) else []
        items = [item for value in listed for item in value if isinstance(item, dict)]
        paths = {str(item.get("name")): str(item.get("path") or item.get("url", "")) for item in items}
        paths = {name: os.path.join("/", path) for name, path in paths.items() if path}
        above = os.path.commonpath([os.path.dirname(path) for path in paths.values()]) if paths else ""
        return {name: os.path.relpath(path, above) for name, path in paths.items()}

    def is_of(self, job: Job) -> bool:
        """Whether this run was made for the same system and options, whatever the settings, and wherever the files lie
        by now: it is then taken for the run's job."""
        recorded, asked = self.record["job"], job.to_record()
        keys = ("system", "options")
        same = isinstance(recorded, dict) and all(_names(recorded.get(key)) == _names(asked[key]) for key in keys)
        self._job = job if same else self._job
        return same

    def _moved(self, value: Any) -> Any:
        """Part of the job's record in which files that are gone are those at the same place beside the run, if they are
        there: run and files may have been moved together."""
        if isinstance(value, dict):
            return {key: self._moved(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._moved(item) for item in value]
        began = self.record.get("folder")
        if not isinstance(value, str) or not isinstance(began, str) or not os.path.isabs(value) or is_file(Path(value)):
            return value
        beside = os.path.normpath(os.path.join(real(self.path), os.path.relpath(value, began)))
        return beside if is_file(Path(beside)) else value

    @cached_property
    def _packed(self) -> Packed:
        """Content of the run's packs, read at the first use."""
        wanted = {item["name"] for item in self.record["partitions"]}
        return Packs(self._stored).read(wanted) if self._stored is not None else Packed()

    @cached_property
    def _bound(self) -> dict[str, PartitionProof]:
        """Partition proofs in the job's own proof, by name: those of a short job have no other file."""
        if not self.folder.has(PROOF_FILE):
            return {}
        with suppress(InputError, InvalidProof):  # a damaged one is made again
            bound = Proof.read_from(self.path, with_output=False)
            return {proof.name: proof for proof in bound.partitions} if bound.whole is None else {}
        return {}

    def stored(self) -> set[str]:
        """Names of the partitions of which something is stored."""
        names = self._stored.names() if self._stored is not None else []
        files = {Path(name).stem for name in names if name.endswith(".msgpack")}
        return files | self._packed.files.keys() | self._bound.keys()

    def load(self, partition: Partition) -> PartitionProof | None:
        """The stored proof of a partition, or None. It is not verified. Raises FormatError for a damaged file."""
        name, stored = own_file(partition.name), self._stored
        path = self.path / PARTITIONS / name
        own = stored.read(name, MAX_PARTITION) if stored is not None and stored.has(name) else None
        data = self._packed.files.get(partition.name) if own is None else own
        if data is None:
            bound = self._bound.get(partition.name)
            return replace(bound, digest=partition.digest) if bound is not None else None
        content = canonical.decode(data, str(path))
        check_fields(content, {"format": str, "version": int, "body": bytes, "sha256": bytes}, str(path))
        if content["version"] != VERSION or hashlib.sha256(content["body"]).digest() != content["sha256"]:
            raise FormatError(f"{path}: damaged, or of another version")
        proof = decode_partition(canonical.decode(content["body"], str(path)), str(path))
        if (proof.name, proof.digest) != (partition.name, partition.digest):
            raise FormatError(f"{path}: the proof of another partition")
        return proof


class Run(StoredRun):
    """An open run folder, locked for this process. Use as a context manager."""

    def __init__(self, folder: Folder, record: dict[str, Any], lock: IO[str], *, is_new: bool = False) -> None:
        self._lock = lock
        self._same_inputs = False
        self.is_new = is_new
        """Whether it holds nothing yet that a session left."""
        if not is_new:
            folder.require_files(*FILES)
            folder.remove_temporaries()
        self._partitions = folder.folder(PARTITIONS)
        if not is_new:
            self._partitions.remove_temporaries()
        super().__init__(folder, record, self._partitions)
        self._packs = Packs(self._partitions, is_new=is_new)
        self._discarding, self._discarded = threading.Lock(), list[str]()
        """Names of proofs in packs that were discarded, until the packs say so."""
        self._journal = Journal(folder)

    @classmethod
    def create(
        cls,
        path: Path,
        system: ProofSystem,
        plan: list[Partition],
        job: Job | None = None,
        *,
        overwrite: bool = False,
        inside: Folder | None = None,
    ) -> Run:
        """Make the folder of a new run, in place of one that is there if `overwrite`. `inside` is the folder that it is
        made in, where that is open already. Raises UsageError where a run is that is not to be replaced or that a
        driver is at work on, or where other files are."""
        folder = Folder.make(path) if inside is None else inside.folder(path.name)
        replaces = overwrite and folder.has(RECORD)
        if not replaces:
            _require_empty(folder)
        folder.close_to_others()
        lock = take_lock(folder)
        try:
            if replaces:
                read_record(folder)  # what is no run is not deleted
                folder.empty(keep=LOCK)
            left = _require_empty(folder)  # also of what somebody laid there before it was closed
        except BaseException:
            lock.close()
            raise
        asked = job.to_record() if job is not None else None
        record = new_record(real(path), common_record(system), plan, job, asked)
        content = record_text(record)
        folder.write(COPY, content, durable=False)  # a power cut may take it, and leaves what it is a copy of
        folder.write(RECORD, content)
        for name in filter(is_temporary, left):
            folder.remove(name)
        run = cls(folder, record, lock, is_new=True)
        run._job = job
        run.keep_key(system)
        return run

    @classmethod
    def open(cls, path: Path, *, same_inputs: bool = False) -> Run:
        """Open an existing run to resume it; `same_inputs`: also with inputs whose times are not what they were. Raises
        UsageError, InputError or FormatError."""
        require_run(path)
        folder = Folder.open_ours(path)
        folder.close_to_others()
        lock = take_lock(folder)
        try:
            run = cls(folder, read_record(folder), lock)
            run._same_inputs = same_inputs
            return run
        except BaseException:
            lock.close()
            raise

    def keep_key(self, system: ProofSystem) -> None:
        """Write the verifying key, for systems whose proofs do not carry it: no program is needed to export it.

        Nothing is written when the key is not that of the run, which `check_plan` tells.
        """
        if isinstance(system, HasKeyFile) and system.key_digest().hex() == self.record["key_digest"]:
            self.folder.write(KEY_FILE, system.key_file())

    def check_plan(self, system: ProofSystem, plan: list[Partition]) -> None:
        """Raise InputError unless the key and every input are what they were when the run began.

        An input whose partition has no stored proof may have changed, where no other partition's proof depends on it:
        a mended input is proven, and the record is rewritten with its size and time of change.
        """
        if system.name != self.record["system"] or system.key_digest().hex() != self.record["key_digest"]:
            raise InputError(f"{self.path}: the key is not the one that this run began with")
        began = [(item["name"], item["digest"]) for item in self.record["partitions"]]
        now = [(p.name, p.digest.hex()) for p in plan]
        if [name for name, _ in began] != [name for name, _ in now]:
            raise InputError(f"{self.path}: the partitions are not those that this run began with")
        recorded = self.record["sources"]
        stamps = _stamps(self._job or self.job(executor=ExecutorSettings())) if recorded else {}
        changed = [name for (name, old), (_, new) in zip(began, now, strict=True) if old != new]
        every = [name for name in {**recorded, **stamps} if recorded.get(name) != stamps.get(name)]
        free = _independent(system, plan) - self.stored() - {*changed} if every else set[str]()
        mended = [name for name in every if name in free and name in recorded and name in stamps]
        every = [name for name in every if name not in mended]
        touched = {name: None for name in every if _size(recorded, name) == _size(stamps, name) is not None}
        changed = list(dict.fromkeys([*changed, *(name for name in every if name not in touched)]))
        if changed:
            raise InputError(
                f"{self.path}: changed since the run began: {', '.join(changed[:8])}; put back what was proven, or "
                "prove what is there now in a new run (another --out)"
            )
        if touched and not self._same_inputs:
            again = f"distprove resume {quote(str(self.path))} --same-inputs"
            raise InputError(
                f"{self.path}: written again since the run began: {', '.join([*touched][:8])}; if their content is the "
                f"same, `{again}` goes on"
            )
        if mended:
            self._record_sources({**recorded, **{name: stamps[name] for name in mended}})
            self.note("inputs-changed", partitions=mended[:8], count=len(mended))

    def _record_sources(self, sources: dict[str, Any]) -> None:
        """Rewrite the record with these sizes and times of change of the inputs."""
        self.record = {**self.record, "sources": sources}
        content = record_text({name: value for name, value in self.record.items() if name != "sha256"})
        self.folder.write(COPY, content)
        self.folder.write(RECORD, content)

    # -- events -----------------------------------------------------------------------------------------------------

    def note(self, event: str, *, sync: bool = True, **facts: Any) -> None:
        """Append an event to the journal, as `Journal.note_all` does."""
        self._journal.note(event, sync=sync, **facts)

    def note_all(self, event: str, each: Iterable[str], *, sync: bool = True) -> None:
        """Append several events of a kind to the journal, as `Journal.note_all` does."""
        self._journal.note_all(event, each, sync=sync)

    def ended_without_a_word(self) -> bool:
        """Whether the last session has no end, because its driver was killed, or ended inside Ray."""
        last = [] if self._journal.is_empty else journal_tail(self.path, MAX_LINE)[-1:]
        return bool(last) and "wall_seconds" not in last[0]

    # -- partitions -------------------------------------------------------------------------------------------------

    def store(self, proofs: Sequence[PartitionProof]) -> None:
        """Keep verified partition proofs; all are on disk when this returns. Any thread may call it."""
        with self._discarding:  # what was discarded would fit the new proofs no better in a later session
            self._packs.discard(self._discarded)
            self._discarded.clear()
        self._packs.write((proof.name, _partition_content(proof)) for proof in proofs)

    def read_again(self) -> None:
        """Forget what was read of the stored proofs, for another session with this run open."""
        self.__dict__.pop("_packed", None)
        self.__dict__.pop("_bound", None)

    def remove_damaged_packs(self) -> dict[str, str]:
        """The reason why each damaged pack cannot be read, by name; damaged files are removed. Which partitions were in
        them is not known: what is not stored elsewhere is not stored."""
        for name in self._packed.damaged:
            with suppress(IsADirectoryError):
                self._partitions.remove(name)
        return self._packed.damaged

    def discard(self, partition: Partition) -> None:
        """Remove a stored proof that does not hold. One in a pack counts no more, in later sessions from the next proof
        on that is stored."""
        if self._packed.files.pop(partition.name, None) is not None:
            with self._discarding:
                self._discarded.append(partition.name)
        self._bound.pop(partition.name, None)
        self._partitions.remove(own_file(partition.name))

    # -- the barrier ------------------------------------------------------------------------------------------------

    def store_barrier(self, commitments: dict[str, bytes], challenge: bytes) -> None:
        """Keep the commitments that the shared challenge was drawn from: a retried partition must reproduce its own."""
        self.folder.write(BARRIER, canonical.encode({"commitments": commitments, "challenge": challenge}))

    def load_barrier(self) -> Barrier | None:
        """Commitments and challenge, or None before the barrier. Raises InputError, FormatError."""
        path = self.path / BARRIER
        if not self.folder.has(BARRIER):
            return None
        content = canonical.decode(self.folder.read(BARRIER, MAX_RECORD), str(path))
        check_fields(content, {"commitments": dict, "challenge": bytes}, str(path))
        if not all(isinstance(value, bytes) for value in content["commitments"].values()):
            raise FormatError(f"{path}: a commitment that is not a byte string")
        return content["commitments"], content["challenge"]

    # -- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the journal and give up the lock."""
        self._journal.close()
        self._lock.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _partition_content(proof: PartitionProof) -> bytes:
    """A partition's file: a map with its `body`, which is joined once, as it may be long."""
    body, checksum = partition_parts(proof, proof.encoded), hashlib.sha256()
    for part in body:
        checksum.update(part)  # it tells a damaged disk from a bad prover; it protects against nobody
    begins = b"\x84" + canonical.encode("body") + canonical.bytes_header(sum(map(len, body)))
    rest = {"format": "distprove.partition", "version": VERSION, "sha256": checksum.digest()}
    return b"".join([begins, *body, canonical.entries(rest)])


def _with_checksum(text: bytes) -> bytes:
    """The text of a JSON object, a field a line, with a last field that tells a damaged one. It protects against
    nobody."""
    body = text.removesuffix(b"\n}\n")
    return body + _CHECKSUM + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'


_CHECKSUM = b',\n  "sha256": "'


def require_run(path: Path) -> None:
    """Raise UsageError unless `path` is the folder of a run."""
    if not is_run(path):
        if (path / COPY).is_file():
            raise UsageError(f"{path} has lost its job.json: copy {COPY} there to {RECORD} to go on")
        if not path.is_dir():
            raise UsageError(f"there is no run at {path}: no such folder")
        raise UsageError(f"{path} is not a run (it has no {RECORD})")


def is_run(path: Path) -> bool:
    """Whether a run is at `path`. Raises UsageError where a symbolic link is."""
    if not path.is_dir():
        return False
    with Folder.open(path) as folder:
        return folder.has(RECORD)


def require_creatable(path: Path) -> None:
    """Raise UsageError or InputError unless a new run can be made at `path`, as far as that is seen before."""
    if any(len(os.fsencode(part)) > NAME_BYTES for part in path.parts):
        raise UsageError(f"the name of a folder has at most {NAME_BYTES} bytes: {path}")
    try:
        path.lstat()
    except FileNotFoundError:
        above = next(folder for folder in path.parents if os.path.lexists(folder))
        Folder.open(above)
        if not os.access(above, os.W_OK | os.X_OK):
            raise InputError(f"{above}: no folder can be made there: permission denied") from None
        return
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    _require_empty(Folder.open_ours(path))


def require_code_outside(name: str, proof: Path) -> None:
    """Raise UsageError when the code that `name` names would be imported from inside the run that holds `proof`, or
    when Python imports from there anyhow. `proof` is a run folder, or a file, of which only a run's are looked at."""
    folder = real(proof) if proof.is_dir() else real(proof).parent
    if is_run(folder):
        require_no_imports_from(folder)
        require_outside(name, folder)


def delete_run(path: Path) -> None:
    """Delete the run at `path`; a folder that only has some file job.json in it is not deleted.

    Raises UsageError when a driver is at work there, InputError or FormatError when it is not ours, or no run.
    """
    with Folder.open_ours(path) as folder, take_lock(folder):
        read_record(folder)
        folder.delete(last=LOCK)


def require_free(path: Path) -> None:
    """Raise UsageError when a driver is at work on the run at `path`."""
    if is_run(path):
        with Folder.open_ours(path) as folder:
            take_lock(folder).close()


def abandoned_by(folder: Folder) -> str | None:
    """The driver that had a run's lock and has it no more, as the lock names it; None while one has it."""
    if not folder.has(LOCK):
        return None  # a copy without it, of which nothing is known
    with open(folder.open_file(LOCK), encoding="utf-8", errors="replace") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return None
        return lock.read(200).strip() or "its driver"


def read_proof(path: Path, *, with_output: bool = True) -> Proof:
    """The proof in a file or a run. Raises as `Proof.read_from` does, InputError for a run that is not finished."""
    if not path.is_dir() or not is_run(path) or Folder.open(path).has(PROOF_FILE):
        return Proof.read_from(path, with_output=with_output)
    run = StoredRun.read(path)
    plan = {item["name"] for item in run.record["partitions"]}
    done = f"{len(run.stored() & plan)} of {count_of(len(plan), 'partition')} proven"
    if run.folder.has(LOCK) and abandoned_by(run.folder) is None:
        raise InputError(f"{path} is not finished: {done}, and a driver is at work on it")
    raise InputError(f"{path} is not finished: {done}; `distprove resume {quote(str(path))}` does what is missing")


def read_partial_proof(path: Path) -> Proof:
    """A proof of those partitions of a run that are proven, with a job digest of its own. Each is verified under the
    key of the run's job. Raises as `Job.load` does, UsageError where partitions hold only together, InputError where
    none is proven."""
    run = StoredRun.read(path)
    system = run.job(executor=ExecutorSettings()).load()
    if isinstance(system, VerifiesJob):
        raise UsageError(f"{path}: partitions of {system.name} hold only together, when all are proven")
    found: list[PartitionProof] = []
    for partition in system.plan():
        with suppress(FormatError):  # damaged, or of another job
            proof = run.load(partition)
            found += [] if proof is None else [proof]
    bad = set(invalid_among(system, found))
    good = [proof for index, proof in enumerate(found) if index not in bad]
    if not good:
        raise InputError(f"{path}: no partition is proven yet")
    return Proof.assemble(system, good)


def common_record(system: ProofSystem) -> dict[str, Any]:
    """What the records of all runs of one key have in common."""
    digest, facts = system.key_digest().hex(), system.describe()
    return {"made_by": provenance(), "system": system.name, "key_digest": digest, "facts": facts}


def new_record(
    path: Path, common: Mapping[str, Any], plan: list[Partition], job: Job | None, asked: dict[str, Any] | None
) -> dict[str, Any]:
    """The record of a run that begins at this absolute path. `common` is its key's `common_record`, and `asked` the
    job's own. Raises InputError for an input that is not there."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "folder": str(path),
        "created": time.time(),
        **common,
        "job": asked,
        "partitions": [
            {"name": p.name, "digest": p.digest.hex(), **({"needs": list(p.needs)} if p.needs else {})} for p in plan
        ],
        "sources": _stamps(job) if job is not None else {},
    }


def record_text(record: Mapping[str, Any], written: Mapping[str, str] | None = None) -> bytes:
    """The content of job.json; `written` as of `json_text`."""
    return _with_checksum(json_text(record, written))


def read_record(folder: Folder) -> dict[str, Any]:
    """The content of a run's job.json, checked. Raises InputError or FormatError."""
    file = folder.path / RECORD
    data = folder.read(RECORD, MAX_RECORD)
    body, ends, checksum = data.rpartition(_CHECKSUM)  # a run without one was made by hand, or before there was any
    try:
        if ends and checksum[:64] != hashlib.sha256(body).hexdigest().encode():
            raise FormatError(f"{file}: damaged, its checksum is another")
        record = jsontext.loads_file(data, str(file))
    except FormatError as error:
        way_on = f"copy {COPY} there to {RECORD} to go on" if folder.has(COPY) else "a new run is needed"
        raise FormatError(f"{error}; {way_on}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("version") != VERSION:
        raise FormatError(f"{file}: not a run that this distprove reads")
    kinds = {"system": str, "key_digest": str, "facts": dict, "partitions": list, "sources": dict}
    complete = all(isinstance(record.get(key), kind) for key, kind in kinds.items())
    if not complete or not isinstance(record.get("job", ()), dict | None):
        raise FormatError(f"{file}: incomplete")
    for item in record["partitions"]:
        if not isinstance(item, dict) or not is_name(item.get("name")) or not isinstance(item.get("digest"), str):
            raise FormatError(f"{file}: a partition without a name or digest")
        if not fits(item.get("needs", []), [str]):
            raise FormatError(f"{file}: a partition whose needs are no names")
    return record


def _stamps(job: Job) -> dict[str, list[int]]:
    """Size and time of change (nanoseconds), or number of the version, of each input's file, by its name in the job.
    Raises InputError."""
    stamps = {}
    for source in job.sources:
        if source.content is not None:
            continue  # a digest of it would confirm a guess of it
        if source.url is not None:
            fetched = fetch(source.url)
            stamps[source.name] = [fetched.path.stat().st_size, int(fetched.version[:15], 16)]
            continue
        try:
            status = source.path.stat()
        except OSError as error:
            raise typed(error, source.path) from None
        stamps[source.name] = [status.st_size, status.st_mtime_ns]
    return stamps


def _independent(system: ProofSystem, plan: list[Partition]) -> set[str]:
    """Names of the partitions whose inputs no other partition's proof depends on: all, or none for a system with a
    challenge that partitions share, with partitions that need others, or that hold only together."""
    bound = system.needs_barrier or isinstance(system, PlansChallenge | VerifiesJob) or any(p.needs for p in plan)
    return set() if bound else {p.name for p in plan}


def _names(value: Any) -> Any:
    """Part of a job's record with the names of files in place of their paths."""
    if isinstance(value, dict):
        return {key: _names(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_names(item) for item in value]
    return os.path.basename(value) if isinstance(value, str) and os.path.isabs(value) else value


def _size(stamps: Mapping[str, Any], name: str) -> Any:
    """The size in an input's stamp; None where there is none."""
    stamp = stamps.get(name)
    return stamp[0] if isinstance(stamp, list) and stamp else None


def _require_empty(folder: Folder) -> list[str]:
    """Raise UsageError unless a run can be made in `folder`, in which one that was never made may have begun; what that
    left there."""
    left = folder.names()
    names = [name for name in left if name not in (LOCK, COPY) and not is_temporary(name)]
    if RECORD in names:
        raise UsageError(f"{folder.path} already holds a run; resume it, or choose another folder")
    if names:
        raise UsageError(f"{folder.path} is not empty and not a run; choose another folder")
    return left


def take_lock(folder: Folder, name: str = LOCK) -> IO[str]:
    """Lock the folder for this process. The kernel gives the lock back however the process ends; the file that a dead
    one left is locked again. Raises UsageError, and InputError for what is no file of ours."""
    descriptor = folder.open_in_place(name)
    lock = open(descriptor, "r+", encoding="utf-8", errors="replace")  # noqa: SIM115 - held as long as the run is open
    try:
        for patience in (0.01, 0.1, 0.0):  # for one who only looks whether it is free, as `distprove top` does
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not patience:
                    raise
                time.sleep(patience)
    except BlockingIOError:
        holder = lock.read(200).strip() or "another process"
        lock.close()
        raise InUse(f"{folder.path} is in use by {holder}; wait for it, or choose another folder") from None
    if not folder.holds(name, descriptor):  # deleted, with the run, before it was ours
        lock.close()
        raise InUse(f"{folder.path} was deleted by another process just now; try again")
    with suppress(OSError):  # it says who holds the lock, which is held on a full disk too
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
    return lock


def json_text(record: Mapping[str, Any], written: Mapping[str, str] | None = None) -> bytes:
    """A field a line, and an item a line of those that are lists: readable, and as fast as `json` is, whose own
    indentation is made in Python. A large run's report has thousands of items. `written` are fields' texts, as
    `json_field` makes them, which many records have in common."""
    known = written or {}
    texts = [f'  "{name}": {known.get(name) or json_field(value)}' for name, value in record.items()]
    return ("{\n" + ",\n".join(texts) + "\n}\n").encode()


def json_field(value: Any) -> str:
    """The text of a field's value in `json_text`."""
    if type(value) is str:
        return quoted(value)
    if not isinstance(value, list) or not value:
        return _encode(value)
    return "[\n" + ",\n".join([f"    {_encode(item)}" for item in value]) + "\n  ]"


_encode = json.JSONEncoder().encode
