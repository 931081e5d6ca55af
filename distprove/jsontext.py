"""JSON from outside: nesting is bounded before the decoder sees it.

Python's decoder recurses in C and relies on the interpreter's recursion limit, which any library in the process may
have raised (some cryptographic ones do); a file of brackets then ends the process instead of raising.
"""

from __future__ import annotations

import json
import re
from typing import Any

from distprove.errors import FormatError
from distprove.folder import Folder

MAX_DEPTH = 64

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


def loads(data: bytes, what: str, max_depth: int = MAX_DEPTH, **hooks: Any) -> Any:
    """The value of a JSON text; `hooks` are those of `json.loads`.

    Raises FormatError when it is nested deeper than `max_depth` or not UTF-8, json.JSONDecodeError when it is not JSON.
    """
    check_depth(data, what, max_depth)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise FormatError(f"{what}: not UTF-8 text") from None
    return json.loads(text, **hooks)


def read_in(folder: Folder, name: str, limit: int) -> Any:
    """The value in a JSON file of at most `limit` bytes in `folder`. Raises InputError or FormatError."""
    path = folder.path / name
    try:
        return loads(folder.read(name, limit), str(path))
    except ValueError:
        raise FormatError(f"{path}: not JSON") from None


def check_depth(data: bytes, what: str, max_depth: int = MAX_DEPTH) -> None:
    """Raise FormatError when brackets outside of strings nest deeper than `max_depth`."""
    if data.count(b"[") + data.count(b"{") <= max_depth:
        return
    depth = 0
    for match in _TOKEN.finditer(data):
        first = data[match.start()]
        if first in b"[{":
            depth += 1
            if depth > max_depth:
                raise FormatError(f"{what}: nested deeper than {max_depth} levels")
        elif first in b"]}":
            depth -= 1
