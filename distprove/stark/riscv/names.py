"""Names of functions in symbol tables, as they are shown.

Rust's legacy mangling: `_ZN`, the length and text of each part of the path, `17h` and a hash of 16 hexadecimal digits,
`E`. In parts `..` stands for `::`, and `$LT$` and such for characters (rustc_symbol_mangling, `legacy.rs`).
Names of mangling v0, the present one, are read in `names_v0`. All other names, C++'s among them, are shown as they are.
"""

from __future__ import annotations

import re

from distprove.stark.riscv import names_v0

_LEGACY = re.compile(r"_ZN([0-9].*)17h[0-9a-f]{16}E(?:\.llvm\.[0-9A-F]+)?\Z", re.ASCII)
_PART = re.compile(r"[0-9]{1,4}", re.ASCII)
_ESCAPE = re.compile(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$", re.ASCII)
_CHARACTERS = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


def shown_name(symbol: str) -> str:
    """The path that a symbol of Rust stands for, without hashes; any other symbol as it is."""
    if symbol.startswith(names_v0.PREFIX):
        return names_v0.demangled(symbol) or symbol
    found = _LEGACY.match(symbol)
    parts, at, path = list[str](), 0, found[1] if found else ""
    while at < len(path):
        size = _PART.match(path, at)
        end = size.end() + int(size[0]) if size else 0
        if size is None or end > len(path):
            return symbol
        parts.append(_plain(path[size.end() : end]))
        at = end
    return "::".join(parts) or symbol


def _plain(part: str) -> str:
    """A part of a path with the characters that its escapes stand for."""
    part = part[1:] if part.startswith("_$") else part
    return _ESCAPE.sub(_character, part.replace("..", "::"))


def _character(escape: re.Match[str]) -> str:
    name = escape[1]
    code = int(name[1:], 16) if name.startswith("u") else 0
    meant = _CHARACTERS.get(name) or (chr(code) if code <= 0x10FFFF else "")
    return meant if meant.isprintable() and meant else escape[0]  # half of a pair is no character
