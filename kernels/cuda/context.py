"""A device before there is a backend: makes its context through the driver alone, and tells its name."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any


def make_context(device: int) -> None:
    """Make the primary context of a device, as CuPy then finds it. It lives as long as the process. Nothing is raised
    for what the driver refuses: that is told when the backend is made. Raises OSError where there is no driver."""
    driver = ctypes.CDLL("libcuda.so.1")
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(handle), device) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)


def uuid_of(properties: Mapping[str, Any]) -> str:
    """The UUID in a device's properties, as the driver's tools write it; "" where there is none."""
    told = bytes(properties.get("uuid", b"")).hex()[:32].ljust(32, "0")
    parts = (told[:8], told[8:12], told[12:16], told[16:20], told[20:])
    return f"GPU-{'-'.join(parts)}" if properties.get("uuid") else ""
