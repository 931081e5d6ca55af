"""Openings, DEEP and FRI on the CPU: what `GoldilocksKernels` (`kernels.interface.goldilocks`) computes after the
quotient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cpu.goldilocks.rows import CpuRows, canonical, cube
from kernels.errors import SizeError
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import DeepPoint, OpenedRuns, Words
from kernels.maths.goldilocks import GENERATOR, Ext, P
from kernels.maths.goldilocks_extension import ext_scale_all

MAX_LOG_ARITY = 6
"""log2 of the largest arity of a fold, which keeps 2^6 values of a row at once."""


class CpuDeepFri(CpuRows):
    """Openings, DEEP and FRI's fold, beside the row-by-row kernels, on the same threads."""

    def _evaluate_at(self, opened: OpenedRuns, point: Ext) -> None:
        for (n, points), runs in opened.items():
            if point[1:] == (0, 0) and pow(point[0], n, P) == pow(GENERATOR, n, P):
                raise SizeError("the point lies on the coset that the polynomials are evaluated from")
            widths = [len(run.columns) for run in runs]
            values = np.empty((sum(widths), points, 3), dtype=np.uint64)
            self._rows.evaluate_at([cube(run.columns) for run in runs], _ext(point), points == 2, values)
            for run, found in zip(runs, np.split(values, np.cumsum(widths)[:-1]), strict=True):
                run.put(found)

    def _combine(self, matrices: Sequence[Array], weights: Words, out: Array | None) -> Array:
        out = self._empty((3, matrices[0].shape[2]), np.uint64) if out is None else out
        self._rows.combine([cube(m) for m in matrices], canonical(weights, "weights"), out)
        return out

    def _deep(self, points: Sequence[DeepPoint], shape: tuple[int, ...]) -> Array:
        out = self._empty(shape, np.uint64)
        out[...] = 0  # the points' terms are added to it
        groups: list[list[Words]] = []
        openings = []
        for i, p in enumerate(points):
            same = i > 0 and [id(m) for m in p.matrices] == [id(m) for m in points[i - 1].matrices]
            if not same:
                groups.append([cube(m) for m in p.matrices])
            weights = ext_scale_all(p.weights, p.factor)
            openings.append((len(groups) - 1, _ext(p.point), canonical(weights, "weights"), _ext(p.value)))
        self._rows.deep(groups, openings, out)
        return out

    def _fold(self, codeword: Array, log_arity: int, beta: Ext, add: Array | None) -> Array:
        if log_arity > MAX_LOG_ARITY:
            raise SizeError(f"a fold by 2^{log_arity}; the kernels fold by at most 2^{MAX_LOG_ARITY}")
        _, blowup, n = codeword.shape
        out = self._empty((3, blowup, n >> log_arity), np.uint64)
        added = None if add is None else cube(add)
        self._rows.fold(cube(codeword), log_arity, _ext(beta), added, out)
        return out


def _ext(element: Ext) -> Words:
    if len(element) != 3 or not all(0 <= c < P for c in element):
        raise SizeError("an extension element is three canonical field elements")
    return np.array(element, dtype=np.uint64)
