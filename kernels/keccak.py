"""Keccak-256 with the original padding (Ethereum's), in native code: of one message, or of many of one length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.native import native

Bytes = NDArray[np.uint8]

_POOL: Any = native.Pool(1)
"""One thread: a verifier's hashes are few, and its caller may be one of many."""


def keccak256(data: bytes) -> bytes:
    """The 32-byte digest of `data`."""
    return keccak256_rows(np.frombuffer(data, dtype=np.uint8)[None]).tobytes()


def keccak256_rows(rows: Bytes) -> Bytes:
    """(m, 32): the digest of each row of (m, k) uint8."""
    out = np.empty((len(rows), 32), dtype=np.uint8)
    native.keccak_rows(_POOL, np.ascontiguousarray(rows).reshape(-1), rows.shape[1], out.reshape(-1))
    return out
