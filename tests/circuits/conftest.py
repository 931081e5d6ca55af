"""What the tests of circuits share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend


@pytest.fixture(scope="session")
def backend() -> Iterator[Backend]:
    made = CpuBackend(threads=2)
    yield made
    made.close()
