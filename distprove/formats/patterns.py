"""Finds the files that a pattern of names matches, and looks at no more of a file system than a job can need.

Python's own `glob` has no bound: `*/../*/../*` looks at a folder again for each of its entries, and `**` goes round for
ever where links lead back, as in /proc. Whoever may submit jobs to a service names patterns, so each look counts.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import translate
from glob import has_magic
from pathlib import Path

from distprove.errors import InputError
from distprove.formats.files import FILE, FOLDER, kind_at

MAX_LOOKS = 1 << 22
"""Entries and folders that one job may have looked at: four for each input that it may have."""
MAX_PARTS = 128


class Search:
    """Finds files for one job, whose looks are counted together."""

    def __init__(self) -> None:
        self._left = MAX_LOOKS
        self.left_out: list[str] = []
        """What was met and not looked into: folders that may not be read, links to nothing."""

    def entries(self, folder: Path | str) -> Iterator[os.DirEntry[str]]:
        """The entries of a folder. Raises OSError, and InputError when the job has looked at too many."""
        self._look()
        with os.scandir(folder) as found:
            for entry in found:
                self._look()
                yield entry

    def matches(self, base: Path, pattern: str) -> Iterator[Path]:
        """What a pattern matches, relative to `base`, as for Python's `glob` with `**`: only a dot matches a leading
        dot, and what may not be read matches nothing. A folder counts once for `**`, however many links lead to it.
        Raises InputError, and OSError where a disk fails."""
        path = Path(pattern)
        parts = path.parts[1:] if path.is_absolute() else path.parts
        if len(parts) > MAX_PARTS:
            raise InputError(f"a pattern has at most {MAX_PARTS} parts, not {len(parts)}")
        found: Iterable[str] = [path.anchor or str(base)]
        for part in parts if parts[-1:] != ("**",) else (*parts, "*"):
            found = self._below(found) if part == "**" else self._named(found, part)
        return map(Path, found)

    def _named(self, folders: Iterable[str], part: str) -> Iterator[str]:
        """What is named like one part of a pattern in each of the folders."""
        match = re.compile(translate(part)).match if has_magic(part) else None
        for folder in folders:
            if match is None:
                self._look()
                yield os.path.join(folder, part)
                continue
            for entry in self._readable(folder):
                if match(entry.name) and (part[0] == "." or entry.name[0] != "."):
                    yield entry.path

    def _below(self, folders: Iterable[str]) -> Iterator[str]:
        """The folders, and all that are in them at any depth."""
        seen, waiting = set[tuple[int, int]](), [iter(folders)]
        while waiting:
            folder = next(waiting[-1], None)
            if folder is None:
                waiting.pop()
                continue
            try:
                facts = os.stat(folder)
            except OSError:
                continue
            if (facts.st_dev, facts.st_ino) not in seen:
                seen.add((facts.st_dev, facts.st_ino))
                yield folder
                waiting.append(e.path for e in self._readable(folder) if e.name[0] != "." and self._leads(e))

    def _readable(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            yield from self.entries(folder)
        except PermissionError:
            self.left_out.append(f"{folder} (a folder that may not be read)")
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # no folder
                raise

    def _leads(self, entry: os.DirEntry[str]) -> bool:
        """Whether an entry is, or leads to, a folder."""
        if not entry.is_symlink():
            return entry.is_dir()
        kind = kind_at(entry.path)
        if kind not in (FILE, FOLDER):
            self.left_out.append(f"{entry.path} ({kind})")
        return kind == FOLDER

    def _look(self) -> None:
        if not self._left:
            raise InputError("too many files and folders to look at; name a smaller folder, or a narrower pattern")
        self._left -= 1
