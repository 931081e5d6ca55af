"""Many small files of a run in one: to make a file and sync it costs more than to verify a short proof.

    partitions/<number>.pack    {"format": "distprove.pack", "version": 1, "files": {name: content}}

Each content is what would be in a file of its own, with its own checksum. A pack that cannot be read holds nothing:
what was in it is proven again. Of two packs with a file of one name the later one counts.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from pathlib import Path

from distprove import canonical
from distprove.errors import InputError
from distprove.files import read_bounded, write_atomically
from distprove.proof import check_fields

FORMAT = "distprove.pack"
VERSION = 1
MAX_PACK = 1 << 28
LEAST = 8
"""Files from which a pack is worth it."""


class Packs:
    """The packs of a folder. Any thread may write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        last = max((int(path.stem) for path in self._paths()), default=0)
        self._numbers = itertools.count(last + 1)

    def write(self, files: dict[str, bytes]) -> None:
        """Keep files, by name; they are on disk when this returns."""
        content = {"format": FORMAT, "version": VERSION, "files": files}
        write_atomically(self._folder / f"{next(self._numbers):08}.pack", canonical.encode(content))

    @cached_property
    def found(self) -> dict[str, bytes]:
        """What was there when this was first asked for, by name."""
        files: dict[str, bytes] = {}
        for path in sorted(self._paths()):
            try:
                content = canonical.decode(read_bounded(path, MAX_PACK), str(path))
                check_fields(content, {"format": str, "version": int, "files": dict}, str(path))
            except InputError:
                continue
            if content["format"] == FORMAT and content["version"] == VERSION:
                files |= {name: data for name, data in content["files"].items() if isinstance(data, bytes)}
        return files

    def _paths(self) -> list[Path]:
        return [path for path in self._folder.glob("*.pack") if path.stem.isascii() and path.stem.isdigit()]
