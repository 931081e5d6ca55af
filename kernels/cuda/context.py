"""A device before there is a backend: makes its context through the driver alone, and tells its UUID."""

from __future__ import annotations

import ctypes
from uuid import UUID


def make_context(device: int) -> None:
    """Make the primary context of a device, as CuPy then finds it. It lives as long as the process. Nothing is raised
    for what the driver refuses: that is told when the backend is made. Raises OSError where there is no driver."""
    driver = ctypes.CDLL("libcuda.so.1")
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(handle), device) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)


def uuid_of(device: int) -> str:
    """The UUID of a device as the driver's tools write it; "" where the driver does not tell. Opens no device.

    The driver is asked itself: CuPy's properties end a UUID at its first zero byte.
    """
    handle, told = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        unknown = (
            driver.cuInit(0)
            or driver.cuDeviceGet(ctypes.byref(handle), device)
            or driver.cuDeviceGetUuid_v2(told, handle)
        )
    except (OSError, AttributeError):  # no driver, or one older than CUDA 11.4
        return ""
    return "" if unknown else f"GPU-{UUID(bytes=bytes(told))}"
