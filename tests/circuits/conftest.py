"""What the tests of circuits share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernels.backend import Backend
from kernels.cpu import CpuBackend


@pytest.fixture(scope="session")
def backend() -> Iterator[Backend]:
    made = CpuBackend(threads=2)
    yield made
    made.close()
