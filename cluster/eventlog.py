"""What happens to jobs, as events in the log: for logs as JSON, which are collected from drivers and services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cluster.record.story import TROUBLE
from cluster.scheduler.jobs import Progress
from cluster.service.views import JobState, JobView
from distprove.host.log import log_event, logger, wants_json

log = logger("distprove.job")

FREQUENT = "stage"
"""The event that comes ten times a second, and says nothing that others do not."""


def log_progress(job: str, event: Progress) -> None:
    """Log an event of a job's driver, where logs are JSON."""
    if event.event == FREQUENT or not wants_json():
        return
    level = "WARNING" if event.event in TROUBLE else "INFO"
    log_event(
        log,
        event.event,
        level,
        job=job,
        partition=event.partition,
        worker=event.worker,
        gpu=",".join(event.gpus),
        stage=event.stage,
        detail=event.detail,
        done=event.done,
        failed=event.failed,
        total=event.total,
    )


def harmless(progress: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """`progress`, which is not called again once it has failed: a display or a log does not end a job."""
    failed = False

    def told(event: Progress) -> None:
        nonlocal failed
        if not failed:
            try:
                progress(event)
            except Exception:
                failed = True

    return told


def log_report(run: Path, report: Mapping[str, Any]) -> None:
    """Log how a run ended, where logs are JSON."""
    if wants_json():
        seconds = round(float(report["wall_seconds"]), 3)
        facts: dict[str, Any] = {"seconds": seconds, "digest": report.get("job_digest"), "error": report.get("error")}
        log_event(log, "ended", job=run.name, run=str(run), status=report["status"], **facts)


def job_logger() -> Callable[[JobView], None]:
    """Make a listener of a service that logs each change of a job's state."""
    states: dict[str, JobState] = {}

    def changed(view: JobView) -> None:
        if states.get(view.id) is view.state:
            return
        states[view.id] = view.state
        if view.state.final:
            del states[view.id]
        level = "WARNING" if view.state is JobState.FAILED else "INFO"
        facts = {"priority": view.priority.value, "attempt": view.attempts, "error": view.error}
        log_event(log, f"job-{view.state.value}", level, job=view.id, system=view.system, **facts)

    return changed
