"""The vectors of points that a backend loads of a proving key, without points at infinity where those cost something.

A wire that occurs in no row of A, or of B, has infinity there in a `.zkey`. In circuits of circom that is up to half of
A, and a third of B. Such a point adds nothing to a sum, whatever its scalar is. So tables are made of the other points,
and a proof picks their wires' elements out of its witness, as it does under a `.params` file, which has no point for
such wires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.groth16.key import SECTIONS, LoadableKey, Points
from distprove.host.cgroup import memory_available
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.interface.groups import PointSlices

NEARLY_ALL = 31 / 32
"""Share of the wires from which on all have a point. With 0.96 of them, picking gained on one H200 from 2^16 on."""
COPY_SHARE = 4
"""Points are left out where the copy of those that stay takes at most 1 / COPY_SHARE of the host memory that is free. A
host may load a key onto eight GPUs at once, and else it reads the points where the file is mapped."""


@dataclass(frozen=True)
class PickedPoints(PointSlices):
    """The points of some wires. Implements `distprove.groth16.key.Points`."""

    points: HostArray
    wires: HostArray

    @property
    def nbytes(self) -> int:
        return len(self) * self.points[:1].nbytes

    def __len__(self) -> int:
        return len(self.wires)

    def __getitem__(self, which: slice) -> HostArray:
        return np.take(self.points, self.wires[which], axis=0)


@dataclass(frozen=True)
class KeyVectors:
    """The vectors of points of a key, and whose they are."""

    points: Mapping[str, Points]
    """The vector of each of `SECTIONS`."""
    wires_a: HostArray | None
    """The wire of each A point, as in `LoadableKey`."""
    wires_b: HostArray | None
    wires_c: HostArray | None = None
    """The wire of each C point; None where every private wire has one."""

    @classmethod
    def of(cls, key: LoadableKey, backend: Backend) -> KeyVectors:
        """What `backend` loads of `key`. Points that a device made, which knew their wires, are loaded as they are."""
        vectors = cls.every_point(key)
        if backend.groups.leaves_out_infinity:
            return vectors
        points, wires = dict(vectors.points), [vectors.wires_a, vectors.wires_b]
        for number, sections in enumerate((("a",), ("b1", "b2"))):
            if wires[number] is None:
                wires[number] = _leave_out_infinity(points, sections)
        return cls(points, wires[0], wires[1], vectors.wires_c)

    @classmethod
    def every_point(cls, key: LoadableKey) -> KeyVectors:
        """The vectors as `key` has them, points at infinity included."""
        points = {name: getattr(key.points, name) for name in SECTIONS}
        return cls(points, key.wires_a, key.wires_b, wires_left(key))


def wires_left(key: LoadableKey) -> HostArray | None:
    """The private wires that no commitment is of and that are no hash, (n,) uint32; None if there are no others."""
    if not key.commitment_bases:
        return None
    left = np.ones(key.n_vars, dtype=np.bool_)
    left[: key.n_public + 1] = False
    for each in key.commitment_bases:
        left[each.wires.private] = left[each.wires.hash] = False
    return np.flatnonzero(left).astype(np.uint32)


def _leave_out_infinity(points: dict[str, Points], sections: Sequence[str]) -> HostArray | None:
    """Leave out of `sections`, which have a point for every wire, the wires whose points are all at infinity.

    Returns the wires that stay. Returns None, and changes nothing, where `picked_wires` does, where the points are on a
    device, or where the host has no memory for a copy of those that stay.
    """
    whole = [points[section][:] for section in sections]
    if not all(isinstance(vector, np.ndarray) for vector in whole):
        return None
    wires = picked_wires(np.logical_or.reduce([finite(vector) for vector in whole]))
    if wires is None:
        return None
    kept = [PickedPoints(vector, wires) for vector in whole]
    if max(vector.nbytes for vector in kept) > memory_available() // COPY_SHARE:
        return None
    points.update(zip(sections, kept, strict=True))
    return wires


def finite(points: HostArray) -> NDArray[np.bool_]:
    """Which of these points, as of `Groups.load_points`, are not at infinity: have a byte that is not zero."""
    # A string of bytes ends at its last one that is not zero. These comparisons take a third of a reduction's time.
    rows = points.view(f"S{points.shape[1] * points.itemsize}").reshape(-1)
    found: NDArray[np.bool_] = rows != b""
    return found


def picked_wires(occurs: NDArray[np.bool_]) -> HostArray | None:
    """The wires that occur, (n,) uint32 ascending; None where that is nearly every wire, or none: no table is empty."""
    wires = np.flatnonzero(occurs).astype(np.uint32)
    return wires if 0 < len(wires) < NEARLY_ALL * len(occurs) else None
