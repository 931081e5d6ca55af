"""The CPU implementation of `kernels.interface.goldilocks.GoldilocksKernels`."""

from __future__ import annotations

from typing import Any

from kernels.cpu.goldilocks.row_source import CpuRowSources
from kernels.cpu.goldilocks.rows import CpuRows
from kernels.cpu.goldilocks.transforms import CpuTransforms
from kernels.interface.goldilocks import GoldilocksKernels


class CpuGoldilocks(CpuTransforms, CpuRows, CpuRowSources, GoldilocksKernels):
    """All Goldilocks kernels, on one pool of threads of the extension module `native`."""

    def __init__(self, native: Any, pool: Any) -> None:
        CpuTransforms.__init__(self, native, pool)
        CpuRows.__init__(self, native, pool)
        CpuRowSources.__init__(self, pool)
