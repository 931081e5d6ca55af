"""The CPU implementation of `kernels.interface.openvm.OpenVmKernels`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cpu.openvm.codes import CpuCodes
from kernels.cpu.openvm.fractions import CpuFractions
from kernels.cpu.openvm.opening import CpuOpenings
from kernels.cpu.openvm.rules import CpuRules
from kernels.cpu.openvm.stacking import CpuStacking
from kernels.interface.arrays import Array
from kernels.interface.babybear import BabyBearKernels
from kernels.interface.openvm import OpenVmKernels
from kernels.maths.babybear import Elements


class CpuOpenVm(OpenVmKernels):
    """The kernels, which compute by those of `babybear`."""

    def __init__(self, babybear: BabyBearKernels) -> None:
        self._babybear = babybear
        self.codes = CpuCodes(babybear)
        self.opening = CpuOpenings(babybear)
        self.rules = CpuRules(babybear)
        self.fractions = CpuFractions(babybear)
        self.stacking = CpuStacking(babybear)

    def load(self, host: Elements) -> Array:
        return host

    def adopt(self, array: Array) -> Array:
        return array

    def download(self, array: Array) -> Elements:
        return np.asarray(array)

    def least_witness(self, state: Sequence[int], position: int, bits: int) -> int:
        return self._babybear.least_witness(state, position, bits)
