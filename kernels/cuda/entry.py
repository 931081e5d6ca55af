"""What the CUDA backend says of itself."""

from __future__ import annotations

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


ENTRY = BackendEntry("CUDA", "kernels.cuda.backend:CudaBackend", devices, PINNED_BYTES)
