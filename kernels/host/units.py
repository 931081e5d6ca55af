"""Numbers of bytes, bits and other things in the form that people read."""

from __future__ import annotations

import math


def format_bytes(count: float) -> str:
    """Format a number of bytes with a binary unit: 1536 becomes "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def format_bits(bits: float) -> str:
    """Format bits of security with two decimals, rounded down: fewer than 128 never read as 128.00."""
    return f"{math.floor(bits * 100) / 100:.2f}" if math.isfinite(bits) else f"{bits}"


def count_of(count: int, one: str, several: str = "", *, grouped: bool = False) -> str:
    """Format a number of things: `count_of(1, "value")` is "1 value", `count_of(2, "value")` "2 values".

    `several` names more than one, or none, where it is not `one` with an s: another plural, or a verb that follows.
    `grouped` sets commas between thousands.
    """
    return f"{count:{',' if grouped else ''}} {one if count == 1 else several or f'{one}s'}"
