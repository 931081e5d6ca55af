"""The errors of backends. Importing this module imports no array library."""

from __future__ import annotations


class BackendError(Exception):
    """A request that the backend refuses, or a device fault. The message says what was needed and what was there."""


class OutOfMemory(BackendError):
    """The arena's budget or the device's memory is too small for a request."""


class SizeError(BackendError, ValueError):
    """A size, shape or dtype that the kernels do not handle. Raised before anything is launched."""


class CompilerMissing(BackendError):
    """There is no C++ compiler on this machine, or none that compiles the project's own headers."""
