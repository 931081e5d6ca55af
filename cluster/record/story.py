"""All that a run's folder tells of how it went: for the report page, traces and sweeps. Needs no lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

from cluster.record.journal import JOURNAL, MAX_TEXT, read_journal
from cluster.record.report import FORMAT, REPORT, VERSION
from cluster.record.run import abandoned_by, read_record, require_run
from cluster.record.timeline import FILE, Session, read_timeline
from distprove.errors import InputError, ResourceError, UsageError
from distprove.formats import jsontext
from distprove.formats.files import real
from distprove.formats.folder import Folder
from distprove.formats.shapes import NUMBER, fits
from distprove.formats.visible import bounded

MAX_REPORT = 1 << 28

TROUBLE = (
    "bad-proof",
    "fault",
    "death",
    "retired",
    "failed",
    "driver-died",
    "damaged",
    "hung",
    "set-aside",
    "not-aggregated",
)
"""Journal events that tell of something that went wrong."""
MAX_TROUBLE = 20_000
"""Most events of trouble that are kept in memory."""


@dataclass(frozen=True)
class Story:
    """A run as it stands. `report` is empty until its first session has ended."""

    name: str
    record: dict[str, Any]
    """Content of job.json."""
    report: dict[str, Any]
    sessions: list[Session]
    trouble: list[dict[str, Any]] = field(default_factory=list)
    """The journal's events of trouble, oldest first: time and the texts that are shown."""
    more_trouble: int = 0
    """Number of events of trouble that follow those in `trouble`."""

    dead: bool = False
    """Whether the driver is gone without having said how it ended."""

    @property
    def status(self) -> str:
        return "dead" if self.dead else str(self.report.get("status", "running"))

    @property
    def title(self) -> str:
        job = self.record.get("job") or {}
        return str(job.get("title") or "") or self.name

    @property
    def witness_bytes(self) -> dict[str, int]:
        """Size of each partition's witness, where it is known."""
        return {p["name"]: p["witness_bytes"] for p in self.report.get("partitions", ())}

    @classmethod
    def read(cls, path: Path) -> Story:
        """Raises UsageError for a folder that is not a run, InputError or FormatError for damaged files."""
        require_run(path)
        with Folder.open(path) as folder:
            report = read_report(path) if folder.has(REPORT) else {}
            sessions = read_timeline(path) if folder.has(FILE) else []
            trouble, more = _trouble(path) if folder.has(JOURNAL) else ([], 0)
            dead = not report and abandoned_by(folder) is not None
            return cls(real(path).name, read_record(folder), report, sessions, trouble, more, dead)


def _trouble(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The journal's first events of trouble, and how many more there are."""
    kept: list[dict[str, Any]] = []
    more = 0
    for event in read_journal(path):
        if event.get("event") not in TROUBLE or not isinstance(event.get("time"), (int, float)):
            continue
        if len(kept) == MAX_TROUBLE:
            more += 1
            continue
        texts = {key: event[key] for key in ("partition", "worker", "reason") if event.get(key)}
        shown = {key: bounded(text if isinstance(text, str) else str(text), MAX_TEXT) for key, text in texts.items()}
        kept.append({"time": event["time"], "event": event["event"], **shown})
    return kept, more


def read_report(path: Path) -> dict[str, Any]:
    """The content of a run's report.json, its shape checked as far as readers rely on it.

    Raises InputError or FormatError.
    """
    return jsontext.read_shaped(path, REPORT, MAX_REPORT, _is_shaped, "a report")


def report_of_ours(path: Path) -> dict[str, Any]:
    """The report of a session that just ended. Raises ResourceError where the run is gone with it."""
    try:
        return read_report(path)
    except (InputError, UsageError) as error:
        raise ResourceError(f"{error}; the run was removed, or its disk, while it was made") from None


_OPTIONAL = {
    **dict.fromkeys(("error", "worker"), (str, NoneType)),
    **dict.fromkeys(("busy_seconds", "load_seconds", "commit_seconds", "device_peak"), (*NUMBER, NoneType)),
    "memory": (dict, NoneType),
}
"""Fields that the records of partitions and workers may lack."""
_PARTITION = {
    **dict.fromkeys(("name", "status"), str),
    **dict.fromkeys(("attempts", "witness_bytes", "bad_proofs"), int),
    **dict.fromkeys(("synthesise_seconds", "prove_seconds", "verify_seconds"), NUMBER),
    "steps": dict,
    **_OPTIONAL,
}
_WORKER = {**dict.fromkeys(("id", "role", "status"), str), "facts": dict, "partitions": int, **_OPTIONAL}
_REPORT = {
    "format": str,
    "version": int,
    "status": str,
    "wall_seconds": NUMBER,
    "partitions": [_PARTITION],
    "workers": [_WORKER],
    "counters": {str: int},
    "governors": [dict],
    "facts": dict,
    "driver_memory": (int, NoneType),
    "aggregate": (str, NoneType),
    "files": ([str], NoneType),
}
_SECURITY = {**dict.fromkeys(("bits", "blowup", "queries", "grinding_bits"), NUMBER), "regime": str}
_PROVEN = {"program": str, "arguments": dict, "says": dict, "security": _SECURITY}
"""The parts that are shown of what a proof says."""
_STATED = {"stated": {str: str}, "published": {str: str}}
"""The same, for systems whose proofs carry a statement and that publish files."""


def _is_shaped(report: Any) -> bool:
    if not fits(report, _REPORT) or (report["format"], report["version"]) != (FORMAT, VERSION):
        return False
    return not report.get("proven") or any(fits(report["proven"], shape) for shape in (_PROVEN, _STATED))
