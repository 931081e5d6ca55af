"""Checks for code that is named as "module:name": a user's own program, or a backend that does not ship.

The command line, a job file and Python may name code. A run folder, a proof and a key must not: whoever sends one would
choose what runs here.

An error that such code raises is its author's to mend: `own_faults` reports it with the lines of that code, and without
those of distprove, and without the error's message where that may quote a witness. So is a call of such code that fails
because it does not take what distprove gives it.
"""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from distprove.errors import CodeFault, DistproveError, UsageError
from distprove.formats.files import real
from distprove.formats.nearest import nearest
from kernels.errors import BackendError

OURS = ("distprove", "actors", "cluster", "kernels")
"""The top-level packages of distprove."""
FILE_ENDING = ".py"
LINES = 8
"""Maximum number of lines of code that a fault shows, the innermost ones."""
_WRONG_CALL = re.compile(r"([\w.]+)\(\) (?:missing|takes|got) ")
"""Start of Python's message about a call with other arguments than the function takes."""


def names_code(name: str) -> bool:
    """Whether `name` names code to import ("module:name") rather than a program or backend that ships."""
    return ":" in name


def import_named(name: str) -> Any:
    """The object "module:name", imported. Raises UsageError if there is none, CodeFault for an error in the module."""
    module, _, attribute = name.partition(":")
    try:
        with own_faults(module):
            found = importlib.import_module(module)
    except (ImportError, ValueError) as error:  # the latter: an empty name
        raise UsageError(f"cannot import {name}: {error}{_looked_for(name, error)}") from None
    if not hasattr(found, attribute):
        hint = nearest(attribute, vars(found))
        raise UsageError(
            f"cannot import {name}: module {module!r} has no attribute {attribute!r}{hint}; the module of that name is "
            f"{getattr(found, '__file__', None) or 'built into Python'}"
        )
    return getattr(found, attribute)


def _looked_for(name: str, error: Exception) -> str:
    """The end of the message about a module that was not found; empty for any other error."""
    module, _, attribute = name.partition(":")
    if not isinstance(error, ModuleNotFoundError):
        return ""
    if module.endswith(FILE_ENDING) and error.name in (module, module.removesuffix(FILE_ENDING).partition(".")[0]):
        return f"; name the module without {FILE_ENDING}: {module.removesuffix(FILE_ENDING)}:{attribute}"
    if error.name == module.partition(".")[0]:
        return "; it is looked for beside the job file, or in this folder, and in what is installed"
    return ""


def require_methods(found: type, name: str) -> None:
    """Raise UsageError for a class, named as `name`, that lacks methods or properties that its base asks for."""
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise UsageError(f"{name} does not define {', '.join(missing)}, which every {_asks(found, missing[0])} needs")


def _asks(found: type, method: str) -> str:
    """The name of the base class that asks for a method."""
    return next(base.__name__ for base in reversed(found.__mro__) if method in vars(base))


def is_found(name: str) -> bool:
    """Whether Python finds the top-level module of "module:name" from here. Imports nothing."""
    top = name.partition(":")[0].partition(".")[0]
    importlib.invalidate_caches()
    try:
        return top in sys.modules or bool(top and find_spec(top))
    except ValueError:  # a module without a spec
        return True


def import_also_from(folder: str | Path) -> None:
    """Find modules in `folder` too, last of all, so that a folder that lies there, such as a run that was sent, never
    takes the place of a library."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


@contextmanager
def own_faults(module: str, *, secret: bool = False, told_by: str = "") -> Iterator[None]:
    """Raise CodeFault for an error that passed through code of a user's own, or that was raised by a call of it: of the
    top-level package of `module`.

    Errors of ours, of the system and of memory stay as they are, as do those in which no such code had a part. With
    `secret` the code is given inputs that may be secret: the error's message, which may quote them, is left out. The
    command `told_by` shows it, if there is one.
    """
    try:
        yield
    except (DistproveError, BackendError, OSError, MemoryError):
        raise
    except Exception as error:
        lines = own_lines(error, module)
        called = [] if lines else _called_wrongly(error, module)
        if not lines and not called:
            raise
        kind, text = type(error).__name__, str(error)
        if secret and not called:  # Python's message about a call names parameters, and no value
            text = "its message may quote the inputs, and is left out" + (f"; {told_by} shows it" if told_by else "")
        lines += called
        fault = CodeFault("\n".join([f"{module} raised {kind}{f': {text}' if text else ''}", *lines]))
        raise fault from (None if secret else error)


def own_lines(error: Exception, module: str) -> list[str]:
    """The lines of code that an error passed through, without ours; empty if none is of the package of `module`."""
    package = module.partition(".")[0]
    if package in OURS:
        return []
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_ours(frame)]
    owned = [_package(frame) == package for frame, _ in frames]
    shown = [_shown_line(summary) for summary in traceback.StackSummary.extract(iter(frames))][-LINES:]
    if isinstance(error, SyntaxError) and not any(owned):  # no line of the module has run
        return [f"{error.filename}:{error.lineno}"]
    return shown if any(owned) else []


def _called_wrongly(error: Exception, module: str) -> list[str]:
    """The place of the function of `module` that an error says was called with other arguments than it takes: no line
    of it has run. Empty for any other error."""
    message = _WRONG_CALL.match(str(error)) if isinstance(error, TypeError) else None
    if message is None or module.partition(".")[0] in OURS:
        return []
    found: Any = sys.modules.get(module)
    for part in message[1].split("."):
        found = getattr(found, part, None)
    code = getattr(found, "__code__", None)
    return [] if code is None else [f"{code.co_filename}:{code.co_firstlineno}, in {code.co_name}"]


def _is_ours(frame: FrameType) -> bool:
    return _package(frame) in OURS or frame.f_code.co_filename.startswith("<frozen importlib")


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _shown_line(summary: traceback.FrameSummary) -> str:
    return f"{summary.filename}:{summary.lineno}, in {summary.name}: {summary.line}"


def require_outside(name: str, folder: Path) -> None:
    """Raise UsageError when the module of `name` would be imported from inside `folder`. Imports nothing."""
    parts = name.partition(":")[0].split(".")
    search = None
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), search)
        if spec is None:
            return  # the import itself says that there is no such module
        search = list(spec.submodule_search_locations or ())
        if any(_is_inside(place, folder) for place in (spec.origin, *search) if place):
            raise UsageError(f"{name} lies inside {folder}: code comes from outside of a run; move it if it is yours")


def require_no_imports_from(folder: Path) -> None:
    """Raise UsageError when `sys.path` has an entry inside `folder`, as it may when Python is started there."""
    if any(_is_inside(entry, folder) for entry in sys.path):
        raise UsageError(
            f"Python imports modules from inside {folder} as it was started, and a run must not bring code; "
            "run the same command from a folder outside of it"
        )


def _is_inside(place: str, folder: Path) -> bool:
    return real(Path(place)).is_relative_to(real(folder))
