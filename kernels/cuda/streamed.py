"""Points of an MSM that the device's memory does not hold: they stay in page-locked host memory, and slices of them are
brought over while the MSM of the slice before runs.

Two slices are on the device at a time. The link moves one while the kernels read the other:

    bring stream     | slice 0 | slice 1 |         slice 2 |         slice 3 |
    compute stream             | MSM of slice 0  | MSM of slice 1  | MSM of slice 2 ...

Each point crosses the link once per MSM, so all sets of buckets are kept while the slices pass. What cannot hide behind
a kernel is the first slice, so the first ones are small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernels.cuda.device import Device, Event
from kernels.interface.arrays import Array, HostArray
from kernels.maths.curves import Curve, Group

FIRST_SLICES = (8, 2)
"""The first slices have these parts of the points of the others."""


@dataclass(frozen=True)
class StreamedPoints:
    """The affine points of an MSM in page-locked host memory, (n, point_limbs) uint64."""

    curve: Curve
    group: Group
    points: HostArray
    nbytes: int = 0
    """Bytes of the device's memory."""

    @property
    def n(self) -> int:
        return len(self.points)


def bounds(n: int, most: int) -> list[tuple[int, int]]:
    """Where the slices of n points begin and end, the first ones smaller, none larger than `most`."""
    found, begin = [], 0
    for part in FIRST_SLICES:
        if n - begin > most and most >= part:
            found.append((begin, begin + most // part))
            begin += most // part
    return found + [(first, min(first + most, n)) for first in range(begin, n, most)]


def brought(device: Device, points: HostArray, most: int) -> Iterator[tuple[int, Array]]:
    """Yield slices of page-locked `points` on the device, each with its first point. A slice may be read by what the
    caller queues on `device.stream` before it asks for the next."""
    slices = bounds(len(points), most)
    rows = max(end - begin for begin, end in slices)
    buffers = [device.empty((rows, *points.shape[1:]), points.dtype) for _ in slices[:2]]
    copied: list[Event] = []

    def bring(number: int) -> None:
        begin, end = slices[number]
        # Behind what is queued now: whoever had the memory, or reads the slice that was there before.
        copied.append(device.bring(buffers[number % 2][: end - begin], points[begin:end], device.stream.record()))

    try:
        for number in range(len(buffers)):
            bring(number)
        for number, (begin, end) in enumerate(slices):
            device.stream.wait(copied[number])
            yield begin, buffers[number % 2][: end - begin]
            if number + 2 < len(slices):
                bring(number + 2)
    finally:
        for copy in copied[-2:]:
            device.stream.wait(copy)  # also where the caller gave up: the memory goes back to `device.stream`
