"""What the system says of the processor."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class ProcessorFacts:
    """Of the first processor listed; a machine has one kind, or reports one."""

    model: str
    flags: frozenset[str]
    """Features by Linux's names; empty elsewhere."""


def processor_facts(cpuinfo: Path = _CPUINFO) -> ProcessorFacts:
    """Linux keeps name and features in a file, others give a name. `cpuinfo` is for tests."""
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
