"""Makes a device's context through the driver alone, before there is CuPy."""

from __future__ import annotations

import ctypes


def make_context(device: int) -> None:
    """Make the primary context of a device, as CuPy then finds it. It lives as long as the process. Nothing is raised
    for what the driver refuses: that is told when the backend is made. Raises OSError where there is no driver."""
    driver = ctypes.CDLL("libcuda.so.1")
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(handle), device) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
