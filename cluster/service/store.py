"""The service's books on disk: a row for each job, in SQLite.

    state.db    jobs: a row each; inputs: those that were given as values, until their job is over; runs: of short jobs,
                what their runs' folders must hold, which are not synced; clients: names of those whose jobs they are,
                but the owner's; meta: the secret key of the digests

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from actors import patience
from cluster.service.views import JobState, JobView, Priority
from distprove.errors import ResourceError, UsageError
from distprove.formats import canonical

FILE = "state.db"
VERSION = 1
BOOT = Path("/proc/sys/kernel/random/boot_id")

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
_SINCE = (
    "CREATE TABLE IF NOT EXISTS runs (seq INTEGER PRIMARY KEY, content BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS clients (seq INTEGER PRIMARY KEY, name TEXT NOT NULL)",
)
"""What was added to the version without a change for who does not know it."""


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
    client: str = ""
    """The name of whoever submitted it; "" for the owner of the service."""


P = TypeVar("P", "Promise", None)
_Write = tuple[str, Sequence[Any]]
"""A statement and its values."""


@dataclass
class Promise:
    """What was asked to be written is in a transaction to come."""

    over: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def wait(self) -> None:
        """Wait until it is on disk. Raises ResourceError."""
        self.over.wait()
        if self.error is not None:
            raise ResourceError(f"the service cannot write its books: {self.error}")


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
        self._waiting: list[Promise] = []
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
        execute("PRAGMA cache_size = -256")  # KiB; with its own 2 MiB it is no faster
        execute("PRAGMA synchronous = FULL")  # a write that was waited for survives a power cut
        version = execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            self._database.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            execute("INSERT INTO meta VALUES ('key', ?)", (secrets.token_bytes(32),))
        elif version != VERSION:
            raise UsageError(f"{path}: of version {version}, and this distprove reads {VERSION}")
        for statement in _SINCE:
            execute(statement)

    # -- reading, at the start --------------------------------------------------------------------------------------

    def key(self) -> bytes:
        """The secret key of the digests."""
        found: bytes = self._database.execute("SELECT value FROM meta WHERE name = 'key'").fetchone()[0]
        return found

    def rows(self) -> list[Row]:
        """All jobs, oldest first."""
        columns = "seq, digest, record, name"
        query = f"SELECT {columns}, {', '.join(_COLUMNS)} FROM jobs LEFT JOIN clients USING (seq) ORDER BY seq"
        return [
            Row(seq, digest, json.loads(record), _view(dict(zip(_COLUMNS, values, strict=True))), name or "")
            for seq, digest, record, name, *values in self._database.execute(query)
        ]

    def inputs(self, seq: int) -> list[bytes]:
        """Contents of the inputs that were given as values, in order."""
        found = self._database.execute("SELECT content FROM inputs WHERE seq = ? ORDER BY place", (seq,))
        return [content for (content,) in found]

    def of_another_boot(self) -> bool:
        """Whether the machine was started anew since this was asked last, by any service: what was not synced may be
        gone. So it is held to be where that cannot be told."""
        found = self._database.execute("SELECT value FROM meta WHERE name = 'boot'").fetchone()
        try:
            now = BOOT.read_bytes()
        except OSError:
            return True
        self._database.execute("INSERT OR REPLACE INTO meta VALUES ('boot', ?)", (now,))
        return found is None or found[0] != now

    def runs(self) -> Iterator[tuple[int, dict[str, bytes]]]:
        """What the runs of short jobs must hold, files by name, with the jobs' numbers."""
        for seq, content in self._database.execute("SELECT seq, content FROM runs ORDER BY seq"):
            yield seq, canonical.decode(content, FILE)

    # -- writing ----------------------------------------------------------------------------------------------------

    def insert(self, new: Iterable[tuple[Row, Sequence[bytes]]]) -> None:
        """Keep new jobs, each with its inputs, all or none; they are on disk when this returns. Raises
        ResourceError."""
        writes: list[_Write] = []
        for row, inputs in new:
            writes += (
                ("INSERT INTO inputs VALUES (?, ?, ?)", (row.seq, n, content)) for n, content in enumerate(inputs)
            )
            writes.append((_INSERT, (row.seq, row.digest, json.dumps(row.record), *_values(row.view))))
            if row.client:
                writes.append(("INSERT INTO clients VALUES (?, ?)", (row.seq, row.client)))
        if writes:
            self._submit(writes, Promise()).wait()

    def save(self, row: Row) -> None:
        """Write what is known of a job, soon. Inputs of one that is over are deleted."""
        self._submit(_updates(row))

    def promise(self, row: Row) -> Promise:
        """Write what is known of a job, at once, for somebody who waits for it."""
        return self._submit(_updates(row), Promise())

    def save_ended(self, ended: Iterable[tuple[Row, Mapping[str, bytes]]]) -> None:
        """Write what is known of jobs that are over, and the files that their runs must hold; all is on disk when this
        returns. Raises ResourceError."""
        writes: list[_Write] = []
        for row, files in ended:
            writes += _updates(row)
            writes.append(("INSERT OR REPLACE INTO runs VALUES (?, ?)", (row.seq, canonical.encode(dict(files)))))
        if writes:
            self._submit(writes, Promise()).wait()

    def forget(self, rows: Iterable[Row]) -> None:
        """Delete jobs."""
        numbers = [(row.seq,) for row in rows]
        self._submit(
            [(f"DELETE FROM {table} WHERE seq = ?", seq) for table in ("jobs", "runs", "clients") for seq in numbers]
        )

    def close(self) -> None:
        """Write what waits, and close the database, which removes its log."""
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()
        self._database.close()

    def _submit(self, writes: list[_Write], promise: P = None) -> P:  # type: ignore[assignment]
        """Have these written in one transaction; at once where it is promised."""
        with self._changed:
            if promise is not None or not self._writes:
                self._changed.notify()
            self._writes += writes
            if promise is not None:
                self._waiting.append(promise)
        return promise

    def _run(self) -> None:
        scrubbed = time.monotonic()
        while True:
            with self._changed:
                while not self._writes and not self._over:
                    due = scrubbed + patience.STORE_SCRUB - time.monotonic() if self._dirty else None
                    if due is not None and due <= 0:
                        break
                    self._changed.wait(due)
                if self._writes and not self._over and not self._waiting:
                    self._changed.wait(patience.STORE_LINGER)
                writes, self._writes = self._writes, []
                waiting, self._waiting = self._waiting, []
            if writes:
                self._commit(writes, waiting)
            if self._dirty and time.monotonic() >= scrubbed + patience.STORE_SCRUB:
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._dirty, scrubbed = False, time.monotonic()
            with self._changed:
                if self._over and not self._writes:
                    return

    def _commit(self, writes: list[_Write], waiting: list[Promise]) -> None:
        error: Exception | None = None
        try:
            self._database.execute("BEGIN IMMEDIATE")
            for statement, values in writes:
                self._database.execute(statement, values)
                self._dirty |= statement == _SCRUBS
            self._database.execute("COMMIT")
        except Exception as caught:  # whatever it is, who waits must hear of it
            error = caught
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
        for each in waiting:
            each.error = error
            each.over.set()


