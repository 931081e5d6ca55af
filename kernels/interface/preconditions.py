"""What the families require of their arguments. Implementations behind them check nothing of it again."""

from __future__ import annotations

import numpy as np

from kernels.errors import BackendError, SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.maths.curves import FIELDS, Curve, Field, Group

_WORD, _BYTE = np.dtype(np.uint64), np.dtype(np.uint8)


def elements(field: Field, array: Array, what: str) -> int:
    """Return how many elements of `field` a contiguous array (..., n, limbs) holds.

    Raises SizeError for another array, BackendError for a field that there are no kernels for.
    """
    if field.name not in FIELDS:
        raise BackendError(f"there are no kernels for the field {field.name}")
    if array.dtype != _WORD or array.ndim < 2 or array.shape[-1] != field.limbs:
        raise SizeError(
            f"{what}: {field.name} elements have shape (..., n, {field.limbs}) and dtype uint64, "
            f"not {array.shape} {array.dtype}"
        )
    contiguous(array, what)
    return int(array.size) // field.limbs


def contiguous(array: Array, what: str) -> None:
    """Raise SizeError unless the array's elements follow each other in memory, in order."""
    if not array.flags.c_contiguous:
        raise SizeError(f"{what}: an array of shape {array.shape} must be contiguous in memory")


def writable(array: Array, shape: tuple[int, ...]) -> None:
    """Raise SizeError unless `array` can hold a result of `shape`, in words."""
    flags = array.flags  # only NumPy's arrays can be read-only or lie at any address
    can_be_written = getattr(flags, "writeable", True) and getattr(flags, "aligned", True)
    if array.shape != shape or array.dtype != _WORD or not can_be_written:
        raise SizeError(f"a result needs a writable uint64 array of shape {shape}, not {array.shape} {array.dtype}")
    contiguous(array, "a result")


def points(curve: Curve, group: Group, array: HostArray) -> int:
    """Return how many affine points an array (n, point_limbs) uint64 or (n, 8 * point_limbs) uint8 holds.

    Raises SizeError for another array.
    """
    limbs = curve.point_limbs(group)
    if array.ndim != 2 or {_WORD: limbs, _BYTE: 8 * limbs}.get(array.dtype) != array.shape[1]:
        raise SizeError(
            f"{curve.title} {group.name} points have shape (n, {limbs}) uint64 or (n, {8 * limbs}) uint8, "
            f"not {array.shape} {array.dtype}"
        )
    contiguous(array, "points")
    return len(array)
