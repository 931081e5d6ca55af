"""The partitions of a run as they stand, from the files of its folder: record, journal, status and report."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from cluster.record.journal import MAX_TEXT, read_journal
from cluster.record.report import REPORT
from cluster.record.run import read_record, require_run
from cluster.record.status import FILE, read_status
from cluster.record.story import TROUBLE, read_report
from distprove.errors import InputError
from distprove.formats.folder import Folder
from distprove.formats.visible import bounded


class PartitionState(str, Enum):
    """States of a partition."""

    WAITING = "waiting"
    RUNNING = "running"
    PROVED = "proved"
    FAILED = "failed"


@dataclass(frozen=True)
class PartitionView:
    """What is known of a partition. Times are seconds."""

    name: str
    state: PartitionState
    needs: list[str]
    """Names of the partitions whose proofs it needs, in a job that ends in one proof."""
    stage: str | None = None
    """What is done with it, while it is running."""
    worker: str | None = None
    """The prover whose proof counted, or the worker that is at it."""
    faults: int = 0
    """How often something went wrong with it: bad proofs, faults of a device, lost workers."""
    error: str | None = None
    """Why it failed, or what went wrong last."""
    synthesise_seconds: float | None = None
    prove_seconds: float | None = None
    verify_seconds: float | None = None


_TIMES = ("synthesise_seconds", "prove_seconds", "verify_seconds")
_STATES = {
    "waiting": PartitionState.WAITING,
    "proved": PartitionState.PROVED,
    "resumed": PartitionState.PROVED,
    "failed": PartitionState.FAILED,
}
"""States of partitions, by their status in a report."""


def partition_views(path: Path) -> list[PartitionView]:
    """The partitions of the run at `path`, in the order of its plan. Needs no lock.

    While a session is at work its journal and status count, and after its end the report does, too. Raises UsageError
    for a folder that is no run, InputError or FormatError for damaged files.
    """
    require_run(path)
    with Folder.open(path) as folder:
        plan = read_record(folder)["partitions"]
        status = read_status(path) if folder.has(FILE) else None  # a young session has none
        has_report = folder.has(REPORT)
    views = {item["name"]: PartitionView(item["name"], PartitionState.WAITING, item.get("needs", [])) for item in plan}
    _apply_journal(views, path)
    if status is not None and status["status"] == "running":
        _apply_status(views, status)
    elif has_report:
        _apply_report(views, read_report(path))
    return list(views.values())


def _apply_journal(views: dict[str, PartitionView], path: Path) -> None:
    with suppress(InputError):  # there is none before the first session
        for event in read_journal(path):
            view = views.get(str(event.get("partition")))
            if view is None:
                continue
            if event.get("event") == "proved":
                times: dict[str, Any] = {name: _number(event.get(name)) for name in _TIMES}
                worker = str(event.get("worker"))
                views[view.name] = replace(view, state=PartitionState.PROVED, worker=worker, error=None, **times)
            elif event.get("event") in TROUBLE:
                state = PartitionState.FAILED if event["event"] == "failed" else PartitionState.WAITING
                reason = bounded(str(event.get("reason", event["event"])), MAX_TEXT)
                views[view.name] = replace(view, state=state, error=reason, faults=view.faults + 1)


def _apply_report(views: dict[str, PartitionView], report: dict[str, Any]) -> None:
    for told in report["partitions"]:
        view = views.get(told["name"])
        if view is None:
            continue
        state = _STATES.get(told["status"], PartitionState.WAITING)
        error = told.get("error") or (view.error if state is not PartitionState.PROVED else None)
        times = {name: told[name] for name in _TIMES} if told["status"] == "proved" else {}
        views[view.name] = replace(view, state=state, error=error, worker=told.get("worker") or view.worker, **times)


def _apply_status(views: dict[str, PartitionView], status: dict[str, Any]) -> None:
    for worker in status["workers"]:
        for name, stage in worker["tasks"]:
            view = views.get(name)
            if view is not None and view.state is PartitionState.WAITING:
                at = str(worker.get("id"))
                views[name] = replace(view, state=PartitionState.RUNNING, stage=bounded(str(stage), 100), worker=at)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
