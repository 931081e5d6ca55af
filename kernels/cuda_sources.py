"""Every CUDA kernel source that the backend can load: what `distprove kernels` lists and the tests compile."""

from __future__ import annotations

from typing import cast

from kernels.compiler import KernelSource
from kernels.cuda import WORDS, CudaBackend
from kernels.cuda_field import FIELD_PARAMS, field_source
from kernels.cuda_goldilocks_transforms import CudaTransforms
from kernels.cuda_group import group_source
from kernels.curves import CURVES, Group
from kernels.device import Device


class _Recorder:
    """Stands where a device would and notes what it is told to prepare."""

    traffic = None

    def __init__(self) -> None:
        self.sources: list[KernelSource] = []

    def prepare(self, source: KernelSource) -> None:
        self.sources.append(source)


def all_sources() -> list[KernelSource]:
    """The sources for every field, curve and group, as the default profiles compile them, each once."""
    recorder = _Recorder()
    backend = CudaBackend(cast(Device, recorder))
    for curve in CURVES:
        backend.prepare(curve)
    CudaTransforms(cast(Device, recorder)).prepare_transforms()
    sources = [WORDS, *recorder.sources, *(field_source(n, f) for n in ("vector", "invert") for f in FIELD_PARAMS)]
    sources += [group_source(name, c, g) for name in ("points", "fixed_base") for c in CURVES for g in Group]
    return list(dict.fromkeys(sources))
