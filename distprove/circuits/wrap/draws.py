"""The challenges of a proof without its verification: `verify_steps` over an arithmetic that computes nothing else.

A verifier absorbs what the proof has, and nothing that it computes itself. So challenges and queries follow from the
proof alone, and products, sums and conditions may be left out. Here each of them is zero, or holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from distprove.stark.air.point import PointProgram
from distprove.stark.arithmetic import Elements, Indices, Numbers, Scalars
from distprove.stark.field import ZERO, Ext
from distprove.stark.multilinear.opened import OpenedRows
from kernels.interface.tree_hash import TreeHash


class Draws(Numbers):
    """Absorbs and draws as `NUMBERS`. What it computes is not what a verifier computes, and no condition is checked."""

    def add(self, a: Ext, b: Ext) -> Ext:  # type: ignore[override]
        return ZERO

    sub = mul = add  # type: ignore[assignment]

    def scale(self, a: Ext, b: int) -> Ext:  # type: ignore[override]
        return ZERO

    def powers(self, a: Ext, count: int) -> list[Ext]:  # type: ignore[override]
        return [ZERO] * count

    def sum(self, values: Sequence[Ext]) -> Ext:  # type: ignore[override]
        return ZERO

    def eqs(self, point: Sequence[Ext], places: Iterable[tuple[int, int]]) -> Iterator[Ext]:
        return (ZERO for _ in places)

    def lagrange(self, point: Ext, log_size: int) -> tuple[Ext, ...]:  # type: ignore[override]
        return (ZERO,) * (1 << log_size)

    def at_offsets(self, folds: Sequence[Ext]) -> Callable[[int, int], Ext]:
        return lambda first, offset: ZERO

    def program_at(self, program: PointProgram, this: Sequence[Any], next_: Sequence[Any], scalars: Elements) -> Ext:
        return ZERO

    # -- arrays -----------------------------------------------------------------------------------------------------

    def adds(self, a: Elements, b: Elements) -> Elements:  # type: ignore[override]
        return a

    def muls(self, a: Elements, b: Elements) -> Elements:
        return a

    def powers_array(self, base: Ext, count: int) -> Elements:  # type: ignore[override]
        return np.zeros((count, 3), dtype=np.uint64)

    def weighted(self, weights: Sequence[Ext], rows: Scalars) -> Elements:
        return np.zeros((*rows.shape[:-1], 3), dtype=np.uint64)

    def dot(self, a: Elements, b: Elements) -> Ext:
        return ZERO

    def paired(self, factors: Elements, points: Elements, alphas: Sequence[Ext]) -> tuple[Elements, Elements]:
        return factors, points

    def fold_leaves(
        self, word: Elements, indices: Indices, log_domain: int, alphas: Sequence[Ext]
    ) -> tuple[Elements, Scalars]:
        return word[:, 0], np.zeros(len(indices), dtype=np.uint64)

    # -- conditions -------------------------------------------------------------------------------------------------

    def need_equal(self, a: Ext, b: Ext, otherwise: str) -> None:
        """Nothing is computed that could be compared."""

    def need_all_equal(self, a: Elements, b: Elements, otherwise: str) -> None:
        """Compare nothing: these elements were not computed."""

    def need_nonzero(self, a: Ext, otherwise: str) -> None:
        """Check nothing: this element was not computed."""

    def need_work(self, seed: bytes, nonce: int, bits: int, tree_hash: TreeHash, otherwise: str) -> None:
        """Check no proof of work: `verify_steps` draws the same challenges without it."""


class UncheckedRows(OpenedRows):
    """The rows that a proof has at its queries. Nothing says that its roots bind them."""

    def check(self) -> None:
        """Leave the trees unhashed."""


DRAWS = Draws()
