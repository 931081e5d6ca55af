"""Checks for code that is named as "module:name": a user's own program, or a backend that does not ship.

The command line, a job file and Python may name code. A run folder, a proof and a key must not: whoever sends one would
choose what runs here.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

from distprove.errors import UsageError


def names_code(name: str) -> bool:
    """Whether `name` names code to import ("module:name") rather than a program or backend that ships."""
    return ":" in name


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
    return Path(place).resolve().is_relative_to(folder.resolve())
