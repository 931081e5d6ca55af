"""The interface of the kernels over BabyBear: products, transforms, Poseidon2 and proofs of work.

Elements, and elements of the extension in a last axis of 4, are those of `kernels.maths.babybear`: canonical uint32
arrays on the host. Sums and differences of them are NumPy's, by the functions there.

Implementations: `kernels.cpu.babybear`, `kernels.cuda.babybear`; reached as `Backend.babybear`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from kernels.errors import SizeError
from kernels.maths.babybear import Elements


class BabyBearKernels(ABC):
    """The kernels over BabyBear. Factors broadcast as NumPy's do, over all axes but that of the extension."""

    @abstractmethod
    def mul(self, a: Elements, b: Elements) -> Elements:
        """Return the product of base elements, elementwise."""

    @abstractmethod
    def ext_mul(self, a: Elements, b: Elements) -> Elements:
        """Return the product of extension elements (..., 4), elementwise."""

    @abstractmethod
    def add_scaled(self, total: Elements, a: Elements, by: Elements) -> None:
        """Add a times `by` (4,) to extension elements `total` (..., 4) in place, which is contiguous.

        `a` has base elements (...,) or extension elements (..., 4); it does not broadcast. Raises SizeError.
        """

    @abstractmethod
    def matmul(self, a: Elements, b: Elements) -> Elements:
        """Return the product (m, n) of matrices (m, k) and (k, n) of base elements."""

    @abstractmethod
    def ntt(self, coefficients: Elements, axis: int = -1) -> Elements:
        """Return values at the powers of a root of unity, as `kernels.maths.babybear_ntt.ntt`. Raises ValueError."""

    @abstractmethod
    def intt(self, values: Elements, axis: int = -1) -> Elements:
        """Return coefficients, as `kernels.maths.babybear_ntt.intt`. Raises ValueError."""

    @abstractmethod
    def hash_rows(self, rows: Elements) -> Elements:
        """Return the digests (n, 8) of rows (n, width), as `kernels.maths.poseidon2_babybear.hash_rows`."""

    @abstractmethod
    def compress(self, left: Elements, right: Elements) -> Elements:
        """Return the parents (n, 8) of digests (n, 8)."""

    @abstractmethod
    def least_witness(self, state: Sequence[int], position: int, bits: int) -> int:
        """Return the least w with which a sponge's state, w at `position`, permutes to `bits` low zeros of element 7.

        Raises ValueError if there is none.
        """


def check_sum(total: Elements, a: Elements) -> None:
    """Raise SizeError unless `add_scaled` can add `a` to `total`."""
    if a.shape not in (total.shape, total.shape[:-1]) or not total.flags.c_contiguous:
        raise SizeError(f"an array {a.shape} cannot be added to one {total.shape}, or that is not contiguous")
