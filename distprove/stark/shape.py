"""The shape of a partition's proof: all trees, lengths and orders, which follow from the key and the heights.

Prover, parser and verifier all use this shape, so that a proof cannot choose its own layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from distprove.stark.air import CompiledAir
from distprove.stark.heights import LogHeights, present
from distprove.stark.merkle import TreeShape
from distprove.stark.params import FoldStep, check_log_height, fri_schedule
from distprove.stark.verifying_key import VerifyingKey

ROUNDS = ("preprocessed", "main", "aux", "quotient")
"""The rounds of commitments in order. A round in which no table has columns is left out."""
PREPROCESSED, *OWN_ROUNDS = ROUNDS
"""The round of columns that the key commits to, and those that a prover commits to."""


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
    """The shape of a proof under `key`. `log_heights` must already be checked against the key.

    Absent tables have no part in a shape: its tables are the present ones, in the key's order and counted from zero.
    """

    key: VerifyingKey
    log_heights: LogHeights

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The key's numbers of the present tables."""
        return tuple(i for i, height in enumerate(self.log_heights) if height is not None)

    @cached_property
    def airs(self) -> tuple[CompiledAir, ...]:
        """The AIRs of the present tables."""
        return tuple(self.key.tables[i] for i in self.numbers)

    @cached_property
    def heights(self) -> tuple[int, ...]:
        """log2 of the rows of the present tables."""
        return present(self.log_heights)

    @cached_property
    def tables(self) -> tuple[TableShape, ...]:
        """The shapes of the present tables. Powers of gamma go over the heights from the tallest to the lowest: the
        tables of a height, then its anchor.
        """
        first, exponent = {}, 0
        widths = [(t.preprocessed_width, t.main_width, t.aux_width, 3 * t.quotient_chunks) for t in self.airs]
        for tables in self.tables_by_height.values():
            for i in tables:
                first[i] = exponent
                exponent += sum(widths[i]) + len(self.airs[i].next_row)
            exponent += self.key.anchored
        return tuple(TableShape(h, widths[i], self.airs[i].next_row, first[i]) for i, h in enumerate(self.heights))

    @cached_property
    def by_height(self) -> list[int]:
        """The present tables, the tallest first; equal heights are in the key's order."""
        return sorted(range(len(self.heights)), key=lambda i: -self.heights[i])

    @cached_property
    def tables_by_height(self) -> dict[int, list[int]]:
        """The present tables of each height in the key's order, with heights from the tallest down."""
        out: dict[int, list[int]] = {}
        for i in self.by_height:
            out.setdefault(self.heights[i], []).append(i)
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
    def members(self) -> dict[str, tuple[int, ...]]:
        """The tables whose columns each tree of a round holds, by the tree's name, in the order of the proof.

        Trees of preprocessed columns come first, with the names of `key_roots`; every other round has one tree.
        """
        place = {number: i for i, number in enumerate(self.numbers)}
        out = {
            _key_tree(own): tuple(place[number] for number in numbers)
            for own, numbers in self.key.preprocessed_trees.items()
            if numbers[0] in place
        }
        for index, name in enumerate(OWN_ROUNDS, start=1):
            tables = tuple(i for i, t in enumerate(self.tables) if t.widths[index])
            if tables:
                out[name] = tables
        return out

    @cached_property
    def key_roots(self) -> dict[str, bytes]:
        """The key's roots of the trees of preprocessed columns that a proof opens, by the tree's name, in order."""
        roots = {_key_tree(own): self.key.root_of(own) for own in self.key.preprocessed_trees}
        return {name: root for name, root in roots.items() if name in self.members}

    @cached_property
    def rounds(self) -> dict[str, TreeShape]:
        """The shapes of the trees of `members`, in the same order."""
        out = {}
        for name, tables in self.members.items():
            index = 0 if name in self.key_roots else ROUNDS.index(name)
            log_blowup = self.key.params.log_blowup
            matrices = tuple((self.heights[i] + log_blowup, self.tables[i].widths[index]) for i in tables)
            out[name] = TreeShape(matrices, log_blowup, self.key.params.tree_hash)
        return out

    @cached_property
    def schedule(self) -> tuple[list[FoldStep], int]:
        return fri_schedule(self.key.params, self.heights)

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
        log_blowup, tree_hash = params.log_blowup, params.tree_hash
        return [TreeShape(((s.log_reached + log_blowup, 3 << s.log_arity),), log_blowup, tree_hash) for s in self.steps]

    @property
    def log_domain(self) -> int:
        """log2 of the number of points of the tallest table's extension, from which queries are drawn."""
        return max(self.heights) + self.key.params.log_blowup

    @property
    def terminals(self) -> int:
        """Number of LogUp terminals in the proof: a local and a global one for each table that has them."""
        return sum(t.has_local + t.has_global for t in self.airs)


def heights_fit(key: VerifyingKey, log_heights: Sequence[int | None]) -> bool:
    """Whether a proof under `key` can have these heights (log2): absent tables are optional, and one table is there."""
    return (
        len(log_heights) == len(key.tables)
        and any(h is not None for h in log_heights)
        and all(
            optional is not None if h is None else check_log_height(h, key.params) and fixed in (None, h)
            for h, fixed, optional in zip(log_heights, key.fixed_heights, key.optional, strict=True)
        )
    )


def _key_tree(number: int | None) -> str:
    """The name of a tree of `VerifyingKey.preprocessed_trees`."""
    return PREPROCESSED if number is None else f"{PREPROCESSED} {number}"
