"""Hints at the name that was meant where one is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 120
"""Longest word that is compared. It may be anyone's, and a comparison takes forty times its memory."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A question for the end of a message, with the name in `known` that is most like `word`; empty if none is."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5) if len(word) <= _LONGEST else []
    return f"; did you mean `{close[0]}`?" if close else ""
