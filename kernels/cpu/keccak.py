"""Keccak-256 with the original padding (Ethereum's, not SHA-3's), in native code.

It follows the Keccak reference, version 3.0. The verifier and the transcript use this module; it runs on every CPU.
"""

from __future__ import annotations

from kernels.cpu.tree_digests import Bytes, leaf_digests
from kernels.host.native import native
from kernels.interface.tree_hash import TreeHash


def keccak256(data: bytes) -> bytes:
    """Return the 32-byte Keccak-256 digest of `data`."""
    return bytes(native.keccak256(bytes(data)))


def keccak256_rows(rows: Bytes) -> Bytes:
    """Return the digests (m, 32) of the rows of an (m, k) uint8 array. Runs on the calling thread. Raises SizeError."""
    return leaf_digests(TreeHash.KECCAK, rows)
