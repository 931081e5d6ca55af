"""Arrays, as backends and their callers name them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = Any
"""An array in the backend's own memory: numpy.ndarray or cupy.ndarray."""


HostArray = NDArray[Any]
