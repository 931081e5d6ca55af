"""The interface of OpenVM 2's commitments: stacked columns, their Reed-Solomon codewords and Merkle trees.

A codeword has the values of a polynomial at the powers of the root of unity of its length, and the message as
coefficients. A tree is over the rows of several codewords. Leaf i of m leaves has the rows i, i + m, i + 2m and so on,
2^log_fold of them, hashed one by one and joined to one digest in pairs. The hash is `kernels.maths.poseidon2_babybear`.

Matrices, columns and codewords are arrays in the backend's memory (see `kernels.interface.openvm`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernels.interface.arrays import Array
from kernels.maths.babybear import Elements


@dataclass(frozen=True)
class Place:
    """Where a matrix lies in stacked columns: cell i, in C order, at start + (i << log_step)."""

    start: int
    log_step: int


@dataclass(frozen=True)
class Opened:
    """Opened leaves of a tree, on the host."""

    rows: Elements = field(repr=False)
    """Rows of each leaf, (leaves, 2^log_fold, width); an element of the extension is 4 base elements."""
    paths: Elements = field(repr=False)
    """Merkle paths from the leaf on, (leaves, depth, 8)."""


class CodeTree(ABC):
    """A Merkle tree over the rows of codewords, which it keeps."""

    @property
    @abstractmethod
    def root(self) -> Elements:
        """The root (8,), on the host."""


class CodeKernels(ABC):
    """The kernels of one device."""

    @abstractmethod
    def stack(self, matrices: Sequence[Array], places: Sequence[Place], width: int, log_height: int) -> Array:
        """Return columns (width, 2^log_height) that hold the matrices at their places, and zeros elsewhere.

        The places are disjoint, in ascending order, and each matrix with its steps follows the last one.
        """

    @abstractmethod
    def commit(self, columns: Array, log_skip: int, log_blowup: int, log_fold: int) -> CodeTree:
        """Encode and hash stacked columns (width, n); a codeword has n 2^log_blowup elements.

        A run of 2^log_skip values of a column gives the coefficients of the polynomial over the subgroup of that order
        that has them. These are taken as coefficients of a multilinear polynomial, of which the message has the values
        on the cube.
        """

    @abstractmethod
    def commit_coefficients(self, coefficients: Array, log_blowup: int, log_fold: int) -> CodeTree:
        """Encode and hash a polynomial with coefficients of the extension, (4, n): the message."""

    @abstractmethod
    def open(self, trees: Sequence[CodeTree], leaves: NDArray[np.int64]) -> list[Opened]:
        """Open the same leaves of trees that this device made."""
