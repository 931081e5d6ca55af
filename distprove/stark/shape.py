"""The shape of a partition's proof: every tree, every length, every order. It follows from the key and the heights.

Prover, parser and verifier take it from here, so that a proof has no say in its own layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from distprove.stark.key import VerifyingKey
from distprove.stark.merkle import TreeShape
from distprove.stark.params import FoldStep, check_log_height, fri_schedule

ROUNDS = ("preprocessed", "main", "aux", "quotient")
"""Commitments, in the order in which they are made; one that would hold no column is left out."""


@dataclass(frozen=True)
class TableShape:
    """One table of a proof."""

    log_height: int
    widths: tuple[int, int, int, int]
    """Base columns in each round."""
    next_row: tuple[int, ...]
    """Columns, numbered over the first three rounds, that are opened at the next row's point too."""
    first_weight: int
    """Exponent of gamma of its first column at zeta; see `weights`."""

    @property
    def columns(self) -> int:
        """Columns of the first three rounds: all but the quotient's."""
        return sum(self.widths[:3])

    @property
    def others(self) -> list[int]:
        """Columns of the first three rounds that are opened at zeta alone."""
        chosen = set(self.next_row)
        return [c for c in range(self.columns) if c not in chosen]

    @property
    def opened(self) -> int:
        """Values of the table in a proof, and so powers of gamma that it takes."""
        return self.columns + len(self.next_row) + self.widths[3]

    @property
    def weights(self) -> tuple[range, range, range, range]:
        """Exponents of gamma: at zeta `next_row` and `others`, `next_row` at w zeta, quotient columns at zeta.

        The third are the first ones, all moved on by `columns`: one weighted sum of these columns serves both points.
        """
        sizes = len(self.next_row), len(self.others), len(self.next_row), self.widths[3]
        edges = accumulate((self.first_weight, *sizes))
        near, rest, after, quotient = (range(a, b) for a, b in pairwise(edges))
        return near, rest, after, quotient


@dataclass(frozen=True)
class ProofShape:
    """See the module's text. `log_heights` has been checked against the key."""

    key: VerifyingKey
    log_heights: tuple[int, ...]

    @cached_property
    def tables(self) -> tuple[TableShape, ...]:
        """In the key's order. Powers of gamma run over the heights from the tallest to the shortest: the tables of a
        height, then its anchor.
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
        """Table numbers, the tallest first, equal heights in the key's order."""
        return sorted(range(len(self.log_heights)), key=lambda i: -self.log_heights[i])

    @cached_property
    def tables_by_height(self) -> dict[int, list[int]]:
        """The tables of each height in the key's order; the heights from the tallest down."""
        out: dict[int, list[int]] = {}
        for i in self.by_height:
            out.setdefault(self.log_heights[i], []).append(i)
        return out

    @property
    def distinct_heights(self) -> list[int]:
        """From the tallest down."""
        return list(self.tables_by_height)

    @property
    def anchors(self) -> int:
        """How many combinations of main columns are anchored: one for each height, if the key has global buses."""
        return len(self.tables_by_height) if self.key.anchored else 0

    @property
    def opened(self) -> int:
        """Powers of gamma that the tables' columns take: each column once for each point it is opened at."""
        return sum(t.opened for t in self.tables)

    @property
    def weights(self) -> int:
        """How many powers of gamma are used: the columns' and the anchors'."""
        return self.opened + self.anchors

    def anchor_weight(self, height: int) -> int:
        """Exponent of gamma of a height's anchor: the next after its last table's."""
        return self.tables[self.tables_by_height[height][-1]].weights[-1].stop

    @cached_property
    def rounds(self) -> dict[str, TreeShape]:
        """The trees of the rounds that hold anything, in order."""
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
        """One per step: leaves of 2^log_arity extension elements."""
        params = self.key.params
        return [TreeShape(((s.log_reached + params.log_blowup, 3 << s.log_arity),)) for s in self.steps]

    @property
    def log_domain(self) -> int:
        """log2 of the points of the tallest table's extension: where queries are drawn."""
        return max(self.log_heights) + self.key.params.log_blowup

    @property
    def terminals(self) -> int:
        """LogUp terminals that the proof exposes: per table its local one, then its global one, where it has them."""
        return sum(t.has_local + t.has_global for t in self.key.tables)

    def present(self, round_name: str) -> list[int]:
        """Tables that have columns in a round."""
        index = ROUNDS.index(round_name)
        return [i for i, t in enumerate(self.tables) if t.widths[index]]


def heights_fit(key: VerifyingKey, log_heights: Sequence[int]) -> bool:
    """Whether these can be the heights of a proof under `key`."""
    return len(log_heights) == len(key.tables) and all(
        check_log_height(h, key.params) and fixed in (None, h)
        for h, fixed in zip(log_heights, key.fixed_heights, strict=True)
    )
