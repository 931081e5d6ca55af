"""What the CUDA backend says of itself."""

from __future__ import annotations

import os
from glob import glob

from kernels.cuda.context import uuid_of
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
    """Load CuPy, NVRTC and the backend, and open the device."""
    import cupy

    from kernels.cuda import backend  # noqa: F401
    from kernels.cuda.compiler import nvrtc_version

    nvrtc_version()
    cupy.cuda.Device(device).use()
    cupy.cuda.runtime.memGetInfo()


ENTRY = BackendEntry(
    "CUDA",
    "kernels.cuda.backend:CudaBackend",
    devices,
    likely_devices,
    "kernels.cuda.context:make_context",
    open_ahead,
    uuid_of,
    PINNED_BYTES,
)
