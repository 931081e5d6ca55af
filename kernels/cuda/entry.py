"""What the CUDA backend says of itself."""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import suppress
from glob import glob

from kernels.cuda.pinned import PINNED_BYTES
from kernels.interface.entry import BackendEntry


def devices() -> int:
    """CUDA devices that CuPy can use here; 0 without CuPy, a driver or a device."""
    try:
        import cupy
    except ImportError:
        return 0
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


def likely_devices() -> int:
    """Devices that the driver shows, as far as the environment lets this process see them."""
    shown = len(glob("/proc/driver/nvidia/gpus/*")) or len(glob("/dev/nvidia[0-9]*"))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return shown if visible is None else min(shown, len([name for name in visible.split(",") if name.strip()]))


def open_ahead(device: int) -> None:
    """Load CuPy, NVRTC and the backend, while the driver makes the device's context on a thread of its own."""
    making = threading.Thread(target=_make_context, args=(device,), name="distprove-context")
    making.start()
    import cupy

    from kernels.cuda import backend  # noqa: F401
    from kernels.cuda.compiler import nvrtc_version

    nvrtc_version()
    making.join()
    cupy.cuda.Device(device).use()
    cupy.cuda.runtime.memGetInfo()


def _make_context(device: int) -> None:
    """Make the primary context, which CuPy then finds. It lives as long as the process."""
    with suppress(OSError, AttributeError):  # without a driver; what is missing is told when the backend is made
        driver = ctypes.CDLL("libcuda.so.1")
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(handle), device) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)


ENTRY = BackendEntry("CUDA", "kernels.cuda.backend:CudaBackend", devices, likely_devices, open_ahead, PINNED_BYTES)
