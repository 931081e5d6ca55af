"""Imports all tests in several processes, so that each file is compiled in one of them.

pytest rewrites the assertions of a test file when it is imported first, and keeps the bytecode. That takes most of the
time to collect these tests. Processes that import the files in the same order each compile all of them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support import ROOT


def import_all(process: int, processes: int) -> None:
    """Import every test file: first the share of this process, then those of the next ones, which have made theirs by
    then. A file that cannot be imported is left to pytest, which tries it again and reports it."""
    names = sorted(_modules())
    for share in range(processes):
        for name in names[(process + share) % processes :: processes]:
            with suppress(Exception, pytest.skip.Exception):
                importlib.import_module(name)


def _modules() -> Iterator[str]:
    """The names of all test modules."""
    for folder, below, files in os.walk(ROOT / "tests"):
        below[:] = [name for name in below if name != "node_modules"]
        package = os.path.relpath(folder, ROOT).replace(os.sep, ".")
        yield from (f"{package}.{name[:-3]}" for name in files if name.startswith("test_") and name.endswith(".py"))
