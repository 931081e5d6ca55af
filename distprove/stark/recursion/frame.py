"""The heights of a node's tables. Nodes of one frame have the same rules and heights, so each can verify any other.

A kind of operation that takes many rows has two tables: their heights are less in all than the next power of two, where
the rows are few more than a power of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KINDS = ("relations", "joins", "constants", "publics", "bits", "poseidon2")
"""The kinds of operations: their first tables have these names."""
MORE = {"relations": "more relations", "poseidon2": "more poseidon2"}
"""The second tables, by kind. A frame has them where rows are few more than a power of two."""
LEAST = 4
"""log2 of the rows of the lowest table."""


@dataclass(frozen=True)
class Frame:
    """log2 of the rows of each of its tables, in their order."""

    log_heights: Mapping[str, int]

    @classmethod
    def fitting(cls, rows: Mapping[str, int]) -> Frame:
        """The lowest tables with room for so many rows of each kind."""
        heights: dict[str, int] = {}
        for kind in KINDS:
            count = max(rows[kind], 1)
            heights[kind] = max(LEAST, (count - 1).bit_length())
            full = count.bit_length() - 1
            rest = count - (1 << full)
            if kind in MORE and full >= LEAST and 0 < rest <= 1 << (full - 1):
                heights[kind], heights[MORE[kind]] = full, max(LEAST, (rest - 1).bit_length())
        return cls(heights)

    def room(self, kind: str) -> int:
        """Rows of all tables of a kind."""
        return sum(1 << self.log_heights[name] for name in (kind, MORE.get(kind, "")) if name in self.log_heights)

    def has_room(self, rows: Mapping[str, int]) -> bool:
        """Whether so many rows of each kind fit."""
        return all(rows[kind] <= self.room(kind) for kind in KINDS)
