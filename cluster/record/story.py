"""All that a run's folder tells of how it went: for the report page, traces and sweeps. Needs no lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.record.journal import JOURNAL, MAX_TEXT, read_journal
from cluster.record.report import REPORT
from cluster.record.run import abandoned_by, read_record, require_run
from cluster.record.timeline import FILE, Session, read_timeline
from distprove.errors import FormatError
from distprove.formats import jsontext
from distprove.formats.folder import Folder
from distprove.formats.visible import bounded

MAX_REPORT = 1 << 28

TROUBLE = ("bad-proof", "fault", "death", "retired", "failed", "damaged", "hung")
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
            return cls(path.resolve().name, read_record(folder), report, sessions, trouble, more, dead)


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
    file = path / REPORT
    with Folder.open(path) as folder:
        report = jsontext.read_in(folder, REPORT, MAX_REPORT)
    if not isinstance(report, dict) or report.get("format") != "distprove.report" or not _is_shaped(report):
        raise FormatError(f"{file}: not a report that this distprove reads")
    return report


_PARTITION: dict[str, type] = {
    "name": str,
    "status": str,
    "attempts": int,
    "witness_bytes": int,
    "phases": dict,
    "bad_proofs": int,
}
_PARTITION_TIMES = ("synthesise_seconds", "prove_seconds", "verify_seconds")
_WORKER: dict[str, type] = {"id": str, "role": str, "status": str, "facts": dict, "partitions": int}

_NUMBER = (int, float, type(None))
_TEXT = (str, type(None))
_OPTIONAL: dict[str, tuple[type, ...]] = {
    "error": _TEXT,
    "worker": _TEXT,
    "memory": (dict, type(None)),
    "busy_seconds": _NUMBER,
    "load_seconds": _NUMBER,
    "device_peak": _NUMBER,
}
"""Fields that the records of partitions and workers may lack."""

_SECURITY: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("bits", "blowup", "queries", "grinding_bits"), (int, float)),
    "regime": (str,),
}


def _tells(proven: Any) -> bool:
    """Whether what a proof says is there in the parts that are shown of it."""
    if not isinstance(proven, dict) or not isinstance(proven.get("program"), str):
        return False
    if not all(isinstance(proven.get(key), dict) for key in ("arguments", "says", "security")):
        return False
    return all(isinstance(proven["security"].get(key), kind) for key, kind in _SECURITY.items())


def _is_shaped(report: dict[str, Any]) -> bool:
    def holds(item: Any, kinds: dict[str, type]) -> bool:
        return isinstance(item, dict) and all(isinstance(item.get(key), kind) for key, kind in kinds.items())

    kinds: dict[str, type] = {
        "status": str,
        "partitions": list,
        "workers": list,
        "counters": dict,
        "governors": list,
        "facts": dict,
    }
    number = (int, float)
    return (
        holds(report, kinds)
        and isinstance(report.get("wall_seconds"), number)
        and (not report.get("proven") or _tells(report["proven"]))
        and all(holds(p, _PARTITION) for p in report["partitions"])
        and all(isinstance(p.get(key), number) for p in report["partitions"] for key in _PARTITION_TIMES)
        and all(holds(w, _WORKER) for w in report["workers"])
        and all(
            isinstance(item.get(key), kind)
            for item in (*report["partitions"], *report["workers"])
            for key, kind in _OPTIONAL.items()
        )
        and all(isinstance(g, dict) for g in report["governors"])
        and all(isinstance(count, int) for count in report["counters"].values())
    )
