"""Sizes as people read them."""

from __future__ import annotations


def format_bytes(count: int) -> str:
    """1.5 GiB, 12.0 MiB, 40 B."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
