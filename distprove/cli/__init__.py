"""The command line."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn

from distprove.errors import ResourceError, typed

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a scheduler's stop and a closed terminal. Each ends a command in the same way, unless its parent ignores the
signal."""


def main() -> None:
    """Entry point of `distprove`. Its exit codes are those of `distprove.errors`."""
    # NumPy's BLAS has nothing to do that threads would help, and where they cannot start it sends itself SIGINT.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.unraisablehook = _interrupt_again
    try:
        for number in INTERRUPTS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler)
        os.register_at_fork(after_in_child=_end_as_ever)
        _run()
    except KeyboardInterrupt:  # while something was imported
        end = SystemExit(130)
    except SystemExit as raised:
        # Typer knows of an interrupt that it meets itself, between our own code, but not of its exit code.
        end = SystemExit(130) if type(raised.__context__).__name__ == "Abort" else raised
    except Exception as error:  # of an import: commands tell their own
        told = typed(error)
        if not isinstance(told, ResourceError):
            raise
        os.write(2, f"error: {told}\n".encode(errors="backslashreplace"))
        end = SystemExit(told.exit_code)
    _leave(end)


def _end_as_ever() -> None:
    """Let SIGTERM and SIGHUP end a process that a command forks, as they end a worker that is none."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.default_int_handler:
            signal.signal(number, signal.SIG_DFL)


def _interrupt_again(unraisable: Any) -> None:
    """Deliver an interrupt that Python met where it cannot be raised, in a callback of an import."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        threading.Timer(0.05, _thread.interrupt_main).start()  # once that callback, and this one, have ended
    else:
        sys.__unraisablehook__(unraisable)


def _run() -> None:
    from distprove.cli.app import app
    from distprove.cli.console import DEBUG_FLAG, fail
    from distprove.cli.streams import forgive_lost_readers
    from distprove.formats.visible import visible

    forgive_lost_readers()
    # What reads arguments also prints them, in words and ways of its own.
    for argument in sys.argv[1:]:
        if visible(argument) != argument:
            fail(*_unfit(argument))
            raise SystemExit(2)
    # --debug is global, but one adds it at the end of the command that just failed.
    app(args=[arg for arg in sys.argv[1:] if arg != DEBUG_FLAG], prog_name="distprove")


def _unfit(argument: str) -> tuple[str, str]:
    """What is wrong with an argument that cannot be shown as it is, and what to do about it."""
    rename = "rename the file, or name its folder"
    try:
        text = os.fsencode(argument).decode()
    except UnicodeDecodeError:
        return f"the argument {argument} is not UTF-8", rename
    if text == argument:
        return f"the argument {argument} has characters that act on a terminal", rename
    encoding = sys.getfilesystemencoding()
    return (
        f"the argument {text} is UTF-8, and Python reads it as {encoding}",
        "set LC_ALL=C.UTF-8, and unset PYTHONUTF8",
    )


def _leave(end: SystemExit) -> NoReturn:
    """End with the code of `end`, also when threads are still computing, as after Ctrl-C or a failed job.

    A kernel under way cannot be interrupted, and the interpreter's own shutdown would unwind its thread through C++.
    """
    with suppress(ValueError):  # not in the main thread
        for number in INTERRUPTS:
            signal.signal(number, signal.SIG_IGN)
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if any(thread.daemon for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise end
