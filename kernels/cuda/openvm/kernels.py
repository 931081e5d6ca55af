"""The CUDA implementation of `kernels.interface.openvm.OpenVmKernels`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cuda.babybear import SOURCE, least_witness
from kernels.cuda.device import Device
from kernels.cuda.openvm.codes import SOURCE as CODES
from kernels.cuda.openvm.codes import CudaCodes
from kernels.cuda.openvm.fractions import SOURCE as FRACTIONS
from kernels.cuda.openvm.fractions import CudaFractions
from kernels.cuda.openvm.opening import SOURCE as OPENING
from kernels.cuda.openvm.opening import CudaOpenings
from kernels.cuda.openvm.rules import RULES, CudaRules
from kernels.cuda.openvm.stacking import SOURCE as STACKING
from kernels.cuda.openvm.stacking import CudaStacking
from kernels.cuda.openvm.trees import SOURCE as TREES
from kernels.host.babybear import canonical
from kernels.interface.arrays import Array
from kernels.interface.openvm import OpenVmKernels
from kernels.maths.babybear import Elements

SOURCES = SOURCE, CODES, TREES, OPENING, RULES, FRACTIONS, STACKING


class CudaOpenVm(OpenVmKernels):
    """The kernels of one device, on its compute stream."""

    codes: CudaCodes
    opening: CudaOpenings
    rules: CudaRules
    fractions: CudaFractions
    stacking: CudaStacking

    def __init__(self, device: Device) -> None:
        self._device = device
        self.codes = CudaCodes(device)
        self.opening = CudaOpenings(device, self.codes)
        self.rules = CudaRules(device)
        self.fractions = CudaFractions(device)
        self.stacking = CudaStacking(device)

    def prepare(self) -> None:
        """Begin to compile the kernels in the background."""
        for source in SOURCES:
            self._device.prepare(source)

    def clear(self) -> None:
        """Release the device memory that is kept between calls."""
        self.codes.clear()
        self.opening.clear()

    def load(self, host: Elements) -> Array:
        return self.adopt(self._device.upload(np.ascontiguousarray(host, dtype=np.uint32)))

    def adopt(self, array: Array) -> Array:
        if array.size:
            kernel = self._device.kernel(SOURCE, "babybear_to_montgomery")
            kernel.launch_items(int(array.size), (array, np.uint64(array.size)))
        return array

    def download(self, array: Array) -> Elements:
        return canonical(self._device.download(array))

    def least_witness(self, state: Sequence[int], position: int, bits: int) -> int:
        return least_witness(self._device, state, position, bits)
