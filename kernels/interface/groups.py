"""The family of operations on points of the curves' groups.

An affine point has `curve.point_limbs(group)` words: x, y in Montgomery form (G2: c0, c1 each); all zero is infinity.
Scalars have shape (n, limbs) and are canonical integers, not in Montgomery form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np

from kernels.errors import BackendError, SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array, HostArray, Pending, Ready
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Curve, Group

MAX_POINTS = 1 << 31
"""An MSM takes fewer points than this: its sorted entries hold a point's index and a sign in 32 bits."""


class PointTable(Protocol):
    """Fixed points of an MSM, resident in the backend, possibly with precomputed multiples. Made by `load_points`."""

    @property
    def curve(self) -> Curve: ...
    @property
    def group(self) -> Group: ...
    @property
    def n(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


class PointSlices(ABC):
    """Points that are read, decoded or made slice by slice."""

    at_once: ClassVar[int] = 1 << 16
    """Points of a slice that is worth its while."""
    any_thread: ClassVar[bool] = True
    """Whether slices may be taken on a thread of their own: no backend makes them."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, which: slice, /) -> HostArray:
        """Return some points on the host, (n, point_limbs) uint64 or (n, 8 * point_limbs) uint8, contiguous."""


T = TypeVar("T", bound=PointTable)


class Groups(ABC, Generic[T]):
    """Points of one backend, whose tables are of class T. Raises SizeError for arrays that do not fit."""

    loaded: tuple[type[T], ...]
    """The classes of the tables that this family loads."""
    loads_slices = False
    """Whether `load_points` asks for slices of `PointSlices`, and not for all points at once."""
    leaves_out_infinity = False
    """Whether a point at infinity costs an MSM nothing but its memory."""

    def load_points(
        self,
        curve: Curve,
        group: Group,
        points: Array | PointSlices,
        *,
        memory: int | None = None,
        streamed: bool = False,
    ) -> PointTable:
        """Load fixed points for `msm`.

        `points` has shape (n, point_limbs) uint64, or (n, 8 * point_limbs) uint8 when it is a view into a mapped file
        that may not be aligned; the CPU backend uses it in place. It may also be an array in the backend's memory, or
        `PointSlices`, of which a backend with memory of its own asks for slices in order.
        `memory` bounds the bytes of the table with its precomputed multiples (None: the backend chooses from what is
        free). With `streamed` the points stay in host memory, and every MSM brings them to the backend's memory slice
        by slice; a backend that computes in host memory has nothing to bring. Raises OutOfMemory.
        """
        if isinstance(points, PointSlices):
            preconditions.points(curve, group, points[:1])
            n = len(points)
            if streamed or not self.loads_slices:
                points = points[:]
        else:
            n = preconditions.points(curve, group, points)
        if n >= MAX_POINTS:
            raise SizeError(f"an MSM takes fewer than {MAX_POINTS} points, not {n}")
        return (
            self._stream_points(curve, group, points) if streamed else self._load_points(curve, group, points, memory)
        )

    def repeat(self, table: PointTable, count: int, *, start: int = 0) -> None:
        """Get ready for many MSMs of `count` scalars from point `start` on. A device may keep memory for them. Nothing
        else may be under way on the backend."""
        own = self._own(table)
        _check_range(own, count, start)
        if count:
            self._repeat(own, count, start)

    def msm(self, table: PointTable, scalars: Array, *, start: int = 0) -> Pending:
        """Begin sum_i scalars[i] * points[start + i] for canonical integers `scalars`, (m, limbs), start + m <= n. The
        result is an affine point, (point_limbs,) uint64."""
        own = self._own(table)
        m = preconditions.elements(table.curve.fr, scalars, "scalars")
        if scalars.ndim != 2:
            raise SizeError(f"scalars have shape (m, {table.curve.fr.limbs}), not {scalars.shape}")
        _check_range(own, m, start)
        if m == 0:
            return Ready(np.zeros(table.curve.point_limbs(table.group), dtype=np.uint64))
        return self._msm(own, scalars, start)

    def table_bytes(self, curve: Curve, group: Group, n: int, memory: int) -> int:
        """Bytes of the backend's memory of the table that `load_points` makes of n points with at most `memory` bytes,
        which hold the points; 0 if that is no concern."""
        return 0

    def msm_scratch(
        self, curve: Curve, group: Group, n: int, *, memory: int | None = None, streamed: bool = False
    ) -> int:
        """Bytes of the backend's memory that an MSM of n points takes besides its table; 0 if that is no concern.

        The table is the one that `load_points` makes with the same `memory`, or with None any, or of `streamed` points.
        """
        return 0

    def fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array:
        """Return scalars[i] * base for one affine `base`: (n, point_limbs) affine points in the backend's memory."""
        preconditions.points(curve, group, base.reshape(1, -1))
        preconditions.elements(curve.fr, scalars, "scalars")
        if scalars.ndim != 2:
            raise SizeError(f"scalars have shape (n, {curve.fr.limbs}), not {scalars.shape}")
        return self._fixed_base(curve, group, base, scalars)

    def sparse_product(self, curve: Curve, group: Group, matrix: CsrMatrix, points: HostArray) -> HostArray:
        """Return matrix @ points, (rows, point_limbs) uint64 affine on the host: sums that make a proving key.

        `points` has a row for each column, as for `load_points`, in host memory. Unlike elsewhere, the matrix's values
        are canonical integers, not in Montgomery form. Raises SizeError for indices that do not fit, OutOfMemory.
        """
        if preconditions.points(curve, group, points) != matrix.cols:
            raise SizeError(f"a matrix of {matrix.cols} columns times {points.shape[0]} points")
        matrix.check(curve.fr)
        return self._sparse_product(curve, group, matrix, points)

    def check_points(self, curve: Curve, group: Group, points: HostArray, *, subgroup: bool = True) -> int | None:
        """Return the index of the first point that is not a canonical point of the curve or its subgroup, or None."""
        preconditions.points(curve, group, points)
        return self._check_points(curve, group, points, subgroup)

    def _own(self, table: PointTable) -> T:
        if not isinstance(table, self.loaded):
            raise BackendError("these points were loaded by another backend")
        return table

    # -- what a backend implements, on checked arguments ------------------------------------------------------------

    def _repeat(self, table: T, count: int, start: int) -> None:
        """Do nothing, unless a backend has something to gain."""

    @abstractmethod
    def _load_points(self, curve: Curve, group: Group, points: Array, memory: int | None) -> T: ...

    def _stream_points(self, curve: Curve, group: Group, points: Array) -> T:
        return self._load_points(curve, group, points, None)

    @abstractmethod
    def _msm(self, table: T, scalars: Array, start: int) -> Pending: ...

    @abstractmethod
    def _fixed_base(self, curve: Curve, group: Group, base: HostArray, scalars: Array) -> Array: ...

    @abstractmethod
    def _sparse_product(self, curve: Curve, group: Group, matrix: CsrMatrix, points: HostArray) -> HostArray: ...

    @abstractmethod
    def _check_points(self, curve: Curve, group: Group, points: HostArray, subgroup: bool) -> int | None: ...


def _check_range(table: PointTable, count: int, start: int) -> None:
    if start < 0 or count < 0 or start + count > table.n:
        raise SizeError(f"{count} scalars from point {start} on, of {table.n} points")
