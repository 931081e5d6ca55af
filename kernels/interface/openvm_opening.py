"""The interface of the tables of OpenVM 2's opening argument (WHIR).

An opening claims a sum over the cube of values times weights, both multilinear tables over the extension whose first
variable joins neighbours. The values are those of one polynomial, the combination of stacked columns. Beside them the
polynomial is folded in its coefficients, which the next codeword encodes: its message on the cube.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from kernels.interface.arrays import Array
from kernels.maths.babybear import Elements


class Opening(ABC):
    """The tables of one opening, of which each challenge halves the size."""

    @abstractmethod
    def sums(self) -> Elements:
        """Return the sums of values times weights with the first variable at 1 and at 2, (2, 4), on the host."""

    @abstractmethod
    def bind(self, challenge: Elements) -> None:
        """Bind the first variable to a challenge (4,)."""

    @property
    @abstractmethod
    def coefficients(self) -> Array:
        """The coefficients (4, n) of the polynomial that has the values, in the variables that are not bound."""

    @abstractmethod
    def evaluate(self, at: Elements) -> Elements:
        """Return the sum over i of coefficient i times at^i, (4,), on the host."""

    @abstractmethod
    def add_points(self, outside: Elements, points: Elements, factors: Elements) -> None:
        """Add to the weights, for each point z, a factor times the table of eq(z, z^2, z^4, ...).

        The points are `outside` (4,) and base elements (m,); factors (m + 1, 4) are in this order.
        """


class OpeningKernels(ABC):
    """The kernels of one device."""

    @abstractmethod
    def begin(self, columns: Sequence[Array], powers: Elements, log_skip: int, point: Sequence[Elements]) -> Opening:
        """Open the combination of stacked columns (width, 2^h) by factors `powers` (total width, 4) at a point.

        The combination's message, as in `CodeKernels.commit`, has the coefficients of a multilinear polynomial. The
        values are its values on the cube. A weight is the product over i of x_i where bit i is set, and 1 - 2 x_i where
        it is not, for the h coordinates x_i of the point.
        """
