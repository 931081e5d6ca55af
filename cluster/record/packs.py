"""Many small files of a run in one: to make a file and sync it costs more than to verify a short proof.

    partitions/<number>.pack    {"format": "distprove.pack", "version": 1, "files": {name: content}}

Each content is what would be in a file of its own, with its own checksum. A pack that cannot be read holds nothing:
what was in it is proven again. Of two packs with a file of one name the later one counts. A file without content says
that those before it are discarded. Somebody else may have laid a pack: it is read within `MAX_PACK` bytes, and only the
files that are asked for are kept of it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from distprove.errors import FormatError, InputError
from distprove.formats import canonical
from distprove.formats.folder import Folder
from distprove.formats.names import is_name
from distprove.proof import check_fields

FORMAT = "distprove.pack"
VERSION = 1
MAX_PACK = 1 << 26
MAX_FILE = 1 << 16
"""Bytes of a file that is packed, at most: a larger one is worth a file of its own."""
LEAST = 8
"""Files from which a pack is worth it."""
_MOST = 512
"""Files in a pack, so that it stays below `MAX_PACK`."""
_NAME = re.compile(r"[0-9]{8}\.pack")
_LAST = 10**8 - 1


@dataclass
class Packed:
    """Content of a run's packs: files by name, and why each pack that could not be read could not."""

    files: dict[str, bytes] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)


class Packs:
    """The packs of a folder. Any thread may write."""

    def __init__(self, folder: Folder, *, is_new: bool = False) -> None:
        """`is_new`: the folder is empty."""
        self._folder = folder
        names = [] if is_new else folder.names()
        last = max((int(name[:8]) for name in names if _NAME.fullmatch(name)), default=0)
        self._numbers = itertools.count(last + 1)

    def write(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Keep files, by name: the small ones together, if they are enough. They are on disk when this returns. A large
        one is written before the next one is asked for.

        Raises InputError where somebody laid a pack with so high a number that none can follow it.
        """
        small: list[tuple[str, bytes]] = []
        alone = 0
        for name, content in files:
            if len(content) <= MAX_FILE:
                small.append((name, content))
            else:
                self._folder.write(own_file(name), content, settled=False)
                alone += 1
        if len(small) < LEAST:
            for name, content in small:
                self._folder.write(own_file(name), content, settled=False)
                alone += 1
            small = []
        if alone:
            self._folder.settle()
        self._pack(small)

    def discard(self, names: Iterable[str]) -> None:
        """Have the files of these names, in the packs so far, count no more. Raises InputError as `write` does."""
        self._pack([(name, b"") for name in names])

    def _pack(self, small: Sequence[tuple[str, bytes]]) -> None:
        for begin in range(0, len(small), _MOST):
            pack = {"format": FORMAT, "version": VERSION, "files": dict(small[begin : begin + _MOST])}
            if (number := next(self._numbers)) > _LAST:
                raise InputError(f"{self._folder.path / f'{_LAST}.pack'}: no pack can follow it; remove it")
            self._folder.write(f"{number:08}.pack", canonical.encode(pack))

    def read(self, wanted: Container[str]) -> Packed:
        """The `wanted` files of all packs."""
        found = Packed()
        for name in sorted(name for name in self._folder.names() if name.endswith(".pack")):
            try:
                files = self._files(name)
            except InputError as error:
                found.damaged[name] = str(error)
                continue
            found.files |= {
                key: data
                for key, data in files.items()
                if key in wanted and isinstance(data, bytes) and len(data) <= MAX_FILE
            }
        found.files = {key: data for key, data in found.files.items() if data}
        return found

    def _files(self, name: str) -> dict[str, object]:
        """Raises InputError, also for a pack whose name would not let later ones follow it."""
        path = str(self._folder.path / name)
        if not _NAME.fullmatch(name):
            raise InputError(f"{path}: no number of a pack")
        content = canonical.decode(self._folder.read(name, MAX_PACK), path)
        check_fields(content, {"format": str, "version": int, "files": dict}, path)
        if (content["format"], content["version"]) != (FORMAT, VERSION):
            raise FormatError(f"{path}: not a pack of this version")
        files: dict[str, object] = content["files"]
        return files


def own_file(name: str) -> str:
    """The name of a file that is not in a pack."""
    if not is_name(name):
        raise ValueError("not a partition name")
    return f"{name}.msgpack"
