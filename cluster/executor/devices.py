"""The CUDA devices that provers can be given."""

from __future__ import annotations


def cuda_devices() -> int:
    """CUDA devices that CuPy can use here; 0 without CuPy, a driver or a device."""
    try:
        import cupy
    except ImportError:
        return 0
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0
