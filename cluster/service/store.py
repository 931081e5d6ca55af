"""The service's books on disk: a row for each job, in SQLite.

    state.db    jobs: a row each; inputs: those that were given as values, until their job is over; meta: the secret key
                of the digests

One thread writes. What several ask for at once is one transaction and one sync, so a promise costs its asker one sync's
time and the others nothing. What nobody waits for is written with the next one, or a moment later: after a crash such
rows are behind, and what the runs' folders hold makes up for it.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.service.views import JobState, JobView, Priority
from distprove.errors import ResourceError, UsageError

FILE = "state.db"
VERSION = 1
LINGER = 0.05
"""Seconds for which a write that nobody waits for may wait for others."""
SCRUB = 2.0
"""Seconds between two clearings of the write-ahead log, which still has the inputs that were deleted."""

_COLUMNS = (
    *("id", "state", "priority", "system", "title", "run", "partitions", "done", "submitted", "started"),
    *("first_proof", "ended", "cold", "attempts", "exit_code", "error", "error_kind", "cancelling"),
)
"""Columns that are fields of a `JobView` of the same name."""
_SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE jobs (seq INTEGER PRIMARY KEY, digest BLOB NOT NULL, record TEXT NOT NULL, {", ".join(_COLUMNS)});
CREATE UNIQUE INDEX ids ON jobs (id);
CREATE TABLE inputs (seq INTEGER, place INTEGER, content BLOB NOT NULL, PRIMARY KEY (seq, place));
PRAGMA user_version = {VERSION};
"""


@dataclass
class Row:
    """A job as it is kept."""

    seq: int
    """Number of the job: later ones have higher numbers."""
    digest: bytes
    """Digest of what was asked for."""
    record: dict[str, Any]
    """The job's record, as in job.json."""
    view: JobView


@dataclass
class _Write:
    statement: str
    values: Sequence[Any]
    waits: bool
    over: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None


class Store:
    """The open database. Any thread may write; only its maker reads, before anybody writes."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError for a database of another version, ResourceError where there can be none."""
        path = folder / FILE
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._open(path)
        except sqlite3.DatabaseError as error:
            raise ResourceError(f"{path}: {error}") from None
        self._changed = threading.Condition()
        self._writes: list[_Write] = []
        self._dirty = False
        """Whether inputs were deleted that the log may still have."""
        self._over = False
        self._thread = threading.Thread(target=self._run, name="distprove-store", daemon=True)
        self._thread.start()

    def _open(self, path: Path) -> None:
        execute = self._database.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")  # nobody else has it open: no lock for each transaction
        execute("PRAGMA secure_delete = ON")  # overwrites what is deleted: inputs are secret
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")  # a write that was waited for survives a power cut
        version = execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            self._database.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            execute("INSERT INTO meta VALUES ('key', ?)", (secrets.token_bytes(32),))
        elif version != VERSION:
            raise UsageError(f"{path}: of version {version}, and this distprove reads {VERSION}")

    # -- reading, at the start --------------------------------------------------------------------------------------

    def key(self) -> bytes:
        """The secret key of the digests."""
        found: bytes = self._database.execute("SELECT value FROM meta WHERE name = 'key'").fetchone()[0]
        return found

    def rows(self) -> list[Row]:
        """All jobs, oldest first."""
        query = f"SELECT seq, digest, record, {', '.join(_COLUMNS)} FROM jobs ORDER BY seq"
        return [
            Row(seq, digest, json.loads(record), _view(dict(zip(_COLUMNS, values, strict=True))))
            for seq, digest, record, *values in self._database.execute(query)
        ]

    def inputs(self, seq: int) -> list[bytes]:
        """Contents of the inputs that were given as values, in order."""
        found = self._database.execute("SELECT content FROM inputs WHERE seq = ? ORDER BY place", (seq,))
        return [content for (content,) in found]

    # -- writing ----------------------------------------------------------------------------------------------------

    def insert(self, row: Row, inputs: Sequence[bytes]) -> None:
        """Keep a new job, with its inputs; it is on disk when this returns. Raises ResourceError."""
        places = ", ".join("?" * (len(_COLUMNS) + 3))
        values = (row.seq, row.digest, json.dumps(row.record), *_values(row.view))
        writes = [_Write("INSERT INTO inputs VALUES (?, ?, ?)", (row.seq, n, c), False) for n, c in enumerate(inputs)]
        self._submit(
            [
                *writes,
                _Write(
                    f"INSERT INTO jobs (seq, digest, record, {', '.join(_COLUMNS)}) VALUES ({places})", values, True
                ),
            ]
        )

    def save(self, row: Row, *, wait: bool = False) -> None:
        """Write what is known of a job; `wait` until it is on disk. Inputs of one that is over are deleted."""
        writes = [_Write(_UPDATE, (*_values(row.view), row.seq), wait)]
        if row.view.state.final:
            writes.insert(0, _Write("DELETE FROM inputs WHERE seq = ?", (row.seq,), False))
        self._submit(writes)

    def forget(self, rows: Iterable[Row]) -> None:
        """Delete jobs."""
        self._submit([_Write("DELETE FROM jobs WHERE seq = ?", (row.seq,), False) for row in rows])

    def close(self) -> None:
        """Write what waits, and close the database, which removes its log."""
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()
        self._database.close()

    def _submit(self, writes: list[_Write]) -> None:
        waits = bool(writes) and writes[-1].waits
        with self._changed:
            if waits or not self._writes:
                self._changed.notify()
            self._writes += writes
        if waits:
            writes[-1].over.wait()
            if writes[-1].error is not None:
                raise ResourceError(f"the service cannot write its books: {writes[-1].error}")

    def _run(self) -> None:
        scrubbed = time.monotonic()
        while True:
            with self._changed:
                while not self._writes and not self._over:
                    due = scrubbed + SCRUB - time.monotonic() if self._dirty else None
                    if due is not None and due <= 0:
                        break
                    self._changed.wait(due)
                if self._writes and not self._over and not any(write.waits for write in self._writes):
                    self._changed.wait(LINGER)
                writes, self._writes = self._writes, []
            if writes:
                self._commit(writes)
            if self._dirty and time.monotonic() >= scrubbed + SCRUB:
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._dirty, scrubbed = False, time.monotonic()
            with self._changed:
                if self._over and not self._writes:
                    return

    def _commit(self, writes: list[_Write]) -> None:
        error: Exception | None = None
        try:
            self._database.execute("BEGIN IMMEDIATE")
            for write in writes:
                self._database.execute(write.statement, write.values)
                self._dirty |= write.statement.startswith("DELETE FROM inputs")
            self._database.execute("COMMIT")
        except Exception as caught:  # whatever it is, who waits must hear of it
            error = caught
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
        for write in writes:
            write.error = error
            write.over.set()


_UPDATE = f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in _COLUMNS)} WHERE seq = ?"


def _values(view: JobView) -> list[Any]:
    values = [getattr(view, name) for name in _COLUMNS]
    return [_text(value) if isinstance(value, str) else value for value in values]


def _text(value: str) -> str:
    """The text, or value of an enumeration, as the database takes it: an error may name a file whose name is not UTF-8,
    and what could not be written would be undone together with what others wrote beside it."""
    text = str(value.value) if isinstance(value, (JobState, Priority)) else value
    return text.encode(errors="backslashreplace").decode()


def _view(row: dict[str, Any]) -> JobView:
    cold = None if row["cold"] is None else bool(row["cold"])
    found = {"state": JobState(row["state"]), "priority": Priority(row["priority"]), "cold": cold}
    return JobView(**{**row, **found, "cancelling": bool(row["cancelling"])})
