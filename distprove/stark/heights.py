"""The heights of a partition's tables: log2 of the rows of each table of the key, or None for an absent table.

An absent table has no rows: it sends and receives nothing, and no constraint of it is checked. A key says which tables
may be absent (`VerifyingKey.optional`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernels.host.units import count_of

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


def misfit(
    names: Sequence[str], fixed: Sequence[int | None], log_heights: Sequence[int | None], optional: Sequence[bool]
) -> str:
    """Say why tables of these names cannot have these heights under a key that fixes some. All are in the key's
    order, `fixed` and `log_heights` log2 of the rows."""
    if len(log_heights) != len(names):
        return (
            f"{count_of(len(log_heights), 'height is given', 'heights are given')} for {count_of(len(names), 'table')}"
        )
    for name, own, height, may_lack in zip(names, fixed, log_heights, optional, strict=True):
        if height is None and not may_lack:
            return f"table {name} is absent, and the program does not say that it is optional"
        if height is not None and own not in (None, height):
            return (
                f"table {name} has 2^{height} rows, and the program fixes it to 2^{own} (by Program.fixed_heights, "
                "which gives log2 of the rows, or by preprocessed columns)"
            )
    return f"tables of {rows_of(log_heights)} rows cannot be proven"


def rows_of(log_heights: Sequence[int | None]) -> str:
    """Heights for messages: "2^5, absent, 2^8"."""
    return ", ".join("absent" if height is None else f"2^{height}" for height in log_heights)
