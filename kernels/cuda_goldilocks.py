"""The CUDA implementation of `kernels.goldilocks.GoldilocksKernels`, on one NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterable

from kernels.cuda_goldilocks_rows import CudaRows
from kernels.cuda_goldilocks_transforms import CudaTransforms
from kernels.cuda_row_source import CudaRowSources
from kernels.device import Device
from kernels.goldilocks import GoldilocksKernels
from kernels.row_program import RowProgram
from kernels.row_source import RowSource


class CudaGoldilocks(CudaTransforms, CudaRows, CudaRowSources, GoldilocksKernels):
    """All Goldilocks kernels, on one device and its compute stream."""

    def __init__(self, device: Device) -> None:
        CudaTransforms.__init__(self, device)
        CudaRows.__init__(self, device)
        CudaRowSources.__init__(self, device)

    def prepare(self, programs: Iterable[RowProgram] = (), sources: Iterable[RowSource] = ()) -> None:
        """Begin to compile every kernel in the background, including those of `programs` and `sources`."""
        self.prepare_row_sources(sources)
        self.prepare_rows(programs)
        self.prepare_transforms()
