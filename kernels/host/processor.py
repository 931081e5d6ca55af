"""Model and features of the machine's CPU, as the system reports them."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class ProcessorFacts:
    """Facts about the first CPU listed; a machine has, or reports, only one kind."""

    model: str
    flags: frozenset[str]
    """Names of features as Linux spells them; empty on other systems."""


def processor_facts(cpuinfo: Path = _CPUINFO) -> ProcessorFacts:
    """Return the CPU's facts: from `cpuinfo` on Linux, otherwise only a name. The parameter is for tests."""
    model, flags = platform.processor() or platform.machine(), frozenset[str]()
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ProcessorFacts(model, flags)
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        elif key.strip() in ("flags", "Features"):
            flags = frozenset(value.split())
            break
    return ProcessorFacts(model, flags)
