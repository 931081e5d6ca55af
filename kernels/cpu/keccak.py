"""Keccak-256 with the original padding (Ethereum's, not SHA-3's), in native code.

It follows the Keccak reference, version 3.0. The verifier and the transcript use this module; it runs on every CPU.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.host.native import native

Bytes = NDArray[np.uint8]

_one_thread = native.Pool(1)
_instruction_set = native.gl_instruction_sets()[-1]


def keccak256(data: bytes) -> bytes:
    """Return the 32-byte Keccak-256 digest of `data`."""
    return bytes(native.keccak256(bytes(data)))


def keccak256_rows(rows: Bytes) -> Bytes:
    """Return the digests (m, 32) of the rows of an (m, k) uint8 array. Runs on the calling thread. Raises SizeError."""
    if rows.ndim != 2 or rows.dtype != np.uint8:
        raise SizeError(f"rows to hash have shape (m, k) and dtype uint8, not {rows.shape} {rows.dtype}")
    out = np.empty((len(rows), 32), dtype=np.uint8)
    flat = np.ascontiguousarray(rows).reshape(-1)
    native.keccak256_rows(_one_thread, _instruction_set, flat, rows.shape[1], out.reshape(-1))
    return out
