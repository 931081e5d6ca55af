"""Files of arrays (`formats.array_file`) in a private cache. Each caller gives the function that decodes its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from distprove.errors import FormatError
from distprove.formats.array_file import map_arrays, write_arrays
from kernels.host import cache as files
from kernels.host.loaded_code import as_loaded

Content = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""The record and the arrays of a file."""
Made = TypeVar("Made")


def find_kept(folder: Path, key: str, suffix: str, decode: Callable[[Content], Made]) -> Made | None:
    """What `decode` makes of the file of this key and suffix; None where there is none, or `decode` raises
    FormatError."""
    file = files.find(folder, key, suffix)
    if file is None:
        return None
    with file:
        try:
            return decode(map_arrays(file, suffix[1:]))
        except FormatError:
            return None


def keep_content(
    folder: Path, key: str, suffix: str, content: Content, bound: files.Bound, code: Sequence[Path]
) -> None:
    """Write the file of this key and suffix, unless the `code` that made the content was replaced on the disk."""
    if not as_loaded(tuple(code)):
        return
    kept = files.keep(folder, key, suffix, lambda file: write_arrays(file, *content), bound)
    if kept is not None:
        kept.close()
