"""Arrays, as backends and their callers name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

Array = Any
"""An array in the backend's own memory: numpy.ndarray or cupy.ndarray."""


HostArray = NDArray[Any]


Empty = Callable[[tuple[int, ...], Any], NDArray[Any]]
"""A function that makes an uninitialised array of a shape and dtype: `HostArena.empty` or `numpy.empty`."""
