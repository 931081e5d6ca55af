"""The rules of tables as sums of weighted constraints and leaves: their scalars, and their value at a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.field import ONE, ZERO, Ext, Words, e_add, e_mul, e_powers, e_sub
from distprove.stark.logup import BusChallenges, challenge_scalars
from distprove.stark.multilinear.air import Rules
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import lagrange


@dataclass(frozen=True)
class RuleScalars:
    """The scalars of one table's programs, weights included; None for a program that the table does not have."""

    constraints: Words | None
    interactions: Words | None


def scalars_of_all(
    shape: Shape,
    public: Sequence[int],
    buses: BusChallenges,
    weights: Sequence[Sequence[Ext]],
    lambda_: Ext,
    kappa: Ext,
) -> list[RuleScalars]:
    """The scalars of each table. Constraints are weighted by powers of lambda over all tables; `weights` are those of
    the leaves of each interaction."""
    powers, at = e_powers(lambda_, shape.constraints), 0
    found = []
    for table, own in zip(shape.tables, weights, strict=True):
        count = len(table.constraint_names)
        constraints = None
        if table.constraints is not None:
            given: list[Ext] = [(v, 0, 0) for v in public]
            constraints = _words([*given, *powers[at : at + count]])
        interactions = None
        if table.interactions is not None:
            scaled = [e_mul(kappa, weight) for weight in own]
            interactions = _words([*challenge_scalars(table, public, buses), *own, *scaled])
        found.append(RuleScalars(constraints, interactions))
        at += count
    return found


def leaf_scalars(table: Rules, public: Sequence[int], buses: BusChallenges) -> Words:
    """The scalars of a table's interaction program without weights, for its leaves one by one."""
    return _words([*challenge_scalars(table, public, buses), *[ZERO] * (2 * len(table.uses))])


def rules_at(shape: Shape, openings: Words, point: Sequence[Ext], scalars: Sequence[RuleScalars], nu: Ext) -> Ext:
    """The folded rules of all tables at `point`, (r_0, r_1 ..), from the opened values of their columns."""
    total, at = ZERO, 0
    for table, height, given in zip(shape.tables, shape.heights, scalars, strict=True):
        here = openings[at : at + table.columns]
        after = np.zeros((table.columns, 3), dtype=np.uint64)
        after[list(table.next_row)] = openings[at + table.columns :][: len(table.next_row)]
        at += table.columns + len(table.next_row)
        rows = height - shape.log_skip
        cut, none = table.preprocessed_width, np.zeros((0, 3), dtype=np.uint64)
        this = [here[:cut], here[cut:], none, _words(selectors_at(point[: 1 + rows], shape.log_skip))]
        next_ = [after[:cut], after[cut:], none, None]
        if given.constraints is not None and table.constraints_at is not None:
            total = e_add(total, table.constraints_at(this, next_, given.constraints))
        if given.interactions is not None and table.interactions_at is not None:
            total = e_add(total, e_mul(nu, table.interactions_at(this, next_, given.interactions)))
    return total


def selectors_at(point: Sequence[Ext], log_skip: int) -> list[Ext]:
    """The selectors first, last and transition at (r_0, r_1 .. r_n)."""
    bases = lagrange(point[0], log_skip)
    first, last = bases[0], bases[-1]
    for x in point[1:]:
        first, last = e_mul(first, e_sub(ONE, x)), e_mul(last, x)
    return [first, last, e_sub(ONE, last)]


def _words(elements: Sequence[Ext]) -> Words:
    return np.array(elements, dtype=np.uint64).reshape(-1, 3)
