"""Runs of wires or columns: the first one, and the stride from instance to instance."""

from __future__ import annotations

from kernels.errors import SizeError
from kernels.interface.arrays import HostArray

_BITS = 62
"""Of a place that a run may name: sums of two such places are exact in int64."""


def require_exact(runs: HostArray, lanes: int) -> None:
    """Raise SizeError unless these runs, (..., 2) int64 of first and stride, name only places of which int64 knows the
    number over so many instances. Others would come round, and pass a check of their ends."""
    if runs.size == 0:
        return
    first, stride = (max(int(part.max()), -int(part.min())) for part in (runs[..., 0], runs[..., 1]))
    if (first + lanes * stride) >> _BITS:
        raise SizeError(f"runs over {lanes} instances go beyond {_BITS} bits")
