"""The prover's univariate round and multilinear rounds over the rules of all tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from distprove.stark.field import Ext, Words
from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.rules import RuleScalars
from distprove.stark.multilinear.shape import Shape
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.multilinear import CellTable
from kernels.interface.multilinear_rows import RowClaim, RowRounds, TableRules


@dataclass
class TableCells:
    """The cells of one table, in the backend's memory."""

    programs: CellPrograms
    log_height: int
    base: Array = field(repr=False)
    """(cells, rows)"""
    first: int
    """The table's first element among the cells of all tables."""

    @property
    def opened(self) -> int:
        """Number of columns and next columns."""
        return self.programs.rules.columns + len(self.programs.rules.next_row)


@dataclass
class Cells:
    """The base cells of all tables, one after the other, the tallest first. They are secret."""

    tables: list[TableCells]
    base: Array = field(repr=False)
    """All of them, (n,)."""

    @classmethod
    def of(
        cls,
        backend: Backend,
        programs: Sequence[CellPrograms],
        fixed: Sequence[Array | None],
        main: Sequence[Array],
    ) -> Cells:
        """The cells of tables with these preprocessed and main columns, (width, rows)."""
        kernels, heights = backend.multilinear, [int(m.shape[1]) for m in main]
        base = kernels.vector(sum(own.cells * n for own, n in zip(programs, heights, strict=True)))
        tables: dict[int, TableCells] = {}
        given, at = [], 0
        for i in sorted(range(len(programs)), key=lambda i: -heights[i]):
            rules, size = programs[i].rules, programs[i].cells * heights[i]
            view = base[at : at + size].reshape(-1, heights[i])
            before = fixed[i]
            columns = [main[i]] if before is None else [before, main[i]]
            given.append(CellTable(columns, rules.next_row, rules.reads_selectors, view))
            tables[i] = TableCells(programs[i], heights[i].bit_length() - 1, view, at)
            at += size
        kernels.cells(given)
        return cls([tables[i] for i in range(len(programs))], base)

    def main(self) -> list[Array]:
        """Each table's main columns (width, rows), which are among its cells."""
        found = []
        for table in self.tables:
            rules = table.programs.rules
            found.append(table.base[rules.preprocessed_width : rules.columns])
        return found

    def dropped(self) -> Array:
        """All cells. They are not kept here any more."""
        base, self.base = self.base, None
        for table in self.tables:
            table.base = None
        return base


def bind_rules(backend: Backend, cells: Cells, scalars: Sequence[RuleScalars]) -> list[TableRules]:
    """The rules of all tables with their scalars."""
    chosen, given = [], []
    for table, own in zip(cells.tables, scalars, strict=True):
        programs = table.programs
        where = table.first, programs.cells, table.log_height
        for part in programs.constraint_parts:
            assert own.constraints is not None, "a table with constraints has their scalars"
            chosen.append((*where, part.degree, True))
            given.append((part.program, own.constraints[list(part.scalars)]))
        if programs.interactions is not None and own.interactions is not None:
            chosen.append((*where, programs.rules.interaction_degree, False))
            given.append((programs.interactions, own.interactions))
    bound = backend.multilinear.bind(given)
    return [TableRules(rules, *own) for rules, own in zip(bound, chosen, strict=True)]


def univariate_round(
    backend: Backend,
    shape: Shape,
    cells: Cells,
    rules: Sequence[TableRules],
    xi: Sequence[Ext],
    transcript: ProofTranscript[Ext],
) -> tuple[Array, RowRounds]:
    """Prove the univariate round over the rules of all tables. Returns the cells as vectors of F, bound to its point,
    and the rounds to come. The transcript goes on in the backend's memory; the base cells are dropped."""
    kernels = backend.multilinear
    point = xi[: shape.log_skip + shape.row_variables]
    lengths = shape.quotient_length, shape.leaves_length
    made = kernels.skip_round(
        cells.base, rules, RowClaim(transcript.words(), point, shape.log_skip, *lengths, shape.degree)
    )
    return kernels.bind_rows(cells.dropped(), made), made


@dataclass(frozen=True)
class RowProof:
    """What the rounds over rows have sent, and the point drawn."""

    quotient: Words
    leaves: Words
    rounds: Words
    point: list[Ext]
    openings: Words
    """The values of all tables' columns and next columns at the point."""


def multilinear_rounds(
    backend: Backend, cells: Cells, vectors: Array, made: RowRounds, transcript: ProofTranscript[Ext]
) -> RowProof:
    """Prove the sums of all tables' rules over their row variables."""
    done = backend.multilinear.row_rounds(vectors, made)
    transcript.resume(done.transcript)
    found, at = {}, 0
    for table in sorted(cells.tables, key=lambda table: table.first):
        found[table.first] = done.cells[:, at : at + table.opened].T
        at += table.programs.cells
    openings = np.ascontiguousarray(np.concatenate([found[table.first] for table in cells.tables]))
    return RowProof(done.quotient, done.leaves, done.rounds, done.drawn, openings)
