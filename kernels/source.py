"""Sources that a compiler is given: a file of the kernels or generated text, made one text with all its headers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
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


def flatten(source: KernelSource) -> str:
    """Return the text of a source, `kernels/cuda/src/<name>.cu` or generated, with every quoted include expanded once.

    Raises BackendError.
    """
    seen: set[Path] = set()
    out: list[str] = []

    def emit(path: Path, text: str) -> None:
        seen.add(path)
        shown = path.relative_to(PACKAGE).as_posix()
        out.append(f'#line 1 "{shown}"')
        number = 0
        for line in text.splitlines():
            number += 1
            if _PRAGMA_ONCE.match(line):
                out.append("")
                continue
            if renamed := _LINE.match(line):  # generated text names the origin of its parts
                number, shown = int(renamed[1]) - 1, renamed[2]
            include = _INCLUDE.match(line)
            if include is None:
                out.append(line)
                continue
            target = next((p for p in (path.parent / include[1], HEADERS / include[1]) if p.is_file()), None)
            if target is None:
                raise BackendError(f"{shown}:{number} includes {include[1]!r}, which is in no header folder")
            target = target.resolve()
            if target not in seen:
                emit(target, target.read_text(encoding="utf-8"))
            out.append(f'#line {number + 1} "{shown}"')

    path = SOURCES / f"{source.name}.cu"
    if not source.text and not path.is_file():
        raise BackendError(f"there is no kernel source {path.name!r}")
    emit(path, source.text or path.read_text(encoding="utf-8"))
    return "\n".join(out) + "\n"
