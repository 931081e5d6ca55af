"""Where output goes: results to standard output, progress and errors to standard error, JSON alone when asked for."""

from __future__ import annotations

import functools
import json
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from rich import markup
from rich.console import Console
from rich.table import Table

from distprove.errors import DistproveError, InputError
from kernels.backend import BackendError

Command = TypeVar("Command", bound=Callable[..., Any])

DEBUG_FLAG = "--debug"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells expect."""


def out() -> Console:
    """Results, for people."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def err() -> Console:
    """Progress, warnings, errors."""
    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def escape(text: str) -> str:
    """Text of others, to be shown as it is: no markup, and no control characters, which would steer a terminal."""
    return markup.escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))


def plain_table() -> Table:
    """A table without lines, its head dimmed."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


def facts_table() -> Table:
    """A table without lines or head: names at the left, dimmed, and what there is to say of each."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    return table


def print_json(value: Any) -> None:
    """One JSON document, the only thing on standard output of a command run with `--json`."""
    json.dump(value, sys.stdout, indent=2, sort_keys=False, default=str)
    sys.stdout.write("\n")


def warn(message: str) -> None:
    err().print(f"[yellow]warning:[/] {escape(message)}")


def fail(message: str, hint: str | None = None) -> None:
    """One sentence on what is wrong and, where there is one, one on what to do."""
    console = err()
    console.print(f"[bold red]error:[/] {escape(message)}")
    if hint:
        console.print(f"[dim]hint:[/] {escape(hint)}")


def reports_errors(command: Command) -> Command:
    """Turns the errors of a command into a sentence and an exit code; tracebacks only with `--debug`."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except DistproveError as error:
            _explain(error, bool(kwargs.get("as_json")), None)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            fail("interrupted", _resume_hint(kwargs.get("run") or kwargs.get("out")))
            raise typer.Exit(INTERRUPTED) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except OSError as error:
            _explain(error, bool(kwargs.get("as_json")), None)
            raise typer.Exit(InputError.exit_code) from None
        except BackendError as error:  # says itself what is missing: a library, a device, memory
            _explain(error, bool(kwargs.get("as_json")), None)
            raise typer.Exit(DistproveError.exit_code) from None
        except Exception as error:
            _explain(error, bool(kwargs.get("as_json")), f"this is a fault in distprove; {DEBUG_FLAG} shows where")
            raise typer.Exit(1) from None

    return run  # type: ignore[return-value]


def _explain(error: Exception, as_json: bool, hint: str | None) -> None:
    if debugging():
        traceback.print_exc()
    message = str(error) or type(error).__name__
    if not isinstance(error, (DistproveError, OSError)):
        message = f"{type(error).__name__}: {message}"
    if as_json:
        print_json({"status": "error", "error": {"type": type(error).__name__, "message": message, "hint": hint}})
    fail(message, hint)


def debugging() -> bool:
    """Whether `--debug` was given, before or after the command's name."""
    return DEBUG_FLAG in sys.argv[1:]


def _resume_hint(run: object) -> str | None:
    return f"distprove resume {run} does what is missing" if run else None


def format_seconds(seconds: float) -> str:
    """0.0042 -> "4.2 ms", 75 -> "1 min 15 s"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
