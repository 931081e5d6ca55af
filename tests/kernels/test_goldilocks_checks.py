"""The checks of large extensions and trees notice a wrong one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.cpu.backend import CpuBackend
from tests.support import goldilocks_checks as goldilocks
from tests.support.stark_reference import ReferenceKernels

Words = NDArray[np.uint64]


class Backend(CpuBackend):
    """The CPU's memory, the definition's arithmetic."""

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.kernels = ReferenceKernels()

    @property
    def goldilocks(self) -> ReferenceKernels:
        return self.kernels


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.mark.parametrize("where", [0, (1, 0, 0), (1, 1, 15)])
def test_a_wrong_extension(backend: Backend, monkeypatch: pytest.MonkeyPatch, where: Any) -> None:
    right = backend.kernels.lde
    goldilocks.check_lde(backend, 4, 1)

    def wrong(columns: Words, log_blowup: int, **options: Any) -> Words:
        out = right(columns, log_blowup, **options)
        out[where] ^= np.uint64(1)
        return out

    monkeypatch.setattr(backend.kernels, "lde", wrong)
    with pytest.raises(AssertionError, match="rows"):
        goldilocks.check_lde(backend, 4, 1)


def test_a_wrong_tree(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = goldilocks.random_words(backend, 3, 2, 8)
    goldilocks.check_tree(backend, matrix)
    right = backend.kernels.commit
    monkeypatch.setattr(backend.kernels, "commit", lambda m: right([np.roll(m[0], 1, axis=2)]))
    with pytest.raises(AssertionError, match="not the matrix' row"):
        goldilocks.check_tree(backend, matrix)
    wrong = right([matrix])
    wrong.levels[1][0:8] = [bytes(32)] * 8
    monkeypatch.setattr(backend.kernels, "commit", lambda m: wrong)
    with pytest.raises(AssertionError, match="does not lead"):
        goldilocks.check_tree(backend, matrix)
