"""The shape of a partition's proof: stacks, leaves, rounds and lengths, which follow from the key and the heights.

Prover, parser and verifier all use this shape, so that a proof cannot choose its own layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from distprove.stark.air.compiled import SCOPES
from distprove.stark.air.definition import Scope
from distprove.stark.heights import LogHeights, present
from distprove.stark.merkle import TreeShape
from distprove.stark.multilinear.air import Rules
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.params import Round, check_log_height, whir_rounds
from distprove.stark.multilinear.stacking import Position, Stack
from kernels.maths.goldilocks import TWO_ADICITY


@dataclass(frozen=True)
class Block:
    """The leaves of one interaction: one for each row of its table."""

    table: int
    """Number of the table among the present ones."""
    use: int
    """Number of the interaction among the table's."""
    log_height: int
    offset: int
    """Its first leaf within the scope, a multiple of 2^log_height."""


@dataclass(frozen=True)
class Leaves:
    """The leaves of the buses' fractions, by scope."""

    scopes: dict[Scope, tuple[Block, ...]]
    """The blocks of each scope that is used, local first."""

    @cached_property
    def log_scope(self) -> int:
        """log2 of the number of leaves of the larger scope, with those that pad it."""
        return max((_log_ceil(_end(blocks)) for blocks in self.scopes.values()), default=0)

    @property
    def depth(self) -> int:
        """Number of layers above the leaves. With both scopes the first variable is the scope."""
        return self.log_scope + (len(self.scopes) == 2)

    @property
    def first_layer(self) -> int:
        """The layer that the proof states as a whole: the root, or the roots of both scopes."""
        return len(self.scopes) - 1 if self.scopes else 0


def _end(blocks: Sequence[Block]) -> int:
    return blocks[-1].offset + (1 << blocks[-1].log_height)


def _log_ceil(count: int) -> int:
    return (count - 1).bit_length()


