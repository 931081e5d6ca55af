"""The CPU implementation of `kernels.interface.openvm_stacking`: products of matrices, and rounds in native code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cpu.openvm.tables import eq_table
from kernels.interface.arrays import Array
from kernels.interface.babybear import BabyBearKernels
from kernels.interface.openvm_stacking import (
    StackedClaims,
    StackedPiece,
    StackedRounds,
    StackingKernels,
    no_rounds,
    powers_at,
)
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import Elements, add, ext_powers
from kernels.maths.babybear_ntt import log2_of


class CpuStacking(StackingKernels):
    """The kernels, which compute by those of `babybear`."""

    def __init__(self, babybear: BabyBearKernels) -> None:
        self._k = babybear

    def claims(
        self,
        stacks: Sequence[Array],
        log_skip: int,
        pieces: Sequence[StackedPiece],
        point: Sequence[Elements],
        batch: Elements,
    ) -> CpuStackedClaims:
        return CpuStackedClaims(self._k, stacks, log_skip, pieces, point, batch)


class CpuStackedClaims(StackedClaims):
    """Claims about arrays on the host."""

    def __init__(
        self,
        k: BabyBearKernels,
        stacks: Sequence[Elements],
        log_skip: int,
        pieces: Sequence[StackedPiece],
        point: Sequence[Elements],
        batch: Elements,
    ) -> None:
        self._k, self._stacks, self._log_skip, self._pieces = k, stacks, log_skip, pieces
        self._powers = ext_powers(batch, 2 * sum(piece.width for piece in pieces))
        variables = {piece.log_rows - log_skip for piece in pieces}
        self._eq = {n: eq_table(k, point[:n]) for n in variables}
        self._values = self._weights = np.zeros((0, 1, 4), dtype=np.uint32)

    def sums(self) -> Elements:
        kinds, run = 1 + max((piece.kind for piece in self._pieces), default=-1), 1 << self._log_skip
        found = np.zeros((kinds, 3, run, 4), dtype=np.uint32)
        for piece in self._pieces:
            cells = self._stacks[piece.stack].reshape(-1)
            columns = cells[piece.start : piece.start + (piece.width << piece.log_rows)]
            own, following = powers_at(piece, self._powers).swapaxes(0, 1)
            eq = self._eq[piece.log_rows - self._log_skip]
            parts = [(own, eq)]
            if piece.reads_next:
                parts += [(following, eq), (following, np.roll(eq, 1, axis=0))]
            for number, (scale, cube) in enumerate(parts):
                weights = self._k.ext_mul(scale[:, None], cube).reshape(-1, 4)
                sums = self._k.matmul(np.ascontiguousarray(weights.T), columns.reshape(len(weights), run)).T
                found[piece.kind, number] = add(found[piece.kind, number], sums)
        return found

    def bind(self, at_rows: Elements, factors: Elements) -> None:
        k, run = self._k, 1 << self._log_skip
        widths = [len(stack) for stack in self._stacks]
        self._values = np.concatenate(
            [
                k.matmul(stack.reshape(-1, run), at_rows).reshape(len(stack), stack.shape[1] // run, 4)
                for stack in self._stacks
            ]
        )
        self._weights = np.zeros_like(self._values)
        firsts = np.cumsum([0, *widths])
        for piece in self._pieces:
            own, following = powers_at(piece, self._powers).swapaxes(0, 1)
            eq, (first, second, third) = self._eq[piece.log_rows - self._log_skip], factors[piece.kind]
            table = k.ext_mul(own[:, None], k.ext_mul(eq, first))
            if piece.reads_next:
                step = add(k.ext_mul(eq, second), k.ext_mul(np.roll(eq, 1, axis=0), third))
                table = add(table, k.ext_mul(following[:, None], step))
            start = piece.start >> self._log_skip
            room = self._weights[firsts[piece.stack] : firsts[piece.stack + 1]].reshape(-1, 4)
            room[start : start + table.shape[0] * table.shape[1]] = table.reshape(-1, 4)
        self._stacks = ()

    def rounds(self, sponge: Sponge) -> StackedRounds:
        k, values, weights = self._k, self._values, self._weights
        rounds, drawn = [], []
        for _ in range(log2_of(values.shape[1])):
            rounds.append(k.pair_round(values, weights))
            sponge.observe_words(rounds[-1])
            drawn.append(sponge.sample_array())
            values, weights = k.fold(values, drawn[-1]), k.fold(weights, drawn[-1])
        return StackedRounds(np.stack(rounds) if rounds else no_rounds(), tuple(drawn), values[:, 0])
