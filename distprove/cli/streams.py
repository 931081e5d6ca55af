"""Standard output and error that nobody may be reading any more: what people read of a command never ends it.

A log is piped into `head`, a disk under it fills up, a terminal goes away. What cannot be written is left out, and the
stream remembers why, for output that a command is worth nothing without (`require_written`).
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

from distprove.errors import OutputLost


class _Forgiving(io.FileIO):
    """A descriptor whose writes do not fail."""

    lost: OSError | None = None
    """The reason why something was left out, if anything was."""

    def write(self, data: Any, /) -> int:
        try:
            written = super().write(data)
            if written is not None:
                return written
            self.lost = BlockingIOError(None, "its reader is too slow")
        except OSError as error:
            self.lost = error
        return len(data)


def forgive_lost_readers() -> None:
    """Have nothing that is written to this process's standard output and error raise."""
    sys.stdout, sys.stderr = (_forgiving(stream) for stream in (sys.stdout, sys.stderr))


def _forgiving(stream: TextIO | None) -> TextIO:
    if stream is None:  # its descriptor is closed, and this takes the number before a file of ours does
        return open(os.devnull, "w", encoding="utf-8")
    stream.flush()
    raw = _Forgiving(stream.fileno(), "w", closefd=False)
    at_once = stream is sys.stderr or raw.isatty()
    # A character that its encoding lacks is no reason to end either.
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, "backslashreplace", line_buffering=at_once)


def require_written() -> None:
    """Raise OutputLost unless all that was written to standard output has arrived."""
    sys.stdout.flush()
    lost = getattr(getattr(getattr(sys.stdout, "buffer", None), "raw", None), "lost", None)
    if lost is not None:
        raise OutputLost(f"standard output: {lost.strerror}; the output is not complete")
