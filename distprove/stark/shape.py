"""The shape of a partition's proof: all trees, lengths and orders, which follow from the key and the heights.

Prover, parser and verifier all use this shape, so that a proof cannot choose its own layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from distprove.stark.merkle import TreeShape
from distprove.stark.params import FoldStep, check_log_height, fri_schedule
from distprove.stark.verifying_key import VerifyingKey

ROUNDS = ("preprocessed", "main", "aux", "quotient")
"""The rounds of commitments in order. A round in which no table has columns is left out."""


@dataclass(frozen=True)
class TableShape:
    """The shape of one table of a proof."""

    log_height: int
    widths: tuple[int, int, int, int]
    """Number of base columns in each round."""
    next_row: tuple[int, ...]
    """Columns, numbered over the first three rounds, that are also opened at the next row's point."""
    first_weight: int
    """Exponent of gamma of the first of `weights`."""

    @property
    def columns(self) -> int:
        """Number of columns in the first three rounds: all but the quotient's."""
        return sum(self.widths[:3])

    @cached_property
    def others(self) -> list[int]:
        """Columns of the first three rounds that are opened only at zeta."""
        chosen = set(self.next_row)
        return [c for c in range(self.columns) if c not in chosen]

    @property
    def opened(self) -> int:
        """Number of opened values of the table in a proof, which is its number of powers of gamma."""
        return self.columns + len(self.next_row) + self.widths[3]

    @cached_property
    def weights(self) -> tuple[range, range, range, range]:
        """Exponents of gamma for: `next_row` at zeta, `others` at zeta, `next_row` at w zeta, the quotient at zeta.

        The third are the first plus `columns`, so that one weighted sum of these columns serves both points.
        """
        sizes = len(self.next_row), len(self.others), len(self.next_row), self.widths[3]
        edges = accumulate((self.first_weight, *sizes))
        near, rest, after, quotient = (range(a, b) for a, b in pairwise(edges))
        return near, rest, after, quotient


@dataclass(frozen=True)
class ProofShape:
    """The shape of a proof under `key`. `log_heights` must already be checked against the key."""

    key: VerifyingKey
    log_heights: tuple[int, ...]

    @cached_property
    def tables(self) -> tuple[TableShape, ...]:
        """The shapes of the tables, in the key's order. Powers of gamma go over the heights from the tallest to the
        lowest: the tables of a height, then its anchor.
        """
        first, exponent = {}, 0
        widths = [(t.preprocessed_width, t.main_width, t.aux_width, 3 * t.quotient_chunks) for t in self.key.tables]
        for tables in self.tables_by_height.values():
            for i in tables:
                first[i] = exponent
                exponent += sum(widths[i]) + len(self.key.tables[i].next_row)
            exponent += self.key.anchored
        return tuple(
            TableShape(h, widths[i], self.key.tables[i].next_row, first[i]) for i, h in enumerate(self.log_heights)
        )

    @cached_property
    def by_height(self) -> list[int]:
        """Table numbers, the tallest first; equal heights are in the key's order."""
        return sorted(range(len(self.log_heights)), key=lambda i: -self.log_heights[i])

    @cached_property
    def tables_by_height(self) -> dict[int, list[int]]:
        """The table numbers of each height in the key's order, with heights from the tallest down."""
        out: dict[int, list[int]] = {}
        for i in self.by_height:
            out.setdefault(self.log_heights[i], []).append(i)
        return out

    @property
    def distinct_heights(self) -> list[int]:
        """The different heights of tables (log2), from the tallest down."""
        return list(self.tables_by_height)

    @property
    def anchors(self) -> int:
        """Number of anchored combinations of main columns: one for each height, if the key has global buses."""
        return len(self.tables_by_height) if self.key.anchored else 0

    @property
    def opened(self) -> int:
        """Number of powers of gamma for the tables' columns, each column once for each point it is opened at."""
        return sum(t.opened for t in self.tables)

    @property
    def weights(self) -> int:
        """Number of powers of gamma, for columns and anchors."""
        return self.opened + self.anchors

    def anchor_weight(self, height: int) -> int:
        """Exponent of gamma of a height's anchor, which follows those of its last table."""
        return self.tables[self.tables_by_height[height][-1]].weights[-1].stop

    @cached_property
    def rounds(self) -> dict[str, TreeShape]:
        """The shapes of the trees of the rounds that have columns, by round, in order."""
        out = {}
        for index, name in enumerate(ROUNDS):
            shape = self.key.tree_shape([t.widths[index] for t in self.tables], self.log_heights)
            if shape is not None:
                out[name] = shape
        return out

    @cached_property
    def schedule(self) -> tuple[list[FoldStep], int]:
        return fri_schedule(self.key.params, self.log_heights)

    @property
    def steps(self) -> list[FoldStep]:
        return self.schedule[0]

    @property
    def log_final(self) -> int:
        return self.schedule[1]

    @cached_property
    def fri_trees(self) -> list[TreeShape]:
        """The shapes of FRI's trees, one per step, with leaves of 2^log_arity extension elements."""
        params = self.key.params
        return [TreeShape(((s.log_reached + params.log_blowup, 3 << s.log_arity),)) for s in self.steps]

    @property
    def log_domain(self) -> int:
        """log2 of the number of points of the tallest table's extension, from which queries are drawn."""
        return max(self.log_heights) + self.key.params.log_blowup

    @property
    def terminals(self) -> int:
        """Number of LogUp terminals in the proof: a local and a global one for each table that has them."""
        return sum(t.has_local + t.has_global for t in self.key.tables)

    def present(self, round_name: str) -> list[int]:
        """Numbers of the tables that have columns in a round."""
        index = ROUNDS.index(round_name)
        return [i for i, t in enumerate(self.tables) if t.widths[index]]


def heights_fit(key: VerifyingKey, log_heights: Sequence[int]) -> bool:
    """Whether a proof under `key` can have these heights (log2)."""
    return len(log_heights) == len(key.tables) and all(
        check_log_height(h, key.params) and fixed in (None, h)
        for h, fixed in zip(log_heights, key.fixed_heights, strict=True)
    )
