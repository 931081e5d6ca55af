"""The CUDA implementation of `kernels.interface.openvm.OpenVmKernels`."""

from __future__ import annotations

import numpy as np

from kernels.cuda.babybear import SOURCE, CudaBabyBear
from kernels.cuda.device import Device
from kernels.interface.arrays import Array
from kernels.interface.openvm import OpenVmKernels
from kernels.maths.babybear import Elements, P, mul

INVERSE_RADIX = np.uint32(pow(1 << 32, -1, P))
"""Takes an element out of Montgomery form."""


class CudaOpenVm(OpenVmKernels):
    """The kernels of one device, on its compute stream."""

    def __init__(self, device: Device, babybear: CudaBabyBear) -> None:
        self._device = device
        self.babybear = babybear

    def load(self, host: Elements) -> Array:
        array = self._device.upload(np.ascontiguousarray(host, dtype=np.uint32))
        if array.size:
            kernel = self._device.kernel(SOURCE, "babybear_to_montgomery")
            kernel.launch_items(int(array.size), (array, np.uint64(array.size)))
        return array

    def download(self, array: Array) -> Elements:
        return mul(self._device.download(array), INVERSE_RADIX)
