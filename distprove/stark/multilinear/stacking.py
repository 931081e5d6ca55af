"""Stacks: columns of all tables, the tallest first, in a few columns of one height. And the weights of their claims.

The layout follows from widths and heights alone, so that a proof cannot choose it. A stacked column is a polynomial
that is multilinear in all bits of its index: its lowest log_skip variables are the powers of the univariate one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic

from distprove.stark.arithmetic import Arithmetic, E
from distprove.stark.field import root_of_unity


@dataclass(frozen=True)
class Position:
    """Where a column of a table lies in a stack."""

    column: int
    """Number of the stacked column."""
    offset: int
    """Its first row there, a multiple of the table's height."""


@dataclass(frozen=True)
class Stack:
    """The layout of a stack."""

    log_height: int
    width: int
    """Number of stacked columns; 0 for a stack of no columns."""
    tables: tuple[tuple[int, int, int], ...]
    """Number, log2 of the rows and columns of each table that has columns, the tallest first."""

    @cached_property
    def positions(self) -> dict[int, tuple[Position, ...]]:
        """The positions of each table's columns, by the table's number. A proof's heights do not need them, since a key
        of a few bytes can state millions of columns."""
        positions, last = {}, (1 << self.log_height) - 1
        for number, height, width in self.tables:
            at = self.starts[number]
            starts = range(at, at + (width << height), 1 << height)
            positions[number] = tuple(Position(s >> self.log_height, s & last) for s in starts)
        return positions

    @cached_property
    def starts(self) -> dict[int, int]:
        """The first cell of each table's columns in the run that is cut into stacked columns, by the table's number."""
        starts, at = {}, 0
        for number, height, width in self.tables:
            starts[number] = at
            at += width << height
        return starts

    @classmethod
    def of(cls, tables: Iterable[tuple[int, int, int]], least: int, log_columns: int) -> Stack:
        """Stack tables (number, log2 of rows, columns), in order, in at most 2^log_columns columns unless a table is
        taller. `least` is the minimum of log2 of the height."""
        ordered = sorted((t for t in tables if t[2]), key=lambda t: -t[1])
        cells = sum(width << height for _, height, width in ordered)
        tallest = max((height for _, height, _ in ordered), default=0)
        log_height = max(least, tallest, (max(cells, 1) - 1).bit_length() - log_columns)
        return cls(log_height, -(-cells >> log_height), tuple(ordered))


def paired(f: Arithmetic[E], x: E, fold: E) -> E:
    """The factor 1 - x + x fold by which a variable's weights of eq(x, .) fold."""
    return f.add(f.sub(f.one, x), f.mul(x, fold))


def powers_paired(f: Arithmetic[E], point: E, folds: Sequence[E]) -> E:
    """The product over i of 1 + point^(2^i) fold_i, by which the weights 1, point, point^2, .. fold."""
    product = f.one
    for fold in folds:
        product = f.mul(product, f.add(f.one, f.mul(point, fold)))
        point = f.mul(point, point)
    return product


def point_paired(f: Arithmetic[E], point: Sequence[E], folds: Sequence[E]) -> E:
    """The product over i of 1 + point_i fold_i: the weights of a value at `point`."""
    product = f.one
    for x, fold in zip(point, folds, strict=True):
        product = f.mul(product, f.add(f.one, f.mul(x, fold)))
    return product


@dataclass(frozen=True)
class RowWeights(Generic[E]):
    """The weights of a table's claims at the point (r_0, r), folded at a stack's point."""

    here: E
    """Of a column."""
    after: E
    """Of a next column."""

    @classmethod
    def at(cls, f: Arithmetic[E], point: Sequence[E], folds: Sequence[E], log_skip: int) -> RowWeights[E]:
        """`point` is (r_0, r_1, .. r_n) of a table of 2^(log_skip + n) rows, `folds` the stack's point."""
        skip, (first, *rows) = folds[:log_skip], point
        own = folds[log_skip : log_skip + len(rows)]
        same = f.one
        for x, fold in zip(rows, own, strict=True):
            same = f.mul(same, paired(f, x, fold))
        root = root_of_unity(log_skip)
        last = f.lagrange(first, log_skip)[-1]
        moved = f.mul(last, f.mul(powers_paired(f, f.one, skip), f.sub(step(f, rows, own), same)))
        after = f.add(f.mul(powers_paired(f, f.scale(first, root), skip), same), moved)
        return cls(f.mul(powers_paired(f, first, skip), same), after)


def step(f: Arithmetic[E], point: Sequence[E], folds: Sequence[E]) -> E:
    """The sum over x of eq(point, x) times the product of the folds at the bits of x + 1, which wraps around."""
    count = len(point)
    above = [f.one] * (count + 1)  # the product of paired(point_i, fold_i) over i >= j
    for j in reversed(range(count)):
        above[j] = f.mul(above[j + 1], paired(f, point[j], folds[j]))
    total, ones = f.zero, f.one  # the product of point_i over i < j
    for j in range(count):
        carry = f.mul(f.sub(f.one, point[j]), folds[j])
        total = f.add(total, f.mul(ones, f.mul(carry, above[j + 1])))
        ones = f.mul(ones, point[j])
    return f.add(total, ones)
