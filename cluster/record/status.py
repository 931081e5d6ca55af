"""State of a run, written about once a second for `distprove top`: status.json in the run's folder.

    {"format": "distprove.status", "version": 1, "time", "began", "status", "error", "total", "done", "failed",
     "proved", "retries", "rate", "stages": {stage: count}, "workers": [worker...], "nodes": [node...]}
    worker = {"id", "role", "node", "status", "device", "gpus", "partitions", "tasks": [[partition, stage]...]}
    node = {"node", "limits", "threads", "memory", "cpu", "memory_used", "memory_leased", "leases", "queue"}

`time` and `began` are seconds since the epoch, `rate` partitions a second over the last minute. Public facts only. The
file is renamed into place but not synced: one that a power cut takes is not missed.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from actors import patience
from cluster.record.report import Report
from distprove.formats import jsontext
from distprove.formats.folder import Folder
from distprove.formats.shapes import NUMBER, fits

FORMAT = "distprove.status"
VERSION = 1
FILE = "status.json"
MAX_FILE = 1 << 24


class StatusFile:
    """Keeps status.json up to date on a thread of its own, so that no disk or node holds the driver up.

    The driver gives what it knows with `post`; only the newest counts. The thread starts with the first view that is
    taken, when the job is old enough: one that is over before needs none. Use as a context manager.
    """

    def __init__(self, folder: Folder, governors: Callable[[], list[dict[str, Any]]]) -> None:
        """`governors`: what the nodes' governors report, as in report.json; asked on this object's thread."""
        self._folder = folder
        self._governors = governors
        self._nodes: list[dict[str, Any]] = []
        self._asked = float("-inf")
        self._posted: dict[str, Any] | None = None
        self._due = time.monotonic() + patience.STATUS_FILE / 2
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        """Made when it starts: one that does not would hold this object, and this object it, with all that the driver
        knows."""

    def post(self, glance: Callable[[], dict[str, Any]]) -> None:
        """Take the driver's view, if the last one is old enough."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + patience.STATUS_FILE / 2
            self._posted = glance()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="distprove-status", daemon=True)
                thread.start()
                self._thread = thread

    def finish(self, last: dict[str, Any]) -> None:
        """Write how the session ended, and nothing after that."""
        self._stop()
        self._write(last)

    def _run(self) -> None:
        while True:
            posted, self._posted = self._posted, None
            if posted is not None:
                self._ask()
                with contextlib.suppress(OSError):  # the run does not end because nobody can be told of it
                    self._write(posted)
            if self._over.wait(patience.STATUS_FILE):
                return

    def _ask(self) -> None:
        if time.monotonic() - self._asked >= patience.STATUS_NODES:
            self._nodes = [node_view(report) for report in self._governors()]
            self._asked = time.monotonic()

    def _write(self, view: dict[str, Any]) -> None:
        content = {"format": FORMAT, "version": VERSION, "time": round(time.time(), 3), **view, "nodes": self._nodes}
        self._folder.write(FILE, json.dumps(content).encode() + b"\n", durable=False)

    def _stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> StatusFile:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop()


def status_view(
    report: Report,
    stages: Mapping[str, int],
    *,
    rate: float | None = None,
    tasks: Mapping[str, list[list[str]]] | None = None,
) -> dict[str, Any]:
    """Content of status.json for a session. `stages` counts partitions by stage, or by status once it is over.

    `rate`: partitions a second, by default over the whole session. `tasks`: (partition, stage) by worker.
    """
    proved = sum(worker.partitions for worker in report.workers if worker.role == "prover")
    return {
        "began": report.started,
        "status": report.status,
        "error": report.error,
        "total": len(report.partitions),
        "done": sum(stages.get(name, 0) for name in ("done", "proved", "resumed")),
        "failed": stages.get("failed", 0),
        "proved": proved,
        "retries": report.counters.retries,
        "rate": proved / report.wall_seconds if rate is None and report.wall_seconds else rate or 0.0,
        "stages": dict(stages),
        "workers": [
            {
                "id": worker.id,
                "role": worker.role,
                "node": worker.facts.get("node", worker.node),
                "status": worker.status,
                "device": worker.facts.get("device"),
                "gpus": worker.facts.get("gpus", []),
                "partitions": worker.partitions,
                "tasks": (tasks or {}).get(worker.id, []),
            }
            for worker in report.workers
        ],
    }


def node_view(report: dict[str, Any]) -> dict[str, Any]:
    """The part of a governor's report that a live view shows: its limits, and its last sample."""
    samples = report.get("samples") or [{}]
    shown = {key: report.get(key) for key in ("node", "limits", "threads", "memory")}
    return shown | {key: samples[-1].get(key) for key in ("cpu", "memory_used", "memory_leased", "leases", "queue")}


def read_status(folder: Path) -> dict[str, Any]:
    """A run's status.json. Raises InputError or FormatError."""
    return jsontext.read_shaped(folder, FILE, MAX_FILE, _is_status, "a status")


_SHAPE = {
    **dict.fromkeys(("total", "done", "failed", "proved", "retries"), int),
    **dict.fromkeys(("time", "began", "rate"), NUMBER),
    "status": str,
    "stages": {str: int},
    "workers": [{"role": str, "tasks": [list], "gpus": list, "partitions": int}],
    "nodes": [dict],
}


def _is_status(content: Any) -> bool:
    """Whether the fields that readers rely on are there, and of their kinds."""
    if not fits(content, _SHAPE) or content.get("format") != FORMAT or content.get("version") != VERSION:
        return False
    return all(len(task) == 2 for worker in content["workers"] for task in worker["tasks"])
