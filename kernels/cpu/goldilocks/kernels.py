"""The CPU implementation of `kernels.interface.goldilocks.GoldilocksKernels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels.cpu.goldilocks.deep_fri import CpuDeepFri
from kernels.cpu.goldilocks.row_source import CpuRowSources
from kernels.cpu.goldilocks.transforms import CpuTransforms
from kernels.interface.arrays import Array, Empty
from kernels.interface.goldilocks import DeepPoint, GoldilocksKernels, LdeJob
from kernels.maths.goldilocks import GENERATOR


class CpuGoldilocks(CpuTransforms, CpuDeepFri, CpuRowSources, GoldilocksKernels):
    """All Goldilocks kernels, on one pool of threads of the extension module `native`.

    `instruction_set` and `row_kernels` are those of `CpuTransforms` and `CpuRows`. Results lie in what `empty` makes.
    """

    def __init__(
        self,
        native: Any,
        pool: Any,
        empty: Empty = np.empty,
        *,
        instruction_set: str | None = None,
        row_kernels: str | None = None,
    ) -> None:
        CpuTransforms.__init__(self, native, pool, empty, instruction_set=instruction_set)
        CpuDeepFri.__init__(self, native, pool, empty, row_kernels)
        CpuRowSources.__init__(self, pool, empty)

    def _deep_polynomial(self, points: Sequence[DeepPoint], shape: tuple[int, ...]) -> Array:
        _, blowup, n = shape
        first = self._deep(points, (3, 1, n))
        return first if blowup == 1 else self._lde(LdeJob(first.reshape(3, n), GENERATOR), blowup.bit_length() - 1)