_INSERT = (
    f"INSERT INTO jobs (seq, digest, record, {', '.join(_COLUMNS)}) VALUES ({', '.join('?' * (len(_COLUMNS) + 3))})"
)
_UPDATE = f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in _COLUMNS)} WHERE seq = ?"
_UPDATE_OVER = _UPDATE.replace("SET ", "SET record = '{}', ", 1)
"""The update of a job that is over. Nobody asks for its record again, which may name a million files and is emptied."""


_SCRUBS = "DELETE FROM inputs WHERE seq = ?"


def has_values(record: Mapping[str, Any]) -> bool:
    """Whether inputs of a job were given as values."""
    lists = [value for value in record.get("options", {}).values() if isinstance(value, list)]
    return any(isinstance(item, dict) and item.get("path") == "" for items in lists for item in items)


def _updates(row: Row) -> list[_Write]:
    scrubs = row.view.state.final and has_values(row.record)
    update = _UPDATE_OVER if row.view.state.final else _UPDATE
    return [*([(_SCRUBS, (row.seq,))] if scrubs else []), (update, (*_values(row.view), row.seq))]


def _values(view: JobView) -> list[Any]:
    facts = vars(view)
    return [_text(value) if isinstance(value := facts[name], str) else value for name in _COLUMNS]


def _text(value: str) -> str:
    """The text, or value of an enumeration, as the database takes it: an error may name a file whose name is not UTF-8,
    and what could not be written would be undone together with what others wrote beside it."""
    text = str(value.value) if isinstance(value, (JobState, Priority)) else value
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _view(row: dict[str, Any]) -> JobView:
    cold = None if row["cold"] is None else bool(row["cold"])
    found = {"state": JobState(row["state"]), "priority": Priority(row["priority"]), "cold": cold}
    return JobView(**{**row, **found, "cancelling": bool(row["cancelling"])})
