"""XYZZ sums that the device leaves of MSMs, on their way to the host, which makes a point of those of each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.errors import BackendError
from kernels.host.native import native
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.maths.curves import Curve, Group


@dataclass(frozen=True)
class LeftSums:
    """What the device leaves of an MSM: XYZZ sums of `sum_limbs` words each."""

    curve: Curve
    group: Group
    words: int
    """Words of all sums."""
    terms: tuple[tuple[int, int], ...]
    """(first word, exponent) of each sum that counts, by ascending exponent: the sum's weight is 2^exponent."""


class Joining:
    """How the sums of several MSMs over one curve, which lie behind each other, become points."""

    def __init__(self, left: Sequence[LeftSums]) -> None:
        if len({one.curve.name for one in left}) != 1:
            raise BackendError("sums that are joined together are of one curve")
        self._curve = left[0].curve
        program: list[int] = []
        begin = 0
        for one in left:
            program += [list(Group).index(one.group), len(one.terms)]
            for word, exponent in one.terms:
                program += [begin + word, exponent]
            begin += one.words
        self._program = np.array(program, dtype=np.uint32)
        ends = [0, *itertools.accumulate(self._curve.point_limbs(one.group) for one in left)]
        self._limbs, self._places = ends[-1], list(itertools.pairwise(ends))

    def points(self, words: HostArray) -> list[HostArray]:
        """The affine points of the sums, (point_limbs,) each."""
        out = np.empty(self._limbs, dtype=np.uint64)
        native.join_sums(self._curve.name, words, self._program, out)
        return [out[begin:end] for begin, end in self._places]


class FetchedSums:
    """Sums on their way to the host."""

    def __init__(self, joining: Joining, fetch: Pending) -> None:
        self._joining, self._fetch = joining, fetch
        self._points: list[HostArray] | None = None

    def point(self, index: int) -> HostArray:
        """Wait for the sums, and return the point of those with this index. Called by one thread."""
        if self._points is None:
            self._points = self._joining.points(self._fetch.result().reshape(-1))
        return self._points[index]


@dataclass(frozen=True)
class FetchedPoint:
    """A `Pending`: one of the points that `sums` become."""

    sums: FetchedSums
    index: int = 0

    def result(self) -> HostArray:
        return self.sums.point(self.index)


class Gathering:
    """MSMs that are recorded together, whose sums lie behind each other so that one copy takes them to the host."""

    def __init__(self, sums: Array | None = None) -> None:
        """`sums` has `words` words. Where it is None, these are counted."""
        self.words = 0
        self.left: list[LeftSums] = []
        self._sums = sums
        self._scalars: list[Array] = []
        """Kept, because branches of the recording read them."""

    def place(self, left: LeftSums, scalars: Array) -> tuple[GatheredPoint, Array | None]:
        """What stands for the point, and where its sums go."""
        begin, self.words = self.words, self.words + left.words
        self.left.append(left)
        self._scalars.append(scalars)
        return GatheredPoint(len(self.left) - 1), None if self._sums is None else self._sums[begin : self.words]


@dataclass(frozen=True)
class GatheredPoint:
    """Stands for a point of every replay while these are recorded."""

    index: int

    def result(self) -> HostArray:
        raise BackendError("a point that is recorded has no result before it is computed")
