"""The way into the CUDA backend."""

from __future__ import annotations

from typing import Any

from kernels.cuda.pinned import PINNED_BYTES
from kernels.interface.entry import BackendEntry


def _open(*, arena: Any, lease: Any, **arguments: Any) -> Any:
    from kernels.cuda.backend import CudaBackend

    return CudaBackend(**arguments)


def _devices() -> int:
    """CUDA devices that CuPy can use here; 0 without CuPy, a driver or a device."""
    try:
        import cupy
    except ImportError:
        return 0
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


ENTRY = BackendEntry("CUDA", _open, _devices, PINNED_BYTES)
