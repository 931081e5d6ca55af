"""The command line."""

from __future__ import annotations

import os
import sys
import threading
from typing import NoReturn


def main() -> None:
    """Entry point of `distprove`. Exit codes: 0 done and verified, 1 a job failed, 2 bad usage or input, 130 Ctrl-C."""
    from distprove.cli.app import app
    from distprove.cli.console import DEBUG_FLAG, fail
    from distprove.cli.streams import forgive_lost_readers
    from distprove.formats.visible import visible

    forgive_lost_readers()
    # What reads arguments also prints them, in words and ways of its own.
    for argument in sys.argv[1:]:
        if visible(argument) != argument:
            fail(
                f"the argument {argument} has characters that act on a terminal", "rename the file, or name its folder"
            )
            _leave(SystemExit(2))
    # --debug is global, but one adds it at the end of the command that just failed.
    try:
        app(args=[arg for arg in sys.argv[1:] if arg != DEBUG_FLAG], prog_name="distprove")
    except SystemExit as end:
        _leave(end)


def _leave(end: SystemExit) -> NoReturn:
    """End with the code of `end`, also when threads are still computing, as after Ctrl-C or a failed job.

    A kernel under way cannot be interrupted, and the interpreter's own shutdown would unwind its thread through C++.
    """
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if any(thread.daemon for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise end
