"""The CUDA backend on a real GPU; every test here skips, with the reason, where there is none.

`pytest tests/gpu --record FILE` writes each test's outcome, and of each kernel source its digest and the kernels that
were launched. docs/results/h200-gpu-tests.json is such a record, of 2026-12-01.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.cuda.backend import CudaBackend
from kernels.errors import BackendError


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", metavar="FILE", help="write what ran on the GPU, and how it ended")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--record", default=None)  # unknown when these tests are collected with all others
    if path is not None:
        from tests.support.gpu_record import Record

        config.pluginmanager.register(Record(Path(path)))


@pytest.fixture(scope="session")
def cuda() -> Iterator[CudaBackend]:
    try:
        backend = CudaBackend(threads=8)
    except BackendError as error:
        pytest.skip(str(error))
    yield backend
    backend.close()
