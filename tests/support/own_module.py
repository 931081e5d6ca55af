"""A module's own `os` or `subprocess`, so that a test that changes one changes no other thread's; modules made anew."""

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def give(monkeypatch: pytest.MonkeyPatch, module: ModuleType, used: str, **own: Any) -> None:
    """Have `module`, which imports the module `used` under its name, find `own` there in place of what these names
    are."""
    now = module.__dict__[used]
    assert now is sys.modules[used] or isinstance(now, SimpleNamespace), "it was given another one before"
    monkeypatch.setattr(module, used, SimpleNamespace(**{**vars(now), **own}))


def module_anew(name: str) -> ModuleType:
    """The text of a module as a module of its own, over the modules that there are now."""
    found = find_spec(name)
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module
