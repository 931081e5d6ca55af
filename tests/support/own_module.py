"""A module's own `os` or `subprocess`, so that a test that changes one changes no other thread's."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def give(monkeypatch: pytest.MonkeyPatch, module: ModuleType, used: str, **own: Any) -> None:
    """Have `module`, which imports the module `used` under its name, find `own` there in place of what these names
    are."""
    now = module.__dict__[used]
    assert now is sys.modules[used] or isinstance(now, SimpleNamespace), "it was given another one before"
    monkeypatch.setattr(module, used, SimpleNamespace(**{**vars(now), **own}))
