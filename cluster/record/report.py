"""The numbers of a session for report.json, the summary table and `--json`. Nothing here is secret."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from actors.spans import quoted
from distprove.errors import DistproveError, typed
from distprove.host.provenance import provenance
from distprove.system import MemoryUse
from kernels.errors import BackendError

REPORT = "report.json"
FORMAT = "distprove.report"
VERSION = 2
"""Version of report.json. Version 1 called the steps of a partition `phases`."""


@dataclass
class Counters:
    """Counts of faults that were dealt with, over the whole session."""

    retries: int = 0
    """Partitions handed out again, for whatever reason."""
    bad_proofs: int = 0
    """Partition proofs that did not verify, and so did not count."""
    faults: int = 0
    """Errors of a worker or device that are not the input's fault."""
    deaths: int = 0
    """Workers whose process ended and was started again."""
    lost_witnesses: int = 0
    """Witnesses that went with their node."""
    damaged_files: int = 0
    """Stored partition proofs that were unreadable or did not verify when the run was resumed."""
    retired: int = 0
    """Workers given up."""


@dataclass
class PartitionReport:
    """One partition's story."""

    name: str
    status: str = "waiting"
    """"waiting", "proved", "resumed" (proved by an earlier session) or "failed"."""
    error: str | None = None
    error_kind: str | None = None
    worker: str | None = None
    """The prover whose proof counted."""
    attempts: int = 0
    bad_proofs: int = 0
    witness_bytes: int = 0
    synthesise_seconds: float = 0.0
    commit_seconds: float = 0.0
    """Time of the commitment, for a system whose partitions are committed before they are proven."""
    prove_seconds: float = 0.0
    verify_seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)
    """Seconds per step of the prover."""
    to_device: int = 0
    """Bytes over PCIe to the device, and back, for the proof that counted."""
    to_host: int = 0
    memory: MemoryUse | None = None
    """Memory plan and use of the partition; None for systems without memory plans."""
    device_peak: int = 0
    """The most device memory that its prover had taken by then, in bytes; 0 where a device does not tell."""

    def to_record(self) -> dict[str, Any]:
        """Plain data for report.json, to be written and not to be changed."""
        # Not `asdict`, which copies whatever it finds: some 0.2 ms.
        return {**vars(self), "memory": self.memory and vars(self.memory)}

    def proved_json(self) -> str:
        """Facts of the journal's event "proved", as JSON by hand: `json` takes five times as long."""
        return (
            f'{{"partition":{quoted(self.name)},"worker":{quoted(self.worker or "")},'
            f'"synthesise_seconds":{self.synthesise_seconds:.6f},"prove_seconds":{self.prove_seconds:.6f},'
            f'"verify_seconds":{self.verify_seconds:.6f},"to_device":{self.to_device},"to_host":{self.to_host}}}'
        )


@dataclass
class WorkerReport:
    """One worker's share."""

    id: str
    role: str
    """"prover" or "synthesiser"."""
    node: str
    status: str = "starting"
    """"starting", "ready" or "retired"."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Device, memory, host, process."""
    partitions: int = 0
    deaths: int = 0
    faults: int = 0
    bad_proofs: int = 0
    busy_seconds: float = 0.0
    load_seconds: float = 0.0
    reason: str | None = None
    """Reason why the worker was retired; None while it is in use."""


@dataclass
class Report:
    """A session of a run. `status` is "proved", "failed" or "interrupted"."""

    system: str
    facts: dict[str, Any]
    executor: str
    key_digest: str
    partitions: list[PartitionReport]
    workers: list[WorkerReport] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    governors: list[dict[str, Any]] = field(default_factory=list)
    status: str = "running"
    error: str | None = None
    job_digest: str | None = None
    aggregate: str | None = None
    """Name of the file in the run folder that has the aggregate of the proofs, for a job that asked for one."""
    files: list[str] = field(default_factory=list)
    """Names of the files in the run folder that the proof system wrote for other software."""
    proven: dict[str, Any] = field(default_factory=dict)
    """The proof's statement and its security, for systems that tell (`distprove.system.Explains`)."""
    made_by: dict[str, Any] = field(default_factory=provenance)
    """Version, commit, command line, user and host."""
    started: float = 0.0
    wall_seconds: float = 0.0
    driver_memory: int = 0
    """The most memory that the driver's process was resident in, in bytes; its workers' are in `governors`."""
    set_aside: list[str] = field(default_factory=list)
    """Devices that the job did not use because earlier jobs gave them up, in words."""
    left_out: list[str] = field(default_factory=list)
    """What was met among the inputs and is none (`distprove.options.expand`)."""
    chosen: str = ""
    """Why the job ran over this executor, in words."""

    def to_record(self) -> dict[str, Any]:
        """Plain data for report.json. What it holds is this report's own: to be written, not to be changed."""
        return {
            "format": FORMAT,
            "version": VERSION,
            **vars(self),
            "partitions": [partition.to_record() for partition in self.partitions],
            "workers": [vars(worker) for worker in self.workers],
            "counters": vars(self.counters),
        }


def public_message(error: BaseException) -> str:
    """Text of an error that may be shown to anyone. Our own messages are written without secrets; those of others may
    quote values."""
    error = typed(error)
    if isinstance(error, (DistproveError, BackendError)):
        return str(error)
    return f"{type(error).__name__} (not told in full, because it may quote the witness)"
