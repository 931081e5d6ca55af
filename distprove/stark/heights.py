"""The heights of a partition's tables: log2 of the rows of each table of the key, or None for an absent table.

An absent table has no rows: it sends and receives nothing, and no constraint of it is checked. A key says which tables
may be absent (`VerifyingKey.optional`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LogHeights = tuple[int | None, ...]
"""log2 of the rows of each table, in the key's order; None for an absent table."""
ABSENT = 255
"""What stands for an absent table where heights are encoded, one byte for each table."""


def encode_heights(log_heights: Sequence[int | None]) -> bytes:
    """Heights as they stand in a proof and in its transcript, one byte for each table."""
    return bytes(ABSENT if height is None else height for height in log_heights)


def decode_heights(data: Iterable[int]) -> LogHeights:
    """The heights that `encode_heights` wrote. Whether a key allows them is for `heights_fit`."""
    return tuple(None if height == ABSENT else height for height in data)


def tallest(heights: Iterable[Sequence[int | None]]) -> LogHeights:
    """The greatest height of each table in a job, None for one that no partition has."""
    return tuple(max((h for h in column if h is not None), default=None) for column in zip(*heights, strict=True))


def present(log_heights: Sequence[int | None]) -> tuple[int, ...]:
    """The heights without those of absent tables."""
    return tuple(height for height in log_heights if height is not None)
