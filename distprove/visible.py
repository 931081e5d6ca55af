"""Makes untrusted text safe to show: characters that act on a terminal or reorder a line are written as escapes.

A name in a file may hold an escape sequence that clears the screen and prints its own "verified", an override that
changes the direction of a line, or a megabyte of anything. `visible` is the one place that makes such text harmless.
"""

from __future__ import annotations

import re
import unicodedata

MAX_MESSAGE = 4000
"""Maximum number of characters of one text that are shown. The middle of a longer text is left out."""

# Characters outside of printable ASCII; most text has none.
_SUSPECT = re.compile(r"[^ -~]")
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of controls (C0, DEL, C1), formats (also bidirectional), surrogates, private and unassigned code
points, and line and paragraph separators."""


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
    return f"{text[: most * 3 // 4]} ... ({len(text) - most} characters left out) ... {text[-(most // 4) :]}"


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _HARMFUL:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
