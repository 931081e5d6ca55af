"""Sizes of the page-locked host memory for a CUDA device's transfers, known before there is a device."""

from __future__ import annotations

STAGING_SLOT = 8 << 20
STAGING_SLOTS = 4
"""Bytes of a buffer, and number of buffers, of `kernels.cuda.arena.PinnedStaging`, for large arrays. With eight threads
on one H200 and its host 128 MiB take 3.6 ms, and 32 MiB 1.2; with buffers of 4 MiB 7.1 and 2.0, with twice this memory
3.1 and 1.3. The link alone takes 2.4 ms for 128 MiB."""
RING = 4 << 20
"""Bytes of a `kernels.cuda.arena.PinnedRing`, for small arrays on their way to the device; there are two of them."""
RESULTS = 4 << 20
"""Bytes allowed for results on their way to the host: several at a time, most of them a few hundred bytes."""

PINNED_BYTES = STAGING_SLOT * STAGING_SLOTS + 2 * RING + RESULTS
"""Bytes of page-locked memory that one backend takes."""
