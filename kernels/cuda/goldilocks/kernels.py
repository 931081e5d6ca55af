"""The CUDA implementation of `kernels.interface.goldilocks.GoldilocksKernels`, on one NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterable

from kernels.cuda.device import Device
from kernels.cuda.goldilocks.deep_fri import OPENINGS, CudaDeepFri
from kernels.cuda.goldilocks.lde import LdeProfile, Part
from kernels.cuda.goldilocks.merkle import CudaTrees
from kernels.cuda.goldilocks.multilinear import CudaMultilinear
from kernels.cuda.goldilocks.root_powers import RootPowers
from kernels.cuda.goldilocks.row_program import KERNEL, RowProfile
from kernels.cuda.goldilocks.row_source import CudaRowSources, cuda_source
from kernels.cuda.goldilocks.rows import ROWS, SCAN, CudaRows
from kernels.cuda.goldilocks.transforms import VECTOR, CudaTransforms
from kernels.cuda.goldilocks.tree import SOURCE
from kernels.interface.goldilocks import GoldilocksKernels
from kernels.interface.row_program import RowProgram
from kernels.interface.row_source import RowSource


class CudaGoldilocks(CudaTransforms, CudaTrees, CudaRows, CudaDeepFri, CudaRowSources, GoldilocksKernels):
    """All Goldilocks kernels, on one device and its compute stream, tuned by the profiles."""

    def __init__(
        self, device: Device, *, row_profile: RowProfile | None = None, lde_profile: LdeProfile | None = None
    ) -> None:
        self.device = device
        powers = RootPowers(device)
        CudaTransforms.__init__(self, device, powers, lde_profile)
        CudaTrees.__init__(self, device)
        CudaRows.__init__(self, device, powers, row_profile)
        CudaDeepFri.__init__(self, device, powers)
        CudaRowSources.__init__(self, device)
        self.multilinear = CudaMultilinear(device, self._extend, self)

    def prepare(self, programs: Iterable[RowProgram] = (), sources: Iterable[RowSource] = ()) -> None:
        """Begin to compile every kernel in the background, including those of `programs` and `sources`."""
        for source in (*map(cuda_source, sources), OPENINGS, ROWS, SCAN):
            self._device.prepare(source)
        for program in programs:
            self._plan(program)
        for source in (VECTOR, self._extend.profile.sources[Part.EXTENSIONS], SOURCE):
            self._device.prepare(source)

    def load(self, programs: Iterable[RowProgram]) -> None:
        for program in programs:
            for kernel in self._plan(program).kernels:
                if self._device.compiled(kernel.source):
                    self._device.kernel(kernel.source, KERNEL)

    def clear(self) -> None:
        """Release the device memory that is kept between calls."""
        self._extend.clear()
        self.multilinear.clear()
        self._clear_trees()