@dataclass(frozen=True)
class Shape:
    """The shape of a proof under `key`. `log_heights` must already be checked (`heights_fit`).

    Absent tables have no part in a shape: its tables are the present ones, in the key's order and counted from zero.
    """

    key: MultilinearKey
    log_heights: LogHeights

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The key's numbers of the present tables."""
        return tuple(i for i, height in enumerate(self.log_heights) if height is not None)

    @cached_property
    def tables(self) -> tuple[Rules, ...]:
        return tuple(self.key.tables[i] for i in self.numbers)

    @cached_property
    def heights(self) -> tuple[int, ...]:
        """log2 of the rows of the present tables."""
        return present(self.log_heights)

    @property
    def cells(self) -> int:
        """Cells of the main columns of all tables."""
        return sum(t.main_width << h for t, h in zip(self.tables, self.heights, strict=True))

    @property
    def log_skip(self) -> int:
        return self.key.params.log_skip

    # -- stacks -----------------------------------------------------------------------------------------------------

    @property
    def preprocessed(self) -> Stack:
        """The key's stack. Its tables are numbered as in the key."""
        return self.key.preprocessed

    @cached_property
    def main(self) -> Stack:
        """The stack of the main columns. Its tables are numbered as the present ones."""
        tables = [(i, h, t.main_width) for i, (h, t) in enumerate(zip(self.heights, self.tables, strict=True))]
        least = self.preprocessed.log_height if self.preprocessed.width else self.log_skip
        return Stack.of(tables, least, self.key.params.log_columns)

    @property
    def log_height(self) -> int:
        """log2 of the height of the main stack, the number of variables of the whole."""
        return self.main.log_height

    @property
    def stacked(self) -> int:
        """Number of stacked columns of both stacks."""
        return self.main.width + self.preprocessed.width

    def positions(self, table: int) -> tuple[tuple[bool, Position], ...]:
        """For each column of a present table: whether it is of the main stack, and its position there."""
        fixed = self.preprocessed.positions.get(self.numbers[table], ())
        return tuple([(False, p) for p in fixed] + [(True, p) for p in self.main.positions[table]])

    # -- sums -------------------------------------------------------------------------------------------------------

    @cached_property
    def leaves(self) -> Leaves:
        scopes: dict[Scope, tuple[Block, ...]] = {}
        ordered = sorted(range(len(self.tables)), key=lambda i: -self.heights[i])
        for scope in SCOPES:
            blocks, at = [], 0
            for table in ordered:
                for use, told in enumerate(self.tables[table].uses):
                    if told.bus.scope == scope:
                        blocks.append(Block(table, use, self.heights[table], at))
                        at += 1 << self.heights[table]
            if blocks:
                scopes[scope] = tuple(blocks)
        return Leaves(scopes)

    @property
    def totals(self) -> int:
        """Number of elements of the stated fractions: the local denominator, the global fraction."""
        return ("local" in self.leaves.scopes) + 2 * ("global" in self.leaves.scopes)

    @property
    def row_variables(self) -> int:
        """Number of row variables of the tallest table."""
        return max(self.heights) - self.log_skip

    @property
    def constraint_degree(self) -> int:
        return max(t.constraint_degree for t in self.tables)

    @property
    def interaction_degree(self) -> int:
        return max(t.interaction_degree for t in self.tables)

    @property
    def degree(self) -> int:
        """Degree of the polynomials of the multilinear rounds."""
        return max(1, self.constraint_degree, self.interaction_degree)

    @property
    def constraints(self) -> int:
        """Number of constraints of all tables."""
        return sum(len(t.constraint_names) for t in self.tables)

    @property
    def quotient_length(self) -> int:
        """Number of coefficients of the quotient in the univariate round."""
        return max(0, self.constraint_degree - 1) * ((1 << self.log_skip) - 1)

    @property
    def leaves_length(self) -> int:
        """Number of coefficients of the leaves' polynomial in the univariate round."""
        return self.interaction_degree * ((1 << self.log_skip) - 1) + 1 if self.leaves.scopes else 0

    @property
    def openings(self) -> int:
        """Number of opened values of all tables."""
        return sum(t.columns + len(t.next_row) for t in self.tables)

    # -- WHIR -------------------------------------------------------------------------------------------------------

    @cached_property
    def rounds(self) -> list[Round]:
        rounds = whir_rounds(self.key.params, self.log_height)
        assert rounds is not None, "heights_fit has seen to it"
        return rounds

    @property
    def log_final(self) -> int:
        """log2 of the number of coefficients of the final polynomial."""
        return self.rounds[-1].log_folded

    @property
    def main_tree(self) -> TreeShape:
        first = self.rounds[0]
        return self._tree(first.log_leaves, self.main.width << first.log_fold, self.key.params.log_blowup)

    @property
    def preprocessed_tree(self) -> TreeShape | None:
        """The shape of the key's tree; None without preprocessed columns."""
        stack = self.preprocessed
        if not stack.width:
            return None
        log_blowup = self.key.params.log_blowup
        return self._tree(stack.log_height + log_blowup, stack.width, log_blowup)

    @property
    def codeword_trees(self) -> list[TreeShape]:
        """The shapes of the trees of WHIR's later rounds."""
        return [self._tree(r.log_leaves, 3 << r.log_fold, r.log_domain - r.log_size) for r in self.rounds[1:]]

    def _tree(self, log_leaves: int, width: int, log_blowup: int) -> TreeShape:
        return TreeShape(((log_leaves, width),), log_blowup, self.key.params.tree_hash)


def heights_fit(key: MultilinearKey, log_heights: Sequence[int | None]) -> bool:
    """Whether a proof under `key` can have these heights (log2)."""
    if len(log_heights) != len(key.tables) or all(h is None for h in log_heights):
        return False
    fitting = all(
        optional if h is None else check_log_height(h, key.params) and fixed in (None, h)
        for h, fixed, optional in zip(log_heights, key.fixed_heights, key.optional, strict=True)
    )
    if not fitting:
        return False
    log_height = Shape(key, tuple(log_heights)).log_height
    fits = log_height + key.params.log_blowup <= TWO_ADICITY
    return fits and whir_rounds(key.params, log_height) is not None
