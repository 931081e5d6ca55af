"""The CPU implementation of `kernels.interface.openvm_fractions`: rounds in native code, one layer after another."""

from __future__ import annotations

import numpy as np

from kernels.cpu.openvm.tables import eq_table
from kernels.interface.arrays import Array
from kernels.interface.babybear import BabyBearKernels
from kernels.interface.openvm_fractions import FractionKernels, FractionTree, ReducedFractions
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import DEGREE, Elements, add
from kernels.maths.babybear_ntt import log2_of


class CpuFractions(FractionKernels):
    """The kernels, which compute by those of `babybear`."""

    def __init__(self, babybear: BabyBearKernels) -> None:
        self._k = babybear

    def tree(self, numerators: Array, denominators: Array, log_size: int, padding: Elements) -> CpuFractionTree:
        whole = np.zeros((2, 1 << log_size, DEGREE), dtype=np.uint32)
        whole[1] = padding
        whole[0, : len(numerators), 0], whole[1, : len(numerators)] = numerators, denominators
        return CpuFractionTree(self._k, whole)


class CpuFractionTree(FractionTree):
    """A tree of which every layer is kept."""

    def __init__(self, k: BabyBearKernels, fractions: Elements) -> None:
        self._k = k
        layers = [fractions]
        while layers[-1].shape[1] > 1:
            p, q = layers[-1]
            p0, p1, q0, q1 = p[::2], p[1::2], q[::2], q[1::2]
            layers.append(np.stack((add(k.ext_mul(p0, q1), k.ext_mul(p1, q0)), k.ext_mul(q0, q1))))
        self.root = layers.pop()[:, 0]
        self._layers = layers

    def reduce(self, sponge: Sponge) -> ReducedFractions:
        claims: list[Elements] = []
        rounds: list[Elements] = []
        point: list[Elements] = []
        while self._layers:
            layer = self._layers.pop()
            halves = np.stack((layer[0, ::2], layer[0, 1::2], layer[1, ::2], layer[1, 1::2]))
            if point:
                halves, sent, point = self._rounds(sponge, halves, point)
                rounds.append(sent)
            claim = halves[:, 0]
            claims.append(claim)
            sponge.observe_words(claim[[0, 2, 1, 3]])
            point = [sponge.sample_array(), *point]
        return ReducedFractions(np.array(claims, dtype=np.uint32).reshape(-1, 4, 4), tuple(rounds), tuple(point))

    def _rounds(
        self, sponge: Sponge, halves: Elements, point: list[Elements]
    ) -> tuple[Elements, Elements, list[Elements]]:
        """The sumcheck of one layer, from its p_0, p_1, q_0, q_1 (4, 2^n, 4) and the claim's point.

        Returns these bound to the challenges, (4, 1, 4); the values sent, (n, 3, 4); and the challenges.
        """
        k, batch = self._k, sponge.sample_array()
        eq = eq_table(k, point)
        sent, drawn = [], []
        for _ in range(log2_of(len(eq))):
            sent.append(k.layer_round(eq, halves, batch))
            sponge.observe_words(sent[-1])
            drawn.append(sponge.sample_array())
            halves, eq = k.fold(halves, drawn[-1]), k.fold(eq, drawn[-1])
        return halves, np.stack(sent), drawn
