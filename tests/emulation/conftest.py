"""The CUDA backend over kernels that run on the host."""

from __future__ import annotations

import pytest

from kernels.cuda.backend import CudaBackend
from kernels.cuda.msm import MsmProfile
from tests.support.emulated_device import EmulatedDevice, compiler


@pytest.fixture(scope="session")
def emulated() -> CudaBackend:
    """A CudaBackend whose kernels g++ compiled; small blocks, so that small inputs span several. By default tables of
    so few points have 127 windows of two bits; those of four bits take a fifth of the time."""
    if compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    profile = MsmProfile(window_bits=4, reduce_block=32, reduce_threads=32)
    return CudaBackend(EmulatedDevice(), msm_profile=profile)
