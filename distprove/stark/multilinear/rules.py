"""The rules of tables as sums of weighted constraints and leaves: their scalars, and their value at a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distprove.stark.arithmetic import NUMBERS, Arithmetic, E, Elements
from distprove.stark.field import ZERO, Ext, Words
from distprove.stark.logup import BusChallenges, challenge_scalars, scope_scalars
from distprove.stark.multilinear.air import Rules
from distprove.stark.multilinear.shape import Shape


@dataclass(frozen=True)
class RuleScalars:
    """The scalars of one table's programs, weights included; None for a program that the table does not have."""

    constraints: Elements | None
    interactions: Elements | None


def scalars_of_all(
    f: Arithmetic[E],
    shape: Shape,
    public: Sequence[E],
    buses: BusChallenges[E],
    weights: Sequence[Sequence[E]],
    lambda_: E,
    kappa: E,
) -> list[RuleScalars]:
    """The scalars of each table. Constraints are weighted by powers of lambda over all tables; `weights` are those of
    the leaves of each interaction."""
    powers, at = f.powers(lambda_, shape.constraints), 0
    found = []
    for table, own in zip(shape.tables, weights, strict=True):
        count = len(table.constraint_names)
        constraints = None
        if table.constraints is not None:
            constraints = f.array([*public, *powers[at : at + count]])
        interactions = None
        if table.interactions is not None:
            scaled = [f.mul(kappa, weight) for weight in own]
            interactions = f.array([*public, *scope_scalars(f, table, buses), *own, *scaled])
        found.append(RuleScalars(constraints, interactions))
        at += count
    return found


def leaf_scalars(table: Rules, public: Sequence[int], buses: BusChallenges[Ext]) -> Words:
    """The scalars of a table's interaction program without weights, for its leaves one by one."""
    return NUMBERS.array([*challenge_scalars(table, public, buses), *[ZERO] * (2 * len(table.uses))])


def rules_at(
    f: Arithmetic[E], shape: Shape, openings: Elements, point: Sequence[E], scalars: Sequence[RuleScalars], nu: E
) -> E:
    """The folded rules of all tables at `point`, (r_0, r_1 ..), from the opened values of their columns."""
    total, at = f.zero, 0
    for table, height, given in zip(shape.tables, shape.heights, scalars, strict=True):
        here = openings[at : at + table.columns]
        after = f.array([f.zero] * table.columns)
        after[list(table.next_row)] = openings[at + table.columns :][: len(table.next_row)]
        at += table.columns + len(table.next_row)
        rows = height - shape.log_skip
        cut, none = table.preprocessed_width, here[:0]
        this = [here[:cut], here[cut:], none, f.array(selectors_at(f, point[: 1 + rows], shape.log_skip))]
        next_ = [after[:cut], after[cut:], none, None]
        if given.constraints is not None and table.constraints_at is not None:
            total = f.add(total, f.program_at(table.constraints_at, this, next_, given.constraints))
        if given.interactions is not None and table.interactions_at is not None:
            value = f.program_at(table.interactions_at, this, next_, given.interactions)
            total = f.add(total, f.mul(nu, value))
    return total


def selectors_at(f: Arithmetic[E], point: Sequence[E], log_skip: int) -> list[E]:
    """The selectors first, last and transition at (r_0, r_1 .. r_n)."""
    bases = f.lagrange(point[0], log_skip)
    first, last = bases[0], bases[-1]
    for x in point[1:]:
        first, last = f.mul(first, f.sub(f.one, x)), f.mul(last, x)
    return [first, last, f.sub(f.one, last)]
