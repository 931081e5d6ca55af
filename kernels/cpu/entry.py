"""The way into the CPU backend."""

from __future__ import annotations

from typing import Any

from kernels.interface.entry import BackendEntry


def _open(*, device: int, share: int, **arguments: Any) -> Any:
    from kernels.cpu.backend import CpuBackend

    return CpuBackend(**arguments)


ENTRY = BackendEntry("CPU", _open)
