"""The journal of a run, journal.jsonl: one event a line, appended. It tells the story; partition files are the state.

It may come from somebody else, so that whoever reads it holds one line at a time, of a bounded length, from a file of a
bounded size. What is appended keeps to the same bounds, and never takes away what was there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from distprove.errors import FormatError, InputError, UsageError, typed
from distprove.formats import jsontext
from distprove.formats.folder import Folder
from distprove.formats.visible import bounded

JOURNAL = "journal.jsonl"
MAX_JOURNAL = 1 << 28
"""Bytes of a journal: more than a million events. Events beyond that are not noted."""
MAX_LINES = 1 << 21
"""Lines of a journal: it is full before, unless its lines are shorter than any that is written often."""
MAX_LINE = 1 << 16
"""Bytes of a line. Lines of ours stay far below, because of `MAX_TEXT`."""
MAX_TEXT = 1000
"""Characters of one text in an event, such as a reason; the middle of a longer one is left out."""

_LINE = json.JSONEncoder(separators=(",", ":")).encode
"""Encode one event. `json.dumps` would make a new encoder for each."""


class Journal:
    """A run's journal, open to append. Opening it cuts off a line that a crash left unfinished."""

    def __init__(self, folder: Folder) -> None:
        """Raises InputError for what is no file of ours, FormatError for one that is larger than a journal is."""
        path = self._path = folder.path / JOURNAL
        self._file: IO[bytes] = open(folder.open_in_place(JOURNAL, os.O_APPEND), "a+b")  # noqa: SIM115 - see close
        try:
            self._size = _checked_size(self._file, path)
            start = max(0, self._size - MAX_LINE)
            self._file.seek(start)
            last = self._file.read(MAX_LINE)
            whole = last.rfind(b"\n") + 1
            if not whole and start:
                raise _too_long(path)
            if whole != len(last):
                self._size = start + whole
                self._file.truncate(self._size)
                os.fsync(self._file.fileno())
            folder.sync()
        except BaseException:
            self.close()
            raise

    @property
    def is_empty(self) -> bool:
        return self._size == 0

    def note(self, event: str, *, sync: bool = True, **facts: Any) -> None:
        """Append one event, as `note_all` does."""
        self.note_all(event, [facts_json(facts)], sync=sync)

    def note_all(self, event: str, each: Iterable[str], *, sync: bool = True) -> None:
        """Append events of one kind, given by the JSON of their facts, with one call to the system.

        If `sync`, they are on disk when this returns, with all before them; otherwise they outlive this process, and a
        power cut once another event is synced. Events for which there is no room are left out.
        """
        room, lines = MAX_JOURNAL - self._size, []
        for line in lines_of(event, each):
            room -= len(line)
            if room < 0:
                break
            lines.append(line)
        try:
            self._size += self._file.write(b"".join(lines))
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise typed(error, self._path) from None

    def close(self) -> None:
        """Close the file. What a full disk had no room for is not written."""
        with suppress(OSError):
            self._file.close()


def facts_json(facts: Mapping[str, Any]) -> str:
    """The facts of an event as JSON, its texts bounded."""
    return _LINE({name: bounded(fact, MAX_TEXT) if isinstance(fact, str) else fact for name, fact in facts.items()})


def lines_of(event: str, each: Iterable[str]) -> Iterator[bytes]:
    """The lines of events of one kind that happen now, given by the JSON of their facts."""
    begin = _LINE({"time": round(time.time(), 6), "event": event})[:-1]
    for facts in each:
        yield f"{begin}{',' if len(facts) > 2 else ''}{facts[1:]}\n".encode()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The events of the run at `path`, oldest first; a torn last line is left out. Needs no lock.

    Raises InputError, and FormatError for a journal beyond the limits.
    """
    with Folder.open(path) as folder, open(folder.open_file(JOURNAL), "rb") as file:
        _checked_size(file, path / JOURNAL)
        yield from _events(file, path / JOURNAL)


def journal_tail(path: Path, nbytes: int) -> list[dict[str, Any]]:
    """The events in the last `nbytes` of a run's journal, oldest first; none where there is no journal yet."""
    try:
        with Folder.open(path) as folder, open(folder.open_file(JOURNAL), "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - nbytes)
            file.seek(start)
            if start:
                file.readline(nbytes)  # a line that begins before
            return list(_events(file, path / JOURNAL))
    except (OSError, UsageError, InputError):
        return []


def journal_lines(path: Path, after: int, most: int) -> tuple[list[str], int]:
    """Whole lines of a run's journal from byte `after` on, in up to `most` bytes, and where the next ones begin; none
    where there is no journal yet. Raises InputError for a place beyond its end."""
    try:
        folder = Folder.open(path)
        descriptor = folder.open_file(JOURNAL)
    except (UsageError, InputError):
        return [], after
    with folder, open(descriptor, "rb") as file:
        if not 0 <= after <= _checked_size(file, path / JOURNAL):
            raise InputError(f"{path / JOURNAL}: no line begins at byte {after}")
        file.seek(after)
        whole, ends, _ = file.read(max(most, MAX_LINE)).rpartition(b"\n")
    if not ends:
        return [], after
    return [line.decode("utf-8", "replace") for line in whole.split(b"\n")], after + len(whole) + 1


def _events(file: IO[bytes], path: Path) -> Iterator[dict[str, Any]]:
    for _ in range(MAX_LINES):
        line = file.readline(MAX_LINE)
        if not line.endswith(b"\n"):
            if len(line) == MAX_LINE:
                raise _too_long(path)
            return
        try:
            event = jsontext.loads_own(line, "journal")
        except (ValueError, FormatError):
            continue  # the disk's fault
        if isinstance(event, dict):
            yield event
    raise FormatError(f"{path}: more than {MAX_LINES} lines")


def _checked_size(file: IO[bytes], path: Path) -> int:
    size = os.fstat(file.fileno()).st_size
    if size > MAX_JOURNAL:
        raise FormatError(f"{path}: larger than {MAX_JOURNAL} bytes; {_WAY_ON}")
    return size


def _too_long(path: Path) -> FormatError:
    return FormatError(f"{path}: a line of more than {MAX_LINE} bytes; {_WAY_ON}")


_WAY_ON = "the run goes on without it if it is moved away"
