"""Arrays on their way to a backend's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kernels.errors import BackendError
from kernels.interface.arrays import Array


class Staged(Protocol):
    """An array that is being copied to, or computed in, the backend's memory. Made by `stage` and
    `make_ahead`."""

    def array(self) -> Array:
        """Return the array on the backend. Work queued after this call waits for the copy; the host does not.

        Called by the thread that computes; counts the copy in `traffic`. Raises OutOfMemory if the copy starts only now
        and does not fit, BackendError after `release`.
        """

    def release(self) -> None:
        """Give the memory back once everything queued so far has read it. A second call does nothing."""


class MadeOnUse:
    """The `Staged` of a backend that does nothing ahead: `make` copies or computes when `array` is first called."""

    def __init__(self, make: Callable[[], Array]) -> None:
        self._make: Callable[[], Array] | None = make
        self._array: Array | None = None

    def array(self) -> Array:
        if self._make is None:
            raise BackendError("a staged array was asked for after it had been released")
        if self._array is None:
            self._array = self._make()
        return self._array

    def release(self) -> None:
        self._make = self._array = None
