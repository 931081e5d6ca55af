"""How much page-locked host memory a CUDA device's transfers go through: known before there is a device."""

from __future__ import annotations

STAGING_SLOT = 16 << 20
STAGING_SLOTS = 3
"""Buffers of `kernels.arena.PinnedStaging`, for large arrays, in bytes and number."""
RING = 4 << 20
"""Bytes of `kernels.arena.PinnedRing`, for small arrays on their way to the device."""
RESULTS = 4 << 20
"""Bytes of results on their way back, several at a time, of which most are a few hundred bytes."""

PINNED_BYTES = STAGING_SLOT * STAGING_SLOTS + RING + RESULTS
"""What one backend takes."""
