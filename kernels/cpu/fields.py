"""Field elements on the host, for what needs no backend: their two forms, and polynomials at a point."""

from __future__ import annotations

import numpy as np

from kernels.cpu.points import flat_bytes
from kernels.errors import SizeError
from kernels.host.native import native
from kernels.interface import preconditions
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Field
from kernels.maths.encoding import Words, field_from_ints, unpack


def to_montgomery(field: Field, words: HostArray) -> Words:
    """Return canonical elements, (..., limbs) uint64, in Montgomery form. Raises SizeError."""
    return _convert("to_montgomery", field, words)


def from_montgomery(field: Field, elements: HostArray) -> Words:
    """Return elements in Montgomery form, (..., limbs) uint64, as canonical integers. Raises SizeError."""
    return _convert("from_montgomery", field, elements)


def evaluate_columns(field: Field, coefficients: HostArray, at: int) -> list[int]:
    """Return sum_j coefficients[j][k] at^j for each k, for canonical coefficients (rows, columns, limbs).

    Raises SizeError.
    """
    preconditions.elements(field, coefficients, "coefficients")
    if coefficients.ndim != 3:
        raise SizeError(f"coefficients have shape (rows, columns, {field.limbs}), not {coefficients.shape}")
    out = np.empty(coefficients.shape[1:], dtype=np.uint64)
    native.evaluate_columns(field.name, *map(flat_bytes, (coefficients, field_from_ints(field, [at]), out)))
    return unpack(out)


def _convert(operation: str, field: Field, words: HostArray) -> Words:
    preconditions.elements(field, words, "elements")
    out = np.empty(words.shape, dtype=np.uint64)
    getattr(native, operation)(native.Pool(1), field.name, flat_bytes(words), flat_bytes(out))
    return out
