"""Sources that a compiler is given: a file of the kernels or generated text, made one text with all its headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kernels.errors import BackendError

PACKAGE = Path(__file__).resolve().parent
SOURCES = PACKAGE / "cuda" / "src"
HEADERS = PACKAGE / "include"


_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"\s*$')
_LINE = re.compile(r'^\s*#\s*line\s+(\d+)\s+"([^"]+)"\s*$')
_PRAGMA_ONCE = re.compile(r"^\s*#\s*pragma\s+once\s*$")


@dataclass(frozen=True)
class KernelSource:
    """One unit of compilation: a file of `kernels/cuda/src`, or generated text, with preprocessor definitions in
    order."""

    name: str
    """File name without `.cu`, or the name of generated text."""
    defines: tuple[tuple[str, str], ...] = ()
    text: str = field(default="", repr=False)
    """Generated source in place of the file, with includes resolved as in a file; empty for a file."""

    @property
    def title(self) -> str:
        """Name shown to people, such as `ntt(FIELD=Bn254Fr)`."""
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.defines)})"


@dataclass(frozen=True)
class _Include:
    """A quoted include: the file that is meant, and what names the line behind it."""

    target: Path
    behind: str


_Piece = str | _Include
"""Lines of a text as they are, or an include."""


def flatten(source: KernelSource) -> str:
    """Return the text of a source, `kernels/cuda/src/<name>.cu` or generated, with every quoted include expanded once.

    Raises BackendError.
    """
    path = SOURCES / f"{source.name}.cu"
    if not source.text and not path.is_file():
        raise BackendError(f"there is no kernel source {path.name!r}")
    seen = {path}
    out: list[str] = []

    def emit(pieces: Iterable[_Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, str):
                out.append(piece)
                continue
            if piece.target not in seen:
                seen.add(piece.target)
                emit(_pieces_of(piece.target))
            out.append(piece.behind)

    emit(_cut(path, source.text) if source.text else _pieces_of(path))
    return "\n".join(out) + "\n"


@cache
def _pieces_of(path: Path) -> tuple[_Piece, ...]:
    """The pieces of a file, read once in a process: a prover's sources include the same headers dozens of times."""
    return tuple(_cut(path, path.read_text(encoding="utf-8")))


def _cut(path: Path, text: str) -> Iterator[_Piece]:
    """The pieces of a text that stands at `path`."""
    shown, number = path.relative_to(PACKAGE).as_posix(), 0
    lines = [f'#line 1 "{shown}"']
    for line in text.splitlines():
        number += 1
        if "#" not in line:
            lines.append(line)
            continue
        if _PRAGMA_ONCE.match(line):
            lines.append("")
            continue
        if renamed := _LINE.match(line):  # generated text names the origin of its parts
            number, shown = int(renamed[1]) - 1, renamed[2]
        include = _INCLUDE.match(line)
        if include is None:
            lines.append(line)
            continue
        target = next((p for p in (path.parent / include[1], HEADERS / include[1]) if p.is_file()), None)
        if target is None:
            raise BackendError(f"{shown}:{number} includes {include[1]!r}, which is in no header folder")
        if lines:
            yield "\n".join(lines)
            lines = []
        yield _Include(target.resolve(), f'#line {number + 1} "{shown}"')
    if lines:
        yield "\n".join(lines)
