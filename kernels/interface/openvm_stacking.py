"""The interface of the reduction from claims about columns to claims about stacked columns, over BabyBear's extension.

A stacked column has 2^log_skip times 2^n_stack cells: runs over the subgroup D, one for each point of the cube. The
columns of a trace lie one behind another in a stack, each in a power of two of runs.

Implementations: `kernels.cpu.openvm.stacking`, `kernels.cuda.openvm.stacking`; reached as `OpenVmKernels.stacking`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.interface.arrays import Array
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import DEGREE, Elements


@dataclass(frozen=True)
class StackedPiece:
    """The columns of one trace in a stack."""

    stack: int
    """Number of the stack."""
    start: int
    """First cell, counted over all columns of the stack."""
    width: int
    """Columns, at least one."""
    log_rows: int
    """log2 of the cells of a column, at least log_skip."""
    kind: int
    """Number of the kind of weights: columns of one kind have the same factors in `StackedClaims.bind`."""
    claim: int
    """Number of the first column's claim. Column i scales by the powers 2 (claim + i) of `batch`, and its next row by
    one power more."""
    reads_next: bool
    """Whether next rows are claimed."""


@dataclass(frozen=True)
class StackedRounds:
    """What the multilinear rounds send and draw."""

    rounds: Elements
    """The values of each round's polynomial at 1 and 2, (n_stack, 2, 4)."""
    drawn: tuple[Elements, ...]
    """n_stack elements (4,)."""
    openings: Elements
    """The stacked columns at the point, one stack behind another, (columns, 4)."""


class StackedClaims(ABC):
    """Claims about columns, of which each weighs the column's cells. All elements here are canonical on the host."""

    @abstractmethod
    def sums(self) -> Elements:
        """Return the weighted sums over the columns of each kind and over the cube, for each point of D.

        They are (kinds, 3, 2^log_skip, 4): columns times their scales and eq, columns times the scales of their next
        rows and eq, and the same with eq moved by one, cyclically, to the next point of the cube.
        """

    @abstractmethod
    def bind(self, at_rows: Elements, factors: Elements) -> None:
        """Bind the variable over D in the stacked columns, to weights `at_rows` (2^log_skip, 4), and in the claims.

        `factors` (kinds, 3, 4) are those of the three sums in the weight of a column.
        """

    @abstractmethod
    def rounds(self, sponge: Sponge) -> StackedRounds:
        """Run the sumcheck over stacked columns times weights, after `bind`. A round observes its values and draws a
        challenge for the lowest variable that is left. Uses up the claims."""


class StackingKernels(ABC):
    """The kernels of one device."""

    @abstractmethod
    def claims(
        self,
        stacks: Sequence[Array],
        log_skip: int,
        pieces: Sequence[StackedPiece],
        point: Sequence[Elements],
        batch: Elements,
    ) -> StackedClaims:
        """Return the claims about columns of stacks (width, 2^(log_skip + n_stack)).

        `pieces` are all of the columns, those of one stack in ascending order. eq of a column with 2^n runs is that of
        the first n elements of `point`, each (4,). The claims read the stacks until `bind` returns.
        """


def powers_at(piece: StackedPiece, powers: Elements) -> Elements:
    """Return the scales of a piece's columns and of their next rows, (width, 2, 4), from all powers of `batch`."""
    return powers.reshape(-1, 2, 4)[piece.claim : piece.claim + piece.width]


def no_rounds() -> Elements:
    """Return the values of no round, (0, 2, 4)."""
    return np.zeros((0, 2, DEGREE), dtype=np.uint32)
