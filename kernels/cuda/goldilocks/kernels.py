"""The CUDA implementation of `kernels.interface.goldilocks.GoldilocksKernels`, on one NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterable

from kernels.cuda.device import Device
from kernels.cuda.goldilocks.deep_fri import CudaDeepFri
from kernels.cuda.goldilocks.lde import LdeProfile
from kernels.cuda.goldilocks.root_powers import RootPowers
from kernels.cuda.goldilocks.row_program import RowProfile
from kernels.cuda.goldilocks.row_source import CudaRowSources
from kernels.cuda.goldilocks.rows import CudaRows
from kernels.cuda.goldilocks.transforms import CudaTransforms
from kernels.interface.goldilocks import GoldilocksKernels
from kernels.interface.row_program import RowProgram
from kernels.interface.row_source import RowSource


class CudaGoldilocks(CudaTransforms, CudaRows, CudaDeepFri, CudaRowSources, GoldilocksKernels):
    """All Goldilocks kernels, on one device and its compute stream, tuned by the profiles."""

    def __init__(
        self, device: Device, *, row_profile: RowProfile | None = None, lde_profile: LdeProfile | None = None
    ) -> None:
        CudaTransforms.__init__(self, device, lde_profile)
        powers = RootPowers(device)
        CudaRows.__init__(self, device, powers, row_profile)
        CudaDeepFri.__init__(self, device, powers)
        CudaRowSources.__init__(self, device)

    def prepare(self, programs: Iterable[RowProgram] = (), sources: Iterable[RowSource] = ()) -> None:
        """Begin to compile every kernel in the background, including those of `programs` and `sources`."""
        self.prepare_row_sources(sources)
        self.prepare_deep_fri()
        self.prepare_rows(programs)
        self.prepare_transforms()
