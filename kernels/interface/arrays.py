"""Arrays, as backends and their callers name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

Array = Any
"""An array in the backend's own memory: numpy.ndarray or cupy.ndarray."""


HostArray = NDArray[Any]


Empty = Callable[[tuple[int, ...], Any], NDArray[Any]]
"""A function that makes an uninitialised array of a shape and dtype: `HostArena.empty` or `numpy.empty`."""


class Pending(Protocol):
    """An array on its way to the host, which the device may still be computing."""

    def result(self) -> HostArray:
        """Return the array. Waits for this copy and the work that computes its data, and for nothing else."""


@dataclass(frozen=True, repr=False)  # it may be computed from a witness
class Ready:
    """A `Pending` array that is already known."""

    array: HostArray

    def result(self) -> HostArray:
        return self.array
