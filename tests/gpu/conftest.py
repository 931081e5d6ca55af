"""The CUDA backend on a real GPU; every test here skips, with the reason, where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernels.backend import BackendError
from kernels.cuda import CudaBackend


@pytest.fixture(scope="session")
def cuda() -> Iterator[CudaBackend]:
    try:
        backend = CudaBackend(threads=8)
    except BackendError as error:
        pytest.skip(str(error))
    yield backend
    backend.close()
