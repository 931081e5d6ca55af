"""BabyBear in native code on the caller's thread: what provers compute from a challenge, between two messages.

Powers, eq of many places, sums of products of table entries, and the Montgomery form of what a device is given. The
arrays are those of `kernels.maths.babybear`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.host.native import native
from kernels.maths.babybear import DEGREE, Elements
from kernels.maths.broadcasting import flat

Indices = NDArray[np.int64]
_CALLER = native.Pool(1)
"""The thread of the caller."""
MOST_COORDINATES = 63
"""Most coordinates of a point of `eq_of_places`."""


@dataclass(frozen=True)
class ProductTerms:
    """Which products `summed` adds up, and where: term i is a[at_a[i]] b[at_b[i]], a part of sum to[i]."""

    at_a: Indices = field(repr=False)
    at_b: Indices = field(repr=False)
    to: Indices = field(repr=False)
    size: int
    """Number of sums."""

    def summed(self, a: Elements, b: Elements) -> Elements:
        """Return the sums (size, 4) for extension elements a (n, 4) and b (m, 4). Raises ValueError for an index out of
        range."""
        out = np.zeros((self.size, DEGREE), dtype=np.uint32)
        native.bb_sum_products(flat(a), self.at_a, flat(b), self.at_b, self.to, out.reshape(-1))
        return out


def matmul(a: Elements, b: Elements, threads: Any = _CALLER, built: Any = native) -> Elements:
    """Return the product (m, n) of matrices (m, k) and (k, n) of base elements, by the threads of a build's pool.
    Raises SizeError for other shapes."""
    (rows, inner), columns = a.shape, b.shape[1]
    if b.shape[0] != inner:
        raise SizeError(f"a matrix {a.shape} times one {b.shape}")
    out = np.zeros((rows, columns), dtype=np.uint32)
    built.bb_matmul(threads, flat(a), flat(b), rows, inner, columns, out.reshape(-1))
    return out


def ext_powers(base: Elements, count: int) -> Elements:
    """Return (count, 4) powers 1, base, base^2, ... of an extension element (4,)."""
    out = np.empty((count, DEGREE), dtype=np.uint32)
    native.bb_ext_powers(flat(base), out.reshape(-1))
    return out


def eq_of_places(point: Elements, starts: Indices, log_rows: Indices) -> Elements:
    """Return eq of a point (k, 4) and the bits of places, without each place's lowest `log_rows` bits: (n, 4).

    Bit j of a place belongs to coordinate j. Raises SizeError for a point of more than 63 coordinates.
    """
    if len(point) > MOST_COORDINATES:
        raise SizeError(f"a point of {len(point)} coordinates; at most {MOST_COORDINATES}")
    out = np.empty((len(starts), DEGREE), dtype=np.uint32)
    native.bb_eq_of_places(flat(point), starts, log_rows, out.reshape(-1))
    return out


def montgomery(values: Elements) -> Elements:
    """Return canonical elements of any shape in Montgomery form, x 2^32."""
    out = np.empty(values.shape, dtype=np.uint32)
    native.bb_montgomery(flat(values), out.reshape(-1))
    return out


def canonical(values: NDArray[np.uint32] | NDArray[np.uint64]) -> Elements:
    """Return elements in Montgomery form, or uint64 sums of such, as canonical ones of the same shape."""
    out = np.empty(values.shape, dtype=np.uint32)
    convert = native.bb_canonical_sums if values.dtype == np.uint64 else native.bb_canonical
    convert(np.ascontiguousarray(values).reshape(-1), out.reshape(-1))
    return out
