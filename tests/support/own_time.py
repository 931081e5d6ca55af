"""A module's own `time`, so that a test that shortens its waits changes no other thread's."""

from types import ModuleType
from typing import Any

import pytest

from tests.support.own_module import give


def give_time(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **functions: Any) -> None:
    """Have `module`, which imports `time` as a module, use `functions` in place of those of these names."""
    give(monkeypatch, module, "time", **functions)
