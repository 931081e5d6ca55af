"""Consoles for output: results to standard output, progress and errors to standard error, JSON alone when asked for.

Everything that is printed passes here, and what acts on a terminal is escaped here (`distprove.formats.visible`),
whoever chose the text. Only what commands mark up themselves has colours: names go into that through `escape`, messages
through
`message`. Where a terminal is too narrow for a line, the rest of it is indented, so that no name or message can be made
to look like lines of ours.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from distprove.cli.streams import require_written
from distprove.errors import INTERRUPTED, DistproveError, EnvironmentFailed, InUse, OutputLost, exit_code, typed
from distprove.formats.visible import INDENT, bounded, shorten_names, visible
from kernels.errors import BackendError
from kernels.host.units import count_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Command = TypeVar("Command", bound=Callable[..., Any])

DEBUG_FLAG = "--debug"
LONGEST = 1e10
"""Seconds that are shown as a time: three centuries. What files say may divide by next to nothing."""


def escape(text: str) -> str:
    """Text from anywhere, for use inside of markup: one line of bounded length that has no power of its own."""
    return _without_markup(visible(bounded(text)))


# What may begin a tag of Rich's: also one that goes on in the next line, or ends in what follows the text. Rich's own
# `escape` sees neither.
_TAG = re.compile(r"(\\*)(\[[a-z#/@][^\[\]]*(?:\]|\Z)|\[\Z)")


def _without_markup(text: str) -> str:
    text = _TAG.sub(r"\1\1\\\2", text)
    # An odd number of backslashes at the end would take the power of a tag of ours behind them.
    return text + "\\" * ((len(text) - len(text.rstrip("\\"))) % 2)


UNBROKEN = 10_000
"""Columns of output that no terminal shows: a value in it, such as a digest, is in one piece for whoever reads it."""


def out() -> Console:
    """Results, for people."""
    from distprove.cli.safe_console import SafeConsole

    pipe = not sys.stdout.isatty()
    width = UNBROKEN if pipe and "COLUMNS" not in os.environ else None
    return SafeConsole(highlight=False, emoji=False, soft_wrap=pipe, width=width)


def err() -> Console:
    """Progress, warnings, errors."""
    from distprove.cli.safe_console import SafeConsole

    return SafeConsole(stderr=True, highlight=False, emoji=False, soft_wrap=not sys.stderr.isatty())


WIDEST_NUMBER = 24
"""Columns of a terminal that a number in a table takes at most: one that a service says may have a hundred digits."""


def plain_table(*texts: str, numbers: Iterable[str] = ()) -> Table:
    """A table without lines, its head dimmed: columns of texts, which fold, and then of numbers, at the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in texts:
        table.add_column(title, overflow="fold")
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True, max_width=WIDEST_NUMBER)
    return table


