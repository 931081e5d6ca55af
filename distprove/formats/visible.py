"""Makes untrusted text safe to show: characters that act on a terminal or reorder a line are written as escapes.

A name in a file may hold an escape sequence that clears the screen and prints its own "verified", an override that
changes the direction of a line, or a megabyte of anything. `visible` is the one place that makes such text harmless.
"""

from __future__ import annotations

import re
import unicodedata

from kernels.host.units import count_of

MAX_MESSAGE = 4000
"""Characters of one text that are shown, at most; the middle of a longer one is left out."""
INDENT = 2
"""Columns by which the further lines of a text are indented."""
MAX_NAME = 100
"""Characters of one name that a message shows, at most."""

# Characters outside of printable ASCII; most text has none.
_SUSPECT = re.compile(r"[^ -~]")
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls (C0, DEL, C1), formats (bidirectional ones too), surrogates, what is not assigned, line separators."""
# As repr and our messages quote names, on one line; the apostrophe in a word opens no quotation.
_QUOTED = re.compile(r"""(?<!\w)(['"`])((?:\\.|(?!\1)[^\\\n])*)\1""")


def visible(text: str, *, keep: str = "") -> str:
    """`text` with control and format characters written as escapes such as `\\x1b`, except the characters in `keep`."""
    return (
        text
        if text.isprintable()
        else _SUSPECT.sub(lambda found: found[0] if found[0] in keep else _shown(found[0]), text)
    )


def bounded(text: str, most: int = MAX_MESSAGE) -> str:
    """`text`, or if it is longer than `most` characters its beginning and end with a note on how much is left out."""
    if len(text) <= most:
        return text
    return (
        f"{text[: most * 3 // 4]} ... ({count_of(len(text) - most, 'character')} left out) ... {text[-(most // 4) :]}"
    )


def shorten_names(message: str) -> str:
    """`message` with an ellipsis in place of the middle of each long text in quotes."""
    return _QUOTED.sub(lambda found: f"{found[1]}{_shorten(found[2])}{found[1]}", message)


def _shorten(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    end = MAX_NAME // 4
    return f"{name[: MAX_NAME - 1 - end]}…{name[-end:]}"


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _HARMFUL:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
