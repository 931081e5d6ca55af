"""Chooses the build of the native code for this CPU: the general one, or the one for x86-64 with BMI2 and ADX."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from kernels.errors import BackendError

GENERAL = "general"
ADX = "x86-64-v3+adx"
_BUILDS: dict[str, tuple[str, frozenset[str]]] = {
    GENERAL: ("kernels._native", frozenset()),
    ADX: ("kernels._native_adx", frozenset({"avx2", "bmi2", "adx"})),
}
"""Module of each build and the CPU features that it needs, the slowest build first."""


def cpu_features() -> list[str]:
    """Return the features of this CPU, of those that the builds may need."""
    return list(importlib.import_module(_BUILDS[GENERAL][0]).cpu_features())


def variants() -> list[str]:
    """Return the names of the builds that are installed and run on this CPU, the fastest last."""
    features = set(cpu_features())
    return [
        name
        for name, (module, needs) in _BUILDS.items()
        if needs <= features and importlib.util.find_spec(module) is not None
    ]


def load(variant: str | None = None) -> Any:
    """Return the module of a build; None is the fastest. Raises BackendError for one that does not run here."""
    name = variants()[-1] if variant is None else variant
    if name not in variants():
        raise BackendError(f"no native build {name!r} for this processor; there are: {', '.join(variants())}")
    module: ModuleType = importlib.import_module(_BUILDS[name][0])
    return module


native: Any = load()
