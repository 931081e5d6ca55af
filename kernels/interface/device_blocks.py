"""How the memory of a device is handed out: a large array gets a block of its own, of whole granules of the driver.

Plans of memory count arrays so. `kernels.cuda.arena` hands them out.
"""

from __future__ import annotations

LARGE = 32 << 20
"""Smallest request, in bytes, that gets a block of its own."""
GRANULE = 2 << 20
"""The driver hands out memory in multiples of this many bytes."""


def block_bytes(nbytes: int) -> int:
    """Return the bytes that an array of `nbytes` takes of a device; those of small ones are not rounded."""
    return nbytes if nbytes < LARGE else -(-nbytes // GRANULE) * GRANULE
