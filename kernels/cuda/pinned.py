"""Sizes of the page-locked host memory for a CUDA device's transfers, known before there is a device."""

from __future__ import annotations

STAGING_SLOT = 16 << 20
STAGING_SLOTS = 3
"""Bytes of a buffer, and number of buffers, of `kernels.cuda.arena.PinnedStaging`, for large arrays."""
RING = 4 << 20
"""Bytes of a `kernels.cuda.arena.PinnedRing`, for small arrays on their way to the device; there are two of them."""
RESULTS = 4 << 20
"""Bytes allowed for results on their way to the host: several at a time, most of them a few hundred bytes."""

PINNED_BYTES = STAGING_SLOT * STAGING_SLOTS + 2 * RING + RESULTS
"""Bytes of page-locked memory that one backend takes."""