def facts_table(short: int = 0) -> Table:
    """A table without lines or head: names at the left, dimmed, `short` columns that do not break, and what there is to
    say of each."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    for _ in range(short):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def print_json(value: Any) -> None:
    """Print one JSON document, the only thing on standard output of a command run with `--json`.

    Raises OutputLost.
    """
    json.dump(value, sys.stdout, indent=2, sort_keys=False, default=str)
    sys.stdout.write("\n")
    require_written()


def message(text: str) -> str:
    """A message for use inside of markup: of bounded length, long names in quotes cut, its further lines indented."""
    return _without_markup(f"\n{' ' * INDENT}".join(visible(line) for line in _bounded(text).split("\n")))


def _bounded(text: str) -> str:
    return shorten_names(bounded(text))


def tell(doing: str) -> None:
    """Show what is under way, on standard error."""
    err().print(f"[dim]{escape(doing)}[/]")


def warn(text: str) -> None:
    err().print(f"[yellow]warning:[/] {message(text)}")


def fail(text: str, hint: str | None = None) -> None:
    """Print a sentence on what is wrong and, if there is one, one on what to do; or log them, where logs are JSON."""
    from distprove.host.log import log_event, logger, set_up_logging, wants_json

    if wants_json():
        set_up_logging()
        log_event(logger("distprove"), "error", "ERROR", detail=text, hint=hint)
        return
    console = err()
    console.print(f"[bold red]error:[/] {message(text)}")
    if hint:
        console.print(f"[dim]hint:[/] {escape(hint)}")


def reports_errors(command: Command) -> Command:
    """Turns the errors of a command into a sentence and an exit code; tracebacks only with `--debug`. Its paths are
    checked first (`check_paths`)."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        from distprove.cli.option_groups import check_paths, only_reads

        try:
            check_paths(run, kwargs)
            return command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raised = typed(error)
            code, hint = exit_code(raised), None
            if code in (EnvironmentFailed.exit_code, INTERRUPTED) and not isinstance(raised, InUse):
                begun = None if only_reads(run, "run") else kwargs.get("run")
                hint = _resume_hint(begun or kwargs.get("out"))
            elif not isinstance(raised, (DistproveError, BackendError)):
                hint = _hidden(raised) or f"this is a fault in distprove; {DEBUG_FLAG} shows where"
            _explain(raised, bool(kwargs.get("as_json")), hint)
            raise typer.Exit(code) from None

    return run  # type: ignore[return-value]


def _explain(error: BaseException, as_json: bool, hint: str | None) -> None:
    if debugging():
        from rich.text import Text

        err().print(Text(textwrap.indent(traceback.format_exc(), " " * INDENT)))
    text = _bounded(str(error)) or type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        text = "interrupted"
    elif not isinstance(error, DistproveError):
        text = f"{type(error).__name__}: {text}"
    if as_json and not isinstance(error, (KeyboardInterrupt, OutputLost)):
        with suppress(OutputLost):  # the error itself says more, and has its exit code
            print_json({"status": "error", "error": {"type": type(error).__name__, "message": text, "hint": hint}})
    fail(text, hint)


def debugging() -> bool:
    """Whether `--debug` was given, before or after the command's name."""
    return DEBUG_FLAG in sys.argv[1:]


def _hidden(error: BaseException) -> str | None:
    """A hint for a failed import from a module that hides a package of its name: of ours, or of a library."""
    import site

    name = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    found = getattr(sys.modules.get(name), "__file__", None)
    ours = Path(__file__).parents[2]
    sites = (*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.__file__))
    installed = (ours / name, *map(Path, sites))
    if found is None or any(Path(found).is_relative_to(folder) for folder in installed):
        return None
    return f"`import {name}` finds {quote(found)}: rename it, or keep its folder off Python's search path"


def _resume_hint(run: object) -> str | None:
    begun = isinstance(run, Path) and (run / "job.json").is_file()
    return f"distprove resume {quote(str(run))} does what is missing" if begun else None


def format_rate(rate: float) -> str:
    """A number of things in some time, in three digits or more: 2.5, 41.7, 1,253."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def format_seconds(seconds: float) -> str:
    """0.0042 -> "4.2 ms", 75 -> "1 min 15 s"; "?" for what is not a number, or beyond all clocks."""
    if not abs(seconds) < LONGEST:
        return "?"
    if seconds < 1e-3:
        return f"{round(seconds * 1e6)} us"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


MOST_SHOWN = 256
"""Bytes of an output that are shown to people."""


def shown_bytes(content: bytes, where: str) -> str:
    """The first bytes of an output: in hexadecimal, and as text if they are some. `where` says how to get all."""
    if not content:
        return "none"
    start = content[:MOST_SHOWN]
    more = f"... ({count_of(len(content), 'byte', grouped=True)}; {where})" if len(content) > MOST_SHOWN else ""
    text = start.rstrip(b"\0").decode("ascii", "replace")
    lines = [f"{start.hex()}{more}", *([f'"{text}"'] if text.isprintable() and text.isascii() else [])]
    return "\n".join(map(escape, lines))
