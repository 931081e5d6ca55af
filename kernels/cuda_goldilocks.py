"""`kernels.goldilocks.GoldilocksKernels` on one NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterable

from kernels.cuda_goldilocks_rows import CudaRows
from kernels.cuda_goldilocks_transforms import CudaTransforms
from kernels.device import Device
from kernels.goldilocks import GoldilocksKernels
from kernels.row_program import RowProgram


class CudaGoldilocks(CudaTransforms, CudaRows, GoldilocksKernels):
    """Everything of the interface, on one device and its compute stream."""

    def __init__(self, device: Device) -> None:
        CudaTransforms.__init__(self, device)
        CudaRows.__init__(self, device)

    def prepare(self, programs: Iterable[RowProgram] = ()) -> None:
        """Begin to compile every kernel, those of `programs` included, in the background."""
        self.prepare_rows(programs)
        self.prepare_transforms()
