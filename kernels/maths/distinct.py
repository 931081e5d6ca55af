"""The distinct numbers of an array. `np.unique` would import numpy.ma for it: some 60 ms of a process's first proof."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.integer[Any])


def distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """The distinct ones among `numbers`, of any shape, ascending."""
    ordered = np.sort(numbers, axis=None)
    return ordered[_begins(ordered)]


def distinct_with_places(numbers: NDArray[Number]) -> tuple[NDArray[Number], NDArray[np.int64]]:
    """The distinct ones among `numbers` (n,), ascending, and where each of `numbers` is among these, (n,)."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = _begins(ordered)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum(begins) - 1
    return ordered[begins], places


def _begins(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each of ascending numbers differs from the one before."""
    begins = np.ones(len(ordered), dtype=np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    return begins
