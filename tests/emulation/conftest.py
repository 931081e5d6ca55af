"""The CUDA backend over kernels that run on the host."""

from __future__ import annotations

import pytest

from kernels.cuda.backend import CudaBackend
from tests.support.emulated_device import EmulatedDevice, compiler


@pytest.fixture(scope="session")
def emulated() -> CudaBackend:
    """A CudaBackend whose kernels g++ compiled; small blocks, so that small inputs span several."""
    if compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    return CudaBackend(EmulatedDevice())
