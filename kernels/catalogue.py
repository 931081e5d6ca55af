"""Every CUDA source with the definitions it is compiled with: what `distprove kernels` lists."""

from __future__ import annotations

from typing import Any, cast

from kernels.backend import Traffic
from kernels.compiler import KernelSource
from kernels.cuda import CudaBackend
from kernels.cuda_group import group_source
from kernels.cuda_sources import WORDS, field_source
from kernels.curves import CURVES, Group
from kernels.device import Device


class _Recorder:
    """Stands in for a device and notes which sources the backend asks it to compile."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.sources: dict[KernelSource, None] = {}

    def prepare(self, source: KernelSource) -> None:
        self.sources[source] = None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the catalogue has no device: {name}")


def all_sources() -> list[KernelSource]:
    """What the backend compiles for proving on both curves, and what it compiles only when it is asked for."""
    recorder = _Recorder()
    backend = CudaBackend(device=cast(Device, recorder))
    recorder.prepare(WORDS)
    for curve in CURVES:
        backend.prepare(curve)
        recorder.prepare(field_source("vector", curve.fq))
        for group in Group:
            recorder.prepare(group_source("points", curve, group))
            recorder.prepare(group_source("fixed_base", curve, group))
    return list(recorder.sources)
