"""The interface of LogUp's fractional sums: trees of fractions over BabyBear's extension, and their GKR reduction.

The sum of two fractions p_0/q_0 and p_1/q_1 is (p_0 q_1 + p_1 q_0) / (q_0 q_1). A layer with 2^k fractions is the sums
of neighbours of the layer with 2^(k+1).

Implementations: `kernels.cpu.openvm.fractions`, `kernels.cuda.openvm.fractions`; reached as `OpenVmKernels.fractions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from kernels.interface.arrays import Array
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import Elements


@dataclass(frozen=True)
class ReducedFractions:
    """What the reduction of a tree of 2^n fractions sends, and the point where it leaves its claims."""

    claims: Elements
    """p_0, p_1, q_0 and q_1 of each layer below the root, at the challenges of its rounds: (n, 4, 4)."""
    rounds: tuple[Elements, ...]
    """For i = 1 to n - 1 the values of i rounds' polynomials at 1, 2 and 3, (i, 3, 4)."""
    point: tuple[Elements, ...]
    """n elements (4,), the lowest variable first."""


class FractionTree(ABC):
    """All layers of a sum of 2^n fractions."""

    root: Elements
    """Numerator and denominator of the sum, (2, 4), canonical on the host."""

    @abstractmethod
    def reduce(self, sponge: Sponge) -> ReducedFractions:
        """Reduce the claim about the root to one about the fractions, which is left at a random point.

        A layer with 2^k fractions, k > 1, draws the challenge `batch`. The sumcheck over its 2^(k-1) pairs follows, of
        eq ((p_0 + batch q_0) q_1 + p_1 q_0) at the point of the claim. A round observes its values at 1, 2 and 3 and
        draws a challenge for the lowest variable that is left. At the end the layer's p_0, q_0, p_1 and q_1 are
        observed, and a challenge between 0 and 1 in each pair is drawn. Uses up the tree.
        """


class FractionKernels(ABC):
    """The kernels of one device."""

    @abstractmethod
    def tree(self, numerators: Array, denominators: Array, log_size: int, padding: Elements) -> FractionTree:
        """Return the tree over 2^log_size fractions, of which the first are given, at least half of all.

        `numerators` (count,) are base elements, `denominators` (count, 4) of the extension; both may be overwritten.
        All other fractions are 0 over `padding` (4,), canonical on the host. Raises SizeError.
        """
