"""A module's own `time`, so that a test that shortens its waits changes no other thread's."""

import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def give_time(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **functions: Any) -> None:
    """Have `module`, which imports `time` as a module, use `functions` in place of those of these names."""
    assert module.__dict__["time"] is time
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), **functions}))
