"""Many small files of a run in one: to make a file and sync it costs more than to verify a short proof.

    partitions/<number>.pack    {"format": "distprove.pack", "version": 1, "files": {name: content}}

Each content is what would be in a file of its own, with its own checksum. A pack that cannot be read holds nothing:
what was in it is proven again. Of two packs with a file of one name the later one counts.
"""

from __future__ import annotations

import itertools
import re
from functools import cached_property

from distprove import canonical
from distprove.errors import InputError
from distprove.folder import Folder
from distprove.proof import check_fields

FORMAT = "distprove.pack"
VERSION = 1
MAX_PACK = 1 << 28
LEAST = 8
"""Files from which a pack is worth it."""
_NAME = re.compile(r"[0-9]{8}\.pack")


class Packs:
    """The packs of a folder. Any thread may write."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        last = max((int(name.removesuffix(".pack")) for name in self._names()), default=0)
        self._numbers = itertools.count(last + 1)

    def write(self, files: dict[str, bytes]) -> None:
        """Keep files, by name; they are on disk when this returns."""
        content = {"format": FORMAT, "version": VERSION, "files": files}
        self._folder.write(f"{next(self._numbers):08}.pack", canonical.encode(content))

    @cached_property
    def found(self) -> dict[str, bytes]:
        """What was there when this was first asked for, by name."""
        files: dict[str, bytes] = {}
        for name in self._names():
            try:
                content = canonical.decode(self._folder.read(name, MAX_PACK), name)
                check_fields(content, {"format": str, "version": int, "files": dict}, name)
            except InputError:
                continue
            if content["format"] == FORMAT and content["version"] == VERSION:
                files |= {name: data for name, data in content["files"].items() if isinstance(data, bytes)}
        return files

    def _names(self) -> list[str]:
        return sorted(name for name in self._folder.names() if _NAME.fullmatch(name))
