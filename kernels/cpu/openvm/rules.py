"""The CPU implementation of `kernels.interface.openvm_rules.OpenVmRules`: NumPy, and the kernels over BabyBear."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.cpu.openvm.graph_values import Plan, Ring, evaluate
from kernels.cpu.openvm.tables import eq_table
from kernels.interface.babybear import BabyBearKernels, line
from kernels.interface.openvm_rules import (
    BoundForms,
    GraphProgram,
    NodeKind,
    OpenVmRules,
    RuleRounds,
    RuleTable,
    coset_shifts,
    extrapolation,
    node_weights,
)
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import Elements, add, ext, ext_inverse, ext_mul, ext_one, mul, powers, sub, total

BLOCK_CELLS = 1 << 24
"""Most cells, times cosets, that are evaluated at a time."""


class CpuRules(OpenVmRules):
    """The kernels, which compute by those of `babybear`."""

    def __init__(self, babybear: BabyBearKernels) -> None:
        self._k = babybear
        self._plans: weakref.WeakKeyDictionary[GraphProgram, Plan] = weakref.WeakKeyDictionary()

    def plan(self, program: GraphProgram) -> Plan:
        """The plan of a program, made once."""
        found = self._plans.get(program)
        if found is None:
            found = self._plans[program] = Plan(program)
        return found

    def fractions(
        self,
        tables: Sequence[RuleTable],
        forms: Sequence[BoundForms],
        starts: Sequence[int],
        count: int,
        log_skip: int,
    ) -> tuple[Elements, Elements]:
        numerators, denominators = (np.zeros((count, *item), dtype=np.uint32) for item in ((), (4,)))
        for table, bound, start in zip(tables, forms, starts, strict=True):
            own, rows = len(bound.constants) // 2, table.rows(log_skip)
            plan, room = self.plan(bound.program), slice(start, start + own * rows)
            above, below = numerators[room].reshape(own, rows), denominators[room].reshape(own, rows, 4)
            for first, cells in blocks(table, plan, log_skip, BLOCK_CELLS):
                begin, end = first << log_skip, (first + cells.shape[1]) << log_skip
                for number, value in enumerate(evaluate(plan, bound, cells, table.public, Ring(self._k, 0))):
                    if number % 2:
                        below[number // 2, begin:end] = value.reshape(-1, 4)
                    else:
                        above[number // 2, begin:end] = value[..., 0].reshape(-1)
        return numerators, denominators

    def rounds(self, tables: Sequence[RuleTable], log_skip: int, point: Elements) -> RuleRounds:
        return CpuRounds(self._k, self, tables, log_skip, point)


class CpuRounds(RuleRounds):
    """The tables of one sumcheck."""

    def __init__(
        self, k: BabyBearKernels, rules: CpuRules, tables: Sequence[RuleTable], log_skip: int, point: Elements
    ) -> None:
        self._k, self._rules, self._tables, self._log_skip = k, rules, tables, log_skip
        self._point = list(point)
        self._variables = [(table.rows(log_skip) >> log_skip).bit_length() - 1 for table in tables]
        self._bound: list[Elements] = []
        """The challenges of the cube's variables."""
        self._weights: Elements | None = None
        self._forms: Sequence[BoundForms] = ()
        self._cells: list[Elements] = []
        """For each table the cells that its form reads, (cells, 2^variables, 4)."""

    def coset_sums(self, forms: Sequence[BoundForms], counts: NDArray[np.int64]) -> Elements:
        found = np.zeros((*counts.shape, int(counts.max(initial=0)), 1 << self._log_skip, 4), dtype=np.uint32)
        most = counts.max(axis=1, initial=0).tolist()
        for table, bound, count, n, sums in zip(self._tables, forms, most, self._variables, found, strict=True):
            plan, eq = self._rules.plan(bound.program), eq_table(self._k, self._point[:n])
            for first, cells in blocks(table, plan, self._log_skip, BLOCK_CELLS // max(1, count)) if count else ():
                further, weights = self._on_cosets(cells, count), eq[first : first + cells.shape[1], None, None]
                for number, value in enumerate(evaluate(plan, bound, further, table.public, Ring(self._k, 0))):
                    sums[number, :count] = add(sums[number, :count], total(self._k.ext_mul(value, weights), 0))
        return found

    def _on_cosets(self, values: Elements, count: int) -> Elements:
        """The values on cosets, (..., count, n), of polynomials of degree below n with values (..., n) on D."""
        n = values.shape[-1]
        scales = np.stack([powers(shift, n) for shift in coset_shifts(count)])
        return self._k.ntt(self._k.mul(self._k.intt(values)[..., None, :], scales))

    def bind_univariate(self, weights: Elements, forms: Sequence[BoundForms]) -> None:
        self._weights, self._forms = weights, forms
        for table, bound in zip(self._tables, forms, strict=True):
            plan = self._rules.plan(bound.program)
            parts = [
                self._k.matmul(cells.reshape(-1, len(weights)), weights).reshape(*cells.shape[:2], 4)
                for _, cells in blocks(table, plan, self._log_skip, BLOCK_CELLS)
            ]
            self._cells.append(np.concatenate(parts, axis=1))

    def prove(self, sponge: Sponge, claim: Elements, points: int) -> tuple[Elements, Elements]:
        rounds, known = max(self._variables, default=0), points + 1
        sent = np.zeros((rounds, known, 4), dtype=np.uint32)
        one, beyond, weights = ext_one(), extrapolation(known)[:, None], node_weights(known)
        xs = np.arange(1, known + 1, dtype=np.uint32)[:, None]
        eq_drawn, tail, last = one, np.zeros(4, dtype=np.uint32), np.zeros(4, dtype=np.uint32)
        for number in range(rounds):
            # 1. The tables' sums. The claim is s(0) + s(1), which gives h(0).
            *heads, ended = ext_mul(self._round_sums(points), eq_drawn)
            tail = add(ext_mul(tail, last), ended)
            coordinate = self._point[number]
            opposite = sub(one, coordinate)
            rest = sub(sub(claim, ext_mul(coordinate, heads[0])), tail)
            h = np.stack([ext_mul(rest, ext_inverse(opposite)), *heads])
            # 2. Send s at 1, 2, ...
            eq = add(opposite, mul(sub(coordinate, opposite)[None], xs))
            after = np.concatenate((heads, total(mul(h, beyond), 0)[None]))
            sent[number] = add(ext_mul(eq, after), mul(tail[None], xs))
            sponge.observe_words(sent[number])
            # 3. Bind the variable.
            last = sponge.sample_array()
            distances = sub(last, ext(np.arange(known, dtype=np.uint32)))
            value = np.zeros(4, dtype=np.uint32)
            for i, (own, weight) in enumerate(zip(h, weights, strict=True)):
                product = mul(own, weight)
                for j in range(known):
                    product = ext_mul(product, distances[j]) if j != i else product
                value = add(value, product)
            eq_last = add(opposite, ext_mul(sub(coordinate, opposite), last))
            claim = add(ext_mul(eq_last, value), ext_mul(tail, last))
            eq_drawn = ext_mul(eq_drawn, eq_last)
            self._bind(last)
        return sent, np.array(self._bound, dtype=np.uint32).reshape(-1, 4)

    def _round_sums(self, points: int) -> Elements:
        """The sums of the forms with the first variable at 1, 2, ... `points`, each over all tables with a variable
        left, and the sum of those of all tables whose last variable was bound before this round, (points + 1, 4)."""
        number, found = len(self._bound), np.zeros((points + 1, 4), dtype=np.uint32)
        ring = Ring(self._k, 1)
        for table, bound, cells, n in zip(self._tables, self._forms, self._cells, self._variables, strict=True):
            plan = self._rules.plan(bound.program)
            if number < n:
                at = np.stack(line(cells, points), axis=1)
                [values] = evaluate(plan, bound, at, table.public, ring)
                weighted = self._k.ext_mul(values, eq_table(self._k, self._point[number + 1 : n]))
                found[:points] = add(found[:points], total(weighted, 1))
            elif number == n:
                [values] = evaluate(plan, bound, cells, table.public, ring)
                found[points] = add(found[points], values.reshape(4))
        return found

    def _bind(self, at: Elements) -> None:
        number = len(self._bound)
        self._bound.append(at)
        for i, n in enumerate(self._variables):
            if number < n:
                self._cells[i] = self._k.fold(self._cells[i], at)

    def openings(self, reads_next: Sequence[bool]) -> list[dict[int, Elements]]:
        assert self._weights is not None
        found = []
        for table, n, further in zip(self._tables, self._variables, reads_next, strict=True):
            eq = eq_table(self._k, self._bound[:n])
            rows = self._k.ext_mul(eq[:, None], self._weights[None]).reshape(-1, table.height, 4)
            own = total(rows, 0)
            weights = np.concatenate([own, np.roll(own, 1, axis=0)] if further else [own], axis=1)
            found.append(
                {
                    part: self._k.matmul(columns, weights).reshape(len(columns), -1, 4)
                    for part, columns in table.parts.items()
                }
            )
        return found


def blocks(table: RuleTable, plan: Plan, log_skip: int, cells_at_once: int) -> Iterator[tuple[int, Elements]]:
    """Yield the cells of a plan in runs of 2^log_skip rows, (cells, runs, 2^log_skip), and the number of the first run.

    Rows of a trace of fewer than 2^log_skip repeat.
    """
    run, height = 1 << log_skip, table.height
    runs = table.rows(log_skip) >> log_skip
    at_once = max(1, cells_at_once // (run * (1 + len(plan.cells))))
    for first in range(0, runs, at_once):
        rows = np.arange(first * run, min(first + at_once, runs) * run).reshape(-1, run) % height
        cells = np.empty((len(plan.cells), *rows.shape), dtype=np.uint32)
        for place, (kind, column, part, rotation) in enumerate(plan.cells.values()):
            if kind <= NodeKind.MAIN:
                source = table.parts[-1 if kind == NodeKind.PREPROCESSED else part][column]
                cells[place] = source[(rows + rotation) % height]
            else:
                chosen = rows == (0 if kind == NodeKind.IS_FIRST else height - 1)
                cells[place] = ~chosen if kind == NodeKind.IS_TRANSITION else chosen
        yield first, cells
