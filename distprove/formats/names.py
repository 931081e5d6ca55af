"""Partition names. They follow the input files, are valid file names on any system, and are unique within a job."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

MAX_LENGTH = 120
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_LENGTH - 1}}}")
_VALID = re.compile(r"[A-Za-z0-9._-]")


def is_name(name: object) -> bool:
    """Whether `name` is a valid partition name: 1 to 120 letters, digits, `_`, `-`, `.`, the first not `-` or `.`."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def natural_key(path: Path) -> tuple[tuple[tuple[int, int, str], ...], ...]:
    """Sort key under which `in2` comes before `in10`, folder by folder: runs of digits compare as numbers."""

    def parts(text: str) -> tuple[tuple[int, int, str], ...]:
        # [0-9] and not \d: int() of other scripts' digits is fine, but their order would surprise.
        pieces = re.findall(r"[0-9]+|[^0-9]+", text)
        return tuple((0, int(piece), piece) if piece[0] in "0123456789" else (1, 0, piece) for piece in pieces)

    return tuple(parts(part) for part in path.parts)


def name_after(path: Path) -> str:
    """The partition name for a file: the file's name without the last suffix, in the characters of a valid name.

    A letter loses its accents: `ä` becomes `a`. Another letter or digit becomes its code point, so that files of any
    script have different names: `表` becomes `u8868`. Any other character becomes `_`.
    """
    letters = unicodedata.normalize("NFKD", path.stem)
    name = "".join(map(_valid, letters))[:MAX_LENGTH]
    return name if is_name(name) else f"_{name}"[:MAX_LENGTH]


def _valid(character: str) -> str:
    """What stands for a character of a decomposed text in a name: nothing for an accent."""
    if _VALID.fullmatch(character):
        return character
    if unicodedata.combining(character):
        return ""
    return f"u{ord(character):04x}" if character.isalnum() else "_"


def unique(names: Sequence[str], by_right: Sequence[bool] = ()) -> list[str]:
    """Return `names` in the same order, with repeats renamed to `name-2`, `name-3`, ...

    Of equal names the first keeps its own, but one that is had `by_right`, in the same place there, comes before all
    others. Names that differ only in case count as repeats, because some file systems treat them as equal.
    """
    seen, last = set(map(str.lower, names)), dict[str, int]()  # no suffix takes a name that another has
    result = list(names)
    for place in sorted(range(len(names)), key=lambda i: bool(by_right) and not by_right[i]):
        name = result[place]
        count = last.get(low := name.lower(), 0) + 1
        while count > 1 and (made := _numbered(name, count)).lower() in seen:
            count += 1
        last[low] = count
        if count > 1:
            seen.add(made.lower())
            result[place] = made
    return result


def _numbered(name: str, number: int) -> str:
    suffix = f"-{number}"
    return name[: MAX_LENGTH - len(suffix)] + suffix
