"""What goes wrong in a backend, apart from the backends: to name these errors takes no array library."""

from __future__ import annotations


class BackendError(Exception):
    """A request the backend refuses, or a fault of the device. The message says what was needed and what there was."""


class OutOfMemory(BackendError):
    """The arena's budget, or the device, cannot hold what was asked for."""


class SizeError(BackendError, ValueError):
    """A size, shape or dtype that the kernels do not handle: refused before launch."""
